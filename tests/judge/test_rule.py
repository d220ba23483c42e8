"""The rule, on duets with chosen ratios: figures worked out by hand, and what holds for all."""

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from comparing import WRONG, busy, duet, duets, paced, swapped
from comparing import judged as judged_alone
from duetbench.core.comparison import FAILURE, Comparison, Duet, Finding
from duetbench.core.errors import FlagName
from duetbench.core.metrics import CPU, MATERIAL
from duetbench.core.model import Case, Flag, Verdict
from duetbench.host import result_files
from duetbench.judge import rule
from duetbench.judge.pairs import CaseDuets, choose_metrics
from duetbench.judge.rule import of_duets
from duetbench.judge.statistics import Logs
from goldens import assert_golden
from observatory.matrix.checkout import Checkout
from synthetic import make_case

CASE: Final = busy("x/a/py3.14")
CASES: Final = tuple(busy(f"x/{name}/py3.14") for name in "abcd")
SOME: Final = st.lists(
    st.floats(-0.3, 0.3).map(lambda log: round(log, 5)), min_size=3, max_size=24
).map(np.array)


UNSTEADY: Final = Flag(name=FlagName.NOT_STEADY, detail="it still got quicker")
GROWING: Final = Flag(name=FlagName.MEMORY_GROWS, detail="2 kB per request")
NOISY: Final = Flag(name=FlagName.HOST_NOISE, detail="0.3 cores; 0.05 allowed")


def sampled(case: Case, *duets: Duet) -> CaseDuets:
    """The samples of a case, taken one by one."""
    samples = CaseDuets(case)
    for sample in duets:
        samples.add(sample)
    return samples


def around(middle: float, count: int, spread: float = 0.001) -> list[float]:
    return [middle + spread * (-1) ** number for number in range(count)]


def judged(*samples: Duet) -> dict[str, Finding]:
    return judged_alone(sampled(CASE, *samples))


def moving(metric: str, logs: Iterable[float]) -> dict[str, Finding]:
    return judged(*duets(CASE.id, metric, logs))


def wants(*samples: Duet) -> bool:
    return rule.wants(sampled(CASE, *samples), MATERIAL)


def test_each_kind_of_case_is_judged_by_what_can_move() -> None:
    name = CASE.id
    leading = (CPU, "response_p50", "efficiency", "pss_steady")
    tails = ("response_p99", "import_time", "response_slow_half")
    assert choose_metrics(busy(name))[0] == (CPU, "throughput", "pss_steady")
    assert choose_metrics(make_case(name)) == (leading, tails)
    tails = ("service_p99", "import_time", "service_slow_half")
    assert choose_metrics(paced(name)) == ((CPU, "service_p50", "pss_steady"), tails)


def test_a_figure_is_students_with_the_shipped_scatter() -> None:
    """Six duets, ±1 % by turns: their variance is 1.2e-4 with five degrees of freedom.

    That of CPU is shipped as 4e-4, with two: (5 * 1.2e-4 + 2 * 4e-4) / 7 = 2e-4. t(7) is 2.3646 at
    97.5 % and 0.8960 at 80 %; a tenth of the limit of 2 % moves nothing.
    """
    actual = moving(CPU, around(0.0, 6, 0.01))[CPU]
    half = 2.3646 * math.sqrt(2e-4 / 6)
    expected = [1.0, math.exp(-half), math.exp(half)]
    assert [actual.ratio, actual.low, actual.high] == pytest.approx(expected, rel=1e-5)
    seen = math.log1p(0.002) + half + 0.8960 * math.sqrt(2e-4 / 6)
    assert actual.detectable == pytest.approx(math.expm1(seen), rel=1e-4)
    assert actual.n == 6
    # Of a metric whose scatter is not shipped, at least that of rounding: t(3) is 3.1824.
    alike = rule.weigh(np.zeros(4), "response_p50", 0.05)
    assert alike is not None
    assert alike.sample.reach == pytest.approx(3.1824 * 4e-4 / math.sqrt(4), rel=1e-4)


