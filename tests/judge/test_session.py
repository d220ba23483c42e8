"""Whole comparisons: a script of what instruments give → findings, notes and exit code.

The instruments measure nothing and turn a clock. What a script gives both sides follows by
arithmetic: of threads that compute at once, of an import that is a part of a start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import pytest

from comparing import CPU, busy, lines
from duetbench.app.testbed import SideCase
from duetbench.core.comparison import FAILURE, Comparison, Coverage, Duet, Finding, Instructions
from duetbench.core.errors import FlagName, RecordError, UsageError
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.model import Case, Effects, Flag, Launch, RequestEffect, Verdict
from duetbench.core.text import endless
from duetbench.counts.counted import CASE_SECONDS, count_each
from duetbench.effects.difference import Seen
from duetbench.host import files, result_files
from duetbench.judge import repetition
from duetbench.judge.comparison import Extent, InterruptedComparison, Session
from duetbench.judge.duet_loop import Loop, Reporter, duet_seconds
from duetbench.judge.findings import exit_code, longer_budget
from duetbench.judge.instruments import by_turns
from duetbench.judge.pairs import Pair, Sides
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, SilentReporter, compared_by, make_duet, side
from synthetic import MACHINE, make_case, make_testbed, ok

pytestmark = pytest.mark.usefixtures("without_oha")

NAMES: Final = tuple(f"experiment/e{number}/py3.14/c{number}" for number in range(16))
ONE, TWO, *_ = NAMES
APART: Final = tuple(f"{kind}/e/py3.14" for kind in "abcd")
"""Cases that share no server."""

WORSE, BETTER = Verdict.WORSE, Verdict.BETTER
SAME, UNKNOWN = Verdict.SAME, Verdict.UNKNOWN
SHORT: Final = "the budget is too small to measure"


def verdicts(comparison: Comparison, subject: str = CPU) -> dict[str, Verdict]:
    found = (finding for finding in comparison.findings if finding.case)
    return {finding.case: finding.verdict for finding in found if finding.subject == subject}


def on(comparison: Comparison, case: str, subject: str) -> Finding:
    found = comparison.of(case, subject)
    assert found is not None, comparison.findings
    return found


def saved(folder: Path) -> Comparison:
    (path,) = (folder / "comparisons").iterdir()
    return Comparison.model_validate_json(path.read_bytes())


@pytest.mark.parametrize(
    ("script", "names", "how", "subject", "expected", "code", "note"),
    [
        ({}, NAMES[:4], {}, CPU, dict.fromkeys(NAMES[:4], SAME), 0, ""),
        ({"slower": {ONE: 0.03}}, NAMES[:3], {}, CPU,
         {**dict.fromkeys(NAMES[:3], SAME), ONE: WORSE}, 1, ""),
        ({"slower": {ONE: 0.03}}, NAMES[:1], {}, "throughput", {ONE: WORSE}, 1, ""),
        ({"slower": {ONE: -0.03}}, NAMES[:1], {}, CPU, {ONE: BETTER}, 0, ""),
        # What instructions cost is decided by duets; what cannot be counted has these all the same.
        ({"slower": {ONE: 0.25}}, NAMES[:2], {"seconds": 500.0}, INSTRUCTIONS,
         {ONE: Verdict.DIFFERENT, TWO: SAME}, 1, ""),
        ({"uncounted": "it hung"}, NAMES[:1], {}, INSTRUCTIONS, {ONE: UNKNOWN}, 0,
         f"{ONE}: instructions not counted: it hung"),
        # By hand: counts may begin in a third of a budget, and take 8 s.
        ({}, NAMES[:1], {"seconds": 23.0}, INSTRUCTIONS, {ONE: UNKNOWN}, 3, ""),
        # A budget without time for three duets, of 3.65 s each, is not spent.
        ({}, NAMES[:1], {"seconds": 5.0}, CPU, {ONE: UNKNOWN}, 3, f"{SHORT} anything"),
        # Whoever cannot be measured leaves the time to the others.
        ({"failing": frozenset(APART[:1])}, APART[:3], {"seconds": 120.0}, FAILURE,
         {APART[0]: WORSE}, 1, ""),
        ({"failing": frozenset(APART[:1]), "failure": endless("GET /x", 2, 3_000)}, APART[:3],
         {"seconds": 120.0}, FAILURE, {APART[0]: WORSE}, 1, ""),
        # Counts alone start no server; 2 % is a rise that somebody acts on.
        *(({"slower": {ONE: grown}}, NAMES[:2], {"seconds": 60.0, "only": "counts"}, INSTRUCTIONS,
           {ONE: verdict, TWO: SAME}, int(grown == 0.03), "")
          for grown, verdict in ((0.03, WORSE), (0.01, SAME), (0.0, SAME), (-0.03, BETTER))),
        ({"slower": {ONE: 0.03}}, NAMES[:1], {"only": "effects"}, CPU, {}, 3, ""),
    ],
)  # fmt: skip
def test_a_script_has_its_findings(
    script: dict[str, Any],
    names: Sequence[str],
    how: dict[str, Any],
    subject: str,
    expected: Mapping[str, Verdict],
    code: int,
    note: str,
    tmp_path: Path,
) -> None:
    fake, told = FakeInstruments(**script), SilentReporter()
    found = compared_by(
        fake, [busy(name) for name in names], tmp_path, reporter=told, **{"seconds": None, **how}
    )
    assert (verdicts(found, subject), exit_code(found)) == (expected, code)
    assert not note or note in told.notes
    # What holds for all.
    assert (found.status, found.planned, found.untouched) == ("complete", len(names), 2)
    assert (saved(tmp_path), told.ended) == (found, 1)
    assert {*found.notes} <= {*told.notes}
    assert found.wall_seconds <= 1.1 * (found.budget_seconds or 1e9)
    assert [duet.order for duet in told.duets] == list(range(len(fake.duet_log)))
    for name in names:  # sides are swapped
        first = [head_first for case, head_first in fake.duet_log if case == name]
        assert all(one != other for one, other in pairwise(first))
    if how.get("only"):
        assert (fake.duet_log, found.counts_only) == ([], True)
        assert {finding.subject for finding in found.findings} <= {INSTRUCTIONS}
    for case in found.cases:
        assert case.duets == () or len(case.duets) >= 3 or case.case.id in fake.failing
        if case.case.id in fake.failing:
            assert len(case.duets) == 1 + (fake.failure == "one after another")
            assert case.case.id not in verdicts(found)
    if ratio := on(found, ONE, subject).ratio if ONE in expected else None:
        finding, grown = on(found, ONE, subject), 1 + fake.slower.get(ONE, 0.0)
        truth = 1 / grown if subject == "throughput" else grown
        assert (finding.low or 9) <= truth <= (finding.high or 0), ratio
        assert (finding.base is None) == (subject == "throughput")  # two servers shared cores


@pytest.mark.parametrize(
    ("seconds", "slower"), [(90.0, 0.0), (90.0, 0.03), (300.0, 0.0), (1200.0, 0.03)]
)
def test_the_budget_is_kept(seconds: float, slower: float, tmp_path: Path) -> None:
    fake = FakeInstruments(slower=dict.fromkeys(NAMES, slower))
    found = compared_by(fake, [busy(name) for name in NAMES], tmp_path, seconds)
    assert found.wall_seconds <= 1.1 * seconds
    measured = {case.case.id for case in found.cases if case.duets}
    assert measured
    judged = verdicts(found)
    assert judged.keys() == set(NAMES)
    assert {judged[name] for name in judged.keys() - measured} <= {UNKNOWN}
    assert any(SHORT in note for note in found.notes) == (len(measured) < 16)


@pytest.mark.parametrize("uncounted", ["", "no Valgrind"])
def test_the_budget_that_is_advised_decides(uncounted: str, tmp_path: Path) -> None:
    def within(seconds: float) -> Comparison:
        return compared_by(FakeInstruments(uncounted=uncounted), [busy(ONE)], tmp_path, seconds)

    advised = longer_budget(within(5))
    assert advised == 60
    again = within(advised)
    assert len(again.cases[0].duets) >= 3
    assert bool(on(again, ONE, INSTRUCTIONS).ratio) == (not uncounted)
    assert longer_budget(again) is None


@pytest.mark.parametrize(("failing", "noted"), [(1, True), (2, False)])
def test_failures_of_all_cases_say_why_nothing_was_observed(
    failing: int, noted: bool, tmp_path: Path
) -> None:
    fake = FakeInstruments(failing=frozenset(NAMES[:failing]))
    seen = Seen(reasons={ONE: "GET /nothing: found 404"})
    found = compared_by(fake, [*map(busy, NAMES[:2])], tmp_path, None, seen=seen)
    assert any("404" in note for note in found.notes) == noted


def test_a_failure_is_told_once() -> None:
    said: list[str] = []
    told, flag = SilentReporter(), Flag(name=FlagName.WRONG_ANSWER, detail="GET /nothing: 404")
    told.say = said.append  # type: ignore[assignment, method-assign]
    for order in range(2):
        Reporter.report(told, make_duet("x/a", order, flags=(flag,)))
    assert said == ["pair 1 of x/a: void: head: GET /nothing: 404"]


def test_cases_of_one_server_share_its_launches(tmp_path: Path) -> None:
    """In an order that is drawn; who has failed ends the launch for those behind it."""
    ours, other = NAMES[:3], APART[0]
    fake = FakeInstruments(failing=frozenset({ours[0]}))
    found = compared_by(fake, [busy(name) for name in (*ours, other)], tmp_path, None)
    shared = [launch for launch in fake.together if ours[0] in launch]
    assert {frozenset(launch) for launch in shared} == {frozenset(ours)}
    assert all(launch == (other,) for launch in fake.together if other in launch)
    orders = {tuple(name for name in launch if name != ours[0]) for launch in fake.together}
    assert {ours[1:], ours[:0:-1]} <= orders
    behind = sum(len(launch) - launch.index(ours[0]) - 1 for launch in shared)
    count = sum(len(case.duets) for case in found.cases)
    assert count == sum(map(len, fake.together)) - behind


@pytest.mark.parametrize("full", [False, True])
def test_an_interruption_keeps_what_there_is(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full hides nothing of it."""

    def save(*_: object) -> Path:
        raise RecordError("the disk is full")

    if full:
        monkeypatch.setattr(result_files, "save_comparison", save)
    fake, told = FakeInstruments(slower=dict.fromkeys(NAMES[:2], 0.005), stop=8), SilentReporter()
    with pytest.raises(InterruptedComparison) as caught:
        compared_by(fake, [busy(name) for name in NAMES[:2]], tmp_path, None, told)
    assert caught.value.exit_code == 130
    partial = caught.value.comparison
    assert (partial.status, told.ended) == ("partial", 1)
    assert sum(len(case.duets) for case in partial.cases) == 6
    assert set(verdicts(partial).values()).isdisjoint((WORSE, BETTER))
    assert any("interrupted by SIGINT" in note for note in partial.notes)
    if full:
        assert told.notes[-1] == "not saved: the disk is full"
    else:
        assert partial == saved(tmp_path)


