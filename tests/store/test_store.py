"""Runs and points as files: where they are, read back as written, and never lost."""

import json
import math
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import foreign
import synthetic
from duetbench.core.comparison import Comparison
from duetbench.core.errors import FlagName, RecordError, UsageError
from duetbench.core.model import CaseResult, Profile, ResultStatus, Run
from duetbench.host import files, result_files
from observatory.store import kinds
from observatory.store.points import Points

ROOT = Path(__file__).parents[2]


def run_at(
    started: str,
    profile: Profile = "nightly",
    cases: int = 2,
    status: ResultStatus = "complete",
) -> Run:
    run = synthetic.nightly_run(cases=cases)
    name = files.result_id(started, profile, run.commit)
    return run.model_copy(
        update={"id": name, "started": started, "profile": profile, "status": status}
    )


def test_a_file_is_named_and_placed_by_its_content(tmp_path: Path) -> None:
    """Runs in UTC whatever the offset, so that names sort by time; a missing commit is said."""
    for words, name in (
        (("2026-11-20T10:40:12+01:00", "nightly", "3f2a9c17" * 5), "094012Z-nightly-3f2a9c17"),
        (("2026-11-20T09:40:12Z", "quick", None), "094012Z-quick-nocommit"),
    ):
        assert files.result_id(*words) == f"20261120T{name}"
    run = run_at("2026-12-31T23:30:00-01:00")
    place = tmp_path / "runs" / "synthetic-2c-0a1b2c3d" / "2027" / f"{run.id}.json"
    assert files.place(tmp_path, run) == place
    result = foreign.points()
    path = files.save(tmp_path, result)
    of_machine, name = path.parents[1], path.name
    assert of_machine == tmp_path / "points" / result.machine.id
    assert (files.paths(Points, tmp_path), kinds.read_all(Points, tmp_path)) == ([path], [result])
    another = of_machine.with_name("another") / "2026" / name
    for moved in (path.with_name("another.json"), of_machine / "2025" / name, another):
        moved.parent.mkdir(parents=True, exist_ok=True)
        path.rename(moved)
        with pytest.raises(RecordError, match=f"{moved}: expected it at points/.*{name} below"):
            kinds.read_all(Points, tmp_path)
        moved.rename(path)


def test_a_partial_run_is_replaced_and_then_finalised(tmp_path: Path) -> None:
    small, more = (run_at("2026-11-20T09:00:00Z", cases=n, status="partial") for n in (1, 3))
    partial = files.save(tmp_path, small)
    assert files.save(tmp_path, more) == partial
    assert files.read(Run, partial) == more
    whole = run_at("2026-11-20T09:00:00Z", cases=3)
    final = files.save(tmp_path, whole)
    assert files.read(Run, final) == whole
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [final]


@pytest.mark.usefixtures("state_home")
def test_a_run_is_found_by_path_id_or_enough_of_it(tmp_path: Path) -> None:
    """The latest is the one that was started last, whenever it was saved."""
    second, first, partial = (
        files.save(tmp_path, run)
        for run in (
            run_at("2026-11-20T09:00:00Z", "published"),
            run_at("2025-11-19T09:00:00Z"),
            run_at("2026-11-21T09:00:00Z", "quick", status="partial"),
        )
    )
    assert result_files.runs(tmp_path) == [first, second]
    for name, result in (
        (str(first), first),
        ("latest", second),
        (first.stem, first),
        ("published", second),
        ("20261121T090000Z-quick-3f2a9c17", partial),
    ):
        assert result_files.find(name, tmp_path) == result
    for folder, name, text in (
        (tmp_path, "202", "could be any of"),
        (tmp_path, "20251118T090000Z-nightly-3f2a9c17", "20251119T090000Z-nightly"),
        (tmp_path / "empty", "x", "newest are: none"),
    ):
        with pytest.raises(UsageError, match=text):
            result_files.find(name, folder)
    with pytest.raises(RecordError, match=r"has been recorded, .*duetbench run"):
        result_files.find("latest", tmp_path / "empty")


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


