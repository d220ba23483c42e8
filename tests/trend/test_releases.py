"""What each release of a package did, which of several did it, and the one size that is quoted."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import pytest

import synthetic
from duetbench.core.change import Release
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from observatory.show import quoting
from observatory.store.change import SeriesName
from observatory.store.points import Points
from observatory.trend import quotes
from observatory.trend.levels import Rise
from observatory.trend.releases import ReleaseEffect, Result, judged, levels
from site_builds import FREE, JSON, RELEASES, release_points, table_of

FIRST, SECOND, THIRD = RELEASES


def results_of(*points: Points) -> Mapping[str, Result]:
    """The effect of each release but the first, by version."""
    table = table_of(*points)
    return judged([table])[table]


def effects(base: Points, head: Points) -> dict[str, ReleaseEffect]:
    (result,) = results_of(base, head).values()
    return {item.case: item for item in result.effects if item.metric == CPU}


def test_errors_of_two_releases_add_in_quadrature() -> None:
    """0.003 and 0.004 make 0.005, with 18 degrees of freedom (625 / 33.7): t is 2.1009."""
    item = effects(FIRST, THIRD)[JSON]
    assert item.ratio.estimate == pytest.approx(1.2)
    half = 2.1009 * 0.005
    assert item.ratio.ends == pytest.approx((1.2 * math.exp(-half), 1.2 * math.exp(half)), rel=1e-5)
    assert item.verdict is Verdict.WORSE
    swapped = effects(
        release_points("1", None, 1, gil=(1.2, 0.004), free=(1.0, 0.01)),
        release_points("2", "1", 8, gil=(1.0, 0.003), free=(1.0, 0.01)),
    )
    assert swapped[JSON].ratio.estimate == pytest.approx(1 / 1.2)
    assert swapped[JSON].verdict is Verdict.BETTER


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_seen_by_chance_among_many_releases_is_not_called(sign: int) -> None:
    """The last step, of 2.6 standard errors, is called alone, and not among twelve."""
    # Beyond the relevance floor of CPU.
    ratio = math.exp(sign * (math.log1p(0.002) + 2.6 * math.hypot(0.003, 0.003)))
    heights = [1.0] * 6 + [1.2**sign] * 6 + [1.2**sign * ratio]
    files = [
        release_points(f"{n}", f"{n - 1}", n + 1, gil=(level, 0.003), free=(1.0, 0.003))
        for n, level in enumerate(heights)
    ]
    alone, among = results_of(*files[-2:])["12"], results_of(*files)
    verdict = Verdict.WORSE if sign > 0 else Verdict.BETTER
    assert [effect.verdict for effect in alone.moved] == [verdict]
    assert [version for version, result in among.items() if result.moved] == ["6"]
    assert (alone.detectable or 0) < (among["12"].detectable or 0)
    same = effects(FIRST, SECOND)
    assert same[JSON].verdict is Verdict.SAME  # all of ±0.69 % is within 1 %
    assert same[FREE].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("sign", [1, -1])
def test_a_small_step_is_seen_by_all_releases_on_both_sides_of_it(sign: int) -> None:
    """4 % is 2.8 errors of two neighbours, too little among 42 figures, and 9 of ten and twelve.

    If the release before it lies on both levels alike, none is named.
    """
    scatter = [0.004 * (-1) ** n for n in range(22)]

    def steps(*logs: float) -> dict[tuple[str, str, str], Rise]:
        files = [
            release_points(
                f"{n}", f"{n - 1}", n + 1, gil=(math.exp(sign * log), 0.01), free=(1.0, 0.01)
            )
            for n, log in enumerate(logs)
        ]
        return levels(table_of(*files))

    small = [0.04 * (n >= 10) + more for n, more in enumerate(scatter)]
    ((key, step),) = steps(*small).items()
    assert key == ("10", JSON, CPU)
    assert (step.left.size, step.right.size) == (10, 12)
    assert step.height == pytest.approx(sign * 0.04)
    half = 1.96 * 0.01 * math.sqrt(1 / 10 + 1 / 12)
    assert math.log((step.ratio.high or 0) / step.ratio.estimate) == pytest.approx(half, 1e-4)
    small[9] = 0.02
    assert not steps(*small)
    assert not steps(*scatter)


SERVED: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


def a_quote(
    ratio: float, spread: float = 0.001, metric: str = CPU, case: str = SERVED
) -> ReleaseEffect:
    return ReleaseEffect(
        "fastapi", "1.1", "1.0", datetime(2026, 11, 1, tzinfo=UTC), "m", case, metric,
        Interval(ratio, ratio / (1 + spread), ratio * (1 + spread)), Verdict.WORSE,
    )  # fmt: skip


def test_one_measurement_of_a_release_is_quoted() -> None:
    """The largest on requests, starts, or memory, if it is large enough to act on: 2, 10, 5 %.

    Of one case the narrowest measurement counts: 30 % to within 10 % are 20 % to within 1 %.
    """
    small, large, start = a_quote(1.01), a_quote(1.03, 0.02), a_quote(1.5, 0.01, "start_cpu")
    memory, little = a_quote(2.0, 0.01, "pss_steady"), a_quote(1.04, 0.01, "pss_steady")
    loud, narrow, other = a_quote(1.3, 0.1), a_quote(1.2, 0.01), a_quote(1.15, case="c/d/py3.14")
    for chosen, *others in (
        (large, memory, start), (start, memory), (memory, small), (small, little),
        (narrow, loud, other), (loud, other),
    ):  # fmt: skip
        assert quotes._choose([*others, chosen]) == chosen


def test_a_change_quotes_the_release_that_a_search_named_alone() -> None:
    old, new = (
        Release(package="fastapi", version=version, previous=before)
        for version, before in (
            ("0.142.0", "0.141.1"),
            ("0.143.0", "0.142.0"),
        )
    )
    share = synthetic.share(old, low=0.79, ratio=0.8, high=0.81)
    series = SeriesName(machine="x", case="a/b", metric="throughput")
    record = synthetic.change_record(series=series, shares=(share,), culprit=old)
    (quote,) = quotes.quotes({}, [record]).values()
    assert quote.key == ("fastapi", "0.142.0")
    assert (quote.ratio.estimate, quote.machine, quote.metric) == (0.8, "x", "throughput")
    assert quote.verdict is Verdict.WORSE, "fewer requests are worse"
    assert quoting.finding(quote) == "fastapi 0.142.0 serves 20 % fewer requests per second for a/b"
    start = a_quote(0.903, 0.01, "start_cpu", "start-up/models/current/py3.14")
    assert quoting.finding(start) == (
        "fastapi 1.1 needs 10 % less CPU to start FastAPI beside 200 models"
    )
    assert quotes.quote_of(record, {quote.key: quote}) == quote
    both = synthetic.share(old, new, low=1.09, ratio=1.1, high=1.11)
    together = quotes.quotes({}, [synthetic.change_record(shares=(both,), culprit=old)])
    assert [quote.together for quote in together.values()] == [
        ("fastapi 0.143.0",), ("fastapi 0.142.0",),
    ]  # fmt: skip