def test_nothing_to_judge_has_a_record_and_the_newest_records_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = side("base", ()), side("head", ())
    sides = Sides(*both, Path(), (), (), notes=("before",), untouched=24, empty_reason="only text")
    session = Session(sides, Extent(seconds=90.0), SilentReporter(), FakeInstruments())
    found = session.comparison("complete")
    assert (found.status, found.planned, found.untouched, found.cases) == ("complete", 0, 24, ())
    assert (found.notes, found.nothing, exit_code(found)) == (("before",), "only text", 0)
    monkeypatch.setattr(result_files, "MOST_COMPARISONS", 2)
    for day in (3, 1, 2):
        older = found.model_copy(update={"id": f"2026110{day}T000000Z-compare-x"})
        files.save(tmp_path, older)
    newest = found.model_copy(update={"id": "20261104T000000Z-compare-x"})
    result_files.save_comparison(newest, tmp_path)
    assert sorted(path.name[7] for path in (tmp_path / "comparisons").iterdir()) == ["3", "4"]


@pytest.mark.parametrize(
    ("names", "seconds", "counted"),
    [
        (("x/a/py3.14/granian", "x/a/py3.14/uvicorn", "x/b/py3.14", "x/a/py3.14t"), 1e9, (0, 2, 3)),
        (NAMES[:4], CASE_SECONDS - 1, ()),  # 8 s a case
    ],
)
def test_each_code_is_counted_once_while_there_is_time(
    names: Sequence[str], seconds: float, counted: Sequence[int]
) -> None:
    counter = FakeInstruments({"x/a/py3.14/granian": 0.03})
    sides = {name: (SideCase(busy(name), make_testbed()),) * 2 for name in names}
    outcomes: dict[str, Instructions | str] = {}
    count_each(counter.instructions, sides, outcomes, lambda: seconds, SilentReporter().note)
    assert counter.counted == [names[place] for place in counted]
    if counted:
        found = [cast("Instructions", outcomes[name]) for name in names]
        assert [one.head / one.base for one in found] == pytest.approx([1.03, 1.03, 1, 1])
    else:
        assert {*outcomes.values()} == {"there was no time to count it"}


