"""From runs and anchored points to tables of nights, and the history, which reads as it did."""

import math
from collections.abc import Sequence
from itertools import product
from operator import attrgetter

import pytest

from bench import PROJECT
from duetbench.core.comparison import Missing, Release
from duetbench.core.units import Interval
from duetbench.load.summary import estimate
from goldens import assert_golden
from observatory.store import kinds
from observatory.store.points import Points, join
from observatory.trend.candidates import of_table
from observatory.trend.table import COLUMNS, Table, tables
from sites import FREE, JSON
from synthetic import a_file, of, ratio

T_2 = 4.302653  # Student's t, 97.5 %, two degrees of freedom (any printed table)
HALF = T_2 / math.sqrt(3)


def test_launches_give_a_mean_and_an_interval() -> None:
    for figures, mean, high in (
        # The logarithms are 0, 1, 2 to base 10: mean 1, sd 1, half = t / sqrt(3).
        ([1.0, 10.0, 100.0], 10, 10 ** (1 + HALF)),
        # Zeros are averaged as they are, as nothing has no logarithm: mean 3, sd 3.
        ([0.0, 3.0, 6.0], 3, 3 + 3 * HALF),
    ):
        actual = estimate(figures)
        assert [actual.estimate, actual.high] == pytest.approx([mean, high], rel=1e-5)
        assert actual.n == len(figures)
    assert estimate([5.0]) == Interval(5.0)


def test_only_points_against_the_newest_anchor_are_on_a_trend() -> None:
    old = a_file(1, of(JSON, ratio(1.1), ratio(1.3, metric="instructions")), of(FREE, ratio(1.2)))
    new = a_file(3, of(JSON, ratio(1.02)), anchor="B")
    (table,) = tables([new, old])
    assert table.files == (new,)


def test_files_of_a_stack_are_one_and_of_a_case_the_newest_stands() -> None:
    first = a_file(
        1, of(JSON, ratio(1.1)), of(FREE, ratio(1.4)),
        missing=(Missing(case="third", reason="no"),),
    )  # fmt: skip
    again = a_file(
        1, of(JSON, ratio(1.2)), label=first.label, measured=5,
        missing=(Missing(case=FREE, reason="failed this time"),),
    )  # fmt: skip
    (table,) = tables([again, first])
    (actual,) = table.files
    assert {case.case: case.points[0].ratio for case in actual.cases} == {JSON: 1.2, FREE: 1.4}
    assert [lost.case for lost in actual.missing] == ["third"]
    assert actual.id == again.id
    # The first release of a span that is measured later does not know the one before it.
    known, unknown = (
        file.model_copy(
            update={"release": Release(package="fastapi", version="1.2", previous=previous)}
        )
        for file, previous in ((first, "1.1"), (again, None))
    )
    assert join([known, unknown]).previous == "1.1"


# The recordings of the history were made by an earlier implementation, and change only together
# with `results/`. Its steps of in-process seconds are left out: asv searches those.


def point_lines(dated: Sequence[Table]) -> list[str]:
    """A line per point: machine, run, metric, ratio, low, high, duets, case."""
    lines = []
    for table in dated:
        for case, metric in product(table.cases, COLUMNS):
            for place, point in table.series(case, metric).items():
                figures = point.ratio, *(point.interval.ends or ())
                lines.append(
                    f"{table.machine.id} {table.files[place].id} {metric} "
                    + " ".join(f"{float(f'{figure:.6g}'):.5g}" for figure in figures)
                    + f" {point.duets} {case}"
                )
    return sorted(lines)


def step_lines(dated: Sequence[Table]) -> list[str]:
    """For each candidate, a line per step: metric, ratio, interval, runs before and after, case."""
    lines = []
    for table in dated:
        for candidate in sorted(of_table(table), key=attrgetter("id")):
            lines.append(f"# {candidate.id} on {candidate.series.machine}")
            lines += [
                f"{step.series.metric} {step.ratio:.5g} "
                + " ".join(f"{end:.5g}" for end in step.within or ())
                + f" {step.before_run} {step.after_run} {step.series.case}"
                for step in candidate.steps
            ]
    return lines


@pytest.fixture(scope="module")
def dated() -> list[Table]:
    every = tables(kinds.read_all(Points, PROJECT / "results"))
    return [table for table in every if not table.package]


def test_every_point_of_the_history_is_what_it_was(dated: Sequence[Table]) -> None:
    assert_golden("reference/points.txt", "\n".join(point_lines(dated)))


def test_the_steps_that_are_found_are_those_that_were_found(dated: Sequence[Table]) -> None:
    assert_golden("reference/steps.txt", "\n".join(step_lines(dated)))
