"""Where run files live, and that nothing that was saved is ever lost."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import synthetic
from disks import BALLAST, small_disk
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Profile, Run
from duetbench.store import files, store

ROOT = Path(__file__).parents[2]


def run_at(started: str, profile: Profile = "nightly", cases: int = 2) -> Run:
    run = synthetic.nightly_run(cases=cases)
    run_id = store.run_id(started, profile, run.commit)
    return run.model_copy(update={"id": run_id, "started": started, "profile": profile})


def leftovers(folder: Path) -> list[str]:
    """Files that are neither a run nor a partial run."""
    return [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"]


def test_a_run_is_named_after_time_profile_and_commit() -> None:
    """In UTC whatever the offset, so that names sort by time; a missing commit is said."""
    names = store.run_id("2026-11-20T10:40:12+01:00", "nightly", "3f2a9c17" * 5)
    assert names == "20261120T094012Z-nightly-3f2a9c17"
    assert store.run_id("2026-11-20T09:40:12Z", "quick", None) == "20261120T094012Z-quick-nocommit"
    with pytest.raises(RecordError, match="offset"):
        store.run_id("2026-11-20T09:40:12", "quick", None)


def test_a_run_lives_under_its_machine_and_year(tmp_path: Path) -> None:
    run = run_at("2026-12-31T23:30:00-01:00")
    expected = tmp_path / "runs" / "synthetic-2c-0a1b2c3d" / "2027" / f"{run.id}.json"
    assert store.path_for(tmp_path, run) == expected


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b"])
def test_an_id_cannot_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot name a file"):
        store.path_for(tmp_path, run_at("2026-11-20T09:00:00Z").model_copy(update={"id": name}))


def test_a_partial_run_is_replaced_and_then_finalised(tmp_path: Path) -> None:
    small, whole = (run_at("2026-11-20T09:00:00Z", cases=n) for n in (1, 3))
    partial = store.save_partial(tmp_path, small)
    assert store.save_partial(tmp_path, whole) == partial
    assert store.load(partial) == store.rounded(whole)
    assert store.partials(tmp_path) == [partial]
    final = store.finalise(tmp_path, whole)
    assert final == store.path_for(tmp_path, whole)
    assert not partial.exists()
    assert store.load(final) == store.rounded(whole)
    assert leftovers(tmp_path) == []


def test_a_finished_run_is_never_rewritten(tmp_path: Path) -> None:
    small, other = (run_at("2026-11-20T09:00:00Z", cases=n) for n in (1, 2))
    final = store.finalise(tmp_path, small)
    before = final.read_bytes()
    assert store.finalise(tmp_path, small) == final
    partial = store.save_partial(tmp_path, other)
    with pytest.raises(RecordError, match="never rewritten"):
        store.finalise(tmp_path, other)
    assert final.read_bytes() == before
    assert partial.exists(), "what could not be finalised is still there"
    assert leftovers(tmp_path) == []


def test_the_latest_run_is_the_one_started_last(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has been recorded; .*duetbench run --profile quick"):
        store.find(tmp_path, "latest")
    partial = store.save_partial(tmp_path, run_at("2026-11-21T09:00:00Z", "published"))
    with pytest.raises(RecordError, match="1 unfinished: duetbench run --resume"):
        store.find(tmp_path, "latest")
    old = store.finalise(tmp_path, run_at("2025-11-20T09:00:00Z", "quick"))
    new = store.finalise(tmp_path, run_at("2026-11-20T09:00:00Z"))
    assert store.find(tmp_path, "latest") == new
    assert store.runs(tmp_path, profile="quick") == [old]
    assert store.runs(tmp_path, partial=True) == [old, new, partial]


def test_a_run_is_found_by_path_id_or_enough_of_it(tmp_path: Path) -> None:
    first = store.finalise(tmp_path, run_at("2026-11-19T09:00:00Z"))
    second = store.finalise(tmp_path, run_at("2026-11-20T09:00:00Z", "published"))
    partial = store.save_partial(tmp_path, run_at("2026-11-21T09:00:00Z", "quick"))
    for name, result in (
        (str(first), first),
        ("latest", second),
        (first.stem, first),
        ("published", second),
        ("20261121T090000Z-quick-3f2a9c17", partial),
    ):
        assert store.find(tmp_path, name) == result
    for folder, name, text in (
        (tmp_path, "202611", "could be any of"),
        (tmp_path, "20261118T090000Z-nightly-3f2a9c17", "20261119T090000Z-nightly"),
        (tmp_path / "empty", "x", "no runs yet"),
    ):
        with pytest.raises(UsageError, match=text):
            store.find(folder, name)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"gone\.json: cannot be read"):
        store.load(tmp_path / "gone.json")
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(store.encode(run_at("2026-11-20T09:00:00Z"))[:1000])
    with pytest.raises(RecordError, match=r"damaged\.json: .*truncated"):
        store.load(damaged)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(RecordError, match="could not be saved"):
        store.save_partial(tmp_path, run_at("2026-11-20T09:00:00Z"))


@pytest.mark.parametrize("mounted", [True, False], ids=["mounted", "device"])
def test_room_is_tried_before_it_is_needed(tmp_path: Path, mounted: bool) -> None:
    """A full disk is noticed by a new file; trying leaves nothing, and changes no old file."""
    disk = tmp_path / "tiny"
    disk.mkdir()
    with small_disk(disk, mounted=mounted) as fill:
        files.require_room(disk / "new" / "folder")
        files.require_room(disk)
        (disk / "old").write_text("as it was")
        files.require_writable(disk / "old")
        assert [path.name for path in disk.iterdir()] == ["old"]
        assert (disk / "old").read_text() == "as it was"
        fill()
        with pytest.raises(RecordError, match=r"the disk is full: free some space\. Nothing was d"):
            files.require_room(disk)
        assert sorted(path.name for path in disk.iterdir()) == sorted([BALLAST, "old"])


@pytest.mark.parametrize("mounted", [True, False], ids=["mounted", "device"])
def test_a_full_disk_leaves_what_was_saved(tmp_path: Path, mounted: bool) -> None:
    """ENOSPC for real; when space has been made, saving goes on."""
    small, large = (run_at("2026-11-20T09:00:00Z", cases=n) for n in (1, 40))
    disk = tmp_path / "tiny"
    disk.mkdir()
    with small_disk(disk, mounted=mounted) as fill:
        saved = store.save_partial(disk, small)
        before = saved.read_bytes()
        fill()
        with pytest.raises(RecordError, match="the disk is full: free some space") as caught:
            store.save_partial(disk, large)
        assert str(saved) in str(caught.value)
        assert saved.read_bytes() == before
        assert leftovers(disk) == [BALLAST]
        with pytest.raises(RecordError, match="the disk is full"):
            store.finalise(disk, large)
        (disk / BALLAST).unlink()
        assert store.load(saved) == store.rounded(small)
        assert store.finalise(disk, large).exists()


def test_a_file_size_limit_leaves_what_was_saved(tmp_path: Path) -> None:
    """The same where nobody is root: the limit of a child process cuts the write in the middle."""
    small = run_at("2026-11-20T09:00:00Z", cases=1)
    saved = store.save_partial(tmp_path, small)
    before = saved.read_bytes()
    child = textwrap.dedent(
        """
        import resource, signal, sys
        from pathlib import Path
        import test_store
        from duetbench.store import store
        from duetbench.core.errors import RecordError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            run = test_store.run_at("2026-11-20T09:00:00Z", cases=40)
            store.save_partial(Path(sys.argv[1]), run)
        except RecordError as problem:
            print(problem)
        """
    )
    folders = (ROOT / "scripts", ROOT / "tests" / "support", Path(__file__).parent)
    path = os.pathsep.join(map(str, folders))
    command, where = (
        [sys.executable, "-c", child, str(tmp_path)],
        {**os.environ, "PYTHONPATH": path},
    )
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=where)
    assert "the file size limit is too low" in done.stdout
    assert saved.read_bytes() == before
    assert leftovers(tmp_path) == []
