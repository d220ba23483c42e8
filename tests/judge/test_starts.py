"""How long servers take to start: sizes known by construction, with the sides swapped.

An import that takes so many times as long is a part of a start, of which the rest stays: what each
figure must move by follows by arithmetic. Real servers prove that the figures are what they say.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from comparing import judged as judged_alone
from comparing import lines
from duetbench.app import tools
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.app.testbed import SideCase, Testbed, assemble
from duetbench.core.comparison import FAILURE, Comparison, Duet, Finding
from duetbench.core.errors import UsageError
from duetbench.core.model import Endpoint, Expectation, Load, Verdict
from duetbench.judge import comparison as comparisons
from duetbench.judge import repetition
from duetbench.judge.comparison import Extent, Question, starting
from duetbench.judge.findings import exit_code
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import CaseDuets, Mode, Pair, Sides
from duetbench.judge.repetition import rebuilt
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, SilentReporter, make_pairs, side
from observatory.matrix.checkout import Checkout
from repos import asgi, write
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
            update = {"base": ours, "head": theirs, "alone": True}
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
        Extent(seconds=600, start=fake.alone),
        reproduce="duetbench compare --start --budget 10m",
    )
    return comparisons.measure(question, SilentReporter(), fake, folder, lambda: fake.now)


def judged(found: Comparison) -> dict[str, Finding]:
    return {finding.subject: finding for finding in found.findings if finding.case == "one/a"}


@pytest.mark.parametrize("times", [4.0, 1.2, 1 / 1.2, 1 / 4])
def test_each_figure_moves_by_its_share_of_the_import(times: float, tmp_path: Path) -> None:
    """Nobody acts on less than 10 % of it. Cases that share a server have one start."""
    found = compared(Starting(times=times), tmp_path, ("one/a", "one/b"))
    parts = {"start_cpu": REST, "start_time": REST + WAIT, "import_time": 0.0}
    assert judged(found).keys() == parts.keys()
    for name, one in judged(found).items():
        truth = (IMPORT * times + parts[name]) / (IMPORT + parts[name])
        moved = Verdict.WORSE if times > 1 else Verdict.BETTER
        acted_on = abs(math.log(one.ratio or 1)) >= math.log(1.1)
        assert one.verdict is (moved if acted_on else Verdict.SAME)
        assert (one.low or 9) < truth < (one.high or 0)
        assert ((one.ratio or 1) - 1) / (truth - 1) == pytest.approx(1, abs=0.25)
        assert one.base == pytest.approx(IMPORT + parts[name], rel=0.05)
    assert exit_code(found) == (1 if times > 1 else 0)
    # Nothing is loaded, nothing counted, and each side is first as often as the other.
    (case,) = found.cases
    assert found.of(case.case.id, "instructions") is None
    assert {duet.head_first for duet in case.duets[:2]} == {True, False}
    assert found.start
    report = make_report(found)
    assert "CPU to import the application" in report.headline
    assert dict(lines(report, ""))["by turns"].endswith(
        "each side alone, one right after the other"
    )
    assert "--start" in (rebuilt(found) or "")


def test_requests_do_not_explain_a_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found one of starts.*python -X importtime"):
        repetition.contrast_of(compared(Starting(), tmp_path))


def test_the_same_on_both_sides_has_no_verdict(tmp_path: Path) -> None:
    """Of twenty comparisons at most one is wrong at the rate that is promised; here none moved."""
    for seed in range(20):
        fake = Starting()
        fake.source.seed(seed)
        found = compared(fake, tmp_path)
        assert not any(one.moved for one in judged(found).values()), seed
        assert exit_code(found) in {0, 3}


def test_a_side_that_does_not_start_has_no_figure(tmp_path: Path) -> None:
    found = compared(Starting(failing=frozenset({"one/a"})), tmp_path)
    (one,) = judged(found).values()
    assert (one.verdict, one.subject, len(found.cases[0].duets)) == (Verdict.WORSE, FAILURE, 2)
    assert exit_code(found) == 1


@pytest.mark.parametrize(
    ("times", "scatter", "verdict"),
    [(1 / 4, 0.03, Verdict.BETTER), (4.0, 0.03, Verdict.WORSE), (1.0, 0.5, None)],
)
def test_requests_are_compared_and_the_import_is_told(
    times: float, scatter: float, verdict: Verdict | None, tmp_path: Path
) -> None:
    """It leads where it moved most, and where it scatters nobody measures longer for it."""
    without = compared(Starting(alone=False), tmp_path)
    found = compared(Starting(times=times, scatter=scatter, alone=False), tmp_path)
    one = judged(found).get("import_time")
    assert (one and one.verdict) is verdict
    if one:
        assert one.ratio == pytest.approx(times, rel=0.1)
        assert one.base == pytest.approx(IMPORT, rel=0.05)
        assert found.findings[0] == one
    else:
        assert exit_code(found) == exit_code(without)
    assert len(found.cases[0].duets) == len(without.cases[0].duets)


APP: Final = """\
import time

