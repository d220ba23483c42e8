"""All runs of a machine as one table, and the points of its series. Pure.

A table holds figures as blocks of nights × cases × metrics, so that years of thousands of series
fit into memory and are cut into files without a loop over points. Failed and missing measurements
have no figure (NaN) and a status with a reason.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from duetbench.trend.columns import (
    TRACKS,
    CaseState,
    Counts,
    Figures,
    Kind,
    RunColumns,
    RunHeader,
    Status,
    Track,
)

STATES: Final[tuple[Status | Literal["absent"], ...]] = (
    "absent", "measured", "disturbed", "failed", "not measured",
)  # fmt: skip
"""States by their code in `Table.status`; absent: the night did not plan the case."""

PROFILES: Final = ("nightly", "published", "quick")
"""A trend consists of runs of one profile, whose loads last equally long: the first one here that
the machine has runs of."""

_CODE: Final = {state: code for code, state in enumerate(STATES)}

_MEASURED: Final = CaseState("measured")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All nights of one machine and kind, oldest first.

    Attributes:
        cases: All that were ever measured, in order of appearance.
        mean: Nights × cases × metrics; NaN: no figure. `low`, `high`, `launches` likewise.
        status: Nights × cases: places in `STATES`.
        flags: Nights × cases: places in `flag_sets`.
        flag_sets: Sets of flags' names; the first is empty.
        reasons: By night and case: why there is no figure.
    """

    machine: str
    kind: Kind
    nights: tuple[RunHeader, ...]
    cases: tuple[str, ...]
    metrics: tuple[str, ...]
    mean: Figures
    low: Figures
    high: Figures
    launches: Counts
    status: Counts
    flags: npt.NDArray[np.int32]
    flag_sets: tuple[tuple[str, ...], ...]
    reasons: dict[tuple[int, int], str]

    @property
    def track(self) -> Track:
        return TRACKS[self.kind]

    def place(self, case: str, metric: str) -> tuple[int, int]:
        """Where a series stands in the blocks; ValueError if there is none."""
        return self.cases.index(case), self.metrics.index(metric)


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one series, in SI units; `mean` is None where `reason` says why."""

    run: str
    time: int
    commit: str | None
    stack: str
    status: Status
    mean: float | None
    low: float | None
    high: float | None
    launches: int
    flags: tuple[str, ...]
    reason: str = ""


def tables(runs: Iterable[RunColumns]) -> tuple[Table, ...]:
    """One table per machine and kind; of server runs those of one profile (see `PROFILES`)."""
    found: dict[tuple[str, Kind], list[RunColumns]] = {}
    for one in runs:
        found.setdefault((one.header.machine, one.header.kind), []).append(one)
    return tuple(_table(*key, found[key]) for key in sorted(found))


def points(table: Table, case: str, metric: str, newest: int | None = None) -> tuple[Point, ...]:
    """The points of a series, oldest first, or the `newest`; only nights that planned the case."""
    nights = np.flatnonzero(table.status[:, table.cases.index(case)]).tolist()
    return points_of(table, nights if newest is None else nights[-newest:], case, metric)


def point(table: Table, night: int, case: str, metric: str) -> Point:
    """The point of one night, given by its place in `Table.nights`, which planned the case."""
    (found,) = points_of(table, [night], case, metric)
    return found


def points_of(table: Table, nights: Sequence[int], case: str, metric: str) -> tuple[Point, ...]:
    """The points of some nights, given by their places, which planned the case."""
    row, column = table.place(case, metric)
    means, lows, highs = (
        [None if math.isnan(value) else value for value in block[nights, row, column].tolist()]
        for block in (table.mean, table.low, table.high)
    )
    counts = table.launches[nights, row, column].tolist()
    place, found = 0, []
    for night, mean, low, high, launches in zip(nights, means, lows, highs, counts, strict=True):
        header = table.nights[night]
        # Nearly all nights have a case in the same place.
        if place >= len(header.cases) or header.cases[place] != case:
            place = header.cases.index(case)
        state = header.odd.get(place, _MEASURED)
        reason = state.reason or ("" if mean is not None else "this run has no such figure")
        stack = header.stacks.get(header.stack_of[place], "")
        # By position: by name it takes half as long again, and a build makes tens of thousands.
        found.append(
            Point(
                header.run, header.time, header.commit, stack, state.status,
                mean, low, high, launches, state.flags, reason,
            )
        )  # fmt: skip
    return tuple(found)


def series(table: Table) -> Iterator[tuple[int, int]]:
    """Places (case, metric) of all series with at least one figure, case by case."""
    there = ~np.isnan(table.mean).all(axis=0)
    yield from ((int(case), int(metric)) for case, metric in np.argwhere(there))


def _table(machine: str, kind: Kind, runs: Sequence[RunColumns]) -> Table:
    profiles = {one.header.profile for one in runs}
    profile = next((name for name in PROFILES if name in profiles), None)
    runs = [one for one in runs if profile in {None, one.header.profile}]
    runs.sort(key=lambda one: (one.header.time, one.header.run))
    cases: dict[str, None] = {}
    metrics: dict[str, None] = {}
    for header in (one.header for one in runs):
        cases |= dict.fromkeys(header.cases)
        metrics |= dict.fromkeys(header.metrics)
    row_of, column_of = ({name: n for n, name in enumerate(names)} for names in (cases, metrics))
    shape = (len(runs), len(cases), len(metrics))
    mean, low, high = (np.full(shape, math.nan, dtype=np.float32) for _ in range(3))
    launches = np.zeros(shape, dtype=np.uint8)
    status = np.zeros(shape[:2], dtype=np.uint8)
    flags = np.zeros(shape[:2], dtype=np.int32)
    sets: dict[tuple[str, ...], int] = {(): 0}
    reasons: dict[tuple[int, int], str] = {}
    for place, one in enumerate(runs):
        rows = [row_of[name] for name in one.header.cases]
        where = np.ix_(rows, [column_of[name] for name in one.header.metrics])
        mean[place][where] = one.mean
        low[place][where] = one.low
        high[place][where] = one.high
        launches[place][where] = one.launches
        status[place, rows] = _CODE["measured"]
        for case, state in one.header.odd.items():
            status[place, rows[case]] = _CODE[state.status]
            flags[place, rows[case]] = sets.setdefault(state.flags, len(sets))
            if state.reason:
                reasons[place, rows[case]] = state.reason
    return Table(
        machine=machine,
        kind=kind,
        nights=tuple(one.header for one in runs),
        cases=tuple(cases),
        metrics=tuple(metrics),
        mean=mean,
        low=low,
        high=high,
        launches=launches,
        status=status,
        flags=flags,
        flag_sets=tuple(sets),
        reasons=reasons,
    )
