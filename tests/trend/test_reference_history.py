"""The reference history reads as it did when it was recorded: points, intervals and steps.

The recordings were made by an earlier implementation, and change only together with `results/`. Its
steps of in-process seconds are left out: asv searches those.
"""

from collections.abc import Sequence
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Final

import pytest

from goldens import assert_golden
from observatory.store import kinds
from observatory.store.points import Points
from observatory.trend.candidates import of_table
from observatory.trend.table import COLUMNS, Table, tables

ROOT: Final = Path(__file__).parents[2]


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
    every = tables(kinds.read_all(Points, ROOT / "results"))
    return [table for table in every if not table.package]


def test_every_point_of_the_history_is_what_it_was(dated: Sequence[Table]) -> None:
    assert_golden("reference/points.txt", "\n".join(point_lines(dated)))


def test_the_steps_that_are_found_are_those_that_were_found(dated: Sequence[Table]) -> None:
    assert_golden("reference/steps.txt", "\n".join(step_lines(dated)))
