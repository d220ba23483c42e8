"""Means and intervals over launches, with figures worked out by hand."""

import math

import pytest

import synthetic
from duetbench.core.errors import FlagName
from duetbench.core.model import CaseResult, Flag
from duetbench.trend.summary import estimate, summarise_case

T_2 = 4.302653  # Student's t, 97.5 %, two degrees of freedom (any printed table)


def test_three_launches_give_a_geometric_mean_and_a_t_interval() -> None:
    """1, 10, 100: the logarithms are 0, 1, 2 to base 10: mean 1, sd 1, half = t / sqrt(3)."""
    found, half = estimate([1.0, 10.0, 100.0]), T_2 / math.sqrt(3)
    expected = (10, 10 ** (1 - half), 10 ** (1 + half))
    assert (found.estimate, found.low, found.high) == pytest.approx(expected, rel=1e-5)
    assert found.n == 3


def test_one_launch_has_no_interval() -> None:
    found = estimate([5.0])
    assert (found.n, found.estimate) == (1, 5.0)
    assert {found.low, found.high, found.spread} == {None}


def test_zeros_are_averaged_as_they_are() -> None:
    """0, 3 and 6 errors: mean 3, sd 3, half = t * 3 / sqrt(3); no logarithm of nothing."""
    found = estimate([0.0, 3.0, 6.0])
    assert found.estimate == pytest.approx(3)
    assert found.high == pytest.approx(3 + T_2 * 3 / math.sqrt(3), rel=1e-5)
    assert estimate([0.0, 0.0]).spread is None


def test_failed_launches_enter_nothing_and_are_told() -> None:
    """Two good launches and a failed one: n is 2, the reason is kept, few launches are flagged.

    A flag that a launch has twice, of its warm-up and of its load, is one launch's.
    """
    case = synthetic.make_case("x/json/a")
    noise = Flag(name=FlagName.HOST_NOISE, detail="0.2 cores")
    result = CaseResult(
        case=case,
        launches=(
            synthetic.ok(case.id, 0, {"throughput": 4.0}, noise, noise),
            synthetic.failed(case.id, 1, FlagName.WRONG_ANSWER, "expected 'a', found 'b'"),
            synthetic.ok(case.id, 2, {"throughput": 9.0, "errors": 1.0}),
        ),
    )
    found = summarise_case(result, expected=3)
    assert found.status == "measured"
    assert (found.measured, found.expected) == (2, 3)
    assert found.metrics["throughput"].estimate == pytest.approx(6)
    assert found.metrics["throughput"].n == 2
    assert found.metrics["errors"].n == 1
    assert found.failures[0].reason == "wrong_answer: expected 'a', found 'b'"
    assert [(flag.name, flag.launches) for flag in found.warnings] == [
        (FlagName.HOST_NOISE, 1),
        (FlagName.FEW_LAUNCHES, 2),
    ]


def test_a_case_without_good_launches_has_no_figures() -> None:
    case = synthetic.make_case("x/json/a")
    failed = synthetic.failed(case.id, 0, FlagName.NOT_READY, "10 s")
    bad = summarise_case(CaseResult(case=case, launches=(failed,)), 3)
    assert (bad.status, bad.metrics, bad.warnings) == ("failed", {}, ())
    absent = summarise_case(CaseResult(case=case), 3)
    assert (absent.status, absent.metrics, absent.expected) == ("not measured", {}, 3)
