"""A whole comparison, with instruments that measure nothing and a clock that they turn."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from comparing import CPU, busy
from duetbench.app.testbed import SideCase, Testbed
from duetbench.core.comparison import FAILURE, Comparison, Coverage, Duet, Finding, Instructions
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.model import Case, Effects, Flag, RequestEffect, Verdict
from duetbench.core.text import endless
from duetbench.counts.counted import CASE_SECONDS, count_each
from duetbench.effects.difference import Seen
from duetbench.host import files, result_files
from duetbench.host.console import duration
from duetbench.judge import comparison as comparisons
from duetbench.judge.comparison import Extent, Question
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.findings import exit_code, longer_budget
from duetbench.judge.pairs import Sides
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, SilentReporter, compared_by, make_duet, side

pytestmark = pytest.mark.usefixtures("without_oha")

NAMES: Final = tuple(f"experiment/e{number}/py3.14/c{number}" for number in range(16))
ONE: Final = NAMES[0]
Compare = Callable[..., Comparison]


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    def do(
        fake: FakeInstruments,
        names: tuple[str, ...],
        seconds: float | None = None,
        told: SilentReporter | None = None,
        **more: Any,
    ) -> Comparison:
        return compared_by(fake, [busy(n) for n in names], tmp_path, seconds, told, **more)

    return do


def saved(folder: Path) -> Comparison:
    (path,) = (folder / "comparisons").iterdir()
    return Comparison.model_validate_json(path.read_bytes())


def verdicts(comparison: Comparison, subject: str = CPU) -> dict[str, Verdict]:
    found = (finding for finding in comparison.findings if finding.case)
    return {finding.case: finding.verdict for finding in found if finding.subject == subject}


def on(comparison: Comparison, case: str, subject: str) -> Finding:
    found = comparison.of(case, subject)
    assert found is not None, comparison.findings
    return found


def test_nothing_changed(compare: Compare, tmp_path: Path) -> None:
    fake, told, four = FakeInstruments(), SilentReporter(), NAMES[:4]
    found = compare(fake, four, told=told)
    assert found.status == "complete"
    assert verdicts(found) == dict.fromkeys(four, Verdict.SAME)
    assert (found.planned, found.untouched, len(found.cases)) == (4, 2, 4)
    assert not fake.launches
    assert saved(tmp_path) == found
    assert told.ended == 1
    assert [duet.order for duet in told.duets] == list(range(len(fake.duet_log)))
    for name in four:  # sides are swapped
        first = [head_first for case, head_first in fake.duet_log if case == name]
        assert all(one != other for one, other in pairwise(first))


def test_one_case_is_slower(compare: Compare) -> None:
    slow, *others = every = NAMES[:3]
    fake = FakeInstruments(slower={slow: 0.03})
    found = compare(fake, every)
    assert verdicts(found) == {slow: Verdict.WORSE, **dict.fromkeys(others, Verdict.SAME)}
    cpu, throughput = (on(found, slow, metric) for metric in (CPU, "throughput"))
    assert (cpu.low or 9) < 1.03 < (cpu.high or 0)
    (case, *_) = found.cases
    assert cpu.n == len(case.duets)
    assert cpu.base == pytest.approx(fmean(duet.base[CPU] for duet in case.duets), rel=1e-3)
    assert throughput.verdict is Verdict.WORSE
    assert throughput.base is None  # two servers shared their cores
    assert on(found, slow, INSTRUCTIONS).ratio == pytest.approx(1.03)
    assert fake.counted == [*every]


@pytest.mark.parametrize(
    ("seconds", "slower"), [(90.0, 0.0), (90.0, 0.03), (300.0, 0.0), (1200.0, 0.03)]
)
def test_the_budget_is_kept(compare: Compare, seconds: float, slower: float) -> None:
    found = compare(FakeInstruments(slower=dict.fromkeys(NAMES, slower)), NAMES, seconds)
    assert found.wall_seconds <= 1.1 * seconds
    assert len(found.cases) == 16
    measured = {case.case.id for case in found.cases if case.duets}
    assert measured
    judged = verdicts(found)
    assert judged.keys() == set(NAMES)
    assert {judged[name] for name in judged.keys() - measured} <= {Verdict.UNKNOWN}
    if len(measured) < 16:
        assert any("the budget is too small" in note for note in found.notes)


def test_counts_take_a_third_of_a_short_budget(compare: Compare) -> None:
    """One endpoint may take 8 s to count."""
    uncounted = on(compare(FakeInstruments(), (ONE,), 23.0), ONE, INSTRUCTIONS)
    assert (uncounted.verdict, uncounted.ratio) == (Verdict.UNKNOWN, None)
    found = compare(FakeInstruments(slower={ONE: 0.03}), (ONE,), 24.0)
    assert on(found, ONE, INSTRUCTIONS).ratio == pytest.approx(1.03)
    assert found.wall_seconds <= 1.1 * 24


def test_no_time_is_negative() -> None:
    assert [duration(time) for time in (-12, -0.4, 47.6)] == ["0 s", "0 s", "48 s"]


@pytest.mark.parametrize("uncounted", ["", "no Valgrind"])
def test_a_budget_without_time_for_three_duets_is_not_spent_and_the_advised_one_does(
    tmp_path: Path, uncounted: str
) -> None:
    """By hand: a duet takes 3.65 s, a count 15 s."""

    def played(seconds: float) -> Comparison:
        fake = FakeInstruments(uncounted=uncounted)
        return compared_by(fake, [busy(ONE)], tmp_path, seconds)

    found = played(5)
    assert found.notes[-1] == "the budget is too small to measure anything"
    assert (found.wall_seconds, exit_code(found)) == (0, 3)
    advised = longer_budget(found)
    assert advised == 60
    again = played(advised)
    assert len(again.cases[0].duets) >= 3
    assert again.wall_seconds <= 1.1 * advised
    assert bool(on(again, ONE, INSTRUCTIONS).ratio) == (not uncounted)


@pytest.mark.parametrize(
    ("failure", "duets"), [("one after another", 2), (endless("GET /x", 2, 3_000), 1)]
)
def test_a_case_that_cannot_be_measured_leaves_its_time_to_the_others(
    compare: Compare, failure: str, duets: int
) -> None:
    """Counts leave time for the first look of one case; the first one fails at once."""
    void, *others = (f"{kind}/e/py3.14" for kind in "abc")
    fake = FakeInstruments(failing=frozenset({void}), failure=failure)
    found = compare(fake, (void, *others), 120.0)
    assert verdicts(found, FAILURE) == {void: Verdict.WORSE}
    assert void not in verdicts(found)
    played = {case.case.id: len(case.duets) for case in found.cases}
    assert played[void] == duets
    assert max(played[name] for name in others) >= 3
    assert found.wall_seconds <= 1.1 * 120.0


class Waiting(FakeInstruments):
    """Instruments whose duets wait for a time limit."""

    def draw(self, name: str, order: int, head_first: bool, source: random.Random) -> Duet:  # noqa: ARG002
        self.now += 40
        flag = Flag(name=FlagName.IMPOSSIBLE, detail=self.failure)
        return make_duet(name, order, head_first=head_first, flags=(flag,))


def test_no_longer_budget_is_advised_where_the_only_duet_failed(compare: Compare) -> None:
    found = compare(Waiting(uncounted="no Valgrind"), (ONE,), 40.0)
    assert len(found.cases[0].duets) == 1
    assert longer_budget(found) is None


@pytest.mark.parametrize(("failing", "noted"), [(1, True), (2, False)])
def test_failures_of_all_cases_say_why_nothing_was_observed(
    compare: Compare, failing: int, noted: bool
) -> None:
    both, told = NAMES[:2], SilentReporter()
    fake = FakeInstruments(failing=frozenset(both[:failing]))
    seen = Seen(reasons={ONE: "GET /nothing: found 404"})
    found = compare(fake, both, None, told, seen=seen)
    assert [any("404" in note for note in one.notes) for one in (found, told)] == [noted] * 2


def test_a_failure_is_told_once() -> None:
    said: list[str] = []
    told, flag = SilentReporter(), Flag(name=FlagName.WRONG_ANSWER, detail="GET /nothing: 404")
    told.say = said.append  # type: ignore[assignment, method-assign]
    for order in range(2):
        Reporter.report(told, make_duet("x/a", order, flags=(flag,)))
    assert said == ["pair 1 of x/a: void: head: GET /nothing: 404"]


def test_cases_of_one_server_share_its_launches(compare: Compare) -> None:
    """In an order that is drawn; who has failed ends the launch for those behind it."""
    ours, other = NAMES[:3], "another/e/py3.14"
    fake = FakeInstruments(failing=frozenset({ours[0]}))
    found = compare(fake, (*ours, other))
    shared = [launch for launch in fake.together if ours[0] in launch]
    assert {frozenset(launch) for launch in shared} == {frozenset(ours)}
    assert all(launch == (other,) for launch in fake.together if other in launch)
    orders = {tuple(name for name in launch if name != ours[0]) for launch in fake.together}
    assert {ours[1:], ours[:0:-1]} <= orders
    assert verdicts(found) == dict.fromkeys((*ours[1:], other), Verdict.SAME)
    behind = sum(len(launch) - launch.index(ours[0]) - 1 for launch in shared)
    played = sum(len(case.duets) for case in found.cases)
    assert played == sum(map(len, fake.together)) - behind


def test_an_interruption_keeps_what_there_is(compare: Compare, tmp_path: Path) -> None:
    fake = FakeInstruments(slower=dict.fromkeys(NAMES[:2], 0.005), stop=8)
    told = SilentReporter()
    with pytest.raises(comparisons.InterruptedComparison) as caught:
        compare(fake, NAMES[:2], told=told)
    assert caught.value.exit_code == 130
    partial = caught.value.comparison
    assert partial.status == "partial"
    assert partial == saved(tmp_path)
    assert sum(len(case.duets) for case in partial.cases) == 6
    assert set(verdicts(partial).values()).isdisjoint((Verdict.WORSE, Verdict.BETTER))
    assert any("interrupted by SIGINT" in note for note in partial.notes)
    assert told.ended == 1


def test_a_full_disk_hides_nothing_of_an_interrupted_one(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_: object) -> Path:
        raise RecordError("the disk is full")

    monkeypatch.setattr(result_files, "save_comparison", save)
    told = SilentReporter()
    with pytest.raises(comparisons.InterruptedComparison) as caught:
        compare(FakeInstruments(stop=4), (ONE,), told=told)
    assert caught.value.comparison.cases[0].duets
    assert told.notes[-1] == "not saved: the disk is full"


def test_nothing_to_judge_has_a_record_and_the_newest_records_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = side("base", ()), side("head", ())
    sides = Sides(
        *both, Path(), (), (), notes=("before",), untouched=24, empty_reason="only documents differ"
    )
    found = Question(sides, Extent(seconds=90.0)).nothing()
    assert (found.status, found.planned, found.untouched, found.cases) == ("complete", 0, 24, ())
    assert (found.notes, found.nothing) == (("before",), "only documents differ")
    monkeypatch.setattr(result_files, "MOST_COMPARISONS", 2)
    for day in (3, 1, 2):
        older = found.model_copy(update={"id": f"2026110{day}T000000Z-compare-x"})
        files.save(tmp_path, older)
    newest = found.model_copy(update={"id": "20261104T000000Z-compare-x"})
    result_files.save_comparison(newest, tmp_path)
    assert sorted(path.name[7] for path in (tmp_path / "comparisons").iterdir()) == ["3", "4"]


def counted(
    cases: Sequence[Case], counter: FakeInstruments, seconds: float = 1e9
) -> dict[str, Instructions | str]:
    testbed = cast(Testbed, SimpleNamespace(interpreters={}))
    sides = {case.id: (SideCase(case, testbed),) * 2 for case in cases}
    outcomes: dict[str, Instructions | str] = {}
    count_each(counter.instructions, sides, outcomes, lambda: seconds, SilentReporter().note)
    return outcomes


def test_each_code_is_counted_once() -> None:
    granian, uvicorn = busy("x/a/py3.14/granian"), busy("x/a/py3.14/uvicorn")
    other, threaded = busy("x/b/py3.14"), busy("x/a/py3.14t")
    counter = FakeInstruments({"x/a/py3.14/granian": 0.03})
    counts = counted([granian, uvicorn, other, threaded], counter)
    assert counter.counted == ["x/a/py3.14/granian", "x/b/py3.14", "x/a/py3.14t"]
    assert counts[uvicorn.id] == counts[granian.id]
    found = [cast("Instructions", counts[one.id]) for one in (granian, uvicorn, other, threaded)]
    assert [one.head / one.base for one in found] == pytest.approx([1.03, 1.03, 1, 1])


def test_a_request_that_is_not_answered_in_time_is_not_counted(compare: Compare) -> None:
    fake, reason = FakeInstruments(), "it did not end within 9 s"
    found = compare(fake, (ONE,), seen=Seen(reasons={ONE: reason}, endless={ONE}))
    assert (fake.counted, on(found, ONE, INSTRUCTIONS).why) == ([], reason)


@pytest.mark.parametrize(
    ("entered", "alone", "only", "counted"),
    [(0, True, "", []), (1, True, "", [ONE]), (0, False, "", [ONE]), (0, True, "counts", [ONE])],
)
def test_requests_that_run_the_same_code_are_not_counted(
    compare: Compare, entered: int, alone: bool, only: str, counted: list[str]
) -> None:
    """Unless something else differs as well, or the counts were asked for."""
    fake, reach = FakeInstruments(), Coverage(differ=3, entered=entered, alone=alone)
    found = compare(fake, (ONE,), coverage=reach, only=only)
    assert fake.counted == counted
    assert verdicts(found, INSTRUCTIONS if only else CPU) == {ONE: Verdict.SAME}
    assert (found.of(ONE, INSTRUCTIONS) is None) == (not counted)


def test_what_would_take_too_long_is_not_counted() -> None:
    """8 s a case."""
    counter = FakeInstruments()
    late = counted([busy(name) for name in NAMES[:4]], counter, CASE_SECONDS - 1)
    assert counter.counted == []
    assert late[ONE] == "there was no time to count it"


def test_all_is_counted_before_any_duet(compare: Compare) -> None:
    """What cannot be counted says why, and has duets all the same."""
    same, grown, other, blind = every = tuple(f"{kind}/e/py3.14" for kind in "abcd")
    told = SilentReporter()

    class Blind(FakeInstruments):
        def instructions(
            self, sides: tuple[SideCase, SideCase], limit: float, ends: float
        ) -> Instructions | str:
            assert not self.duet_log
            counts = super().instructions(sides, limit, ends)
            return "it hung" if sides[1].case.id == blind else counts

    fake = Blind(slower={grown: 0.25})
    found = compare(fake, every, 500.0, told)
    assert {name for name, _ in fake.duet_log} >= {grown, blind}
    assert f"{blind}: instructions not counted: it hung" in told.notes
    assert on(found, blind, INSTRUCTIONS).why == "it hung"
    # What instructions cost is decided by duets.
    assert verdicts(found, INSTRUCTIONS) == {
        same: Verdict.SAME, grown: Verdict.DIFFERENT, other: Verdict.SAME, blind: Verdict.UNKNOWN,
    }  # fmt: skip


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
    compare: Compare, effects: Effects | None, headline: str
) -> None:
    fake = FakeInstruments(slower={ONE: 0.03})
    seen = Seen(effects={ONE: effects} if effects else {})
    found = compare(fake, (ONE,), only="effects", seen=seen)
    assert not fake.duet_log
    assert not fake.counted
    assert found.counts_only
    assert make_report(found).headline == headline
    assert "what one request does only, seen without a server" in make_report(found).lines


@pytest.mark.parametrize(("grown", "code"), [(0.03, 1), (0.01, 0), (0.0, 0), (-0.03, 0)])
def test_counts_alone_start_no_server(compare: Compare, grown: float, code: int) -> None:
    """A rise of 2 % is one that somebody acts on."""
    fake = FakeInstruments(slower={ONE: grown})
    found = compare(fake, NAMES[:2], 60.0, only="counts")
    assert not fake.duet_log
    assert {finding.subject for finding in found.findings} == {INSTRUCTIONS}
    assert exit_code(found) == code
    assert "unknown" not in make_report(found).headline
