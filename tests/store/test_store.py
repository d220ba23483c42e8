"""Where run files live, and that nothing that was saved is ever lost."""

import errno
import os
from pathlib import Path

import pytest

import synthetic
from disks import BALLAST, small_disk
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Profile, Run
from duetbench.store import files, run_files


def run_at(started: str, profile: Profile = "nightly", cases: int = 2) -> Run:
    run = synthetic.nightly_run(cases=cases)
    run_id = run_files.run_id(started, profile, run.commit)
    return run.model_copy(update={"id": run_id, "started": started, "profile": profile})


def leftovers(folder: Path) -> list[str]:
    """Files that are neither a run nor a partial run."""
    return [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"]


def test_a_run_is_named_after_time_profile_and_commit() -> None:
    """In UTC whatever the offset, so that names sort by time; a missing commit is said."""
    names = run_files.run_id("2026-11-20T10:40:12+01:00", "nightly", "3f2a9c17" * 5)
    assert names == "20261120T094012Z-nightly-3f2a9c17"
    assert (
        run_files.run_id("2026-11-20T09:40:12Z", "quick", None) == "20261120T094012Z-quick-nocommit"
    )


def test_a_run_lives_under_its_machine_and_year(tmp_path: Path) -> None:
    run = run_at("2026-12-31T23:30:00-01:00")
    expected = tmp_path / "runs" / "synthetic-2c-0a1b2c3d" / "2027" / f"{run.id}.json"
    assert run_files.path_for(tmp_path, run) == expected


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b"])
def test_an_id_cannot_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot name a file"):
        run_files.path_for(tmp_path, run_at("2026-11-20T09:00:00Z").model_copy(update={"id": name}))


def test_a_partial_run_is_replaced_and_then_finalised(tmp_path: Path) -> None:
    small, whole = (run_at("2026-11-20T09:00:00Z", cases=n) for n in (1, 3))
    partial = run_files.save_partial(tmp_path, small)
    assert run_files.save_partial(tmp_path, whole) == partial
    assert files.read(Run, partial) == whole
    assert run_files.partials(tmp_path) == [partial]
    final = run_files.finalise(tmp_path, whole)
    assert final == run_files.path_for(tmp_path, whole)
    assert not partial.exists()
    assert files.read(Run, final) == whole
    assert leftovers(tmp_path) == []


def test_a_finished_run_is_never_rewritten(tmp_path: Path) -> None:
    small, other = (run_at("2026-11-20T09:00:00Z", cases=n) for n in (1, 2))
    final = run_files.finalise(tmp_path, small)
    before = final.read_bytes()
    assert run_files.finalise(tmp_path, small) == final
    partial = run_files.save_partial(tmp_path, other)
    with pytest.raises(RecordError, match="never rewritten"):
        run_files.finalise(tmp_path, other)
    assert final.read_bytes() == before
    assert partial.exists(), "what could not be finalised is still there"
    assert leftovers(tmp_path) == []


def test_the_latest_run_is_the_one_started_last(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has been recorded; .*duetbench run --profile quick"):
        run_files.find(tmp_path, "latest")
    partial = run_files.save_partial(tmp_path, run_at("2026-11-21T09:00:00Z", "published"))
    old = run_files.finalise(tmp_path, run_at("2025-11-20T09:00:00Z", "quick"))
    new = run_files.finalise(tmp_path, run_at("2026-11-20T09:00:00Z"))
    assert run_files.find(tmp_path, "latest") == new
    assert run_files.runs(tmp_path, partial=True) == [old, new, partial]


def test_a_run_is_found_by_path_id_or_enough_of_it(tmp_path: Path) -> None:
    first = run_files.finalise(tmp_path, run_at("2026-11-19T09:00:00Z"))
    second = run_files.finalise(tmp_path, run_at("2026-11-20T09:00:00Z", "published"))
    partial = run_files.save_partial(tmp_path, run_at("2026-11-21T09:00:00Z", "quick"))
    for name, result in (
        (str(first), first),
        ("latest", second),
        (first.stem, first),
        ("published", second),
        ("20261121T090000Z-quick-3f2a9c17", partial),
    ):
        assert run_files.find(tmp_path, name) == result
    for folder, name, text in (
        (tmp_path, "202611", "could be any of"),
        (tmp_path, "20261118T090000Z-nightly-3f2a9c17", "20261119T090000Z-nightly"),
        (tmp_path / "empty", "x", "no runs yet"),
    ):
        with pytest.raises(UsageError, match=text):
            run_files.find(folder, name)


def test_a_power_cut_leaves_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data are on the disk before it has its name, and then so is the name."""
    path, written = tmp_path / "a.json", list[tuple[Path, bool]]()

    def fsync(handle: int) -> None:
        written.append((Path(f"/proc/self/fd/{handle}").readlink(), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace(path, b"{}")
    (draft, named), last = written
    assert (draft.parent, draft.suffix, named) == (tmp_path, ".tmp", False)
    assert last == (tmp_path, True)


def test_a_full_disk_leaves_what_was_saved(tmp_path: Path) -> None:
    """ENOSPC for real; when space has been made, saving goes on."""
    small, large = (run_at("2026-11-20T09:00:00Z", cases=n) for n in (1, 40))
    disk = tmp_path / "tiny"
    disk.mkdir()
    with small_disk(disk) as fill:
        saved = run_files.save_partial(disk, small)
        before = saved.read_bytes()
        fill()
        with pytest.raises(RecordError, match="the disk is full: free some space") as caught:
            run_files.save_partial(disk, large)
        assert str(saved) in str(caught.value)
        assert saved.read_bytes() == before
        assert leftovers(disk) == [BALLAST]
        with pytest.raises(RecordError, match="the disk is full"):
            run_files.finalise(disk, large)
        (disk / BALLAST).unlink()
        assert files.read(Run, saved) == small
        assert run_files.finalise(disk, large).exists()


def test_the_advice_about_a_folder_is_for_errors_of_a_file() -> None:
    error = OSError(errno.EINVAL, "Invalid argument")
    assert "folder" not in files.remedy(error)
    assert "folder" in files.remedy(OSError(errno.EINVAL, "Invalid argument", "results"))
