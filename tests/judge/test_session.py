"""Whole comparisons: a script of what instruments give → findings, notes and exit code.

The instruments measure nothing and turn a clock. What a script gives both sides follows by
arithmetic: of threads that compute at once, of an import that is a part of a start.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from comparing import CPU, busy
from duetbench.app.testbed import SideCase
from duetbench.core.comparison import INSTRUCTIONS, Comparison, Duet, Finding
from duetbench.core.effects import Effects
from duetbench.core.errors import FlagName, RecordError, UsageError
from duetbench.core.model import Case, Flag, Launch, Verdict
from duetbench.core.text import endless
from duetbench.effects.difference import NO_TIME, Observations
from duetbench.host import files
from duetbench.judge import repetition
from duetbench.judge.comparison import InterruptedComparison, Session
from duetbench.judge.findings import exit_code
from duetbench.judge.instruments import by_turns
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.preparation import Extent
from duetbench.report.report import make_report
from fake_sessions import FakeInstruments, SilentReporter, compared_by, side
from goldens import assert_said
from synthetic import MACHINE, make_case, ok

NAMES: Final = tuple(f"experiment/e{number}/py3.14/c{number}" for number in range(16))
ONE, TWO, *_ = NAMES
APART: Final = tuple(f"{kind}/e/py3.14" for kind in "abcd")
"""Cases that share no server."""
CODE: Final = tuple(f"x/{name}" for name in ("a/py3.14/d", "a/py3.14/c", "b/py3.14", "a/py3.14t"))
"""The first two run the same code."""

WORSE, BETTER = Verdict.WORSE, Verdict.BETTER
SAME, UNKNOWN = Verdict.SAME, Verdict.UNKNOWN


def verdicts(comparison: Comparison, subject: str = CPU) -> dict[str, Verdict]:
    actual = (finding for finding in comparison.findings if finding.case)
    return {finding.case: finding.verdict for finding in actual if finding.subject == subject}


def on(comparison: Comparison, case: str, subject: str) -> Finding:
    actual = comparison.of(case, subject)
    assert actual is not None, comparison.findings
    return actual


def saved(folder: Path) -> Comparison:
    (path,) = (folder / "comparisons").iterdir()
    return Comparison.model_validate_json(path.read_bytes())


def test_a_script_has_its_findings(tmp_path: Path) -> None:
    """How much slower head is in each case, what else goes wrong, and how long it may take."""

    def judge(text: str) -> str:
        script = json.loads(text)
        names = {"apart": APART[:3], "code": CODE}.get(script["cases"]) or NAMES[: script["cases"]]
        slower = dict(zip(names, script["slower"], strict=False))
        subject = script.get("subject", CPU)
        failing, endless_ = names[: script.get("failing", 0)], script.get("endless")
        fake = FakeInstruments(
            slower=slower, failing=frozenset(failing), uncounted=script.get("uncounted", ""),
            failure=endless("GET /x", 2, 3_000) if endless_ == "each" else "one after another",
        )  # fmt: skip
        seen = Observations(endless={ONE: "it did not end"} if endless_ == "in process" else {})
        folder, reporter = tmp_path / str(len([*tmp_path.iterdir()])), SilentReporter()
        actual = compared_by(
            fake, [busy(name) for name in names], folder, script.get("seconds"), reporter,
            script.get("only", ""), seen=seen,
        )  # fmt: skip
        check(actual, fake, reporter, names)
        assert saved(folder) == actual
        known = verdicts(actual, subject)
        for name in known.keys() & slower:
            finding, grown = on(actual, name, subject), 1 + slower[name]
            truth = 1 / grown if subject == "throughput" else grown
            assert finding.ratio is None or (finding.low or 9) <= truth <= (finding.high or 0)
            assert finding.ratio is None or (finding.base is None) == (subject == "throughput")
        words = " ".join(known.get(name, "-") for name in names)
        uncounted = [note for note in reporter.notes if "not counted" in note]
        return "; ".join((f"exit code {exit_code(actual)}: {words}", *uncounted))

    assert_said("scripts", judge)


def check(
    actual: Comparison, fake: FakeInstruments, reporter: SilentReporter, names: Sequence[str]
) -> None:
    """What holds for all comparisons."""
    assert (actual.status, actual.planned, actual.untouched) == ("complete", len(names), 2)
    assert reporter.ended == 1
    assert {*actual.notes} <= {*reporter.notes}
    assert actual.wall_seconds <= 1.1 * (actual.budget_seconds or 1e9)
    assert [duet.order for duet in reporter.duets] == list(range(len(fake.duet_log)))
    for name in names:  # sides are swapped
        first = [head_first for case, head_first in fake.duet_log if case == name]
        assert all(item != other for item, other in pairwise(first))
    if actual.counts_only:
        assert fake.duet_log == []
        assert {finding.subject for finding in actual.findings} <= {INSTRUCTIONS}
    for case in actual.cases:
        few = len(names) > 4 or case.case.id in fake.failing
        assert case.duets == () or len(case.duets) >= 3 or few
        if case.case.id in fake.failing:
            assert len(case.duets) == 1 + (fake.failure == "one after another")
            assert case.case.id not in verdicts(actual)


def test_cases_of_one_server_share_its_launches(tmp_path: Path) -> None:
    """In an order that is drawn; who has failed ends the launch for those behind it."""
    ours, other = NAMES[:3], APART[0]
    fake = FakeInstruments(failing=frozenset({ours[0]}))
    actual = compared_by(fake, [busy(name) for name in (*ours, other)], tmp_path, None)
    shared = [launch for launch in fake.together if ours[0] in launch]
    assert {frozenset(launch) for launch in shared} == {frozenset(ours)}
    assert all(launch == (other,) for launch in fake.together if other in launch)
    orders = {tuple(name for name in launch if name != ours[0]) for launch in fake.together}
    assert {ours[1:], ours[:0:-1]} <= orders
    behind = sum(len(launch) - launch.index(ours[0]) - 1 for launch in shared)
    count = sum(len(case.duets) for case in actual.cases)
    assert count == sum(map(len, fake.together)) - behind


@pytest.mark.parametrize("full", [False, True])
def test_an_interruption_keeps_what_there_is(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full hides nothing of it."""

    def save(*_: object) -> Path:
        raise RecordError("the disk is full")

    if full:
        monkeypatch.setattr(files, "save_comparison", save)
    slower, sentence = dict.fromkeys(NAMES[:2], 0.005), SilentReporter()
    fake = FakeInstruments(slower=slower, stop=8)
    with pytest.raises(InterruptedComparison) as caught:
        compared_by(fake, [busy(name) for name in NAMES[:2]], tmp_path, None, sentence)
    assert caught.value.exit_code == 130
    partial = caught.value.comparison
    assert (partial.status, sentence.ended) == ("partial", 1)
    assert sum(len(case.duets) for case in partial.cases) == 6
    assert set(verdicts(partial).values()).isdisjoint((WORSE, BETTER))
    assert any("interrupted by SIGINT" in note for note in partial.notes)
    if full:
        assert sentence.notes[-1] == "not saved: the disk is full"
    else:
        assert partial == saved(tmp_path)


