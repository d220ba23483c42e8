"""The reference history reads as it did when it was recorded: points, intervals and steps.

The recordings were made by an earlier implementation, and change only together with `results/`. Its
steps of in-process seconds are left out: asv searches those.
"""

from pathlib import Path
from typing import Final

import numpy as np

from duetbench.trend import reading
from duetbench.trend.candidates import searched
from duetbench.trend.points import anchored
from duetbench.trend.reading import Sources
from duetbench.trend.table import tables

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = ROOT / "tests" / "data" / "reference"


def point_lines(sources: Sources) -> list[str]:
    """A line per point: machine, run, metric, ratio, low, high, duets, case."""
    lines = []
    for columns in anchored(sources.points)[0]:
        header = columns.header
        for row, column in zip(*np.nonzero(~np.isnan(columns.mean)), strict=True):
            figures = (columns.mean, columns.low, columns.high)
            lines.append(
                f"{header.machine} {header.run} {header.metrics[column]} "
                + " ".join(f"{float(f'{array[row, column]:.6g}'):.5g}" for array in figures)
                + f" {columns.launches[row, column]} {header.cases[row]}"
            )
    return sorted(lines)


def step_lines(sources: Sources) -> dict[str, list[str]]:
    """By candidate, a line per step: metric, ratio, interval, runs before and after, case."""
    candidates: dict[str, list[str]] = {}
    for table in searched(tables(sources.nights)):
        for candidate in table.candidates:
            title = f"# {candidate.id} on {candidate.series.machine}"
            candidates[title] = [
                f"{step.series.metric} {step.ratio:.5g} "
                + " ".join(f"{end:.5g}" for end in step.within or ())
                + f" {step.before_run} {step.after_run} {step.series.case}"
                for step in candidate.steps
            ]
    return candidates


def test_every_point_of_the_history_is_what_it_was(tmp_path: Path) -> None:
    sources = reading.read(ROOT / "results", tmp_path)
    assert point_lines(sources) == (RECORDED / "points.txt").read_text("utf-8").splitlines()


def test_the_steps_that_are_found_are_those_that_were_found(tmp_path: Path) -> None:
    recorded: dict[str, list[str]] = {}
    for line in (RECORDED / "steps.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            steps = recorded.setdefault(line, [])
        else:
            steps.append(line)
    assert step_lines(reading.read(ROOT / "results", tmp_path)) == recorded
