"""What each release of a package did, which of several did it, and the one size that is quoted."""

import math
from collections.abc import Mapping

import pytest

from duetbench.core.comparison import INSTRUCTIONS, Release
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from observatory.store.points import Points
from observatory.trend.levels import Rise
from observatory.trend.releases import ReleaseEffect, Result, judged, levels
from sites import FREE, JSON, RELEASES, table_of
from synthetic import a_file, of, ratio

FIRST, SECOND, THIRD = RELEASES


def release(number: int, cpu: float, se: float, free_se: float) -> Points:
    """A version each day: its CPU per request, with the GIL, and no change without it."""
    about = Release(package="fastapi", version=f"{number}", previous=f"{number - 1}")
    cases = of(JSON, ratio(cpu, se)), of(FREE, ratio(1.0, free_se))
    return a_file(number + 1, *cases, label=f"fastapi {number}", release=about)


def results_of(*points: Points) -> Mapping[str, Result]:
    """The effect of each release but the first, by version."""
    table = table_of(*points)
    return judged([table])[table]


def effects(base: Points, head: Points, metric: str = CPU) -> dict[str, ReleaseEffect]:
    (result,) = results_of(base, head).values()
    return {item.case: item for item in result.effects if item.metric == metric}


def test_errors_of_two_releases_add_in_quadrature() -> None:
    """0.003 and 0.004 make 0.005, with 18 degrees of freedom (625 / 33.7): t is 2.1009."""
    item = effects(FIRST, THIRD)[JSON]
    assert item.ratio.estimate == pytest.approx(1.2)
    half = 2.1009 * 0.005
    assert item.ratio.ends == pytest.approx((1.2 * math.exp(-half), 1.2 * math.exp(half)), rel=1e-5)
    assert item.verdict is Verdict.WORSE
    low, high = effects(FIRST, THIRD, INSTRUCTIONS)[JSON].ratio.ends or (0, 0)
    assert math.log(high / low) == pytest.approx(2 * 1.96 * math.sqrt(2) * 1e-5, rel=1e-3)
    swapped = effects(release(1, 1.2, 0.004, 0.01), release(2, 1.0, 0.003, 0.01))
    assert swapped[JSON].ratio.estimate == pytest.approx(1 / 1.2)
    assert swapped[JSON].verdict is Verdict.BETTER


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_seen_by_chance_among_many_releases_is_not_called(sign: int) -> None:
    """The last step, of 2.6 standard errors, is called alone, and not among twelve."""
    # Beyond the relevance floor of CPU.
    ratio = math.exp(sign * (math.log1p(0.002) + 2.6 * math.hypot(0.003, 0.003)))
    heights = [1.0] * 6 + [1.2**sign] * 6 + [1.2**sign * ratio]
    files = [release(n, level, 0.003, 0.003) for n, level in enumerate(heights)]
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
        ratios = (math.exp(sign * log) for log in logs)
        files = [release(n, ratio, 0.01, 0.01) for n, ratio in enumerate(ratios)]
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
