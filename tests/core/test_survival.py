"""A damaged file of the history costs that file alone."""

import json
import math
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

import attributing
import mutating
import site_builds
from bench import invoke, make_checkout
from duetbench.store import files, run_files
from duetbench.store.change import Release
from duetbench.store.comparison import Comparison
from foreign import MACHINES, shard_run
from mutating import Scene
from observatory.show import addresses
from observatory.show.site import asv_site
from observatory.show.site.pages import evidence, site
from observatory.store import kinds
from observatory.store.points import Points
from observatory.trend import reading

pytestmark = pytest.mark.long


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
    for words in (
        ("observatory", "detect"),
        ("observatory", "site", "--no-asv", "-o", tmp_path / "site"),
    ):
        done = invoke(capsys, monkeypatch, words)
        assert done.code == 0
    assert f"{MACHINES[1].id}/2026/{bad.name}: expected a run file of format 2" in done.out
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "expected throughput to be" in front


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(tmp_path)
    for name, value in (
        ("HOME", tmp_path),
        ("XDG_CACHE_HOME", tmp_path / "cache"),
        ("XDG_STATE_HOME", tmp_path / "state"),
        ("DUETBENCH_ROOT", scene.root),
    ):
        monkeypatch.setenv(name, str(value))
    return scene


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_no_file_of_any_kind_stops_what_comes_after_it(part: int, scene: Scene) -> None:
    """Eighty mutated files; with DUETBENCH_MUTATIONS as many as you like."""
    assert {kinds.kind_of(path) for path in scene.whole} == {*kinds.KINDS}
    assert mutating.use(scene.root, scene.results, scene.output, with_asv=part == 0) == ((), ())
    number = int(os.environ.get("DUETBENCH_MUTATIONS", "80")) // 2
    said = []
    for seed in range(part * number, (part + 1) * number):
        asv = seed % 40 == 0  # asv publishes for seconds
        try:
            said.append(
                scene.survive(
                    random.Random(seed),
                    folder="asv/" * asv,
                    with_site=seed % 10 == 0,
                    with_asv=asv,
                )
            )
        except Exception as problem:
            raise AssertionError(f"seed {seed}") from problem
    assert {bool(notes) for notes in said} == {True, False}
    assert not [note for notes in said for note in notes if "asv's site" in note]


def test_a_page_that_cannot_be_made_costs_that_page_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with it, all memory used up included; the first page names it."""
    record, address = scene.record, addresses.change(scene.record.id)

    def built() -> tuple[str, ...]:
        return mutating.use(scene.root, scene.results, scene.output)[1]

    def broken(*_: object) -> None:
        raise RecursionError("as deep as it is")

    site_builds.save_releases(scene.results)
    culprit = Release(package="fastapi", version="0.10.2", previous="0.10.1")
    known = record.model_copy(update={"id": "known", "culprit": culprit})
    files.save(scene.results, known)
    monkeypatch.setattr(evidence, "trace", broken)
    reason = f"Change {record.id}: cannot be shown (RecursionError: as deep as it is)"
    assert built() == (reason,)
    for page in (address, ""):
        assert "cannot be shown" in (scene.output / page / "index.html").read_text("utf-8")
    listed = (scene.output / addresses.CASES / "index.html").read_text("utf-8")
    assert f"Change {record.id}" not in listed

    monkeypatch.setattr(evidence, "_comparisons", broken)
    assert built() == (reason, "evidence: some pages are missing (RecursionError)")
    monkeypatch.setattr(site, "events", broken)
    machines = [f"Nights of {one}: cannot be shown (R" for one in sorted(scene.machines)]
    assert [note.partition("ecursion")[0] for note in built()[: len(machines)]] == machines
    assert (scene.output / "index.html").is_file()


def test_names_that_look_like_files_of_the_site_have_pages_beside_those(scene: Scene) -> None:
    """A case whose name ends as the data of another's does; an id that is the file of another."""
    series = [
        "inprocess/a",
        *(f"inprocess/a/{file}" for file in ("data.json", "INDEX.html")),
    ]
    (points,) = (one for one in files.read_all(Points, scene.results) if one.shard)
    cases = tuple(replace(points.cases[0], case=name) for name in series)
    files.save(scene.results, points.model_copy(update={"cases": cases}))
    (comparison, *_) = files.read_all(Comparison, scene.results)
    ids = [comparison.id, f"{comparison.id}.json"]
    for name in ids:
        files.save(scene.results, comparison.model_copy(update={"id": name}))
    assert mutating.use(scene.root, scene.results, scene.output) == ((), ())
    pages = [*map(addresses.case, series), *map(addresses.comparison, ids)]
    assert len({*pages}) == len(series) + 2
    for page in pages:
        assert (scene.output / addresses.file(page)).is_file()
    for name in series:
        document = json.loads(
            (scene.output / addresses.file(addresses.data_file(name))).read_bytes()
        )
        assert document["case"] == name
    for name in ids:
        raw = json.loads((scene.output / addresses.comparison_file(name)).read_bytes())
        assert raw["id"] == name


def test_a_bad_file_of_asv_costs_itself_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asv, which would fail as a whole or never end, sees the good ones, and not for ever."""
    place = f"asv/{MACHINES[0].id}"
    (path,) = (path for path in scene.whole if path.startswith(f"{place}/{scene.commit[:8]}"))
    whole = json.loads(scene.whole[path])
    bad = {
        path.replace("current", "one"): {
            **whole,
            "env_name": whole["env_name"].replace("current", "one"),
            "results": {"gil.Cpu.time_tasks": "x"},
        },
        path.replace("current", "two"): {
            **whole,
            "env_name": whole["env_name"].replace("current", "two"),
            "results": {"gil.Cpu.time_tasks": [[math.inf] * 3]},
        },
        path.replace(MACHINES[0].id, MACHINES[1].id): whole,
        f"asv/{MACHINES[1].id}/machine.json": [],
    }
    for name, document in bad.items():
        file = scene.results / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(document))
    notes = mutating.use(scene.root, scene.results, scene.output, with_asv=True)[1]
    found = (
        "Input should be a valid list",
        "a figure beyond 1e+18, found inf",
        "Input should be a valid dictionary",
    )
    assert len(notes) == 3
    assert all(words in note for words, note in zip(found, notes, strict=True))
    index = json.loads((scene.output / "asv" / "index.json").read_bytes())
    assert [*index["machines"]] == [MACHINES[0].id]
    assert [one["stack"] for one in index["graph_param_list"]] == ["current"]

    monkeypatch.setattr(asv_site, "LIMIT", 0.01)
    notes = mutating.use(scene.root, scene.results, scene.output, with_asv=True)[1]
    assert any("asv publish did not end within 0.01 s" in note for note in notes)
    assert (scene.output / "asv" / "index.html").is_file()


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
