"""Wake-ups and work: judged from the same duets, shown, and no part of any other verdict."""

import csv
import math
import random
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from comparing import CPU, FASTER, OPEN, busy, comparison_of, duet, judged_case
from duetbench.core.metrics import COUNTED, WAKE_UPS, WORK
from duetbench.core.model import Verdict
from duetbench.judge.priors import Priors
from duetbench.judge.samples import CaseDuets, explaining
from duetbench.judge.sequential_test import SequentialTest, judge, judge_beside
from duetbench.judge.wake_ups import Slope, kind, learn_slopes
from duetbench.show.comparison_text import as_markdown
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from duetbench.store.comparison import Duet, Judgement, Price
from synthetic import MACHINE

CASE: Final = "x/a/py3.14"
OWN: Final = 52e-6
PRICE: Final = 60e-6
"""A made-up server: CPU per request is its work, and 60 µs for each wake-up."""


def woken(
    base: float, head: float, *, swapped: bool = False, noise: float = 0.0, own: float = 3e-6
) -> Duet:
    """A duet of the made-up server whose sides wake up so many times per request.

    Head does `own` seconds of work more.
    """
    wakes = {"base": base, "head": head}
    cpu = {
        side: OWN + own * (side == "head") + PRICE * wakes[side] * math.exp(noise) for side in wakes
    }
    figures = {side: {CPU: cpu[side], WAKE_UPS: wakes[side], "pss_steady": 9e7} for side in wakes}
    one, other = ("head", "base") if swapped else ("base", "head")
    return duet(CASE).model_copy(update={"base": figures[one], "head": figures[other]})


def batched(load: float, more: float, count: int, **made: bool) -> list[Duet]:
    """Duets in which both sides wake up about `load` times per request, head `more` as well."""
    source = random.Random(5)
    near = [(source.gauss(0, 0.03), source.gauss(0, 0.03)) for _ in range(count)]
    return [
        woken(load * (1 + one), load * (1 + more + two), noise=source.gauss(0, 0.002), **made)
        for one, two in near
    ]


def closed(duets: list[Duet]) -> SequentialTest:
    test = SequentialTest({CASE: CaseDuets(busy(CASE))})
    for one in duets:
        test.add(CASE, one)
    test.close()
    return test


class Beside(NamedTuple):
    """What a comparison has beside its judgements."""

    witnesses: tuple[Judgement, ...]
    price: Price | None


def explained(test: SequentialTest, earlier: Mapping[Hashable, Slope] | None = None) -> Beside:
    asked = explaining(test.samples, earlier or {})
    return Beside(judge_beside(test, asked)[CASE], asked[CASE].price)


def beside(duets: list[Duet], slope: Slope | None = None) -> Beside:
    return explained(closed(duets), {kind(busy(CASE)): slope} if slope else None)


def only(found: Beside, metric: str) -> Judgement:
    (one,) = (one for one in found.witnesses if one.metric == metric)
    return one


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("load", "more"), [(1.3, -0.03), (0.55, 0.16), (0.6, 0.09)])
def test_work_is_the_same_under_every_load(load: float, more: float, swapped: bool) -> None:
    """3 µs of work at three loads, beside 3 % fewer, 16 and 9 % more wake-ups per request.

    CPU rises by 0.5, 9.7 and 7.1 %; work by 3 µs of what a request takes.
    """
    found = beside(batched(load, more, 25, swapped=swapped))
    assert found.price is not None
    assert found.price.low < PRICE < found.price.high
    assert found.price.seconds == pytest.approx(PRICE, rel=0.05)
    cpu = OWN + PRICE * load, OWN + 3e-6 + PRICE * load * (1 + more)
    mean = (cpu[1] - cpu[0]) / math.log(cpu[1] / cpu[0])
    expected = math.exp((-1 if swapped else 1) * 3e-6 / mean)
    work = only(found, WORK)
    assert work.ratio == pytest.approx(expected, abs=0.003)
    assert work.low is not None
    assert work.high is not None
    assert work.low < expected < work.high
    assert work.verdict is (Verdict.FASTER if swapped else Verdict.SLOWER)