def test_a_full_disk_leaves_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC by the kernel's full device; when space has been made, saving goes on."""
    small, large = (run_at("2026-11-20T09:00:00Z", cases=n, status="partial") for n in (1, 40))
    whole = large.model_copy(update={"status": "complete"})
    saved = files.save(tmp_path, small)
    before, real = saved.read_bytes(), tempfile.mkstemp

    def full(*arguments: Any, **named: Any) -> tuple[int, str]:
        handle, name = real(*arguments, **named)
        os.close(handle)
        return os.open("/dev/full", os.O_WRONLY), name

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", full)
        for run in (large, whole):
            with pytest.raises(RecordError, match=r"No space left.*free some space") as caught:
                files.save(tmp_path, run)
            assert saved.parent.name in str(caught.value)
    assert saved.read_bytes() == before
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [saved.name]
    assert files.save(tmp_path, whole).exists()


def document() -> dict[str, Any]:
    """A run of a good launch and a bad one, as it is stored."""
    case = synthetic.make_case("x/json/py3.14")
    good = synthetic.ok(case.id, 0, {"throughput": 1234.56789, "requests": 1234567.0})
    bad = synthetic.failed(case.id, 1, FlagName.WRONG_ANSWER, "expected 'a', found 'b'")
    run = synthetic.make_run([CaseResult(case=case, launches=(good, bad))])
    parsed: dict[str, Any] = json.loads(files.encode(run))
    return parsed


def test_a_run_is_read_back_as_it_was_and_fits_its_budget() -> None:
    """80 cases, 3 launches, 32 figures each with realistic scatter: at most 50 KB compressed."""
    run = synthetic.nightly_run(cases=80, launches=3)
    data = files.encode(run)
    assert files.parse(Run, data, "x") == run
    assert len(run.results[0].launches[0].metrics) >= 32
    assert len(zlib.compress(data)) <= 50_000
    # 1234.56789 is kept as 1234.57; the count 1,234,567 exactly; a failed launch has none.
    good, bad = document()["results"][0]["launches"]
    assert (good["metrics"], bad["metrics"]) == ({"throughput": 1234.57, "requests": 1234567}, {})
    assert good["seconds"] == 17.8312
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="throughput\n  Input should be a finite number"):
            synthetic.ok("x/json/a", 0, {"throughput": wrong})


def test_what_is_not_a_run_file_is_refused() -> None:
    """With what it is, and of another format with what can be read."""
    run = document()
    whole = json.dumps(run).encode()
    another = "expected a run file of format 2: format: input should be 2, found "
    for content, text in (
        (b"", "an empty file"),
        (whole[:-20], "truncated"),
        (b"\xff\xfe\x00", "can't decode"),
        ([1, 2], "expected a run file"),
        ({"id": "x"}, "expected a run file"),
        (whole.replace(b"1234.57", b"NaN"), "not json compliant"),
        (whole.replace(b"1234.57", b"1e999"), "not json compliant"),
        (whole.replace(b'"message": "hi"', b'"message": 1e999'), "not json compliant"),
        (b"[" * 100_000, "while decoding a json array"),  # too deep, in the words of each Python
        ({**run, "results": run["results"] * 2}, "each case once"),
        ({**run, "format": 1}, another),
        ({**run, "format": "2"}, another),
        ({**run, "format": 3}, "update duetbench (uv tool upgrade duetbench)"),
    ):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with pytest.raises(RecordError, match=r"^some\.json: ") as caught:
            files.parse(Run, data, "some.json")
        assert text in str(caught.value).lower()


@pytest.mark.parametrize(
    ("name", "kind"), [("schema.json", Run), ("comparison.schema.json", Comparison)]
)
def test_the_schemas_in_results_are_those_of_the_types(
    name: str, kind: type[Run | Comparison]
) -> None:
    stored = (ROOT / "results" / name).read_text("utf-8")
    assert stored == kinds.schema(kind), "make it again: observatory reference"
