"""A damaged file of the history costs that file alone."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

import attributing
import mutating
from bench import PROJECT, invoke, make_checkout
from duetbench.show import addresses
from duetbench.show.site.pages import evidence
from duetbench.store import files, kinds, run_files
from duetbench.store.change import Change
from duetbench.store.points import Points
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
    """It got in when nobody looked; the site names it, and `detect` needs no runs."""
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
    assert f"{MACHINES[1].id}/2026/{bad.name}: expected a run file of format 2" in done.out
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "expected throughput to be" in front


@pytest.mark.parametrize("part", range(3))
def test_no_file_of_any_kind_stops_what_comes_after_it(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred damaged files; with DUETBENCH_MUTATIONS as many as you like."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root, results, site = (tmp_path / name for name in ("root", "results", "site"))
    for folder in ("apps", "benchmarks"):
        (root / folder).mkdir(parents=True)
    shutil.copy(PROJECT / "pyproject.toml", root)
    paths = mutating.small_history(results)
    assert {kinds.kind_of(path.relative_to(results).as_posix()) for path in paths} == {*kinds.KINDS}
    assert mutating.use(root, results, site) == ()
    number = int(os.environ.get("DUETBENCH_MUTATIONS", "66")) // 3
    told = 0
    for seed in range(part * number, (part + 1) * number):
        source = random.Random(seed)
        path = source.choice(paths)
        whole = path.read_bytes()
        path.write_bytes(mutating.mutate(whole, source))
        try:
            told += bool(mutating.use(root, results, site, with_site=seed % 20 == 0))
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {path}") from problem
        path.write_bytes(whole)
    assert 0 < told < number


def test_a_page_that_cannot_be_made_costs_that_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with it, all memory used up included; the first page names it."""
    results, site = tmp_path / "results", tmp_path / "site"
    mutating.small_history(results)
    (record,) = files.read_all(Change, results)

    def broken(*_: object) -> None:
        raise RecursionError("as deep as it is")

    monkeypatch.setattr(evidence, "_change_forest", broken)
    notes = mutating.use(PROJECT, results, site)
    reason = f"Change {record.id}: cannot be shown (RecursionError: as deep as it is)"
    assert notes == (reason,)
    for page in (addresses.change(record.id), ""):
        assert "cannot be shown" in (site / page / "index.html").read_text("utf-8")
    assert f"Change {record.id}" not in (site / addresses.CASES / "index.html").read_text("utf-8")

    monkeypatch.setattr(evidence, "_comparisons", broken)
    notes = mutating.use(PROJECT, results, site)
    assert notes == (reason, "evidence: some pages are missing (RecursionError)")
    assert (site / "index.html").is_file()


def test_two_files_of_one_id_do_not_stand_for_each_other(tmp_path: Path) -> None:
    """A shard that gives its run the id of another machine's; pages go by ids."""
    mutating.small_history(tmp_path)
    first, second = (shard_run(number) for number in (1, 2))
    ours, other = (run_files.path_for(tmp_path, run) for run in (first, second))
    for name, part in ((ours.stem, "its id is that of"), ("another", "by its content")):
        copied = other.with_name(f"{name}.json")
        copied.write_bytes(other.read_bytes().replace(second.id.encode(), first.id.encode()))
        (problem,) = reading.read(tmp_path).problems
        assert part in problem
        copied.unlink()
    path = files.paths(Points, tmp_path)[0]
    (moved := path.parents[1] / "2025" / path.name).parent.mkdir()
    path.rename(moved)
    sources = reading.read(tmp_path)
    assert [part in problem for problem in sources.problems] == [True]
    assert path.stem not in {one.id for one in sources.points}


def test_an_attribution_of_three_thousand_levels_is_refused(tmp_path: Path) -> None:
    record = attributing.attribution()
    document = json.loads(files.encode(record))
    top = document["tree"][0]
    document["tree"] = [{**top, "depth": depth} for depth in range(3_000)]
    path = tmp_path / "attributions" / f"{record.id}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(document))
    (problem,) = reading.read(tmp_path).problems
    assert "less than or equal to 300" in problem