SAME_CODE: Final = Coverage(differ=3, entered=0, alone=True)


@pytest.mark.parametrize(
    ("more", "counted"),
    [
        ({"coverage": SAME_CODE}, False),
        # Something else differs as well, or the counts were asked for.
        ({"coverage": SAME_CODE.model_copy(update={"entered": 1})}, True),
        ({"coverage": SAME_CODE.model_copy(update={"alone": False})}, True),
        ({"coverage": SAME_CODE, "only": "counts"}, True),
        ({"seen": Seen(endless={ONE: "it did not end within 9 s"})}, False),
    ],
)
def test_what_cannot_differ_or_does_not_end_is_not_counted(
    more: dict[str, Any], counted: bool, tmp_path: Path
) -> None:
    fake = FakeInstruments()
    found = compared_by(fake, [busy(ONE)], tmp_path, None, **more)
    assert bool(fake.counted) is counted
    assert verdicts(found, INSTRUCTIONS if "only" in more else CPU) == {ONE: SAME}
    count = found.of(ONE, INSTRUCTIONS)
    reason = more["seen"].endless[ONE] if "seen" in more else ""
    assert (count and count.why) == (reason if counted or reason else None)


@pytest.mark.parametrize(
    ("effects", "headline"),
    [
        (None, "? unknown: nothing was measured"),
        (Effects(), "= same: one request does the same on both sides"),
        (Effects(unseen=("calls of grpc",)), "= same: one request shows no difference"),
        (
            Effects(
                differ=(RequestEffect(kind="exception", text="KeyError", base=0.0, head=6.0),),
                totals={"exception": (0.0, 6.0)},
            ),
            f"≠ different: {ONE} raises 6 exceptions instead of 0",
        ),
    ],
)
def test_what_one_request_does_may_be_all_that_is_asked(
    effects: Effects | None, headline: str, tmp_path: Path
) -> None:
    seen = Seen(effects={ONE: effects} if effects else {})
    found = compared_by(FakeInstruments(), [busy(ONE)], tmp_path, None, only="effects", seen=seen)
    report = make_report(found)
    assert report.headline == headline
    assert "what one request does only, seen without a server" in report.lines


