"""Screening, confirmation and verdicts, on duets with chosen ratios."""

import json
import math
from collections.abc import Iterable, Sequence

import pytest

from comparing import CPU, NOISY, WRONG, busy, duet, duets, paced
from servebench.compare.decide import Confirmation, MetricCandidate, Screening, State, judge
from servebench.compare.durations import seconds_to_decide
from servebench.compare.samples import CaseDuets, judged
from servebench.compare.statistics import Direction, Method, Sample, interval, moved_p
from servebench.core.flags import Flag, FlagName
from servebench.record.comparison import COUNTED, SEARCHED, Duet, Judgement, Stage, Verdict
from synthetic import make_case

CASE = "x/a/py3.14"
QUIET = [0.0, 0.001, -0.001, 0.0005, -0.0005]


def around(middle: float, count: int, spread: float = 0.001) -> list[float]:
    return [middle + spread * (-1) ** number for number in range(count)]


def screened(*found: Duet, cases: Sequence[str] = (CASE,)) -> Screening[str]:
    screening = Screening(CaseDuets.of(map(busy, cases)))
    for one in found:
        screening.add(one.case, one)
    return screening


def hint(screening: Screening[str], case: str, direction: Direction) -> None:
    for metric, toward in CaseDuets(busy(case)).follows(direction).items():
        if metric in screening.samples[case].leading:
            screening.hint(case, metric, toward)


def closed(screening: Screening[str]) -> tuple[MetricCandidate[str], ...]:
    screening.close()
    return screening.candidates()


def confirmed(screening: Screening[str], found: Iterable[Duet]) -> Confirmation[str]:
    confirmation = Confirmation(screening)
    for one in found:
        confirmation.add(one.case, one)
    return confirmation


def only(
    screening: Screening[str], confirmation: Confirmation[str] | None = None, metric: str = CPU
) -> Judgement:
    judgements = judge(screening, confirmation)[CASE]
    (found,) = [one for one in judgements if one.metric == metric]
    return found


def test_each_kind_of_case_is_judged_by_what_can_move() -> None:
    waiting = (CPU, "response_p50", "pss_steady")
    leading = (CPU, "response_p50", "efficiency", "pss_steady")
    assert judged(busy(CASE))[0] == (CPU, "throughput", "pss_steady")
    assert judged(make_case(CASE)) == (leading, ("response_p99",))
    for ceiling in (None, "c / unit"):
        assert judged(make_case(CASE, ceiling=ceiling))[0] == waiting
    assert judged(paced(CASE)) == ((CPU, "service_p50", "pss_steady"), ("service_p99",))


def test_a_case_is_open_until_its_first_look() -> None:
    screening = screened(*duets(CASE, CPU, QUIET[:4]))
    assert screening.open() == (CASE,)
    screening.add(CASE, duet(CASE))
    assert screening.open() == ()
    assert closed(screening) == ()
    found = only(screening)
    assert found.verdict is Verdict.NO_CHANGE
    assert (found.screened, found.confirmed, found.excluded) == (5, 0, 0)
    assert seconds_to_decide(CASE, screening, Confirmation(screening)) is None


def test_no_change_is_said_with_interval_and_what_would_have_been_seen() -> None:
    """Five duets, share 5 %: the interval is Student's at 1 - 0.05 * 0.05."""
    logs = [0.002, -0.002, 0.002, -0.002, 0.0]
    screening = screened(*duets(CASE, CPU, logs))
    found = only(screening)
    sd = math.sqrt(4 * 0.002**2 / 4)
    low, high = interval(Sample(5, 0.0, sd), 0.0025)
    assert found.ratio == pytest.approx(1)
    assert found.low == pytest.approx(math.exp(low))
    assert found.high == pytest.approx(math.exp(high))
    # Had it moved, 22 duets would have been taken: the last look has half of 20 %, one of three
    # metrics alone a third of that, on two sides: t(21) = 2.2775. 28 fresh ones would then have had
    # to confirm it, at 1.5 % on one side: t(27) = 2.2909. A change of 0.72148 standard deviations
    # beyond the floor is 3.3840 and 3.8177 standard errors, and passes the one with 85.9 %
    # (t = 1.1065) and the other with 93.1 % (1.5268): 80 %.
    reach = 0.72148 * sd
    assert found.detectable == pytest.approx(math.expm1(math.log1p(0.002) + reach), rel=1e-5)