def test_nothing_to_judge_has_a_record_and_the_newest_records_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = side("base", ()), side("head", ())
    sides = Sides(*both, Path(), (), (), notes=("before",), untouched=24, empty_reason="only text")
    session = Session(sides, Extent(seconds=90.0), SilentReporter(), FakeInstruments())
    actual = session.comparison("complete")
    counts = actual.planned, actual.untouched, actual.cases
    assert (actual.status, *counts) == ("complete", 0, 24, ())
    assert (actual.notes, actual.nothing, exit_code(actual)) == (("before",), "only text", 0)
    monkeypatch.setattr(files, "MOST_COMPARISONS", 2)
    for day in (3, 1, 2):
        older = actual.model_copy(update={"id": f"2026110{day}T000000Z-compare-x"})
        files.save(tmp_path, older)
    newest = actual.model_copy(update={"id": "20261104T000000Z-compare-x"})
    files.save_comparison(newest, tmp_path)
    assert sorted(path.name[7] for path in (tmp_path / "comparisons").iterdir()) == ["3", "4"]


def test_what_one_request_does_may_be_all_that_is_asked(tmp_path: Path) -> None:
    """What was not observed is unknown, also beside others."""
    for names, seen, headline, code in (
        ([ONE], Observations(), "? unknown: nothing was measured", 3),
        ([ONE], Observations({ONE: Effects()}),
         "= same: one request does the same on both sides", 0),
        ([ONE, TWO], Observations({ONE: Effects()}, {TWO: NO_TIME}),
         "? unknown in 1 of 2 cases: there was no time to observe it; about 2m may decide", 3),
    ):  # fmt: skip
        fake, cases = FakeInstruments(), [busy(name) for name in names]
        comparison = compared_by(fake, cases, tmp_path, 60, only="effects", seen=seen)
        report = make_report(comparison)
        assert (report.headline, exit_code(comparison, effects=True)) == (headline, code)
        assert "what one request does only, seen without a server" in report.lines
        assert not fake.counted