def test_the_rate_is_corrected_for_all_pairs_of_case_and_metric() -> None:
    """One pair with p = 0.029, of three, is detected at 0.086: not. Alone it would be.

    Eight duets of +1.6 % ± 1.35 %: a variance of (7 * 1.35e-2**2 + 2 * 4e-4) / 9, t(9) is 2.60.
    """
    sd = 0.0135 * math.sqrt(7 / 8)  # what alternates by this much has a deviation of 1.35 %
    logs = around(0.016, 8, sd)
    error = math.sqrt((7 * 0.0135**2 + 2 * 4e-4) / 9 / 8)
    p = 2 * special.stdtr(9, (math.log1p(0.002) - 0.016) / error)
    assert 0.05 / 3 < p < 0.05
    actual = moving(CPU, logs)
    assert actual[CPU].verdict is Verdict.UNKNOWN
    # A second metric of the case that moved surely leaves two thirds of the rate to this one.
    both = [duet(CASE.id, {CPU: math.exp(log), "throughput": 0.5}) for log in logs]
    again = judged(*both)
    assert 1.5 * p < 0.05 < 3 * p
    assert again[CPU].verdict is Verdict.SAME  # it moved, and too little for anybody to act on


@pytest.mark.parametrize("sign", [1, -1])
def test_all_cases_that_move_a_little_are_one_event(sign: int) -> None:
    """+3.0, 3.6, 2.4 and 3.3 %: a mean of 3.075 % with t(3) = 3.18 standard errors of 0.26 %."""
    logs = np.array([0.030, 0.036, 0.024, 0.033]) * sign
    cases = zip(CASES, logs, strict=True)
    samples = {c.id: sampled(c, *duets(c.id, CPU, around(log, 6, 0.09))) for c, log in cases}
    event = rule.together(samples)
    assert event is not None
    assert event.verdict is (Verdict.WORSE if sign > 0 else Verdict.BETTER)
    ratio, high = event.ratio or 0.0, event.high or 0.0
    assert math.log(ratio) == pytest.approx(sign * 0.03075)
    assert math.log(high / ratio) == pytest.approx(3.1824 * 3 * 0.000854, rel=1e-3)
    assert {item.verdict for item in rule.of_duets(samples)[CASES[0].id]} <= {
        Verdict.UNKNOWN, Verdict.SAME,
    }  # fmt: skip
    assert rule.together({CASES[0].id: samples[CASES[0].id]}) is None
    for size, verdict in ((0.0, None), (0.01, Verdict.SAME)):  # nobody acts on 1 %
        calm = {c.id: sampled(c, *duets(c.id, CPU, around(size, 6))) for c in CASES}
        event = rule.together(calm)
        assert (event and event.verdict) is verdict


def test_limits_are_the_sizes_that_somebody_acts_on() -> None:
    """1 % more memory: the same at 5 %, worse at 0.5 %."""
    samples = sampled(CASE, *duets(CASE.id, "pss_steady", around(0.01, 16)))
    for limit, verdict in ((0.05, Verdict.SAME), (0.005, Verdict.WORSE)):
        actual = judged_alone(samples, {**MATERIAL, "memory": limit})["pss_steady"]
        assert actual.verdict is verdict, limit


def test_a_side_that_fails_twice_is_not_comparable() -> None:
    calm, broken = duets(CASE.id, CPU, around(0.05, 4, 0.01)), duet(CASE.id, head_flags=[WRONG])
    assert wants(*calm[:2], broken)
    assert not wants(*calm, broken, broken)
    (actual,) = judged(*calm, broken, broken).values()
    assert (actual.subject, actual.verdict, actual.ratio) == (FAILURE, Verdict.WORSE, None)
    assert actual.why == "head: expected hi, found ho"
    assert actual.n == 4
    both = duet(CASE.id, base_flags=[WRONG], head_flags=[WRONG])
    (actual,) = judged(both, both).values()
    assert (actual.why, actual.verdict) == ("both sides: expected hi, found ho", Verdict.UNKNOWN)