def test_the_verdicts_figures_are_those_of_fresh_duets() -> None:
    """The screening saw +10 %, the confirmation +8 %: nobody is told of 10 %."""
    screening = screened(*duets(CASE, CPU, around(math.log(1.10), 5)))
    assert screening.open() == ()
    (candidate,) = closed(screening)
    assert (candidate.key, candidate.metric, candidate.direction) == (CASE, CPU, 1)
    confirmation = confirmed(
        screening, duets(CASE, CPU, around(math.log(1.08), 10), stage="confirmation")
    )
    assert confirmation.open() == ()
    found = only(screening, confirmation)
    assert found.verdict is Verdict.SLOWER
    assert found.ratio == pytest.approx(1.08)
    assert found.low is not None
    assert 1.075 < found.low < 1.08
    assert (found.screened, found.confirmed) == (5, 10)
    # One candidate, first look with 20 %: p is the one-sided p value over its share.
    sd = math.sqrt(10 / 9) * 0.001
    assert found.p == pytest.approx(moved_p(Sample(10, math.log(1.08), sd), 0.002, 1) / 0.2)


UNSEEN = f"{SEARCHED}; fresh duets did not confirm it"
UNSEEN_COUNT = f"{COUNTED}; fresh duets did not confirm that it did"


@pytest.mark.parametrize(
    ("metric", "first", "fresh", "verdict", "reason"),
    [
        # Which direction is better says the registry.
        (CPU, 0.05, 0.05, Verdict.SLOWER, ""),
        (CPU, -0.05, -0.05, Verdict.FASTER, ""),
        ("throughput", 0.05, 0.05, Verdict.FASTER, ""),
        ("throughput", -0.05, -0.05, Verdict.SLOWER, ""),
        ("pss_steady", 0.05, 0.05, Verdict.SLOWER, ""),
        # What fresh duets do not show is no verdict.
        (CPU, 0.05, 0.0, Verdict.NO_CHANGE, UNSEEN),
        (CPU, 0.05, -0.05, Verdict.INCONCLUSIVE, UNSEEN),
        # Nor is what follows from instructions alone.
        (CPU, None, 0.03, Verdict.SLOWER, ""),
        (CPU, None, 0.0, Verdict.NO_CHANGE, UNSEEN_COUNT),
        (CPU, None, -0.03, Verdict.INCONCLUSIVE, UNSEEN_COUNT),
    ],
)
def test_fresh_duets_decide(
    metric: str, first: float | None, fresh: float, verdict: Verdict, reason: str
) -> None:
    screening = screened(*duets(CASE, metric, QUIET if first is None else around(first, 5)))
    if first is None:
        hint(screening, CASE, 1)
    confirmation = Confirmation(screening)
    for one in duets(CASE, metric, around(fresh, 28), stage="confirmation"):
        if confirmation.open():
            confirmation.add(CASE, one)
    found = only(screening, confirmation, metric)
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.ratio == pytest.approx(math.exp(fresh))


@pytest.mark.parametrize(("logs", "why"), [(around(0.05, 5), SEARCHED), (QUIET, COUNTED)])
def test_a_candidate_without_time_stays_a_question(logs: list[float], why: str) -> None:
    screening = screened(*duets(CASE, CPU, logs))
    if why == COUNTED:
        hint(screening, CASE, 1)
    for confirmation in (None, Confirmation(screening)):
        if confirmation is not None:
            confirmation.close()
        found = only(screening, confirmation)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.reason == f"{why}; no time was left for fresh duets"
        assert found.ratio == pytest.approx(math.exp(sum(logs) / 5))
    if why == SEARCHED:
        # It is 40 standard deviations beyond the floor: the fewest duets that are looked at do.
        assert seconds_to_decide(CASE, screening, confirmation) == pytest.approx(5 * 8)


def test_when_time_is_up_the_rest_of_the_error_rate_is_spent() -> None:
    screening = screened(*duets(CASE, CPU, around(0.4, 3, 0.01)))
    assert screening.open() == (CASE,)
    assert screening.state(CASE, CPU) is State.OPEN
    assert [c.metric for c in closed(screening)] == [CPU]
    assert screening.evidence(CASE, CPU).share == 1
    assert screening.open() == ()


def test_the_correction_counts_all_judged_pairs() -> None:
    """One candidate among four cases of three metrics each: its p value is multiplied by 12."""
    cases = ["x/a/py3.14", "x/b/py3.14", "x/c/py3.14", "x/d/py3.14"]
    quiet = [one for case in cases[1:] for one in duets(case, CPU, QUIET)]
    screening = screened(*duets(CASE, CPU, around(0.006, 5)), *quiet, cases=cases)
    alone = screening.evidence(CASE, CPU).moved
    assert screening.adjusted()[CASE, CPU] == pytest.approx(min(1, 12 * alone))
    assert 0 < alone < 0.2
    assert len(screening.adjusted()) == 12


