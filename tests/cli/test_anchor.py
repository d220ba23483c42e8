"""`observatory anchor`, in real repositories; a fake stands for servers and generators."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bench import Done, invoke
from duetbench.host import files
from fake_sessions import FakeInstruments
from observatory.github import incoming
from observatory.matrix.anchor import anchor_file, load_anchor
from observatory.matrix.checkout import Checkout, fetch_commit
from observatory.store import points
from observatory.store.night import NightPlan
from observatory.store.points import Points
from observatory.trend.anchored import DUET_PROTOCOL
from repos import borrow_cache, commit, git, keep, make_tiny, write
from tiny_index import serving

CPU = "server_cpu_per_request"
CASES = {"tiny/dependent/py3.14", "tiny/alone/py3.14"}


@dataclass
class Scene:
    """A repository of two cases without an anchor, and the command line in it."""

    root: Path
    results: Path
    call: Callable[..., Done]
    instruments: FakeInstruments = field(default_factory=FakeInstruments)

    def anchored(self, name: str) -> str:
        """Make its commit an anchor, and commit that; the anchor's commit."""
        tip = git(self.root, "rev-parse", "HEAD")
        done = self.call("observatory", "anchor", "renew", name)
        assert done.code == 0, done
        commit(self.root, f"Anchor {name}")
        return tip


@pytest.fixture
def scene(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scene]:
    borrow_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = make_tiny(tmp_path / "tiny")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    file = root / "apps" / "tiny" / "experiment.toml"
    both = file.read_text().replace('["quick"]', '["quick", "nightly"]')
    file.write_text(both.replace("quick = {", "nightly = { seconds = 1 }\nquick = {"))
    with serving(monkeypatch, tmp_path / "uv") as index:
        index.add("alpha", "1.0", "2026-01-10")
        write(root, "apps/stacks/one.txt", Checkout(root).resolve("one", date(2026, 1, 15)))
        keep(root)
        made = Scene(root, tmp_path / "results", lambda *words: invoke(capsys, monkeypatch, words))
        monkeypatch.setattr("observatory.trend.anchored.Real", lambda: made.instruments)
        yield made


def read(scene: Scene) -> list[points.Points]:
    return [files.read(Points, path) for path in files.paths(Points, scene.results)]


@pytest.mark.real
def test_an_anchor_is_declared_measured_and_renewed(scene: Scene) -> None:
    done = scene.call("observatory", "anchor", "run")
    assert (done.code, "declare the present state as one" in done.err) == (2, True)
    write(scene.root, "README.md", "# Not committed\n")
    done = scene.call("observatory", "anchor", "renew", "first")
    assert (done.code, "commit them first" in done.err) == (2, True)
    commit(scene.root, "Words")

    first = scene.anchored("first")
    assert read(scene) == []  # there was none before
    assert load_anchor(scene.root).commit == first
    done = scene.call("observatory", "anchor", "renew", "first")
    assert (done.code, "is the name of the present anchor" in done.err) == (2, True)

    done = scene.call("observatory", "anchor", "run", "--results", scene.results)
    assert done.code == 0, done
    (made,) = read(scene)
    assert (made.anchor, made.origin, made.night, made.shard) == ("first", "night", None, None)
    assert made.commit == git(scene.root, "rev-parse", "HEAD")
    assert {one.case for one in made.cases} == CASES
    for one in made.cases:
        (cpu,) = (point for point in one.points if point.metric == CPU)
        assert (cpu.duets, cpu.se < 0.005) == (5, True)

    scene.anchored("second")
    assert load_anchor(scene.root).name == "second"


@pytest.mark.real
def test_an_anchor_that_cannot_be_measured_any_more_is_replaced(scene: Scene) -> None:
    scene.anchored("first")
    old = anchor_file(scene.root).read_text()
    commit(scene.root, "Other duets", **{
        "apps/anchor.toml": old.replace(f"protocol = {DUET_PROTOCOL}", "protocol = 99"),
    })  # fmt: skip
    done = scene.call("observatory", "anchor", "run")
    assert done.code == 4
    assert "needs version 99" in done.err
    assert "observatory anchor renew NAME" in done.err
    scene.anchored("second")
    assert load_anchor(scene.root).protocol == DUET_PROTOCOL
    assert scene.instruments.duet_log == []


