"""The one shape of a figure: what lies within its interval, and how wide that is."""

import pytest

from duetbench.core.interval import Interval


def test_an_interval_excludes_what_lies_beyond_its_ends() -> None:
    """Of 1.10 (1.04…1.21) the upper half, 0.11, is the longer one: 10 % of the figure."""
    result = Interval(1.10, 1.04, 1.21, 12)
    assert result.ends == (1.04, 1.21)
    assert result.spread == pytest.approx(0.1)
    assert [result.excludes(value) for value in (1.0, 1.04, 1.2, 1.21, 1.22)] == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_one_sample_has_no_ends_and_excludes_nothing() -> None:
    alone = Interval(1.1)
    assert (alone.ends, alone.spread, alone.excludes(9.0), alone.n) == (None, None, False, 1)
    assert Interval(0.0, -1.0, 1.0, 3).spread is None
