"""How long is left: hand-worked, and honest after the first tenth."""

from __future__ import annotations

import pytest

from servebench.duration import RemainingTime


def test_before_anything_the_declared_expectation_counts() -> None:
    """Nothing is corrected that has not been seen."""
    estimate = RemainingTime([10.0, 20.0])
    assert (estimate.correction, estimate.remaining, estimate.total) == (0.0, 30.0, 30.0)


def test_the_correction_grows_in() -> None:
    """2 s more than expected: 2/5 of it after one launch, 8/8 after four."""
    estimate = RemainingTime([10.0] * 5)
    estimate.observe(12)
    assert estimate.correction == pytest.approx(0.4)
    assert estimate.remaining == pytest.approx(4 * 10.4)
    assert estimate.total == pytest.approx(12 + 4 * 10.4)
    for _ in range(3):
        estimate.observe(12)
    assert estimate.correction == pytest.approx(1.0)
    assert estimate.total == pytest.approx(48 + 11)


def test_the_correction_is_per_launch_whatever_its_length() -> None:
    """A slow machine adds its seconds to short and long launches alike."""
    estimate = RemainingTime([1.0, 100.0])
    estimate.observe(6)
    assert estimate.remaining == pytest.approx(101)


def test_nothing_takes_less_than_no_time() -> None:
    """Failed launches are short; the correction of long ones does not make short ones negative."""
    estimate = RemainingTime([100.0, 1.0, 50.0])
    estimate.observe(0)
    assert estimate.correction == pytest.approx(-20)
    assert estimate.remaining == pytest.approx(0 + 30)


def test_in_the_end_nothing_remains() -> None:
    """The total is then what was observed."""
    estimate = RemainingTime([1.0, 2.0])
    estimate.observe(3)
    estimate.observe(4)
    assert (estimate.remaining, estimate.total) == (0, 7)


@pytest.mark.parametrize("overhead", [-3.0, 1.0, 4.0])
def test_honest_after_the_first_tenth(overhead: float) -> None:
    """Of 100 launches, each off by the same seconds, ten are enough for an error below 20 %."""
    expected = [8.0 + 4 * (number % 3) for number in range(100)]
    estimate = RemainingTime(expected)
    for seconds in expected[:10]:
        estimate.observe(seconds + overhead)
    truth = sum(expected) + 100 * overhead
    assert estimate.total == pytest.approx(truth, rel=0.2)