# Each side alone, by turns.

NEEDS: Final = 0.002
"""Core time of a request, s: of both sides alike."""
COMPUTES: Final = make_case("x/y").endpoint.model_copy(update={"floor": 0.0, "interface": "wsgi"})
SHARED: Final = make_case("one/a", cores="shared", endpoint=COMPUTES, workers=2, slots=None)
PLAIN: Final = make_case("one/a", cores="split", endpoint=COMPUTES, threads=1)
FEWER: Final = PLAIN.load.model_copy(update={"connections": 16})


@dataclass
class Machine(FakeInstruments):
    """`at_once` are the threads of each side that can compute at the same time."""

    uncounted: str = "not counted"
    at_once: dict[str, float] = field(default_factory=dict)

    def launch(self, part: SideCase) -> Launch:
        self.now += 5
        name = part.testbed.subject.root.name
        self.launches.append(name)
        cores = min(self.at_once[name], len(part.server_cores))
        throughput = cores / NEEDS * self.source.lognormvariate(0, 0.01)
        figures = {
            "throughput": throughput,
            "response_p50": 32 / throughput,
            CPU: NEEDS * self.source.lognormvariate(0, 0.01),
            "pss_steady": 5e7 * self.source.lognormvariate(0, 0.001),
        }
        return ok(part.case.id, 0, figures).model_copy(update={"seconds": 5.0})


