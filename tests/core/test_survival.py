"""A damaged file of the history costs that file alone."""

import json
from pathlib import Path

import pytest

from bench import invoke, make_checkout
from duetbench.store import run_files
from duetbench.trend import reading
from foreign import MACHINES, shard_run


def history(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A checkout with two nights; the second is the one that something is wrong with."""
    results = make_checkout(root / "checkout") / "results"
    monkeypatch.setenv("DUETBENCH_ROOT", str(results.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    for number in (1, 2):
        run_files.finalise(results, shard_run(number))
    return results, results / "runs" / MACHINES[1].id / "2026" / f"{shard_run(2).id}.json"


@pytest.mark.parametrize("figure", ["1e308", "-1"])
def test_an_impossible_figure_in_the_history_costs_its_file_alone(
    figure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got in when nobody looked; site and `detect` name it, and go on with the others."""
    results, bad = history(tmp_path, monkeypatch)
    document = json.loads(bad.read_bytes())
    document["results"][0]["launches"][0]["metrics"]["throughput"] = json.loads(figure)
    bad.write_text(json.dumps(document))
    sources = reading.read(results)
    assert [night.machine for night in sources.nights] == [MACHINES[0].id]
    (problem,) = sources.problems
    assert problem.startswith(f"runs/{MACHINES[1].id}/2026/")
    assert "expected throughput to be" in problem
    for words in (("ci", "detect"), ("site", "--no-asv", "-o", tmp_path / "site")):
        done = invoke(capsys, monkeypatch, words)
        assert done.code == 0
        assert (
            f"{MACHINES[1].id}/2026/{bad.name}: expected a run file of format 2"
            in done.out + done.err
        )
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "expected throughput to be" in front