@pytest.mark.real
def test_a_shard_of_a_night_is_measured_and_accepted(scene: Scene, tmp_path: Path) -> None:
    """What fails has no point, and its reason; where and of what it is says the plan."""
    scene.anchored("first")
    plan, sent = tmp_path / "night.json", tmp_path / "sent"
    done = scene.call("observatory", "plan", "--output", plan)
    assert done.code == 0, done
    night = files.read(NightPlan, plan)
    assert night.anchor == "first"
    scene.instruments.failing = frozenset({"tiny/alone/py3.14"})
    given = ("--plan", plan, "--shard", "1")
    done = scene.call(
        "observatory", "anchor", "run", *given, "--budget", "40m", "--results", sent / "shard-1"
    )
    assert done.code == 0, done
    (path,) = files.paths(Points, sent / "shard-1")
    made = files.read(Points, path)
    assert (made.night, made.shard, made.commit) == (night.id, 1, night.commit)
    assert made.id.endswith("-s1")
    metrics = {one.case: [point.metric for point in one.points] for one in made.cases}
    assert metrics["tiny/dependent/py3.14"][0] == CPU
    assert metrics["tiny/alone/py3.14"] == ["instructions"]
    assert [one.case for one in made.missing] == ["tiny/alone/py3.14"]

    locks = {one.name: incoming.Lock(one.digest, frozenset(one.packages)) for one in made.stacks}
    now = datetime.now(UTC)
    found = incoming.night(night, sent, tmp_path / "out", locks, now)
    assert found.refused == {}
    assert found.accepted == (made.path,)

    # Of each case three duets had been run.
    scene.instruments = FakeInstruments(stop=7)
    done = scene.call("observatory", "anchor", "run", *given, "--results", scene.results)
    assert done.code == 130, done
    (cut,) = read(scene)
    assert (cut.shard, cut.notes) == (1, ("it was interrupted",))
    assert {one.points[0].duets for one in cut.cases} == {3}  # none is of an earlier run
    done = scene.call("observatory", "anchor", "run", *given, "--select", "tiny/*")
    assert (done.code, "leave --select out" in done.err) == (2, True)
    commit(scene.root, "Something else")
    done = scene.call("observatory", "anchor", "run", *given)
    assert (done.code, "check that commit out" in done.err) == (2, True)


@pytest.mark.real
def test_what_the_anchor_did_not_have_has_no_point_yet(scene: Scene) -> None:
    """Of a stack that came later both sides have the same lock; the others are measured."""
    scene.anchored("first")
    apps = scene.root / "apps"
    stacks = (apps / "pyproject.toml").read_text() + 'two = ["alpha"]\n'
    lock = (apps / "stacks" / "one.txt").read_text()
    cases = (apps / "tiny" / "experiment.toml").read_text()
    block = cases[cases.index("[[cases]]") :].replace('"one"', '"two"')
    cases += block.replace("py{python}", "py{python}/two")
    write(scene.root, "apps/pyproject.toml", stacks)
    write(scene.root, "apps/stacks/two.txt", lock)
    write(scene.root, "apps/tiny/experiment.toml", cases)
    commit(scene.root, "A stack")
    done = scene.call("observatory", "anchor", "run", "--results", scene.results)
    assert done.code == 1, done
    (made,) = read(scene)
    assert {one.case for one in made.cases} == CASES
    assert {one.case: one.reason for one in made.missing} == dict.fromkeys(
        (f"{case}/two" for case in CASES), "the anchor lacks it"
    )


@pytest.mark.real
def test_a_shallow_clone_fetches_the_anchor(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.anchored("first")
    git(scene.root, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    origin = f"file://{scene.root}"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", origin, clone], check=True)
    monkeypatch.setenv("DUETBENCH_ROOT", str(clone))
    anchor = load_anchor(clone)
    assert git(clone, "rev-list", "--count", "--all") == "1"
    fetch_commit(clone, anchor.commit)
    assert git(clone, "cat-file", "-t", anchor.commit) == "commit"