def test_no_change_is_corrected_for_all_judged_pairs_too() -> None:
    """+0.4 % ± 1.2 % over 22 duets, a tolerance of 1 %: p is 0.015, and 0.030 for its last look.

    Alone that is below 5 %. It is one of three pairs of its case that are settled, the others being
    no different at all; with three cases beside it that settle nothing it is one of twelve:
    0.030 * 12 / 3 = 0.12. With three cases that are settled whole it is 0.030 again.
    """
    cases = ["x/a/py3.14", "x/b/py3.14", "x/c/py3.14", "x/d/py3.14"]
    ours = duets(CASE, CPU, around(0.004, 22, 0.012 * math.sqrt(21 / 22)))
    for rest, p, state in ((0.3, 0.1205, State.OPEN), (0.0, 0.0301, State.SAME)):
        wild = {metric: math.exp(rest) for metric in (CPU, "throughput", "pss_steady")}
        others = [
            duet(case, wild if number % 2 else {metric: 1 / f for metric, f in wild.items()})
            for case in cases[1:]
            for number in range(22)
        ]
        screening = screened(*ours, *others, cases=cases)
        assert screening.evidence(CASE, CPU).same == pytest.approx(0.0301, abs=1e-4)
        assert screening.settling()[CASE, CPU] == pytest.approx(p, abs=4e-4)
        assert screening.state(CASE, CPU) is state
        verdict = Verdict.NO_CHANGE if state is State.SAME else Verdict.INCONCLUSIVE
        assert only(screening).verdict is verdict


def test_fresh_duets_settle_candidates_by_the_same_correction() -> None:
    """Two cases by their instructions; +0.4 % ± 1.1 % over 28 duets, 60 % for the last look.

    (0.00995 - 0.004) / (0.011 / sqrt 28) = 2.862: p of t(27) is 0.0040, and 0.0067 for the look.
    Throughput is settled. With the other case's two open, 0.0067 is one of two of four: 0.0134.
    """
    cases = ["x/a/py3.14", "x/b/py3.14"]
    screening = screened(*(one for case in cases for one in duets(case, CPU, QUIET)), cases=cases)
    for case in cases:
        hint(screening, case, 1)
    wild = [{CPU: 1.3**s, "throughput": 1.3**s} for s in (1, -1)]
    fresh = [
        *duets(CASE, CPU, around(0.004, 28, 0.011 * math.sqrt(27 / 28)), stage="confirmation"),
        *(duet(cases[1], wild[n % 2], stage="confirmation") for n in range(28)),
    ]
    confirmation = confirmed(screening, fresh)
    assert confirmation.settling()[CASE, CPU] == pytest.approx(0.0134, abs=2e-4)
    assert confirmation.state(CASE, CPU) is State.SAME
    assert confirmation.state(cases[1], CPU) is State.OPEN


@pytest.mark.parametrize(("mean", "verdict"), [(0.0121, None), (0.0130, Verdict.SLOWER)])
def test_a_verdict_takes_the_whole_printed_interval(mean: float, verdict: Verdict | None) -> None:
    """Ten fresh duets ± 1 %: 0.00316 of standard error, and 15 % of the error rate.

    One-sided at 5 % a mean from 0.0020 + 2.998 * 0.00316 = 0.0115 on would do; the interval leaves
    the floor from 0.0020 + 3.431 * 0.00316 = 0.0128 on.
    """
    screening = screened(*duets(CASE, CPU, around(0.05, 5)))
    logs = around(mean, 10, 0.01 * math.sqrt(9 / 10))
    found = only(screening, confirmed(screening, duets(CASE, CPU, logs, stage="confirmation")))
    assert found.verdict is (verdict or Verdict.INCONCLUSIVE)
    assert found.low is not None
    assert (found.low > 1.002) == (verdict is Verdict.SLOWER)


@pytest.mark.parametrize(("stage", "good"), [("screening", 4), ("confirmation", 5)])
def test_a_side_that_fails_twice_is_not_comparable(stage: Stage, good: int) -> None:
    """Failures of both stages count together."""
    screening = screened(*duets(CASE, CPU, around(0.05, good)), duet(CASE, head_flags=[WRONG]))
    confirmation = Confirmation(screening) if stage == "confirmation" else None
    under_way = confirmation or screening
    assert under_way.open() == (CASE,)
    under_way.add(CASE, duet(CASE, stage=stage, head_flags=[WRONG]))
    assert under_way.open() == ()
    assert confirmation or screening.adjusted() == {}
    (found,) = judge(screening, confirmation)[CASE]
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "head: wrong_body: expected hi, found ho"
    assert (found.ratio, found.low, found.p) == (None, None, None)
    assert (found.screened, found.excluded) == (good, 2)
    assert seconds_to_decide(CASE, screening, confirmation) is None