def test_duets_of_a_side_that_gets_quicker_decide_nothing() -> None:
    """Half as many again as sixty usable ones are tried, and then the case is given up."""
    quicker = [duet(CASE.id, {CPU: 2.0}, head_flags=[UNSTEADY])] * 90
    assert wants(*quicker[:89])
    assert not wants(*quicker)
    actual = judged(*quicker)[CPU]
    assert (actual.verdict, actual.ratio) == (Verdict.UNKNOWN, None)
    assert actual.n == 0
    assert (actual.why, actual.lack) == ("none of 90 pairs was usable: not_steady", "quiet")
    scattered = duets(CASE.id, CPU, around(0.0, 60, 0.3))
    assert wants(*scattered[:59])
    assert not wants(*scattered)
    assert [judged(*scattered[:n])[CPU].lack for n in (59, 60)] == ["time", "samples"]


LATE: Final = Flag(name=FlagName.OVERLOADED, detail="10/s offered, 4.2 answered")
PACED: Final = paced(CASE.id)
QUEUE: Final = {CPU: math.exp(0.12), "service_p50": math.exp(-0.4)}
WAITS: Final = {"response_p50": 1.1, CPU: 1.2}
LEAKS: Final = {CPU: 1.04, "pss_steady": 1.5}
TELLS: Final = {CPU: Verdict.WORSE}


def of(count: int, ratios: dict[str, float], wait: float | None = None, **more: Any) -> list[Duet]:
    """So many duets of these ratios and flags."""
    return [duet(CASE.id, ratios, **more).model_copy(update={"wait": wait})] * count


def without(metric: str, side: str) -> list[Duet]:
    """A duet of which a side lacks a metric."""
    (made,) = of(1, {})
    figures = {k: v for k, v in getattr(made, side).items() if k != metric}
    return [made.model_copy(update={side: figures})]


@pytest.mark.parametrize(
    ("case", "samples", "moved", "silent"),
    [
        # Recorded: base answered three at a time and head five, so that a slower head looked
        # faster. If a side keeps up, its times count.
        (PACED, of(6, QUEUE, base_flags=[LATE], head_flags=[LATE]), TELLS, {"service_p50"}),
        (PACED, of(6, QUEUE, head_flags=[LATE]), {**TELLS, "service_p50": Verdict.BETTER}, ()),
        # The longer a server idles between requests that wait, the more CPU each needs.
        (CASE, of(8, WAITS, 0.02), {"response_p50": Verdict.WORSE}, {"throughput", CPU}),
        (CASE, of(8, WAITS), TELLS, {"response_p50"}),
        # 4 % more CPU time is told whoever leaks; memory of a load that grows is not judged.
        (CASE, of(10, LEAKS, base_flags=[GROWING]), TELLS, {"pss_steady"}),
        (CASE, of(10, LEAKS, head_flags=[GROWING]), TELLS, {"pss_steady"}),
        # Noise that meets both sides takes no duet away, nor do notes.
        (CASE, [*of(5, {CPU: 1.04}, head_flags=[NOISY]), *of(5, {CPU: 1.03})], TELLS, ()),
        (CASE, of(10, {CPU: 1.04}, base_flags=[NOISY]), TELLS, ()),
        (CASE, [*of(1, {}, head_flags=[WRONG]), *of(9, {CPU: 1.04})], TELLS, ()),
        # Four of five duets must have a figure; no tail is said that too few have.
        *((CASE, [*without("throughput", side) * 2, *of(8, {"throughput": 1.05})],
           {"throughput": Verdict.BETTER}, {"response_p99"}) for side in ("base", "head")),
        *((CASE, [*without("throughput", side) * 3, *of(7, {"throughput": 1.05})], {}, ())
          for side in ("base", "head")),
    ],
)  # fmt: skip
def test_what_duets_can_show_is_judged(
    case: Case, samples: list[Duet], moved: dict[str, Verdict], silent: Collection[str]
) -> None:
    taken = sampled(case, *samples)
    actual = judged_alone(taken)
    assert {name: item.verdict for name, item in actual.items() if item.moved} == moved
    assert actual.keys().isdisjoint(silent)
    if not moved:
        assert actual["throughput"].verdict is Verdict.UNKNOWN
        assert "7 of 10 pairs have it, 80% must" in actual["throughput"].why
    assert (taken.mean("response_p50") is not None) is (case is CASE and taken.waits)


