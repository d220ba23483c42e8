"""A damaged file of the history costs that file alone."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest

import foreign
import sites
from bench import Shell
from duetbench.host import files
from foreign import MACHINES
from observatory.show import addresses
from observatory.show.site import story
from observatory.store import asv_results

pytestmark = pytest.mark.long


def test_a_bad_file_costs_itself_alone(tmp_path: Path, call: Shell) -> None:
    """A run with an impossible figure, cut points, and files of asv; the site names the first two.

    `detect` needs no runs, and does without the others.
    """
    results = tmp_path / "results"
    for made, old, new in (
        (foreign.shard_run(2), rb'("throughput":\s*)[\d.]+', rb"\g<1>1e308"),
        (foreign.points(), rb"\{", b""),
    ):
        path = files.save(results, made)
        path.write_bytes(re.sub(old, new, path.read_bytes(), count=1))
    files.save(results, foreign.shard_run(1))
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
    asv_results.read(asv, faults)
    words = ("be a valid list", "a figure beyond 1e+18, found inf", "by its content")
    assert all(text in fault for text, fault in zip(words, faults, strict=True)), faults
    points, run = sites.build_site(tmp_path)
    assert points.startswith("points/")
    assert run.startswith(f"runs/{MACHINES[1].id}/2026/")
    assert "expected throughput to be" in run
    call.patch.setenv("DUETBENCH_ROOT", str(tmp_path))
    call.done("observatory", "detect", "--results", results, "-o", tmp_path / "candidates.json")


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
