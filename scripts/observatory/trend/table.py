"""All points of a machine against its anchor as one table, and the points of its series. Pure.

A table holds figures as one block of nights × cases × metrics, so that years of thousands of series
fit into memory and are cut into files without a loop over points. Missing figures are NaN.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from duetbench.core.metrics import HEADLINES, INSTRUCTIONS, METRICS
from duetbench.core.units import Interval
from observatory.store.change import order
from observatory.store.points import Points

COLUMNS: Final = (
    *HEADLINES,
    *(name for name, row in METRICS.items() if row.better != "neither" and name not in HEADLINES),
    INSTRUCTIONS,
)
"""Metrics of a table: those of which one direction is better."""

Figures = npt.NDArray[np.float32]
Nights = npt.NDArray[np.intp]
_LARGEST: Final = float(np.finfo(np.float32).max)
"""Largest finite limit of an interval: that of two very different duets may be infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All nights of one machine: dated stacks against its anchor, oldest first."""

    machine: str
    nights: tuple[Points, ...]  # whose points are in `figures`
    cases: dict[str, str]  # all that were ever measured, in order of appearance, with their stacks
    metrics: tuple[str, ...]  # those that any night has, and the first one of all
    figures: Figures  # nights × cases × metrics × (ratio, low, high, duets); NaN: none
    planned: npt.NDArray[np.bool_]  # nights × cases

    def row(self, case: str) -> int:
        """Return the place of a case in `figures`."""
        return [*self.cases].index(case)

    def planned_nights(self, case: str) -> Nights:
        """Return the nights that planned a case, as indexes into the table."""
        return np.flatnonzero(self.planned[:, self.row(case)])

    def length(self, case: str) -> int:
        """Return the number of nights on which a case has figures."""
        known = ~np.isnan(self.figures[:, self.row(case), :, 0])
        return int(known.any(axis=1).sum())


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one series; if `figure` is None, `reason` says why, if that is known."""

    night: Points
    figure: Interval | None
    reason: str


def tables(stacks: Iterable[Points]) -> tuple[Table, ...]:
    """Build one table per machine; a stack has one file."""
    groups: dict[str, list[Points]] = {}
    for stack in stacks:
        groups.setdefault(stack.machine.id, []).append(stack)
    return tuple(_table(machine, groups[machine]) for machine in sorted(groups))


def _table(machine: str, nights: list[Points]) -> Table:
    nights.sort(key=lambda night: (night.time, order(night.version), night.id))
    cases: dict[str, str] = {}
    used = {COLUMNS[0]}
    for night in nights:
        cases |= {case.case: case.stack for case in night.cases}
        used.update(point.metric for case in night.cases for point in case.points)
        for lost in night.missing:
            cases.setdefault(lost.case, "")
    metrics = tuple(name for name in COLUMNS if name in used)
    rows = {case: row for row, case in enumerate(cases)}
    columns = {name: column for column, name in enumerate(metrics)}
    block = np.full((len(nights), len(cases), len(metrics), 4), math.nan, dtype=np.float32)
    block[..., 3] = 0
    planned = np.zeros(block.shape[:2], dtype=bool)
    for place, night in enumerate(nights):
        known = [
            (rows[case.case], columns[point.metric], figure.estimate, *figure.ends, figure.n)
            for case in night.cases
            for point in case.points
            if point.metric in columns and (figure := point.interval).ends
        ]
        at, under, *figures = np.array(known).reshape(-1, 6).T
        clipped = np.clip(np.stack(figures, axis=1), -_LARGEST, _LARGEST)
        block[place, at.astype(int), under.astype(int)] = clipped
        of_night = [*(case.case for case in night.cases), *(lost.case for lost in night.missing)]
        planned[place, [rows[case] for case in of_night]] = True
    headers = tuple(night.model_copy(update={"cases": ()}) for night in nights)
    return Table(machine, headers, cases, metrics, block, planned)


def points(
    table: Table, case: str, metric: str, nights: Sequence[int] | None = None
) -> tuple[Point, ...]:
    """Return the points of a series, oldest first, of these nights or all that planned the case."""
    row, column = table.row(case), table.metrics.index(metric)
    if nights is None:
        nights = table.planned_nights(case).tolist()
    rows = []
    for place in nights:
        night, (ratio, low, high, duets) = table.nights[place], table.figures[place, row, column]
        known = not math.isnan(ratio)
        figure = Interval(float(ratio), float(low), float(high), int(duets)) if known else None
        reason = "" if known else night.reason(case) or "this night has no such figure"
        rows.append(Point(night, figure, reason))
    return tuple(rows)