def part(case: Case, name: str, cores: int) -> SideCase:
    own = tuple(range(cores))
    machine = MACHINE.model_copy(update={"server_cores": own, "client_cores": own})
    return SideCase(case, replace(side(name, (case,)).testbed, machine=machine))


@pytest.mark.parametrize(
    ("base", "head", "cores", "at_once", "ratio"),
    [
        # Threads compute on all cores, and head's share something: 0.7 of base.
        (SHARED, SHARED, 2, (2.0, 1.4), 0.7),
        (SHARED.model_copy(update={"slots": 2}), SHARED.model_copy(update={"slots": 2}), 2,
         (2.0, 1.4), 0.7),
        # One side computes in one thread at a time, the other in all that there are cores for.
        *((*[PLAIN.model_copy(update={"python": "3.14t", "workers": n, "threads": m})] * 2,
           cores, (1.0, float(n * m)), min(n * m, cores))
          for n, m, cores in ((1, 2, 2), (2, 1, 4), (4, 64, 2), (2, 2, 4))),
        # Unequal sides: of every figure both launches tell.
        (PLAIN, PLAIN.model_copy(update={"workers": 2}), 1, (0.4, 0.6), 1.5),
        (PLAIN, PLAIN.model_copy(update={"threads": 2}), 1, (0.4, 0.6), 1.5),
        (PLAIN, PLAIN.model_copy(update={"load": FEWER}), 1, (0.4, 0.6), 1.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("swapped", [False, True])
def test_what_a_duet_prevents_is_judged_from_launches_alone(
    base: Case,
    head: Case,
    cores: int,
    at_once: tuple[float, float],
    ratio: float,
    tmp_path: Path,
    *,
    swapped: bool,
) -> None:
    if swapped:
        base, head, at_once, ratio = head, base, at_once[::-1], 1 / ratio
    pairs = (Pair(part(base, "base", cores), part(head, "head", cores), "a choice"),)
    fake = Machine(at_once=dict(zip(("base", "head"), at_once, strict=True)))
    found = compared_by(fake, [head], tmp_path, 600, pairs=pairs)
    # In pairs next to each other, and the order swapped from pair to pair.
    turns = [*zip(fake.launches[::2], fake.launches[1::2], strict=True)]
    assert set(turns) == {("base", "head"), ("head", "base")}
    assert all(first != second for first, second in pairwise(turns))
    assert not fake.duet_log
    throughput = on(found, "one/a", "throughput")
    assert throughput.ratio == pytest.approx(ratio, rel=0.02)
    assert throughput.verdict is (BETTER if ratio > 1 else WORSE)
    assert on(found, "one/a", CPU).ratio == pytest.approx(1, abs=0.03)  # what it costs is the same
    assert {finding.alone for finding in found.findings if finding.ratio} == {True}
    # Between loads of other connections the latency is no mirror of the throughput.
    other = base.load.connections != head.load.connections
    assert (found.of("one/a", "response_p50") is not None) == other
    assert exit_code(found) == (0 if found.cross else int(ratio < 1))
    how = dict(lines(make_report(found), ""))["by turns"]
    assert how.endswith("each side alone, one right after the other")


@pytest.mark.parametrize(("seconds", "turns"), [(26, 2), (1, 0)])
def test_turns_that_are_too_few_are_not_called_duets(
    seconds: float, turns: int, tmp_path: Path
) -> None:
    """A turn takes 10 s."""
    why = "only 2 turns usable: at least 3 decide" if turns else "no time for a turn"
    fake = Machine(at_once={"base": 2.0, "head": 1.4})
    found = compared_by(fake, [SHARED], tmp_path, seconds)
    measured = [f for f in found.findings if f.subject != INSTRUCTIONS]
    assert {finding.why for finding in measured} == {why}
    assert "duet" not in str(make_report(found))
    assert (len(found.cases[0].duets), exit_code(found)) == (turns, 3)


@pytest.mark.parametrize(
    ("changes", "cores", "alone"),
    [
        ({}, 2, False),
        ({"workers": 2}, 2, True),
        ({"workers": 2}, 1, False),  # of one core both have the half
        ({"threads": 8}, 2, False),  # one computes at a time
        ({"threads": 8, "python": "3.14t"}, 2, True),
        ({"threads": 8, "python": "3.14t"}, 1, False),
        ({"workers": 2, "endpoint": COMPUTES.model_copy(update={"floor": 0.01})}, 2, False),
        ({"cores": "shared", "workers": 2, "slots": None}, 1, True),
        ({"cores": "shared", "workers": 2, "slots": 1}, 1, False),
    ],
)
def test_what_computes_at_once_on_several_cores_is_launched_alone(
    changes: dict[str, Any], cores: int, *, alone: bool
) -> None:
    case = make_case("one/a", endpoint=COMPUTES).model_copy(update=changes)
    one = part(case, "head", cores)
    assert Pair(one, one).alone is alone
    # Servers have threads of their own beside those of the application.
    other = part(case.model_copy(update={"server": "hypercorn"}), "base", cores)
    assert Pair(other, one).alone


def test_a_launch_alone_that_fails_leaves_no_figures() -> None:
    base, head = (ok("one/a", 0, {"throughput": rate, CPU: 0.003}) for rate in (200.0, 300.0))
    one = part(busy("one/a"), "head", 1)

    def turn(*launches: Launch) -> Duet:
        given = iter(launches[::-1])
        return by_turns(one, one, lambda _: next(given), head_first=True, order=3)

    found = turn(base, head)
    assert (found.base, found.head) == (base.metrics, head.metrics)
    assert (found.order, found.alone, found.usable) == (3, True, True)
    flag = Flag(name=FlagName.WRONG_ANSWER, detail="500")
    broken = turn(base, head.model_copy(update={"flags": (flag,), "metrics": {}}))
    assert (broken.base, broken.head, broken.failed) == ({}, {}, ("head",))
    assert Duet.model_validate(broken.model_dump()) == broken


def test_a_turn_takes_as_long_for_unequal_sides_as_for_a_case_that_scales() -> None:
    """Both are a launch and a load of each side, one after the other; a duet shares its launch."""
    plain = SHARED.model_copy(update={"cores": "split"})
    few = plain.model_copy(update={"workers": 1})
    turn, unequal, together = (
        Loop(FakeInstruments().duets, SilentReporter(), 1).seconds(
            Pair(part(base, "base", 1), part(head, "head", 1))
        )
        for base, head in ((SHARED, SHARED), (few, plain), (plain, plain))
    )
    assert turn == unequal == sum(duet_seconds(SHARED)) > together


# Starts.

IMPORT, REST, WAIT = 0.4, 0.3, 0.3
"""Of a start, s: core time of the import, that of everything else, and waiting."""

PARTS: Final = {"start_cpu": REST, "start_time": REST + WAIT, "import_time": 0.0}


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
            return duet.model_copy(update={"base": ours, "head": theirs, "alone": True})
        ours, theirs = ({"import_time": one["import_time"]} for one in (ours, theirs))
        return duet.model_copy(update={"base": duet.base | ours, "head": duet.head | theirs})

    def _figures(self, times: float) -> dict[str, float]:
        own, rest, wait = (
            seconds * self.source.lognormvariate(0, self.scatter)
            for seconds in (IMPORT * times, REST, WAIT)
        )
        return dict(zip(PARTS, (own + rest, own + rest + wait, own), strict=True))


def started(fake: Starting, folder: Path, cases: Sequence[str] = ("one/a",)) -> Comparison:
    """Compare starts, or plainly where the fake gives the import of duets."""
    return compared_by(fake, [*map(make_case, cases)], folder, 600, start=fake.alone)


@pytest.mark.parametrize("times", [4.0, 1.2, 1 / 1.2, 1 / 4])
def test_each_figure_of_a_start_moves_by_its_share_of_the_import(
    times: float, tmp_path: Path
) -> None:
    """Nobody acts on less than 10 % of it. Cases that share a server have one start."""
    found = started(Starting(times=times), tmp_path, ("one/a", "one/b"))
    (case,) = found.cases
    assert {finding.subject for finding in found.findings} == PARTS.keys()  # nothing was counted
    for name, rest in PARTS.items():
        one, truth = on(found, case.case.id, name), (IMPORT * times + rest) / (IMPORT + rest)
        acted_on = not 1 / 1.1 < (one.ratio or 1) < 1.1
        assert one.verdict is ((WORSE if times > 1 else BETTER) if acted_on else SAME)
        assert (one.low or 9) < truth < (one.high or 0)
        assert one.base == pytest.approx(IMPORT + rest, rel=0.05)
    assert exit_code(found) == int(times > 1)
    assert {duet.head_first for duet in case.duets[:2]} == {True, False}
    assert "CPU to import the application" in make_report(found).headline
    with pytest.raises(UsageError, match=r"found one of starts.*python -X importtime"):
        repetition.contrast_of(found)


def test_equal_starts_have_no_verdict_and_one_that_fails_has_no_figure(tmp_path: Path) -> None:
    for seed in range(20):
        fake = Starting()
        fake.source.seed(seed)
        found = started(fake, tmp_path)
        assert not any(one.moved for one in found.findings), seed
        assert exit_code(found) in {0, 3}
    found = started(Starting(failing=frozenset({"one/a"})), tmp_path)
    (one,) = found.findings
    assert (one.verdict, one.subject, len(found.cases[0].duets)) == (WORSE, FAILURE, 2)
    assert exit_code(found) == 1


@pytest.mark.parametrize(
    ("times", "scatter", "verdict"), [(1 / 4, 0.03, BETTER), (4.0, 0.03, WORSE), (1.0, 0.5, None)]
)
def test_requests_are_compared_and_the_import_is_told(
    times: float, scatter: float, verdict: Verdict | None, tmp_path: Path
) -> None:
    """It leads where it moved most, and where it scatters nobody measures longer for it."""
    without = started(Starting(alone=False), tmp_path)
    found = started(Starting(times=times, scatter=scatter, alone=False), tmp_path)
    one = found.of("one/a", "import_time")
    assert (one and one.verdict) is verdict
    if one:
        assert one.ratio == pytest.approx(times, rel=0.1)
        assert found.findings[0] == one
    else:
        assert exit_code(found) == exit_code(without)
    assert len(found.cases[0].duets) == len(without.cases[0].duets)
