"""All points of a machine against its anchor as one table, and the points of its series. Pure.

A table holds figures as one block of nights × cases × metrics, so that years of thousands of series
fit into memory and are cut into files without a loop over points. Missing figures are NaN, and the
case of the night has the reason.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from duetbench.core.metrics import HEADLINES, INSTRUCTIONS, METRICS
from duetbench.core.units import Interval

COLUMNS: Final = (
    *HEADLINES,
    *(name for name, row in METRICS.items() if row.better != "neither" and name not in HEADLINES),
    INSTRUCTIONS,
)
"""Metrics of a table: those of which one direction is better."""
_PLACES: Final = {name: column for column, name in enumerate(COLUMNS)}

Figures = npt.NDArray[np.float32]
_LARGEST: Final = float(np.finfo(np.float32).max)
"""Largest finite limit of an interval: that of two very different duets may be infinite."""

_LONG: Final = 2.5  # multiple of the usual distance between two nights that is a gap
_FEW: Final = 4  # nights needed to know the usual distance


@dataclass(frozen=True, slots=True)
class NightCase:
    """A case of a night: its interpreter and stack, and why it has no figure."""

    python: str
    stack: str
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """A dated stack against its anchor."""

    run: str  # id of its points
    anchor: str
    time: int  # date of the stack, s since 1970
    commit: str | None  # None outside a repository
    machine: str
    stacks: Mapping[str, str]  # name → digest of the lock, if known
    packages: Mapping[str, Mapping[str, str]]  # stack → package → version
    cases: Mapping[str, NightCase]  # by id, in the order of `figures`
    metrics: tuple[str, ...]  # of `figures`, in their order: those that any case has
    figures: Figures  # cases × metrics × (ratio, low, high, number of duets)
    as_of: str | None = None  # date of its stacks, if no commit has their locks


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All nights of one machine, oldest first."""

    machine: str
    nights: tuple[Night, ...]
    cases: tuple[str, ...]  # all cases ever measured, in order of appearance
    metrics: tuple[str, ...]  # those that any night has, and the first one of all
    figures: Figures  # nights × cases × metrics × (ratio, low, high, duets); NaN: none
    planned: npt.NDArray[np.bool_]  # nights × cases

    def length(self, case: str) -> int:
        """Return the number of nights on which a case has figures."""
        known = ~np.isnan(self.figures[:, self.cases.index(case), :, 0])
        return int(known.any(axis=1).sum())


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one series; if `figure` is None, `reason` says why."""

    night: Night
    case: NightCase
    figure: Interval | None

    @property
    def reason(self) -> str:
        return self.case.reason or ("" if self.figure else "this night has no such figure")


def figures(cases: Sequence[Mapping[str, Interval]]) -> tuple[tuple[str, ...], Figures]:
    """Return the metrics of a night, and the block of its figures, of each case by metric."""
    block = np.full((len(cases), len(COLUMNS), 4), math.nan)
    block[..., 3] = 0
    known = [
        (row, _PLACES[name], figure.estimate, *(figure.ends or (math.nan, math.nan)), figure.n)
        for row, intervals in enumerate(cases)
        for name, figure in intervals.items()
        if name in _PLACES
    ]
    rows, columns, *parts = np.array(known).reshape(-1, 6).T
    block[rows.astype(int), columns.astype(int)] = np.stack(parts, axis=1)
    used = np.flatnonzero(~np.isnan(block[..., 0]).all(axis=0))
    clipped: Figures = np.clip(block[:, used], -_LARGEST, _LARGEST).astype(np.float32)
    return tuple(COLUMNS[column] for column in used.tolist()), clipped


def tables(nights: Iterable[Night]) -> tuple[Table, ...]:
    """Build one table per machine."""
    groups: dict[str, list[Night]] = {}
    for night in nights:
        groups.setdefault(night.machine, []).append(night)
    return tuple(_table(machine, groups[machine]) for machine in sorted(groups))


def _table(machine: str, nights: list[Night]) -> Table:
    nights.sort(key=lambda night: (night.time, night.run))
    cases = tuple(dict.fromkeys(case for night in nights for case in night.cases))
    used = {COLUMNS[0]}.union(*(night.metrics for night in nights))
    metrics = tuple(name for name in COLUMNS if name in used)
    row_of = {case: row for row, case in enumerate(cases)}
    column_of = {name: column for column, name in enumerate(metrics)}
    block = np.full((len(nights), len(cases), len(metrics), 4), math.nan, dtype=np.float32)
    block[..., 3] = 0
    planned = np.zeros(block.shape[:2], dtype=bool)
    for place, night in enumerate(nights):
        rows = [row_of[case] for case in night.cases]
        block[place][np.ix_(rows, [column_of[name] for name in night.metrics])] = night.figures
        planned[place, rows] = True
    return Table(machine, tuple(nights), cases, metrics, block, planned)


def points(
    table: Table, case: str, metric: str, nights: Sequence[int] | None = None
) -> tuple[Point, ...]:
    """Return the points of a series, oldest first, of these nights or all that planned the case."""
    row, column = table.cases.index(case), table.metrics.index(metric)
    if nights is None:
        nights = np.flatnonzero(table.planned[:, row]).tolist()
    return tuple(
        Point(table.nights[night], table.nights[night].cases[case], _interval(*figures))
        for night, figures in zip(nights, table.figures[nights, row, column].tolist(), strict=True)
    )


def _interval(mean: float, low: float, high: float, launches: float) -> Interval | None:
    if math.isnan(mean):
        return None
    known = not math.isnan(low) and not math.isnan(high)
    return Interval(mean, low if known else None, high if known else None, int(launches))


def gaps(table: Table) -> tuple[tuple[int, int], ...]:
    """Find pairs of nights with missing nights in between; with fewer than four there are none."""
    times = [night.time for night in table.nights]
    usual = float(np.median(np.diff(times))) if len(times) >= _FEW else math.inf
    return tuple(
        (place, place + 1)
        for place, (before, after) in enumerate(pairwise(times))
        if after - before > _LONG * usual
    )