def test_more_wake_ups_on_purpose_are_seen_as_such() -> None:
    """Half a wake-up more per request, or a fifth, and no work: never out of sight."""
    test = closed(
        [
            woken(
                0.6 + 0.02 * (-1) ** n, 1.1 + 0.01 * (n % 3), noise=0.003 * (-1) ** (n // 2), own=0
            )
            for n in range(25)
        ]
    )
    found = explained(test)
    (cpu,) = (one for one in judge(test)[CASE] if one.metric == CPU)
    assert cpu.verdict is Verdict.SLOWER
    assert only(found, WAKE_UPS).verdict is Verdict.SLOWER
    assert only(found, WAKE_UPS).ratio == pytest.approx(1.11 / 0.6, rel=0.01)
    assert found.price is None
    few = [woken(0.6 + 0.02 * (-1) ** n, 0.78 + n % 3 / 100, own=0) for n in range(25)]
    assert only(beside(few), WAKE_UPS).verdict is Verdict.SLOWER
    assert only(beside(few), WORK).verdict is Verdict.NO_CHANGE


def test_between_two_servers_there_is_no_work() -> None:
    """A wake-up of Granian costs something else than one of uvicorn."""
    test = closed(batched(0.6, 0.16, 25))
    (asked,) = explaining(test.samples, {}, cross=True).values()
    assert asked.price is None
    assert WAKE_UPS in asked.metrics
    assert WORK not in asked.metrics
    assert explained(test).price is not None


def test_a_price_that_is_not_sure_makes_the_interval_of_work_wider() -> None:
    duets = batched(0.6, 0.16, 16)
    sure, unsure = (
        only(beside(duets, Slope(wakes, wakes * PRICE, wakes * (PRICE**2 + left), 200)), WORK)
        for wakes, left in ((1e9, 1e-12), (1e5, 1e-8))
    )
    assert sure.ratio
    assert sure.low
    assert unsure.low
    assert unsure.low < sure.low


@pytest.mark.parametrize(
    "duets",
    [
        batched(0.6, 0.1, 6),  # too few
        [duet(CASE, {CPU: 1.01 ** (-1) ** n, WAKE_UPS: 1.1 ** (n % 3)}) for n in range(30)],
        [woken(0.001, 0.0012 + 1e-5 * (n % 4)) for n in range(30)],  # hands nothing off
    ],
)
def test_without_a_price_nothing_is_taken_from_cpu(duets: list[Duet]) -> None:
    found = beside(duets)
    assert found.price is None
    assert WORK not in [one.metric for one in found.witnesses]


def test_a_price_is_of_one_machine_and_one_kind_of_server() -> None:
    case = judged_case(CASE).model_copy(update={"duets": tuple(batched(0.6, 0.1, 20))})
    made = comparison_of(case, method={"version": 4})
    (slope,) = learn_slopes([made, made]).values()
    assert slope.freedom == 38
    assert slope.price is not None
    assert slope.price.seconds == pytest.approx(PRICE, rel=0.05)
    assert Priors.learned(MACHINE.id, [made]).slopes == learn_slopes([made])
    assert Priors.learned("another", [made]).slopes == {}
    choice = made.model_copy(update={"cross": True})
    assert Priors.learned(MACHINE.id, [choice] * 3) == Priors.learned(MACHINE.id, [])
    assert (CASE, WORK, False) in Priors.learned(MACHINE.id, [made] * 3).by_kind
    assert kind(case.case) != kind(case.case.model_copy(update={"server": "granian"}))
    few = batched(0.6, 0.1, 6)
    assert beside(few).price is None
    assert beside(few, slope).price is not None


@pytest.mark.parametrize("sign", [1, -1])
def test_they_are_never_waited_for_and_decide_nothing(sign: int) -> None:
    """16 % more, or fewer, in six duets at the same CPU: that stays "no change"."""

    def sampled(log: float, spread: float) -> SequentialTest:
        logs = [log + spread * (-1) ** number for number in range(6)]
        return closed([duet(CASE, {WAKE_UPS: math.exp(log)}) for log in logs])

    plain, moved = sampled(0.0, 0.6), sampled(sign * math.log(1.16), 0.02)
    judgements = judge(moved)[CASE]
    assert judgements == judge(plain)[CASE]
    assert only(explained(plain), WAKE_UPS).verdict is Verdict.INCONCLUSIVE
    found = only(explained(moved), WAKE_UPS)
    assert found.verdict is (Verdict.SLOWER if sign > 0 else Verdict.FASTER)
    shown = comparison_of(judged_case(CASE, *judgements, witnesses=(found,)))
    without = comparison_of(judged_case(CASE, *judgements))
    assert make_view(shown).headline == make_view(without).headline
    assert exit_code(shown) == exit_code(without) == 0
    (section,) = (one for one in make_view(shown).sections if one.title == "Work and wake-ups")
    assert section.rows[0][1:3] == ["wake-ups per request", "more" if sign > 0 else "fewer"]


@pytest.mark.parametrize("verdict", [Verdict.SLOWER, Verdict.FASTER])
def test_work_that_moved_is_the_news_where_cpu_does_not_show_it(verdict: Verdict) -> None:
    """Of 3 % either way: exit code 1 for what is worse; where CPU moved it has the word."""
    ratio = 1.03 if verdict is Verdict.SLOWER else 0.97
    work = Judgement(metric=WORK, verdict=verdict, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01)
    shown = comparison_of(judged_case(CASE, OPEN, witnesses=(work,)))
    more = "more" if verdict is Verdict.SLOWER else "less"
    assert f"does 3.0 % {more} work per request" in make_view(shown).headline
    assert exit_code(shown) == (1 if verdict is Verdict.SLOWER else 3)
    plain = comparison_of(judged_case(CASE, FASTER, witnesses=(work,)))
    assert "work per request" not in make_view(plain).headline
    assert exit_code(plain) == 0


@pytest.mark.parametrize("swapped", [False, True])
def test_what_processors_count_is_judged_beside_the_clock(swapped: bool) -> None:
    """Published counts of two versions, of a server that hands nothing off: no wake-ups, no work.

    At the look of four duets the mean log of the ratios of instructions is 0.002595; that of cycles
    -0.024305, with a standard error of 0.0044: they scatter too much.
    """
    text = (Path(__file__).parents[1] / "data" / "counters" / "published.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    sides = ("head", "base") if swapped else ("base", "head")
    duets = []
    for row in rows:
        base, head = (
            {name: float(row[f"{side}_{name.split('_')[1]}"]) for name in COUNTED} for side in sides
        )
        one = duet(CASE)
        duets.append(one.model_copy(update={"base": one.base | base, "head": one.head | head}))
    found = beside(duets)
    assert [one.metric for one in found.witnesses] == [*COUNTED]
    sign = -1 if swapped else 1
    instructions, cycles = found.witnesses
    assert instructions.ratio == pytest.approx(math.exp(sign * 0.002595), abs=1e-6)
    assert instructions.verdict is Verdict.NO_CHANGE
    assert cycles.ratio == pytest.approx(math.exp(sign * -0.024305), abs=1e-5)
    assert cycles.verdict is Verdict.INCONCLUSIVE


def test_one_line_says_what_moved_by_which() -> None:
    test = closed(batched(0.55, 0.16, 25))
    found = explained(test)
    case = judged_case(
        CASE,
        *judge(test)[CASE],
        witnesses=found.witnesses,
        wake_up=found.price,
        absolute_base=test.samples[CASE].means("base"),
    )
    again = type(made := comparison_of(case)).model_validate_json(made.model_dump_json())
    ((name, line),) = (
        line
        for one in make_view(again).sections
        if one.title == "Work and wake-ups"
        for line in one.lines
        if line[0]
    )
    assert name == CASE
    assert line.startswith("of +9.")
    assert " %, 2.93 µs), and +5.8" in line
    assert " wake-ups, at 60." in line or " wake-ups, at 59." in line
    assert line.replace("…", "") in as_markdown(again).replace("…", "")
