"""A damaged file of the history costs that file alone."""

import json
import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import attributing
import foreign
import site_builds
from bench import PROJECT, invoke
from duetbench.host import files
from foreign import MACHINES
from observatory.github import issues
from observatory.show import addresses
from observatory.show.experiments import reference_runs
from observatory.show.site import build, story
from observatory.store import asv_results, kinds
from observatory.trend import candidates, confirm, reading
from repos import git, keep, write_all

pytestmark = pytest.mark.long


@dataclass
class Scene:
    """A checkout with a history, which has one or two related files of every kind."""

    root: Path
    output: Path
    whole: set[str] = field(default_factory=set)
    """Names of the files, below `results`."""

    @property
    def results(self) -> Path:
        return self.root / "results"

    def file(self, start: str) -> Path:
        """Return the only file whose name starts like this."""
        (name,) = (name for name in self.whole if name.startswith(start))
        return self.results / name

    def use(self) -> tuple[str, ...]:
        """Do all that a night and its publishing do with a history; no file may make that fail.

        Return the site's notes.
        """
        sources = reading.read(self.results)
        candidates.detect(sources.tables, sources.changes)
        confirm.close(sources.changes)
        base = "https://site.example/"
        for change in filter(lambda record: record.confirmed, sources.changes):
            issues.text(change, base)
        _, notes = build.build(self.root, self.results, self.output)
        assert (self.output / "index.html").is_file()
        return notes


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene(tmp_path / "root", tmp_path / "site")
    for name in ("apps", "benchmarks"):
        (made.root / name).mkdir(parents=True)
    for name in ("pyproject.toml", "asv.conf.json"):
        shutil.copy(PROJECT / name, made.root)
    at = keep(made.root)
    nights = [foreign.shard_run(number) for number in (1, 2)]
    record, evidence = foreign.judge_candidate()
    night = (*nights, foreign.points())
    change = record.model_copy(update={"why": attributing.attribution()})
    compared = site_builds.make_comparison(site_builds.JSON)
    for item in (*night, *site_builds.RELEASES[:2], evidence, change, compared):
        files.save(made.results, item)
    asv = foreign.asv_files(foreign.inside(commit_hash=at))
    write_all(made.results, {name: content.decode() for name, content in asv.items()})
    actual = made.results.rglob("*.json")
    made.whole = {path.relative_to(made.results).as_posix() for path in actual}
    assert {kinds.kind_of(name) for name in made.whole} - {None} == {*kinds.KINDS}
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("DUETBENCH_ROOT", str(made.root))
    return made


def test_a_bad_file_costs_itself_alone(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got in when nobody looked: a run with an impossible figure, and files of asv.

    The site names the run, and does without the others. `detect` needs no runs.
    """
    bad = scene.file(f"runs/{MACHINES[1].id}")
    document = json.loads(bad.read_bytes())
    document["results"][0]["launches"][0]["metrics"]["throughput"] = 1e308
    bad.write_text(json.dumps(document))
    problems = list[str]()
    reference_runs(scene.results, problems)
    problem = problems[0].replace(f"{scene.results}/", "")
    assert problem.startswith(f"runs/{MACHINES[1].id}/2026/")
    assert "expected throughput to be" in problem

    good = scene.file(f"asv/{MACHINES[0].id}/{git(scene.root, 'rev-parse', 'HEAD')[:8]}")
    whole = json.loads(good.read_bytes())
    for stack, figures in (("one", "x"), ("two", [[math.inf] * 3])):
        named = {"env_name": whole["env_name"].replace("current", stack)}
        wrong = {**whole, **named, "results": {"gil.Cpu.time_tasks": figures}}
        good.with_name(good.name.replace("current", stack)).write_text(json.dumps(wrong))
    other = scene.results / "asv" / MACHINES[1].id
    other.mkdir()
    shutil.copy(good, other)
    faults = list[str]()
    asv_results.read(scene.results / "asv", faults)
    for fault, words in zip(
        faults,
        ("be a valid list", "a figure beyond 1e+18, found inf", "by its content"),
        strict=True,
    ):
        assert words in fault
    assert scene.use() == (problem,)
    assert "expected throughput to be" in (scene.output / "index.html").read_text("utf-8")
    file = scene.output.with_name("candidates.json")
    result = invoke(capsys, monkeypatch, ("observatory", "detect", "-o", file))
    assert result.code == 0, result


def test_a_page_that_cannot_be_made_costs_that_page_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with it, all memory used up included; the first page names it."""

    def broken(*_: object) -> None:
        raise RecursionError("as deep as it is")

    assert scene.use() == ()
    site_builds.save_releases(scene.results)
    monkeypatch.setattr(story, "measurements", broken)
    lost = "fastapi 0.11.0: cannot be shown (RecursionError: as deep as it is)"
    assert lost in scene.use()
    for page in (addresses.release("fastapi", "0.11.0"), ""):
        assert "cannot be shown" in (scene.output / page / "index.html").read_text("utf-8")
    monkeypatch.setattr(addresses, "experiment", broken)
    assert scene.use()[0].startswith("pages of experiments: cannot be shown (RecursionError")