# Each side alone, by turns.

COMPUTES: Final = {"endpoint_floor": 0.0, "endpoint_interface": "wsgi"}
SHARED: Final = make_case("one/a", cores="shared", workers=2, slots=None, **COMPUTES)


def part(case: Case, name: str, cores: int) -> SideCase:
    own = tuple(range(cores))
    machine = MACHINE.model_copy(update={"server_cores": own, "client_cores": own})
    return SideCase(case, replace(side(name, (case,)).testbed, machine=machine))


@pytest.mark.parametrize("ratio", [0.7, 1.5])
def test_what_a_duet_prevents_is_judged_from_launches_alone(ratio: float, tmp_path: Path) -> None:
    pairs = (Pair(part(SHARED, "base", 2), part(SHARED, "head", 2), "a choice", alike=True),)
    fake = FakeInstruments(rates={"base": 1000.0, "head": 1000.0 * ratio})
    actual = compared_by(fake, [SHARED], tmp_path, 600, pairs=pairs)
    # In pairs next to each other, and the order swapped from pair to pair.
    turns = [*zip(fake.launches[::2], fake.launches[1::2], strict=True)]
    assert set(turns) == {("base", "head"), ("head", "base")}
    assert all(first != second for first, second in pairwise(turns))
    assert (fake.duet_log, fake.counted) == ([], [])  # both execute the same
    throughput = on(actual, "one/a", "throughput")
    assert throughput.ratio == pytest.approx(ratio, rel=0.02)
    assert throughput.base == pytest.approx(1000, rel=0.02)  # no other server has changed it
    assert throughput.verdict is (BETTER if ratio > 1 else WORSE)
    assert on(actual, "one/a", CPU).verdict is SAME
    assert {finding.alone for finding in actual.findings if finding.ratio} == {True}
    assert exit_code(actual) == (0 if actual.cross else int(ratio < 1))
    assert "each side alone, by turns" in str(make_report(actual).lines)


def test_what_computes_at_once_on_several_cores_is_launched_alone() -> None:
    """Fields of a case, what the other side has instead, and the server's cores."""

    def measured(text: str) -> str:
        given, others, cores = map(json.loads, text.split(" | "))
        item, other = (
            part(make_case("one/a", **{**COMPUTES, **each}), "head", cores)
            for each in (given, given | others)
        )
        alone = Pair(item, other).alone
        assert Pair(other, item).alone is alone
        return "alone" if alone else "together"

    assert_said("alone", measured)


