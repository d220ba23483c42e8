"""How long servers take to start: sizes known by construction, with the sides swapped.

An import that takes so many times as long is a part of a start, of which the rest stays: what each
figure must move by follows by arithmetic. Real servers prove that the figures are what they say.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import rich.console

from comparing import lines
from duetbench.core.model import Case, Endpoint, Expectation, Load, LoadModel, Verdict
from duetbench.judge import live, session
from duetbench.judge.comparison import starting
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Starts
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.repetition import command, rebuilt
from duetbench.judge.rule import judge
from duetbench.judge.samples import CaseDuets, Mode
from duetbench.judge.session import Question
from duetbench.judge.why import attribute
from duetbench.measure import start
from duetbench.measure.assembly import assemble
from duetbench.measure.testbed import SideCase, Testbed
from duetbench.project import tools
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.project import Project
from duetbench.project.target import Target
from duetbench.show.change import AttributionText
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from duetbench.store.attribution import APPLICATION
from duetbench.store.comparison import Comparison, Duet, Judgement
from duetbench.store.files import Journal
from fake_sessions import FakeInstruments, SilentReporter, make_pairs, side
from observatory.trend.anchored import Head, Precision, run_duets
from synthetic import make_case

IMPORT, REST, WAIT = 0.4, 0.3, 0.3
"""Of a start, s: core time of the import, that of everything else, and waiting."""

NAMES: Final = ("start_cpu", "start_time", "import_time")


@dataclass
class Starting(FakeInstruments):
    """Head's import takes so many times as long as base's; figures scatter by so much."""

    times: float = 1.0
    scatter: float = 0.03
    alone: bool = True

    def _duet(self, name: str, head_first: bool, order: int) -> Duet:
        duet = super()._duet(name, head_first, order)
        if duet.failed:
            return duet
        ours, theirs = self._figures(1.0), self._figures(self.times)
        if self.alone:
            update = {"base": ours, "head": theirs, "alone": tuple(sorted(ours))}
            return duet.model_copy(update=update)
        ours, theirs = ({"import_time": one["import_time"]} for one in (ours, theirs))
        return duet.model_copy(update={"base": duet.base | ours, "head": duet.head | theirs})

    def _figures(self, times: float) -> dict[str, float]:
        own, rest, wait = (
            seconds * self.source.lognormvariate(0, self.scatter)
            for seconds in (IMPORT * times, REST, WAIT)
        )
        return dict(zip(NAMES, (own + rest, own + rest + wait, own), strict=True))


def compared(fake: Starting, folder: Path, cases: Sequence[str] = ("one/a",)) -> Comparison:
    """Compare starts, or plainly where the fake gives the import of duets."""
    made = tuple(make_case(name) for name in cases)
    base, head = (side(name, made) for name in ("base", "head"))
    pairs = make_pairs(base, head, "a package")
    sides = Sides(base, head, folder, starting(pairs) if fake.alone else pairs, ())
    question = Question(
        sides,
        seconds=600,
        start=fake.alone,
        reproduce=("duetbench compare a b --start --profile quick --budget 10m",),
    )
    return session.compare(question, SilentReporter(), fake, folder, lambda: fake.now)


def judged(found: Comparison) -> dict[str, Judgement]:
    return {one.metric: one for one in found.cases[0].judgements}


def test_the_first_screen_names_what_one_side_imports(tmp_path: Path) -> None:
    note = "at its start, head imports slow_module (0.41 s), unlike base"
    found = compared(Starting(times=4.0), tmp_path).model_copy(update={"notes": (note, "other")})
    assert make_view(found).answer.causes == (note,)


@pytest.mark.parametrize("times", [4.0, 1.2, 1 / 1.2, 1 / 4])
def test_each_figure_moves_by_its_share_of_the_import(times: float, tmp_path: Path) -> None:
    found = compared(Starting(times=times), tmp_path)
    truths = (
        (IMPORT * times + REST) / (IMPORT + REST),
        (IMPORT * times + REST + WAIT) / (IMPORT + REST + WAIT),
        times,
    )
    assert list(judged(found)) == list(NAMES)
    for one, truth in zip(judged(found).values(), truths, strict=True):
        assert one.verdict is (Verdict.SLOWER if times > 1 else Verdict.FASTER)
        assert one.ratio is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low < truth < one.high
        assert (one.ratio - 1) / (truth - 1) == pytest.approx(1, abs=0.25)
    assert exit_code(found) == (1 if times > 1 else 0)
    # Nothing is loaded, nothing counted, and each side is first as often as the other.
    assert not found.cases[0].instructions
    assert {duet.head_first for duet in found.cases[0].duets[:2]} == {True, False}
    assert found.start


def test_the_same_on_both_sides_has_no_verdict(tmp_path: Path) -> None:
    """Of twenty comparisons at most one is wrong at the rate that is promised; here none moved."""
    for seed in range(20):
        fake = Starting()
        fake.source.seed(seed)
        found = compared(fake, tmp_path)
        assert not any(one.moved for one in judged(found).values()), seed
        assert exit_code(found) in {0, 3}


def test_reports_say_what_starts(tmp_path: Path) -> None:
    """And are repeated by the same words; cases that share a server have one start."""
    found = compared(Starting(times=1 / 4), tmp_path, ("one/a", "one/b"))
    view = make_view(found)
    assert view.headline.startswith("▲ faster: ")
    assert "% less CPU to import the application" in view.headline
    text = " ".join(text for _, text in lines(view, ""))
    assert "each side's server alone, one right after the other" in text
    figures = {row.metric: row.figures for row in view.rows}
    assert re.fullmatch(r"(39|40)\d ms → (9|10)\d+\.?\d* ms", figures["import_time"])
    assert {row.interval for row in view.rows if row.metric == "import_time"} != {""}
    assert command(found.base, found.head, ("--start",)) is not None
    assert "--start" in (rebuilt(found) or "")


def test_a_side_that_does_not_start_has_no_figure(tmp_path: Path) -> None:
    found = compared(Starting(failing=frozenset({"one/a"})), tmp_path)
    (one,) = judged(found).values()
    assert (one.verdict, one.metric, len(found.cases[0].duets)) == (
        Verdict.NOT_COMPARABLE, "start_cpu", 2,
    )  # fmt: skip
    assert exit_code(found) == 1


@pytest.mark.parametrize(("times", "scatter"), [(1 / 4, 0.03), (4.0, 0.03), (1.0, 0.5)])
def test_requests_are_compared_and_the_import_is_told(
    times: float, scatter: float, tmp_path: Path
) -> None:
    """It leads where it moved most, and where it scatters nobody measures longer for it."""
    without = compared(Starting(alone=False), tmp_path)
    found = compared(Starting(times=times, scatter=scatter, alone=False), tmp_path)
    one = judged(found)["import_time"]
    rows = [row for row in make_view(found).rows if row.metric == "import_time"]
    if times == 1:  # with ±50 % and more it has no row
        assert (one.verdict, rows, exit_code(found)) == (
            Verdict.INCONCLUSIVE, [], exit_code(without),
        )  # fmt: skip
    else:
        (row,) = rows
        assert one.verdict is (Verdict.SLOWER if times > 1 else Verdict.FASTER)
        assert one.ratio == pytest.approx(times, rel=0.1)
        assert "the application" in make_view(found).headline
        assert row.figures
    assert len(found.cases[0].duets) == len(without.cases[0].duets)


BUSY: Final = """
def busy(seconds=0.008):
    ends = time.process_time() + seconds
    while time.process_time() < ends: pass
