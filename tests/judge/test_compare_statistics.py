"""The statistics of duets, with figures worked out by hand.

Student's t with two degrees of freedom has a formula: P(T > t) = 1/2 - t / (2 sqrt(2 + t^2)), so
three log ratios of 1, 2 and 3 % (mean 0.02, standard deviation 0.01, standard error 0.01 / sqrt 3)
can be checked with a pocket calculator.
"""

import math

import numpy as np
import pytest
from scipy import special

from duetbench.judge.statistics import (
    RESOLUTION,
    Looks,
    Prior,
    Sample,
    adjust,
    detectable,
    interval,
    likeliest,
    moved_p,
    same_p,
    sample,
)

THREE = Sample(3, 0.02, 0.01)
T_2 = 4.302653  # 97.5 %, two degrees of freedom (any printed table)
T_2_POWER = math.sqrt(1.125)  # 80 %: t / (2 sqrt(2 + t^2)) = 0.3
ERROR = 0.01 / math.sqrt(3)


def test_a_sample_is_number_mean_and_standard_deviation() -> None:
    """1, 2, 3 %: mean 2 %, standard deviation 1 %."""
    found = sample(np.array([0.01, 0.02, 0.03]))
    assert found.n == 3
    assert [found.mean, found.sd] == pytest.approx([0.02, 0.01])
    assert found.error == pytest.approx(ERROR)


def test_the_interval_is_students() -> None:
    """0.02 ± 4.3027 * 0.0057735."""
    low, high = interval(THREE, 0.05)
    assert low == pytest.approx(0.02 - T_2 * ERROR, rel=1e-5)
    assert high == pytest.approx(0.02 + T_2 * ERROR, rel=1e-5)


def test_the_minimal_effect_test_counts_from_the_floor() -> None:
    """A floor of 1 % (on the log scale) leaves sqrt(3) standard errors: p = 0.1127 on one side."""
    floor = math.expm1(0.01)
    one_side = 0.5 - math.sqrt(3) / (2 * math.sqrt(5))
    assert moved_p(THREE, floor) == pytest.approx(2 * one_side)


def test_equivalence_is_two_one_sided_tests() -> None:
    """Tolerance 5 %: 3 % left above (t = 5.196, p = 0.0175) and 7 % below; the worse one counts."""
    above = 0.5 - math.sqrt(27) / (2 * math.sqrt(29))
    assert same_p(THREE, math.expm1(0.05)) == pytest.approx(above)
    assert above == pytest.approx(0.01754, abs=1e-5)


def test_the_detectable_change_adds_floor_error_and_power() -> None:
    """0.01 + (4.3027 + 1.0607) * 0.0057735 = 0.04097 on the log scale: a change of 4.18 %."""
    found = detectable(THREE, math.expm1(0.01), alpha=0.05, power=0.8)
    assert found == pytest.approx(math.expm1(0.01 + (T_2 + T_2_POWER) * ERROR), rel=1e-5)
    assert found == pytest.approx(0.0418, abs=1e-4)


def test_equal_duets_are_believed_as_far_as_figures_resolve() -> None:
    constant = sample(np.full(5, 0.001))
    assert constant.sd == pytest.approx(0, abs=1e-12)
    assert constant.error == pytest.approx(RESOLUTION / math.sqrt(5))
    assert moved_p(constant, 0.002) == 1.0
    assert moved_p(sample(np.full(5, 0.02)), 0.002) < 1e-5
    assert same_p(sample(np.zeros(5)), 0.01) < 1e-5