began = time.process_time()
while time.process_time() - began < {burn}:
    pass
time.sleep({wait})
{more}
"""


def served(folder: Path, logs: Path, burn: float, wait: float, more: str = "") -> SideCase:
    """An application whose import computes for `burn` s, and then waits."""
    write(folder, "main.py", asgi(APP.format(burn=burn, wait=wait, more=more), 'body = b"ok"'))
    expect = Expectation(status=200, text="ok")
    endpoint = Endpoint(
        name="get", app="main:app", interface="asgi", path="/", expect=expect, floor=0
    )
    load = Load(connections=4, duration=1, timeout=10)
    case = make_case("app/get/py3.14/c4", endpoint=endpoint, load=load, slots=None)
    ours, target = Checkout.here(), Target(app="main:app")
    testbed: Testbed = assemble(
        Subject(folder, target=target, search=(".",)), [case], logs,
        generator=tools.find_oha(ours.configuration.oha), lock=ours.lock,
        interpreter=ours.interpreter,
    )  # fmt: skip
    return SideCase(case, testbed)


@pytest.mark.real
def test_a_start_has_what_its_import_takes(state_home: Path, tmp_path: Path) -> None:
    """0.2 s of core time against 0.6, with 0.3 s of waiting and 30 MB; and one that fails."""
    logs = tmp_path / "logs"
    quick = served(tmp_path / "quick", logs, 0.2, 0.0)
    slow = served(tmp_path / "slow", logs, 0.6, 0.3, "KEPT = b'x' * 30_000_000")
    broken = served(tmp_path / "broken", logs, 0.0, 0.0, "raise RuntimeError('no such table')")

    def pair(base: SideCase, head: SideCase, *, head_first: bool) -> Duet:
        (found,) = Real().duets([Pair(base, head, start=True)], head_first=head_first, order=0)
        return found

    starts = [CaseDuets(slow.case, Mode.START) for _ in range(2)]
    for head_first in (False, True, False):
        found = pair(quick, slow, head_first=head_first)
        assert (found.failed, found.alone) == ((), True), found
        assert {*found.head} == {"import_time", "pss_start", "start_cpu", "start_time"}
        few, many = found.base, found.head
        starts[0].add(found)
        starts[1].add(found.model_copy(update={"base": many, "head": few}))
        assert many["import_time"] / few["import_time"] == pytest.approx(3, rel=0.25)
        assert many["start_cpu"] - few["start_cpu"] == pytest.approx(0.4, rel=0.5)
        assert many["start_cpu"] > many["import_time"] >= 0.6
        assert many["start_time"] >= 0.6 + 0.3
        assert many["start_time"] > few["start_time"]
        assert many["pss_start"] - few["pss_start"] == pytest.approx(30e6, rel=0.2)
    for duets, verdict in zip(starts, (Verdict.WORSE, Verdict.BETTER), strict=True):
        for subject in ("import_time", "pss_start"):
            assert judged_alone(duets)[subject].verdict is verdict
    found = pair(quick, broken, head_first=False)
    (words,) = found.failures("head")
    assert (found.base, found.head, found.failed) == ({}, {}, ("head",))
    assert "RuntimeError: no such table" in words
    assert not list((state_home / "duetbench" / "sessions").glob("*.json"))