for _ in range({}): busy()
{}
"""
"""Core time, not steps: a core that others use too takes half as long again for the same steps."""
LATE: Final = """
import time
def late():
    ends = time.process_time() + 0.08
    while time.process_time() < ends: pass
late()
"""

APP: Final = """\
import time

began = time.process_time()
while time.process_time() - began < {burn}:
    pass
time.sleep({wait})
{more}

async def app(scope, receive, send):
    assert scope["type"] == "http"
    headers = [(b"content-length", b"2")]
    await send({{"type": "http.response.start", "status": 200, "headers": headers}})
    await send({{"type": "http.response.body", "body": b"ok"}})
"""


def served(folder: Path, logs: Path, burn: float, wait: float, more: str = "") -> SideCase:
    """An application whose import computes for `burn` s, and then waits."""
    folder.mkdir()
    (folder / "main.py").write_text(APP.format(burn=burn, wait=wait, more=more))
    case = Case(
        id="app/get/py3.14/c4", experiment="app",
        endpoint=Endpoint(
            name="get", app="main:app", interface="asgi", path="/",
            expect=Expectation(status=200, text="ok"), floor=0,
        ),
        python="3.14", stack="current", server="uvicorn", loop="asyncio", workers=1,
        load=Load(model=LoadModel.CLOSED, connections=4, duration=1, timeout=10), cores="split",
    )  # fmt: skip
    ours, target = Project.here(), Target(app="main:app")
    testbed: Testbed = assemble(
        DeployedTarget(folder, target, folder, {}, (".",), "", {}), [case], logs,
        generator=tools.find_oha(ours.configuration.oha), lock=ours.lock,
        interpreter=ours.interpreter,
    )  # fmt: skip
    return SideCase(case, testbed)


@pytest.mark.real
def test_a_start_has_what_its_import_takes(state_home: Path, tmp_path: Path) -> None:
    """0.2 s of core time against 0.6, with 0.3 s of waiting, both ways; and one that fails."""
    logs = tmp_path / "logs"
    quick = served(tmp_path / "quick", logs, 0.2, 0.0)
    slow = served(tmp_path / "slow", logs, 0.6, 0.3)
    broken = served(tmp_path / "broken", logs, 0.0, 0.0, "raise RuntimeError('no such table')")

    def pair(base: SideCase, head: SideCase, *, head_first: bool) -> Duet:
        def log(name: str) -> Path:
            return logs / f"{name}.log"

        return start.perform(base, head, log, head_first=head_first, order=3)

    starts = [CaseDuets(slow.case, Mode.START) for _ in range(2)]
    for head_first in (False, True, False):
        found = pair(quick, slow, head_first=head_first)
        assert (found.failed, found.order, found.alone) == ((), 3, tuple(sorted(NAMES))), found
        few, many = found.base, found.head
        starts[0].add(found)
        starts[1].add(found.model_copy(update={"base": many, "head": few}))
        assert many["import_time"] / few["import_time"] == pytest.approx(3, rel=0.25)
        assert many["start_cpu"] - few["start_cpu"] == pytest.approx(0.4, rel=0.5)
        assert many["start_cpu"] > many["import_time"] >= 0.6
        assert many["start_time"] >= 0.6 + 0.3
        assert many["start_time"] > few["start_time"]
    for duets, verdict in zip(starts, (Verdict.SLOWER, Verdict.FASTER), strict=True):
        judged = {one.metric: one.verdict for one in judge({"app": duets})["app"]}
        assert judged["import_time"] is verdict
    pairs = []
    for name in ("one", "two"):
        one = slow.case.model_copy(update={"id": name})
        pairs.append(Pair(replace(quick, case=one), replace(slow, case=one), start=True))
    head = Head("slow", side("slow", (one,)), Journal(tmp_path / "slow.jsonl"), pairs)
    quietly = Reporter(rich.console.Console(quiet=True))
    run_duets([head], Starts(logs), quietly, precision=Precision(least=2, most=2), seed=1)
    points, lost = head.points()
    assert ([case.case for case in points], lost) == (["one", "two"], ())
    for case in points:  # against an anchor, each case has starts of its own
        ratios = {point.metric: point.ratio for point in case.points}
        assert ratios["import_time"] == pytest.approx(3, rel=0.25)
        assert {*ratios} == {*NAMES}
    found = pair(quick, broken, head_first=False)
    (words,) = found.failures("head")
    assert (found.base, found.head, found.failed) == ({}, {}, ("head",))
    assert words.startswith("not_ready: ")
    assert "RuntimeError: no such table" in words
    assert not list((state_home / "duetbench" / "sessions").glob("*.json"))


@pytest.mark.real
@pytest.mark.usefixtures("state_home")
def test_the_function_and_the_module_that_a_start_has_more_of_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the change is a function that loops more, two thirds a module that came."""
    for number in ("STARTS", "IMPORTS"):
        monkeypatch.setattr(attribute, number, (3, 3))
    monkeypatch.setattr(attribute, "IMPORT_SECONDS", 0.0)  # Valgrind would take a minute
    sides = (
        served(tmp_path / "base", tmp_path / "logs", 0.0, 0.0, BUSY.format(2, "")),
        served(
            tmp_path / "head", tmp_path / "logs", 0.0, 0.0, BUSY.format(7, "import slow_module")
        ),
    )
    (tmp_path / "head" / "slow_module.py").write_text(LATE)
    found = attribute.attribute(*attribute.imports(sides))
    pairs = [Pair(*order, start=True) for order in (sides, sides[::-1], sides[:1] * 2)]
    (came,), (went,), none = (live.imports([pair]) for pair in pairs)
    figure = r"\(\d[\d.]* m?s\)"
    assert re.fullmatch(f"at its start, head imports slow_module {figure}, unlike base", came)
    assert re.fullmatch(f"at its start, base imports slow_module {figure}, unlike head", went)
    assert none == ()
    first, second = found.rows[:2]
    functions = [(row.function.name, row.function.file, row.state) for row in (first, second)]
    assert functions == [
        ("<module>", "slow_module.py", "came"),
        ("busy", "main.py", "both"),
    ]
    assert first.share == pytest.approx(2 / 3, abs=0.15)
    assert second.share == pytest.approx(1 / 3, abs=0.15)
    assert second.entries == (2, 7)
    assert {row.function.package for row in (first, second)} == {APPLICATION}
    assert (found.totals, found.unit, found.runs) == (None, "seconds", 3)
    text = AttributionText(found)
    assert text.headline.startswith("the import of main:app takes ")
    assert text.cause.startswith("The first row has ")
