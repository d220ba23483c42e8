"""Runs and points as files: where they are, read back as written, and never lost."""

import json
import math
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

import foreign
import synthetic
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.model import CaseResult, Run
from duetbench.host import files
from observatory.store import kinds
from observatory.store.points import Points

ROOT = Path(__file__).parents[2]


def test_a_file_is_named_and_placed_by_its_content(tmp_path: Path) -> None:
    """Runs in UTC whatever the offset, so that names sort by time; a missing commit is said."""
    for words, name in (
        (("2026-11-20T10:40:12+01:00", "nightly", "3f2a9c17" * 5), "094012Z-nightly-3f2a9c17"),
        (("2026-11-20T09:40:12Z", "quick", None), "094012Z-quick-nocommit"),
    ):
        assert files.result_id(*words) == f"20261120T{name}"
    started = "2026-12-31T23:30:00-01:00"
    name = files.result_id(started, "nightly", "3f2a9c17" * 5)
    run = synthetic.make_run((), id=name, started=started)
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


def test_a_power_cut_or_a_full_disk_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data are on the disk before it has its name, and then so is the name."""
    path, written = tmp_path / "a.json", list[tuple[Path, bool]]()

    def fsync(handle: int) -> None:
        written.append((Path(f"/proc/self/fd/{handle}").readlink(), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace(path, b"{}")
    (draft, named), last = written
    assert (draft.parent, draft.suffix, named) == (tmp_path, ".tmp", False)
    assert last == (tmp_path, True)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match=r"a\.json.*No space left.*free some space"):
        files.replace(path, b"other")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a.json", b"{}")]


def document() -> dict[str, Any]:
    """A run of a good launch and a bad one, as it is stored."""
    case = synthetic.make_case("x/json/py3.14")
    good = synthetic.ok(case.id, 0, {"throughput": 1234.56789, "requests": 1234567.0})
    bad = synthetic.failed(case.id, 1, FlagName.WRONG_ANSWER, "expected 'a', found 'b'")
    run = synthetic.make_run([CaseResult(case=case, launches=(good, bad))])
    parsed: dict[str, Any] = json.loads(files.encode(run))
    return parsed


def test_a_run_is_read_back_as_it_was_and_fits_its_budget() -> None:
    """At most 50 KB compressed, as runs of this repository are."""
    for run in kinds.read_all(Run, ROOT / "results"):
        data = files.encode(run)
        assert files.parse(Run, data, "x") == run
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
        (b"\xff\xfe\x00", "can't decode"),
        ([1, 2], "expected a run file"),
        (whole.replace(b"1234.57", b"NaN"), "not json compliant"),
        (whole.replace(b'"message": "hi"', b'"message": 1e999'), "not json compliant"),
        (b"[" * 100_000, "while decoding a json array"),  # too deep, in the words of each Python
        ({**run, "results": run["results"] * 2}, "each case once"),
        ({**run, "format": 1}, another),
        ({**run, "format": 3}, "update duetbench (uv tool upgrade duetbench)"),
    ):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with pytest.raises(RecordError, match=r"^some\.json: ") as caught:
            files.parse(Run, data, "some.json")
        assert text in str(caught.value).lower()
