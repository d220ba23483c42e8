"""A whole comparison, with instruments that measure nothing and a clock that they turn."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, cast

import pytest

from comparing import SLOWER, busy
from duetbench.core import units
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.model import Case, Effects, Flag, RequestEffect, Verdict
from duetbench.core.text import TOO_SMALL, endless
from duetbench.host.console import duration
from duetbench.judge import session
from duetbench.judge.counted import EACH_SECONDS, START_SECONDS, Counts, differ
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.effects import Seen
from duetbench.judge.pairs import Sides
from duetbench.judge.session import Question
from duetbench.measure.testbed import SideCase, Testbed
from duetbench.project import tools
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from duetbench.store import result_files
from duetbench.store.comparison import Comparison, Instructions
from fake_sessions import (
    FakeInstruments,
    SilentReporter,
    compared_by,
    make_duet,
    side,
)

MOVED = {Verdict.SLOWER, Verdict.FASTER}
Compare = Callable[..., Comparison]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")

    def do(
        fake: FakeInstruments,
        names: tuple[str, ...],
        seconds: float | None = None,
        told: SilentReporter | None = None,
        **more: Any,
    ) -> Comparison:
        return compared_by(fake, [busy(n) for n in names], tmp_path, seconds, told, **more)

    return do


def names(count: int) -> tuple[str, ...]:
    return tuple(f"experiment/e{number}/py3.14/c{number}" for number in range(count))


def saved(folder: Path) -> Comparison:
    (path,) = folder.iterdir()
    return Comparison.model_validate_json(path.read_bytes())


def verdicts(comparison: Comparison, metric: str) -> dict[str, Verdict]:
    return {
        case.case.id: one.verdict
        for case in comparison.cases
        for one in case.judgements
        if one.metric == metric
    }


def test_nothing_changed(compare: Compare, tmp_path: Path) -> None:
    fake, told = FakeInstruments(), SilentReporter()
    found = compare(fake, names(4), told=told)
    assert found.status == "complete"
    assert set(verdicts(found, "server_cpu_per_request").values()) == {Verdict.NO_CHANGE}
    assert (found.planned, found.untouched, len(found.cases)) == (4, 2, 4)
    assert not fake.launches
    assert saved(tmp_path) == found
    assert told.ended == 1
    assert [duet.order for duet in told.duets] == list(range(len(fake.duet_log)))
    for name in names(4):  # sides are swapped
        first = [head_first for case, head_first in fake.duet_log if case == name]
        assert all(one != other for one, other in pairwise(first))


def test_one_case_is_slower(compare: Compare) -> None:
    slow, *others = names(3)
    fake = FakeInstruments(slower={slow: 0.03})
    found = compare(fake, names(3))
    assert verdicts(found, "server_cpu_per_request") == {
        slow: Verdict.SLOWER, **dict.fromkeys(others, Verdict.NO_CHANGE),
    }  # fmt: skip
    assert verdicts(found, "throughput")[slow] is Verdict.SLOWER
    (case, *_) = found.cases
    (cpu,) = [one for one in case.judgements if one.metric == "server_cpu_per_request"]
    assert (cpu.low or 9) < 1.03 < (cpu.high or 0)
    assert cpu.duets == len(case.duets)
    costs = [duet.base["server_cpu_per_request"] for duet in case.duets]
    assert case.absolute_base["server_cpu_per_request"] == pytest.approx(fmean(costs), rel=1e-3)
    assert "throughput" not in case.absolute_base  # two servers shared their cores
    assert case.instructions is not None
    assert fake.counted == [(slow, *others)]


@pytest.mark.parametrize(
    ("seconds", "slower"), [(90.0, 0.0), (90.0, 0.03), (300.0, 0.0), (1200.0, 0.03)]
)
def test_the_budget_is_kept(compare: Compare, seconds: float, slower: float) -> None:
    found = compare(FakeInstruments(slower=dict.fromkeys(names(16), slower)), names(16), seconds)
    assert found.wall_seconds <= 1.1 * seconds
    assert len(found.cases) == 16
    measured = {case.case.id for case in found.cases if case.duets}
    assert measured
    judged = verdicts(found, "server_cpu_per_request")
    assert judged.keys() == set(names(16))
    for name in judged.keys() - measured:
        assert judged[name] is Verdict.INCONCLUSIVE
    if len(measured) < 16:
        assert any("the budget is too small" in note for note in found.notes)


def test_counts_take_a_third_of_a_short_budget(compare: Compare) -> None:
    """One endpoint may take 10 s to count."""
    (name,) = names(1)
    assert compare(FakeInstruments(), (name,), 29.0).cases[0].count is None
    found = compare(FakeInstruments(slower={name: 0.03}), (name,), 30.0)
    count = found.cases[0].count
    assert count is not None
    assert count.verdict is Verdict.SLOWER
    assert count.ratio == pytest.approx(1.03)
    assert found.wall_seconds <= 1.1 * 30


def test_no_time_is_negative() -> None:
    assert [duration(time) for time in (-12, -0.4, 47.6)] == ["0 s", "0 s", "48 s"]


@pytest.mark.parametrize(
    ("preparation", "uncounted", "budget", "spent", "part"),
    [
        (0.0, "", 5, 0, "three duets: one takes about 4 s; a first answer takes about 39 s: set"),
        (20.0, "", 40, 20, "about 44 s, 40 s of them for the commands of --before; a first"),
        (20.0, "", 110, 55, "about 44 s, 40 s of them for the commands of --before; a first"),
        (100.0, "", 90, 100, "about 3 min 24 s, 3 min 20 s of them for the commands of --before"),
        (20.0, "no Valgrind", 60, 47, "about 47 s, 40 s of them for the commands of --before"),
    ],
)
def test_a_budget_without_time_for_three_duets_is_not_spent_and_the_advised_one_does(
    tmp_path: Path,
    compare: Compare,  # noqa: ARG001 - for its fake oha
    preparation: float,
    uncounted: str,
    budget: float,
    spent: float,
    part: str,
) -> None:
    """By hand: a duet takes 3.65 s and both preparations, a count 15 s and both preparations."""
    case = busy(names(1)[0]).model_copy(update={"before": ("make seed",)})

    told = SilentReporter()

    def played(seconds: float) -> Comparison:
        fake = FakeInstruments(preparation=preparation, uncounted=uncounted)
        return compared_by(fake, [case], tmp_path, seconds, told)

    found = played(budget)
    (note,) = (note for note in found.notes if note.startswith(TOO_SMALL))
    assert part in note
    assert (found.wall_seconds, exit_code(found)) == (spent, 3)
    assert told.beside == "the commands of --before"  # not known before the first launch
    advised = units.read_time(note.rpartition(" ")[2])
    assert advised is not None
    again = played(advised)
    assert len(again.cases[0].duets) >= 3
    assert not [note for note in again.notes if note.startswith(TOO_SMALL)]
    assert again.wall_seconds <= 1.1 * advised
    assert bool(again.cases[0].count) == (not uncounted)


@pytest.mark.parametrize(
    ("failure", "duets"), [("one after another", 2), (endless("GET /x", 2, 3_000), 1)]
)
def test_a_case_that_cannot_be_measured_leaves_its_time_to_the_others(
    compare: Compare, failure: str, duets: int
) -> None:
    """Counts leave time for the first look of one case; the first one fails at once."""
    void, *others = (f"{kind}/e/py3.14" for kind in "abc")
    fake = FakeInstruments(failing=frozenset({void}), failure=failure)
    found = compare(fake, (void, *others), 60.0)
    judged = verdicts(found, "server_cpu_per_request")
    assert judged[void] is Verdict.NOT_COMPARABLE
    played = {case.case.id: len(case.duets) for case in found.cases}
    assert played[void] == duets
    assert max(played[name] for name in others) >= 3
    assert found.wall_seconds <= 1.1 * 60.0


@pytest.mark.parametrize(("failing", "noted"), [(1, True), (2, False)])
def test_failures_of_all_cases_say_why_nothing_was_observed(
    compare: Compare, failing: int, noted: bool
) -> None:
    fake, told = FakeInstruments(failing=frozenset(names(2)[:failing])), SilentReporter()
    seen = Seen(reasons={names(2)[0]: "GET /nothing: found 404"})
    found = compare(fake, names(2), None, told, seen=seen)
    assert [any("404" in note for note in one.notes) for one in (found, told)] == [noted] * 2


def test_a_failure_is_told_once() -> None:
    said: list[str] = []
    told, flag = SilentReporter(), Flag(name=FlagName.WRONG_STATUS, detail="GET /nothing: 404")
    told.say = said.append  # type: ignore[assignment, method-assign]
    for order in range(2):
        Reporter.report(told, make_duet("x/a", order, flags=(flag,)))
    assert said == [
        "duet 1 of x/a: void: head: wrong_status: GET /nothing: 404",
        "duet 2 of x/a: void again",
    ]


def test_cases_of_one_server_share_its_launches(compare: Compare) -> None:
    """In an order that is drawn; who has failed ends the launch for those behind it."""
    ours, other = names(3), "another/e/py3.14"
    fake = FakeInstruments(failing=frozenset({ours[0]}))
    found = compare(fake, (*ours, other))
    shared = [launch for launch in fake.together if ours[0] in launch]
    assert {frozenset(launch) for launch in shared} == {frozenset(ours)}
    assert all(launch == (other,) for launch in fake.together if other in launch)
    orders = {tuple(name for name in launch if name != ours[0]) for launch in fake.together}
    assert {ours[1:], ours[:0:-1]} <= orders
    assert set(list(verdicts(found, "server_cpu_per_request").values())[1:]) == {Verdict.NO_CHANGE}
    behind = sum(len(launch) - launch.index(ours[0]) - 1 for launch in shared)
    played = {case.case.id: len(case.duets) for case in found.cases}
    assert sum(played.values()) == sum(map(len, fake.together)) - behind


def test_an_interruption_keeps_what_there_is(compare: Compare, tmp_path: Path) -> None:
    fake, told = FakeInstruments(slower=dict.fromkeys(names(2), 0.005), stop=8), SilentReporter()
    with pytest.raises(session.InterruptedComparison) as caught:
        compare(fake, names(2), told=told)
    assert caught.value.exit_code == 130
    partial = caught.value.comparison
    assert partial.status == "partial"
    assert partial == saved(tmp_path)
    assert sum(len(case.duets) for case in partial.cases) == 6
    assert set(verdicts(partial, "server_cpu_per_request").values()).isdisjoint(
        (Verdict.SLOWER, Verdict.FASTER)
    )
    assert any("interrupted by SIGINT" in note for note in partial.notes)
    assert told.ended == 1


def test_a_full_disk_hides_nothing_of_an_interrupted_one(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_: object) -> Path:
        raise RecordError("the disk is full")

    monkeypatch.setattr(result_files, "save_comparison", save)
    told = SilentReporter()
    with pytest.raises(session.InterruptedComparison) as caught:
        compare(FakeInstruments(stop=4), names(1), told=told)
    assert caught.value.comparison.cases[0].duets
    assert told.notes[-1] == "not saved: the disk is full"


def test_nothing_to_judge_has_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")
    both = side("base", ()), side("head", ())
    sides = Sides(*both, Path(), (), (), untouched=24, empty_reason="only documents differ")
    found = session.empty_comparison(Question(sides, seconds=90.0, notes=("before",)))
    assert (found.status, found.planned, found.untouched, found.cases) == ("complete", 0, 24, ())
    assert found.notes == ("before", "only documents differ")


def test_only_the_newest_comparisons_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "MOST_COMPARISONS", 2)
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")
    for day in (3, 1, 2):
        (tmp_path / f"2026110{day}T000000Z-compare-x.json").touch()
    sides = Sides(side("base", ()), side("head", ()), Path(), (), (), empty_reason="no change")
    found = session.empty_comparison(Question(sides, seconds=90.0))
    result_files.save_comparison(
        found.model_copy(update={"id": "20261104T000000Z-compare-x"}), tmp_path
    )
    assert sorted(path.name[7] for path in tmp_path.iterdir()) == ["3", "4"]


def counted(cases: Sequence[Case], counter: FakeInstruments, seconds: float = 1e9) -> Counts:
    testbed = cast(Testbed, SimpleNamespace(target=False, interpreters={}, preparations={}))
    sides = {case.id: (SideCase(case, testbed),) * 2 for case in cases}
    counts = Counts(counter.instructions, sides)
    counts.count(list(sides), lambda: seconds, SilentReporter().note)
    return counts


def test_each_environment_is_counted_once_and_each_code_once() -> None:
    granian, uvicorn = busy("x/a/py3.14/granian"), busy("x/a/py3.14/uvicorn")
    other, threaded = busy("x/b/py3.14"), busy("x/a/py3.14t")
    counter = FakeInstruments({"x/a/py3.14/granian": 0.03})
    counts = counted([granian, uvicorn, other, threaded], counter)
    assert counter.counted == [("x/a/py3.14/granian", "x/b/py3.14"), ("x/a/py3.14t",)]
    assert counts.of(uvicorn.id) == counts.of(granian.id)
    moved = [differ(counts.of(case.id)) for case in (granian, uvicorn, other, threaded)]
    assert moved == [True, True, False, False]


@pytest.mark.parametrize(
    ("grown", "moved"), [(0.0021, 1), (0.0019, 0), (0.0, 0), (-0.0019, 0), (-0.0021, 1)]
)
def test_what_counts_as_moved_is_what_matters_of_cpu(grown: float, moved: int) -> None:
    """The relevance floor of CPU per request is 0.2 %."""
    counts = counted([busy("x/a/py3.14")], FakeInstruments({"x/a/py3.14": grown}))
    assert differ(counts.of("x/a/py3.14")) == moved


def test_a_request_that_is_not_answered_is_not_counted(compare: Compare) -> None:
    case, fake = names(1)[0], FakeInstruments()
    reason = endless("GET /x", 2, 3_000)
    (found,) = compare(fake, (case,), seen=Seen(reasons={case: reason})).cases
    assert (fake.counted, found.no_count) == ([], reason)


def test_what_would_take_too_long_is_not_counted() -> None:
    """7 s to start and 3 s an endpoint; a second of computing is a minute in Valgrind."""
    case, counter = busy("x/a/py3.14"), FakeInstruments()
    counts = counted([case], counter, START_SECONDS + EACH_SECONDS - 1)
    slow = case.model_copy(update={"endpoint": case.endpoint.model_copy(update={"takes": 1.0})})
    counted([slow], counter)
    assert counter.counted == []
    assert (counts.of(case.id), differ(None)) == (None, False)
    assert counts.outcome(case.id) == "there was no time to count it"
    assert "too long for Valgrind" in str(counted([slow], counter).outcome(case.id))


def test_where_time_is_short_the_first_cases_of_an_environment_are_counted() -> None:
    cases, counter = [busy(name) for name in names(4)], FakeInstruments()
    counts = counted(cases, counter, START_SECONDS + 2 * EACH_SECONDS)
    assert counter.counted == [names(4)[:2]]
    assert [bool(counts.of(name)) for name in names(4)] == [True, True, False, False]


def test_counts_are_told_before_any_duet_and_say_where_duets_go(compare: Compare) -> None:
    """What cannot be counted says why, and has duets all the same."""
    same, grown, other, blind = every = tuple(f"{kind}/e/py3.14" for kind in "abcd")
    told = SilentReporter()

    class Blind(FakeInstruments):
        def instructions(
            self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float, ends: float
        ) -> tuple[Instructions | str, ...]:
            assert not self.duet_log
            counts = super().instructions(pairs, limit, ends)
            both = zip(pairs, counts, strict=True)
            return tuple("it hung" if p[1].case.id == blind else one for p, one in both)

    fake = Blind(slower={grown: 0.25})
    of = {case.case.id: case for case in compare(fake, every, 100.0, told).cases}
    assert {name for name, _ in fake.duet_log} >= {grown, blind}
    assert (
        f"{grown} executes 25.0 % more instructions per request (exact to ±0.1 %), counted in 15 s"
        in told.notes
    )
    assert any(f"{blind}: instructions not counted: it hung" in note for note in told.notes)
    assert (of[blind].count, of[blind].no_count) == (None, "it hung")
    verdicts_ = [one.count and one.count.verdict for one in (of[same], of[grown], of[other])]
    assert verdicts_ == [Verdict.NO_CHANGE, Verdict.SLOWER, Verdict.NO_CHANGE]
    assert (of[grown].count or SLOWER).material


class SlowCounts(FakeInstruments):
    """Counts take longer than planned, so a budget of 30 s leaves 5 s for duets."""

    def instructions(
        self, pairs: Sequence[tuple[SideCase, SideCase]], limit: float, ends: float
    ) -> tuple[Instructions | str, ...]:
        self.now += 10
        return super().instructions(pairs, limit, ends)


@pytest.mark.parametrize(
    ("grown", "code", "verdict"),
    [
        # Of 300,000 instructions, at 25 in a ns, and some 0.1 ms of CPU: 24 %, 1.2 %, nothing.
        (2.0, 1, Verdict.SLOWER), (0.1, 3, Verdict.SLOWER), (0.0, 3, None),
        (-0.9, 3, Verdict.FASTER),
    ],
)  # fmt: skip
def test_counts_decide_where_there_is_no_time_for_two_duets(
    compare: Compare, grown: float, code: int, verdict: Verdict | None
) -> None:
    (name,) = names(1)
    found = compare(SlowCounts(slower={name: grown}), (name,), 30.0)
    (case,) = found.cases
    assert len(case.duets) == (1 if grown else 0)  # it shows what the whole request needs
    assert (case.request and case.request.verdict) == verdict
    (cpu,) = (one for one in case.judgements if one.metric == "server_cpu_per_request")
    assert cpu.verdict is Verdict.INCONCLUSIVE
    assert exit_code(found) == code
    if case.request:
        needs = case.duets[0].base["server_cpu_per_request"]
        assert case.request.ratio == pytest.approx(1 + 3e5 * grown / 25e9 / needs, rel=2e-3)


def test_the_count_of_some_of_many_paths_is_not_that_of_the_request(
    tmp_path: Path,
    compare: Compare,  # noqa: ARG001 - for its fake oha
) -> None:
    (name,) = names(1)
    case = busy(name)
    for others, known in ((29, True), (30, False)):
        paths = tuple(f"/{number}" for number in range(others))
        endpoint = case.endpoint.model_copy(update={"paths": paths})
        many = case.model_copy(update={"endpoint": endpoint})
        found = compared_by(SlowCounts(slower={name: 2.0}), [many], tmp_path, 30.0)
        assert bool(found.cases[0].request) is known
        assert exit_code(found) == (1 if known else 3)


@pytest.mark.parametrize(
    ("effects", "headline"),
    [
        (Effects(), "= no change: one request does the same on both sides"),
        (Effects(unseen=("calls of grpc",)), "= no change: one request shows no difference"),
        (
            Effects(
                differ=(RequestEffect(kind="exception", text="KeyError", base=0.0, head=6.0),),
                totals={"exception": (0.0, 6.0)},
            ),
            "≠ effects: experiment/e0/py3.14/c0 raises 6 exceptions instead of 0",
        ),
    ],
)
def test_what_one_request_does_may_be_all_that_is_asked(
    compare: Compare, effects: Effects, headline: str
) -> None:
    (name,), fake = names(1), FakeInstruments(slower={names(1)[0]: 0.03})
    found = compare(fake, (name,), effects_only=True, seen=Seen(effects={name: effects}))
    assert not fake.duet_log
    assert not fake.counted
    assert found.counts_only
    assert make_view(found).headline == headline
    assert make_view(found).answer.sure == "what one request does only, seen without a server"


@pytest.mark.parametrize(("grown", "code"), [(0.03, 1), (0.01, 0), (0.0, 0), (-0.03, 0)])
def test_counts_alone_start_no_server(compare: Compare, grown: float, code: int) -> None:
    """A rise of 2 % is material."""
    fake = FakeInstruments(slower={names(1)[0]: grown})
    found = compare(fake, names(2), 60.0, counts_only=True)
    assert not fake.duet_log
    assert [case.judgements for case in found.cases] == [(), ()]
    assert exit_code(found) == code
    assert "not judged" not in make_view(found).headline
