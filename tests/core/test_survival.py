"""A damaged file of the history costs that file alone."""

import json
import math
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import asv_files
import attributing
import foreign
import repos
import site_builds
from bench import PROJECT, invoke, make_checkout
from duetbench.core.change import Release
from duetbench.core.errors import DuetbenchError
from duetbench.host import files
from duetbench.host.console import Console, Narrator
from foreign import MACHINES, shard_run
from observatory.github import issues
from observatory.show import addresses
from observatory.show.site import asv_site, build
from observatory.show.site.pages import experiment, story
from observatory.store import kinds
from observatory.store.night import NightRecord, outcome
from observatory.trend import candidates, confirm, reading


def small_history(results: Path, commit: str = foreign.COMMIT) -> list[Path]:
    """Save one or two related files of every kind; return their paths.

    asv measured `commit`.
    """
    shard_runs = [foreign.shard_run(number) for number in (1, 2)]
    earlier: dict[str, Any] = {
        "id": "20261119T090000Z-nightly-3f2a9c17",
        "started": "2026-11-19T09:00:00+00:00",
    }
    yesterday = foreign.shard_run(1, night=None, shard=None, **earlier)
    for run in (*shard_runs, yesterday):
        files.save(results, run)
    record, evidence = foreign.judge_candidate()
    files.save(results, evidence)
    files.save(results, site_builds.make_comparison(site_builds.JSON, duets=3))
    files.save(results, record.model_copy(update={"why": attributing.attribution()}))
    files.save(results, foreign.points())
    for release in site_builds.RELEASES[:2]:
        files.save(results, release)
    night: NightRecord = outcome(foreign.night(), shard_runs)
    files.save(results, night)
    place = results / "asv" / foreign.MACHINES[0].id
    place.mkdir(parents=True)
    (place / "machine.json").write_text(
        json.dumps({"machine": foreign.MACHINES[0].id, "version": 1})
    )
    asv_files.list_benchmarks(
        results / "asv",
        [asv_files.Bench("gil.Cpu.time_tasks", {"mode": ("serial",), "tasks": (1, 2, 4)})],
    )
    inside = place / f"{commit[:8]}-duetbench-py3.14-stackcurrent.json"
    inside.write_text(json.dumps(foreign.inside(commit_hash=commit)))
    return sorted(path for path in results.rglob("*.json") if path.name != "benchmarks.json")


class Scene:
    """A checkout with a history."""

    def __init__(self, folder: Path) -> None:
        self.root, self.output = folder / "root", folder / "site"
        self.results = self.root / "results"
        for name in ("apps", "benchmarks"):
            (self.root / name).mkdir(parents=True)
        for name in ("pyproject.toml", "asv.conf.json"):
            shutil.copy(PROJECT / name, self.root)
        repos.git(self.root, "init", "--quiet")
        repos.git(self.root, "add", "--all")
        repos.git(self.root, "commit", "--quiet", "--message=It")
        self.commit = repos.git(self.root, "rev-parse", "HEAD")
        saved = small_history(self.results, self.commit)
        self.whole = {
            path.relative_to(self.results).as_posix(): path.read_bytes() for path in saved
        }
        self.machines = {path.split("/")[1] for path in self.whole if path.startswith("runs/")}
        self.record, _ = foreign.judge_candidate()


def use(scene: Scene, *, with_asv: bool = False) -> tuple[str, ...]:
    """Do all that a night and its publishing do with a history; no file may make that fail.

    Return the site's notes.
    """
    with suppress(DuetbenchError):  # the file does not enter the history, but is read below
        kinds.collect(scene.results)
    sources = reading.read(scene.results)
    candidates.detect(sources.tables, (*sources.changes, *sources.dismissed))
    evidence = {comparison.id: comparison for comparison in sources.comparisons}
    confirm.close(sources.changes, evidence)
    for change in sources.changes:
        issues.text(change, "https://site.example/")
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        narrator = Narrator(Console(file=nowhere))
        report = build.build(
            *(scene.root, scene.results, scene.output, narrator),
            base="https://site.example/",
            with_asv=with_asv,
            sources=sources,
        )
        for note in report.notes:
            narrator.say(note)
    assert (scene.output / "index.html").is_file()
    return report.notes


pytestmark = pytest.mark.long


def history(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A checkout with two nights; the second is the one that something is wrong with."""
    results = make_checkout(root / "checkout") / "results"
    monkeypatch.setenv("DUETBENCH_ROOT", str(results.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    for number in (1, 2):
        files.save(results, shard_run(number))
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
    assert [path.parts[-3] for path in sources.runs.values()] == [MACHINES[0].id]
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


def test_a_page_that_cannot_be_made_costs_that_page_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with it, all memory used up included; the first page names it."""
    record, address = scene.record, addresses.package("fastapi")

    def broken(*_: object) -> None:
        raise RecursionError("as deep as it is")

    assert {kinds.kind_of(path) for path in scene.whole} == {*kinds.KINDS}
    assert use(scene, with_asv=True) == ()
    site_builds.save_releases(scene.results)
    culprit = Release(package="fastapi", version="0.10.2", previous="0.10.1")
    known = record.model_copy(update={"id": "known", "culprit": culprit})
    files.save(scene.results, known)
    monkeypatch.setattr(story, "measurements", broken)
    reason = "fastapi: cannot be shown (RecursionError: as deep as it is)"
    assert use(scene) == (reason,)
    for page in (address, ""):
        assert "cannot be shown" in (scene.output / page / "index.html").read_text("utf-8")

    monkeypatch.setattr(experiment, "guard", broken)
    assert use(scene)[0] == "experiment: some pages are missing (RecursionError)"
    assert (scene.output / "index.html").is_file()


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
    notes = use(scene, with_asv=True)
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
    notes = use(scene, with_asv=True)
    assert any("asv publish within 0.01 s failed (exit code 124)" in note for note in notes)
    assert (scene.output / "asv" / "index.html").is_file()