@pytest.mark.parametrize("silent", [True, False])
def test_what_is_not_judged_is_not_waited_for(silent: bool) -> None:
    """CPU of requests whose times moved as they wait, and memory that grows: both scatter here."""
    wild = [{"response_p50": 1.1, CPU: math.exp(log)} for log in around(0.0, 12, 0.3)]
    waits = [part for ratios in wild for part in of(1, ratios, 0.02 if silent else None)]
    assert wants(*waits) is not silent
    flags = [GROWING] if silent else []
    grows = [duet(CASE.id, {"pss_steady": math.exp(log)}, head_flags=flags)
             for log in around(0.0, 12, 0.3)]  # fmt: skip
    assert wants(*grows) is not silent


# What holds for all duets.


@given(SOME, st.sampled_from([CPU, "throughput", "pss_steady"]))
def test_swapped_sides_are_the_reciprocal(logs: Logs, metric: str) -> None:
    """And what moved is called by its direction."""
    item, other = moving(metric, logs)[metric], moving(metric, -logs)[metric]
    assert (item.ratio or 1) * (other.ratio or 1) == pytest.approx(1)
    assert (item.low or 1) * (other.high or 1) == pytest.approx(1)
    assert swapped(item.verdict) is other.verdict
    if item.moved:
        worse = ((item.ratio or 1) > 1) == (metric != "throughput")
        assert item.verdict is (Verdict.WORSE if worse else Verdict.BETTER)
        assert item.why == ""


@given(SOME, st.integers(1, 5))
def test_more_of_the_same_never_undecides(logs: Logs, times: int) -> None:
    """Duets that repeat those before decide what those decided, with a narrower interval."""
    before = rule.weigh(logs, "start_cpu", 0.1)
    after = rule.weigh(np.tile(logs, 1 + times), "start_cpu", 0.1)
    assert before is not None
    assert after is not None
    assert before.early is None or after.early == before.early
    assert min(after.moved, after.same) <= max(0.05, min(before.moved, before.same) + 1e-9)
    if before.early is None:
        assert after.sample.reach <= before.sample.reach + 1e-9


@given(SOME)
def test_a_verdict_says_no_more_than_its_interval(logs: Logs) -> None:
    actual = moving(CPU, logs)[CPU]
    if actual.moved:
        assert actual.low is not None
        assert actual.high is not None
        assert (
            min(abs(math.log(actual.low)), abs(math.log(actual.high))) >= math.log1p(0.002) - 1e-9
        )
        assert (actual.low > 1) == (actual.high > 1)


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [(0.0, 0.0, 0.02), (math.log1p(0.002), 0.0, 0.05), (0.02, 0.9, 1.0), (-0.02, 0.9, 1.0)],
)
def test_the_rates_of_simulated_comparisons(size: float, least: float, most: float) -> None:
    """600 comparisons of twelve duets that scatter by 1.4 %, looked at after each duet.

    Without a change, and with one of a tenth of the limit, at most 2 and 5 % are called; of a
    change as large as the limit nine in ten are, in its direction.
    """
    source = np.random.default_rng(7)
    called = 0
    for logs in size + 0.014 * source.standard_normal((600, 12)):
        of = rule.weigh(logs, CPU, 0.02)
        assert of is not None
        moved = of.early == "moved" or (of.early is None and of.moved <= 0.05)
        called += moved and (size == 0 or of.sample.mean * size > 0)
    assert least <= called / 600 <= most


def judge_again(stored: Comparison) -> Iterator[str]:
    samples = {case.case.id: CaseDuets(case.case) for case in stored.cases if case.duets}
    duets = [duet for case in stored.cases for duet in case.duets]
    for item in sorted(duets, key=lambda item: item.order):
        samples[item.case].add(item)
    for findings in of_duets(samples).values():
        yield from map(_line, findings)


def _line(finding: Finding) -> str:
    figures = (finding.ratio, finding.low, finding.high, finding.detectable)
    shown = " ".join("-" if value is None else f"{value:.6g}" for value in figures)
    name = f"{finding.case} {finding.subject}"
    return f"{name} | {finding.verdict} {shown} {finding.n} {finding.why}".rstrip()


def test_stored_comparisons_judged_again_give_the_same_verdicts() -> None:
    results = Checkout.here().results
    lines = []
    for path in sorted((results / "comparisons").glob("*.json")):
        lines += [f"# {path.stem}", *judge_again(result_files.read(Comparison, path))]
    assert_golden("judged_again.txt", "\n".join(lines))