def test_a_launch_alone_that_fails_leaves_no_figures() -> None:
    base, head = (ok("one/a", 0, {"throughput": rate, CPU: 0.003}) for rate in (200.0, 300.0))
    item = part(busy("one/a"), "head", 1)

    def turn(*launches: Launch) -> Duet:
        given = iter(launches[::-1])
        return by_turns(item, item, lambda _: next(given), head_first=True, order=3)

    drifts = Flag(name=FlagName.NOT_STEADY, detail="as the launch beside it does")
    actual = turn(base, head.model_copy(update={"flags": (drifts,)}))
    assert (actual.base, actual.head) == (base.metrics, head.metrics)
    assert (actual.order, actual.alone, actual.usable) == (3, True, True)
    flag = Flag(name=FlagName.WRONG_ANSWER, detail="500")
    broken = turn(base, head.model_copy(update={"flags": (flag,), "metrics": {}}))
    assert (broken.base, broken.head, broken.failed) == ({}, {}, ("head",))
    assert Duet.model_validate(broken.model_dump()) == broken


# Starts.

START: Final = {"start_cpu": 0.7, "start_time": 1.0, "import_time": 0.4}


@dataclass
class Starting(FakeInstruments):
    """Every figure of head's start is so many times base's, with so much scatter."""

    times: float = 1.0
    scatter: float = 0.03

    def _duet(self, name: str, head_first: bool, order: int) -> Duet:
        duet = super()._duet(name, head_first, order)
        ours, theirs = (
            {key: value * times * self.source.lognormvariate(0, self.scatter)
             for key, value in START.items()} for times in (1.0, self.times)
        )  # fmt: skip
        base, head = {**duet.base, **ours}, {**duet.head, **theirs}
        return duet if duet.failed else duet.model_copy(update={"base": base, "head": head})


@pytest.mark.parametrize(
    ("times", "verdict"), [(4.0, WORSE), (1.2, WORSE), (1.02, SAME), (1 / 1.2, BETTER)]
)
def test_starts_are_judged_by_their_own_figures(
    times: float, verdict: Verdict, tmp_path: Path
) -> None:
    """Nobody acts on less than 10 % of it. Cases that share a server have one start."""
    cases = [make_case(name) for name in ("one/a", "one/b")]
    actual = compared_by(Starting(times=times), cases, tmp_path, 600, start=True)
    (case,) = actual.cases
    # Nothing was counted, and nothing of a load is judged.
    assert {item.subject: item.verdict for item in actual.findings if item.subject in START} == (
        dict.fromkeys(START, verdict)
    )
    assert {item.subject for item in actual.findings} <= {*START, "pss_start"}
    for item in actual.findings:
        assert (item.low or 9) < times < (item.high or 0)
        assert item.base == pytest.approx(START[item.subject], rel=0.05)
    assert exit_code(actual) == int(verdict is WORSE)
    assert {duet.head_first for duet in case.duets[:2]} == {True, False}
    with pytest.raises(UsageError, match=r"found one of starts.*python -X importtime"):
        repetition.contrast_of(actual)


@pytest.mark.parametrize(
    ("times", "scatter", "verdict"), [(1 / 4, 0.03, BETTER), (4.0, 0.03, WORSE), (1.0, 0.5, None)]
)
def test_requests_are_compared_and_the_import_is_told(
    times: float, scatter: float, verdict: Verdict | None, tmp_path: Path
) -> None:
    """It leads where it moved most, and where it scatters nobody measures longer for it."""
    without, actual = (
        compared_by(Starting(times=t, scatter=s), [make_case("one/a")], tmp_path, 600)
        for t, s in ((1.0, 0.03), (times, scatter))
    )
    item = actual.of("one/a", "import_time")
    assert (item and item.verdict) is verdict
    assert item is None or actual.findings[0] == item
    assert len(actual.cases[0].duets) == len(without.cases[0].duets)