def test_both_sides_that_fail_are_named_and_an_interruption_is_nobodys_failure() -> None:
    both = duet(CASE, base_flags=[WRONG], head_flags=[WRONG])
    (found,) = judge(screened(both, both))[CASE]
    said = "wrong_body: expected hi, found ho"
    assert found.reason == f"head: {said}; base: {said}"
    stopped = Flag(name=FlagName.INTERRUPTED, detail="SIGINT")
    assert screened(*[duet(CASE, head_flags=[stopped])] * 2).open() == (CASE,)


def test_disturbed_duets_decide_nothing() -> None:
    screening = screened(*(duet(CASE, {CPU: 2.0}, head_flags=[NOISY]) for _ in range(32)))
    assert screening.open() == (CASE,)
    screening.add(CASE, duet(CASE, {CPU: 2.0}, base_flags=[NOISY]))
    assert screening.open() == ()
    assert closed(screening) == ()
    found = only(screening)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.ratio, found.screened, found.excluded) == (None, 0, 33)
    assert found.reason == "none of 33 duets was usable: host_noise"


def test_nothing_measured_is_not_called_clean() -> None:
    screening = screened()
    screening.close()
    found = only(screening)
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, "no time for a duet")


def test_a_figure_that_a_duet_lacks_is_not_judged_from_the_others() -> None:
    lacking = duet(CASE)
    lacking = lacking.model_copy(
        update={"head": {k: v for k, v in lacking.head.items() if k != "throughput"}}
    )
    screening = screened(*duets(CASE, CPU, QUIET[:4]), lacking)
    found = only(screening, metric="throughput")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "throughput: not every duet has it"
    assert only(screening).verdict is Verdict.NO_CHANGE


def test_a_tail_is_judged_where_it_can_be_and_never_waited_for() -> None:
    """A p99 that scatters by 30 % does not keep the case open, and is not reported as open."""
    wild = [duet(CASE, {"response_p99": 1.3 ** (-1) ** n}) for n in range(5)]
    screening = screened(*wild)
    assert screening.open() == ()
    assert [one.metric for one in judge(screening)[CASE]] == [
        CPU, "throughput", "pss_steady",
    ]  # fmt: skip
    calm = screened(*(duet(CASE, {"response_p99": 1.001 ** (-1) ** n}) for n in range(5)))
    assert only(calm, metric="response_p99").verdict is Verdict.NO_CHANGE


def test_a_case_stays_open_for_the_metric_that_needs_more() -> None:
    """CPU is settled after five duets; a memory that scatters by 5 % is not after twenty-two."""
    screening = Screening(CaseDuets.of([busy(CASE)]))
    for count, value in enumerate(around(0.0, 22, 0.05), start=1):
        assert screening.open() == (CASE,), count
        screening.add(CASE, duet(CASE, {"pss_steady": math.exp(value)}))
    assert screening.open() == ()
    screening.close()
    assert only(screening).verdict is Verdict.NO_CHANGE
    assert only(screening, metric="pss_steady").verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("had", "spread", "lacking"), [(16, 0.015, 6), (16, 0.03, None), (22, 0.03, None)]
)
def test_the_time_to_decide_follows_from_the_scatter(
    had: int, spread: float, lacking: int | None
) -> None:
    """±1.5 % around nothing: 22 duets settle 1 %, 21 do not quite, and six of them lack.

    2.0796 + 0.8591 times 0.015492 / sqrt 22 = 0.00971 < 0.00995; with 21: 2.0860 + 0.8600, 0.00996.
    ±3 % would need 77 duets, and a screening ends with its 22nd: no comparison would take them.
    """
    screening = screened(*duets(CASE, CPU, around(0.0, had, spread)))
    assert screening.open() == ((CASE,) if had < 22 else ())
    assert only(screening).verdict is Verdict.INCONCLUSIVE
    assert seconds_to_decide(CASE, screening) == (lacking and pytest.approx(lacking * 8))


