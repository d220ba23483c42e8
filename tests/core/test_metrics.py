"""The registry of metrics, formats and bounds, and intervals."""

import math

import pytest

from duetbench.core import units
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.units import Interval


def test_every_metric_has_bounds() -> None:
    """Zero always counts; below zero only what can shrink; neither dust nor more than there is."""
    for metric in METRICS.values():
        assert metric.wrong(0) is None
        assert metric.wrong(0.5) is None
        assert all(metric.wrong(value) for value in (1e16, math.inf, math.nan, 1e-13))
        assert bool(metric.wrong(-0.5)) is not metric.shrinks
    assert METRICS[CPU].wrong(-0.5) == (
        "expected server_cpu_per_request to be 0, or 1e-12 to 1e+15, found -0.5"
    )


def test_figures_are_written_with_their_unit() -> None:
    """Three digits, four of a rate from 1,000 on; the unit that reads best."""
    assert [units.seconds(value) for value in (0.0123, -2.5, 1.0, 0.0)] == [
        "12.3 ms", "-2.50 s", "1.00 s", "0 ns",
    ]  # fmt: skip
    assert (units.rate(1234.5), units.size(90e6), units.share(0.9997)) == (
        "1,234/s", "90.0 MB", "100 %",
    )  # fmt: skip


def test_an_interval_excludes_what_lies_beyond_its_ends() -> None:
    """Of 1.10 (1.04…1.21) the upper half, 0.11, is the longer one: 10 % of the figure."""
    result = Interval(1.10, 1.04, 1.21, 12)
    assert result.ends == (1.04, 1.21)
    assert result.spread == pytest.approx(0.1)
    outside = [value for value in (1.0, 1.04, 1.2, 1.21, 1.22) if result.excludes(value)]
    assert outside == [1.0, 1.22]
    # One sample has no ends, and excludes nothing.
    alone = Interval(1.1)
    assert (alone.ends, alone.spread, alone.excludes(9.0), alone.n) == (None, None, False, 1)
    assert Interval(0.0, -1.0, 1.0, 3).spread is None
