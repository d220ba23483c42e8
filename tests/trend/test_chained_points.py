"""Anchored points as series: files of a stack joined, anchors chained, figures as nights."""

import math
from datetime import UTC, datetime

import pytest

from anchored_files import CASE, CPU, OTHER, a_file, of, ratio, renewal
from duetbench.core.model import Missing
from observatory.store.points import CANARY, Points
from observatory.trend.candidates import steps
from observatory.trend.reading import coverage, of_points, trend_points
from observatory.trend.table import Table, tables


def table_of(*files: Points) -> Table:
    (table,) = tables(of_points(files)[0])
    return table


def test_points_of_an_older_anchor_are_divided_by_what_the_new_one_is_to_it() -> None:
    old = a_file(1, of(CASE, ratio(1.10, se=0.003, duets=11)))
    link = renewal(2, of(CASE, ratio(1.05, se=0.004, duets=6)))
    new = a_file(3, of(CASE, ratio(1.02)), anchor="B")
    (before, after), notes = trend_points([new, link, old])
    (chained,) = before.cases[0].points
    assert before.anchor == after.anchor == "B"
    assert chained.ratio == pytest.approx(1.10 / 1.05)
    assert chained.se == pytest.approx(0.005)  # 3 and 4 in quadrature
    assert chained.duets == 6
    assert chained.anchor == pytest.approx(2.1e-4)
    assert after.cases == new.cases
    assert notes == ()


def test_what_nobody_measured_against_both_anchors_is_left_out_and_said() -> None:
    old = a_file(1, of(CASE, ratio(1.1), ratio(1.3, metric="instructions")), of(OTHER, ratio(1.2)))
    link = renewal(2, of(CASE, ratio(1.0)))
    (found,), notes = trend_points([old, link])
    assert [case.case for case in found.cases] == [CASE]
    assert [one.metric for one in found.cases[0].points] == [CPU]
    (note,) = notes
    assert "2 points against the anchor A" in note
    assert "anchor B" in note


def test_files_of_a_stack_are_one_and_of_a_case_the_newest_stands() -> None:
    first = a_file(
        1, of(CASE, ratio(1.1)), of(OTHER, ratio(1.4)),
        missing=(Missing(case="third", reason="no"),),
    )  # fmt: skip
    again = a_file(
        1, of(CASE, ratio(1.2)), label=first.label, measured=5,
        missing=(Missing(case=OTHER, reason="failed this time"),),
    )  # fmt: skip
    (found,), _ = trend_points([again, first])
    assert {case.case: case.points[0].ratio for case in found.cases} == {CASE: 1.2, OTHER: 1.4}
    assert [lost.case for lost in found.missing] == ["third"]
    assert found.id == again.id


def test_nights_have_ratios_with_intervals_at_the_time_of_the_stack() -> None:
    found = a_file(
        4, of(CASE, ratio(1.1, se=0.01, duets=6)), measured=9,
        missing=(Missing(case=OTHER, reason="no server"),),
    )  # fmt: skip
    earlier = a_file(3, of(OTHER, ratio(1.0)))
    (_, night), _ = of_points([earlier, found])
    mean, low, high, launches = night.figures[0, night.metrics.index(CPU)].tolist()
    assert (night.kind, night.profile, night.as_of) == ("anchored", "A", "2026-11-04")
    assert night.time == datetime(2026, 11, 4, tzinfo=UTC).timestamp()
    assert mean == pytest.approx(1.1)
    assert low == pytest.approx(math.exp(math.log(1.1) - 2.5706 * 0.01))
    assert high == pytest.approx(math.exp(math.log(1.1) + 2.5706 * 0.01))
    assert launches == 6
    # What has no points has the reason, and the interpreter and stack that it has elsewhere.
    lost = night.cases[OTHER]
    assert (lost.reason, lost.python, lost.stack) == ("no server", "3.14", "current")


def test_the_anchor_against_itself_is_counted_and_never_a_change() -> None:
    """Six duets: half an interval is 2.57 standard errors; a count has none, and is left out."""
    near, far = ratio(1.002, se=0.001, duets=6), ratio(1.003, se=0.001, duets=6)
    counted = ratio(1.5, metric="instructions", duets=1)
    itself = f"{CANARY}{CASE}"
    nights = [a_file(1, of(itself, near, counted), of(CASE, far)), a_file(2, of(itself, far))]
    assert coverage(nights) == (1, 2)
    moved = [a_file(day, of(itself, ratio(1 + day // 10))) for day in range(1, 20)]
    assert list(steps(table_of(*moved))) == []