def test_the_time_to_decide_counts_all_that_is_judged() -> None:
    """+1 % ± 1 % is one of three pairs that are judged: its last look has 0.2 / 2 / 3 * 0.5.

    With t(17) = 2.32 for 1.67 % and 0.863, 18 duets are enough: 3.18 * 0.010445 / sqrt 18 = 0.0078,
    below 0.0100 - 0.0020; 17 are not (0.0081). The candidate then has 1.5 %: 2.368 + 0.863 times
    0.010445 / sqrt 18 = 0.00796 with 18 fresh duets, 0.0082 with 17. Six lack, and 18 fresh ones.
    """
    screening = screened(*duets(CASE, CPU, around(0.01, 12, 0.01)))
    assert screening.state(CASE, CPU) is State.OPEN
    assert seconds_to_decide(CASE, screening) == pytest.approx((6 + 18) * 8)


def test_a_candidate_whose_figure_got_lost_stays_open() -> None:
    screening = screened(*duets(CASE, CPU, around(0.05, 5)))
    fresh = duets(CASE, CPU, around(0.05, 5), stage="confirmation")
    for index in (1, 3):
        head = {name: value for name, value in fresh[index].head.items() if name != CPU}
        fresh[index] = fresh[index].model_copy(update={"head": head})
    confirmation = confirmed(screening, fresh)
    confirmation.close()
    found = only(screening, confirmation)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == f"{SEARCHED}; not every fresh duet has the figure"
    assert seconds_to_decide(CASE, screening, confirmation) is None


@pytest.mark.parametrize(
    ("case", "stage", "message"),
    [(CASE, "confirmation", "stages share no data"), ("x/z/py3.14", "screening", "not one of")],
)
def test_duets_of_others_are_refused(case: str, stage: Stage, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        screened(duet(case, stage=stage))


def test_the_strongest_evidence_is_confirmed_first() -> None:
    cases = ["x/a/py3.14", "x/b/py3.14"]
    screening = screened(
        *duets(cases[0], CPU, around(0.03, 5)), *duets(cases[1], CPU, around(0.3, 5)), cases=cases
    )
    assert Confirmation(screening).open() == (cases[1], cases[0])


def test_the_parameters_are_on_record() -> None:
    record = Method().record()
    assert json.loads(json.dumps(record)) == record
    assert record["confirmation_looks"] == "10 duets: 15%, 18 duets: 25%, 28 duets: 60%"


def test_what_executes_more_goes_to_the_confirmation_unsearched() -> None:
    screening = screened()
    hint(screening, CASE, 1)
    assert screening.open() == (CASE,)  # memory is still to be looked at
    for one in duets(CASE, CPU, QUIET):
        screening.add(one.case, one)
    assert screening.open() == ()
    found = {(c.metric, c.direction) for c in closed(screening)}
    assert found == {(CPU, 1), ("throughput", -1)}
    # Where a case waits, throughput stands at its ceiling, whatever is executed.
    assert CaseDuets(paced(CASE)).follows(1) == {CPU: 1}


def test_where_duets_contradict_instructions_they_decide() -> None:
    """Fewer instructions, and 5 % more CPU in the screening: more CPU is to be confirmed."""
    screening = screened(*duets(CASE, CPU, around(0.05, 5)))
    hint(screening, CASE, -1)
    found = {c.metric: c.direction for c in closed(screening)}
    assert found == {CPU: 1, "throughput": 1}


def test_instructions_say_nothing_of_duets_that_were_too_few() -> None:
    screening = screened(duet(CASE), *(duet(CASE, head_flags=[NOISY]) for _ in range(4)))
    hint(screening, CASE, 1)
    found = only(screening, Confirmation(screening))
    assert (found.ratio, found.p, found.reason) == (None, None, "")
    none = screened(duet(CASE, head_flags=[NOISY]))
    hint(none, CASE, 1)
    assert only(none, Confirmation(none)).reason == "none of 1 duets was usable: host_noise"


@pytest.mark.parametrize(
    ("usable", "disturbed", "told"),
    [
        (3, 0, "no time was left for more fresh duets"),
        (1, 32, "1 of 33 fresh duets usable, too few to look at: host_noise"),
    ],
)
def test_a_candidate_without_a_look_says_what_it_lacked(
    usable: int, disturbed: int, told: str
) -> None:
    screening = screened(*duets(CASE, CPU, around(0.05, 5)))
    loud = [duet(CASE, stage="confirmation", head_flags=[NOISY]) for _ in range(disturbed)]
    good = duets(CASE, CPU, around(0.05, usable), stage="confirmation")
    confirmation = confirmed(screening, [*good, *loud])
    confirmation.close()
    found = only(screening, confirmation)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == f"it moved in the screening; {told}"
    assert found.ratio == pytest.approx(math.exp(0.05 + 0.001 / 5))
