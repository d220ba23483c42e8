"""`observatory anchor`, in real repositories; a fake stands for servers and generators."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bench import Done, Shell
from duetbench.core.metrics import CPU
from duetbench.host import files, paths
from duetbench.judge.preparation import resolve
from fake_sessions import FakeInstruments
from observatory.github import incoming
from observatory.matrix.checkout import Checkout
from observatory.store import kinds
from observatory.store.points import Points
from repos import borrow_cache, commit, git, keep, make_tiny, write
from tiny_index import Index

CASES = {"tiny/dependent/py3.14", "tiny/alone/py3.14"}


@dataclass
class Scene:
    """A repository of two cases without an anchor, and the command line in it."""

    root: Path
    results: Path
    call: Shell
    index: Index
    instruments: FakeInstruments = field(default_factory=FakeInstruments)

    def anchored(self, name: str) -> str:
        """Make its commit an anchor, and commit that; the anchor's commit."""
        tip = git(self.root, "rev-parse", "HEAD")
        facts = f'name = "{name}"\ncommit = "{tip}"\n'
        commit(self.root, f"Anchor {name}", **{"apps/anchor.toml": facts})
        return tip

    def measure(self, *words: str | Path) -> Done:
        return self.call("observatory", "anchor", "--results", self.results, *words)


@pytest.fixture
def scene(index: Index, tmp_path: Path, call: Shell) -> Scene:
    borrow_cache(tmp_path / "cache", call.patch)
    call.patch.setenv("UV_NO_BUILD", "1")  # which it sets for its whole process
    root = make_tiny(tmp_path / "tiny", call.patch)
    index.add("alpha", "1.0", "2026-01-10")
    write(root, "apps/stacks/one.txt", resolve(Checkout(root), "one", date(2026, 1, 15)))
    keep(root)
    made = Scene(root, tmp_path / "results", call, index)
    call.patch.setattr("observatory.trend.anchored.Real", lambda: made.instruments)
    return made


@pytest.mark.real
def test_an_anchor_is_declared_and_measured(scene: Scene) -> None:
    result = scene.measure()
    assert (result.code, "anchor.toml: file: found" in result.err) == (2, True), result
    scene.anchored("first")

    # A stack that came later has no point yet; all others are measured.
    apps = scene.root / "apps"
    cases = (apps / "tiny" / "experiment.toml").read_text()
    block = cases[cases.index("[[cases]]") :].replace('"one"', '"two"')
    stacks = (apps / "pyproject.toml").read_text() + 'two = ["alpha"]\n'
    write(scene.root, "apps/pyproject.toml", stacks)
    write(scene.root, "apps/stacks/two.txt", (apps / "stacks" / "one.txt").read_text())
    later = cases + block.replace("py{python}", "py{python}/two")
    write(scene.root, "apps/tiny/experiment.toml", later)
    commit(scene.root, "A stack")
    result = scene.measure()
    assert result.code == 0, result
    (made,) = kinds.read_all(Points, scene.results)
    assert (made.anchor, made.origin) == ("first", "night")
    assert made.commit == git(scene.root, "rev-parse", "HEAD")
    assert {item.case for item in made.cases} == CASES
    for item in made.cases:
        (cpu,) = (point for point in item.points if point.metric == CPU)
        assert (cpu.duets, cpu.se < 0.005) == (5, True)
    lacking = {item.case: item.reason for item in made.missing}
    assert lacking == dict.fromkeys((f"{case}/two" for case in CASES), "the anchor lacks it")


@pytest.mark.real
def test_a_night_is_measured_and_accepted(scene: Scene, tmp_path: Path) -> None:
    """What fails has no point, and its reason."""
    scene.anchored("first")
    scene.instruments.failing = frozenset({"tiny/alone/py3.14"})
    assert scene.measure("--budget", "40m").code == 0
    (made,) = kinds.read_all(Points, scene.results)
    assert made.commit == git(scene.root, "rev-parse", "HEAD")
    metrics = {item.case: [point.metric for point in item.points] for item in made.cases}
    assert metrics["tiny/dependent/py3.14"][0] == CPU
    assert metrics["tiny/alone/py3.14"] == ["instructions"]
    assert [item.case for item in made.missing] == ["tiny/alone/py3.14"]

    locks = {item.name: item for item in made.stacks}
    now = datetime.now(UTC)
    night = incoming.Night(made.commit, "first", Checkout(scene.root, "nightly").cases(), locks)
    arrived = {made.path: files.encode(made)}
    assert incoming.night(night, {f"night-{made.machine.id}": arrived}, now) == (arrived, {})

    # Of each case three duets had been run.
    scene.instruments = FakeInstruments(stop=7)
    scene.results = tmp_path / "cut"
    result = scene.measure()
    assert result.code == 130, result
    (cut,) = kinds.read_all(Points, scene.results)
    assert cut.notes == ("it was interrupted",)
    assert {item.points[0].duets for item in cut.cases} == {3}  # none is of an earlier run


@pytest.mark.real
def test_stacks_of_other_times_are_installed_measured_and_removed(scene: Scene) -> None:
    """What cannot be measured is recorded; what has its points is left out the next time."""
    anchor = scene.anchored("first")
    scene.index.add("absent", "1", "2026-02-05")
    for month in (2, 3):
        scene.index.add("alpha", f"{month}.0", f"2026-0{month}-10")
    span = ("--until", "2026-03-20", "--results", scene.results)
    verb = ("observatory", "anchor", "--since")
    dates = (*verb, "2026-01-01", *span)
    result = scene.call(*dates)
    assert result.code == 1, result.err
    result = scene.call(*verb, "2026-02-01", *span, "--releases", "alpha,absent")
    assert result.code == 1, result
    made = {item.label: item for item in kinds.read_all(Points, scene.results)}
    versions = {
        name: item.stacks[0].packages["alpha"] for name, item in made.items() if item.stacks
    }
    assert versions == {
        "as of 2026-02-01": "1.0", "as of 2026-03-01": "2.0",
        "alpha 1.0": "1.0", "alpha 2.0": "2.0", "alpha 3.0": "3.0",
    }  # fmt: skip
    assert {item.commit for item in made.values()} == {anchor}
    assert [made[f"alpha {n}.0"].previous for n in (1, 2, 3)] == [None, "1.0", "2.0"]
    (early,), (without,) = (
        {item.reason for item in made[label].missing} for label in ("as of 2026-01-01", "absent 1")
    )
    assert "alpha" in early
    assert "Log: $CACHE/" in early  # and not where that folder is
    assert without == "the stack one has no absent"
    left = [p for p in paths.cache_dir().glob("environments/one-*") if not p.is_symlink()]
    held = {info.name for p in left for info in p.glob("lib/python*/site-packages/*.dist-info")}
    assert held <= {"alpha-1.0.dist-info"}, "only the anchor's own environment stays"
    result = scene.call(*dates)
    assert "1 of 3 stacks measured now" in result.out