def test_a_prior_counts_as_so_many_duets() -> None:
    """Two degrees of freedom of 1 %, four of 2 %: (2 * 1 + 4 * 4) / 6 = 3, its root in per cent.

    Of 5 % where 1 % is known F(2, 4) is 25, which chance gives in (1 + 12.5)^-2 = 0.55 % of cases:
    the prior is not its own, and does not count; nor where 20 % is known (F of 1/400: 0.25 %).
    """
    logs = np.array([0.01, 0.02, 0.03])
    moderated = sample(logs, Prior(0.02, 4))
    assert moderated.sd == pytest.approx(math.sqrt(3) / 100)
    assert (moderated.n, moderated.freedom) == (3, 6)
    assert interval(moderated, 0.05)[1] == pytest.approx(0.02 + 2.446912 * 0.01, rel=1e-6)
    loud = np.array([-0.03, 0.02, 0.07])
    assert sample(loud, Prior(0.01, 4)) == sample(loud)
    assert sample(logs, Prior(0.2, 4)) == sample(logs)
    assert sample(logs, Prior(0.05, 4)).sd == pytest.approx(math.sqrt((2 + 4 * 25) / 6) / 100)


def test_adjusted_p_values_are_benjamini_and_hochbergs() -> None:
    """P m / rank, then the running minimum from the largest: 0.01 * 4 is capped by 0.03 * 4 / 3."""
    ones = [1.0] * 4
    assert adjust([0.03, 0.01, 0.5, 0.02], ones) == pytest.approx([0.04, 0.04, 0.5, 0.04])
    assert adjust([], []) == []
    assert adjust([0.2], [1.0]) == pytest.approx([0.2])
    many = np.random.default_rng(3).beta(0.3, 2, 200)
    from scipy import stats  # a second for each worker that only collects

    theirs = stats.false_discovery_control(many)
    assert adjust(many.tolist(), [1.0] * 200) == pytest.approx(theirs.tolist())


def test_weights_divide_p_values_and_never_make_one_smaller_than_it_was() -> None:
    """Weights of 2, 1, 0.5 and 0.5: 0.02, 0.01, 0.04 and 0.3 count as 0.01, 0.01, 0.08 and 0.6.

    Two of four: 0.01 * 4 / 2 = 0.02; then 0.08 * 4 / 3 and 0.6. With a weight of 4 of four the
    second p value alone would count as a quarter of itself, and all of them as less; it stays.
    """
    found = adjust([0.02, 0.01, 0.04, 0.3], [2, 1, 0.5, 0.5])
    assert found == pytest.approx([0.02, 0.02, 0.04 / 0.375, 0.6])
    assert adjust([0.01, 0.04, 0.001, 0.001], [0.4, 2.8, 0.4, 0.4])[1] == pytest.approx(0.04)


def test_the_likeliest_mean_allows_for_what_was_needed_to_be_called() -> None:
    """By brute force: normal density of the mean over the chance of being called, on a grid."""
    last, edge = Sample(60, 0.0, 0.012), 0.0063
    grid = np.linspace(0, 0.03, 3001)
    chance = special.ndtr((grid - edge) / last.error) + special.ndtr((-grid - edge) / last.error)
    for n, mean in ((60, 0.0066), (60, 0.008), (25, 0.011), (10, 0.025)):
        found = Sample(n, mean, 0.012)
        likelihood = np.exp(-(((mean - grid) / found.error) ** 2) / 2) / chance
        best = float(grid[likelihood.argmax()])
        assert likeliest(found, last, edge) == pytest.approx(best, abs=1e-5)
        assert likeliest(Sample(n, -mean, 0.012), last, edge) == pytest.approx(-best, abs=1e-5)


LOOKS = Looks((5, 8, 12), (0.1, 0.3, 0.6), least=3)


def test_looks_spend_the_error_rate_once() -> None:
    assert LOOKS.last == 12
    for count, scheduled in ((4, None), (5, (5, 0.1)), (7, (5, 0.1)), (12, (12, 0.6))):
        assert LOOKS.latest(count) == scheduled
    assert LOOKS.latest(2, final=True) is None
    final = {3: (3, 1), 5: (5, 1), 7: (7, 0.9), 8: (8, 0.9), 12: (12, 0.6), 15: (12, 0.6)}
    for count, taken in final.items():
        assert LOOKS.latest(count, final=True) == pytest.approx(taken)
