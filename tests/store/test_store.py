"""Files of the history: placed, read back as written, never lost; a damaged one costs itself."""

import json
import math
import os
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

import foreign
import sites
import synthetic
from bench import PROJECT, Shell
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.model import CaseResult, Run
from duetbench.host import files, result_files
from foreign import MACHINES
from observatory.show import addresses
from observatory.show.site import story
from observatory.store import asv_results, kinds
from observatory.store.points import Points


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
    assert (result_files.of_kind(Points, tmp_path), kinds.read_all(Points, tmp_path)) == (
        [path],
        [result],
    )
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
    for run in kinds.read_all(Run, PROJECT / "results"):
        data = files.encode(run)
        assert result_files.parse(Run, data, "x") == run
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
    another = "expected a run file of format 3: format: input should be 3, found "
    for content, text in (
        (b"", "an empty file"),
        (b"\xff\xfe\x00", "can't decode"),
        ([1, 2], "expected a run file"),
        (whole.replace(b"1234.57", b"NaN"), "not json compliant"),
        (whole.replace(b'"message": "hi"', b'"message": 1e999'), "not json compliant"),
        (b"[" * 100_000, "while decoding a json array"),  # too deep, in the words of each Python
        ({**run, "results": run["results"] * 2}, "each case once"),
        ({**run, "format": 1}, another),
        ({**run, "format": 4}, "update duetbench (uv tool upgrade duetbench)"),
    ):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with pytest.raises(RecordError, match=r"^some\.json: ") as caught:
            result_files.parse(Run, data, "some.json")
        assert text in str(caught.value).lower()


@pytest.mark.long
def test_a_bad_file_costs_itself_alone(tmp_path: Path, call: Shell) -> None:
    """A run with an impossible figure, cut points, and files of asv; the site names the first two.

    `detect` needs no runs, and does without the others.
    """
    results = tmp_path / "results"
    for made, old, new in (
        (foreign.night_run(2), rb'("throughput":\s*)[\d.]+', rb"\g<1>1e308"),
        (foreign.points(), rb"\{", b""),
    ):
        path = files.save(results, made)
        path.write_bytes(re.sub(old, new, path.read_bytes(), count=1))
    files.save(results, foreign.night_run(1))
    asv, whole = results / "asv", foreign.inside()
    asv.mkdir()
    (asv / "benchmarks.json").write_text(json.dumps(foreign.LISTED))
    good = whole["results"]
    for machine, stack, content in (
        (0, "current", good),
        (0, "one", {"gil.Cpu.time_tasks": "x"}),
        (0, "two", {"gil.Cpu.time_tasks": [[math.inf] * 3]}),
        (1, "current", good),
    ):
        place = asv / MACHINES[machine].id / f"{foreign.COMMIT[:8]}-duetbench-py3.14-stack{stack}"
        place.parent.mkdir(exist_ok=True)
        named = {"env_name": whole["env_name"].replace("current", stack), "results": content}
        place.with_name(f"{place.name}.json").write_text(json.dumps({**whole, **named}))
    faults = list[str]()
    asv_results.read(results, faults)
    words = ("be a valid list", "a figure beyond 1e+18, found inf", "by its content")
    assert all(text in fault for text, fault in zip(words, faults, strict=True)), faults
    run, points = sites.build_site(tmp_path)
    assert points.startswith("points/")
    assert run.startswith(f"runs/{MACHINES[1].id}/2026/")
    assert "expected throughput to be" in run
    call.patch.setenv("DUETBENCH_ROOT", str(tmp_path))
    call.done("observatory", "detect", "--results", results, "-o", tmp_path / "candidates.json")


@pytest.mark.long
def test_a_page_that_cannot_be_made_costs_that_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with it, all memory used up included; the first page names it."""

    def broken(*_: object) -> None:
        raise RecursionError("as deep as it is")

    shutil.copytree(sites.WORLD / "points", tmp_path / "results" / "points")
    monkeypatch.setattr(story, "measurements", broken)
    monkeypatch.setattr(addresses, "experiment", broken)
    first, *others = sites.build_site(tmp_path)
    assert first.startswith("pages of experiments: cannot be shown (RecursionError")
    assert "fastapi 0.11.0: cannot be shown (RecursionError: as deep as it is)" in others
    for page in (addresses.release("fastapi", "0.11.0"), ""):
        text = (tmp_path / "site" / page / "index.html").read_text("utf-8")
        assert "cannot be shown" in text
