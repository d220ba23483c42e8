"""All nights of a machine as one table, the points of its series, and what happened meanwhile.

A table holds figures as one block of nights × cases × metrics, so that years of thousands of series
fit into memory and are cut into files without a loop over points. Failed and missing measurements
have no figure (NaN) and a status with a reason. Pure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from duetbench.core.errors import DISTURBING
from duetbench.core.metrics import HEADLINES, INSTRUCTIONS, METRICS
from duetbench.core.model import CaseResult, Run
from duetbench.core.units import Interval
from duetbench.load.summary import intervals

TRENDS: Final = (
    *HEADLINES,
    *(name for name, row in METRICS.items() if row.better != "neither" and name not in HEADLINES),
)
"""Metrics of launches with a trend: one of their directions is better."""

COLUMNS: Final = (*TRENDS, INSTRUCTIONS)  # metrics of a table
_PLACES: Final = {name: column for column, name in enumerate(COLUMNS)}

PROFILES: Final = ("nightly", "published", "quick")
"""The first of these profiles that a machine has runs of makes its trend: loads of one profile
last equally long."""

Kind = Literal["anchored", "load"]
KINDS: Final[dict[Kind, str]] = {
    "anchored": "95 % interval of the ratio to the anchor, over duets",
    "load": "95 % interval of the mean over launches",
}
"""What a table has, points against an anchor or launches of servers, and what its intervals are."""

Status = Literal["measured", "disturbed", "failed", "not measured"]
STATES: Final[tuple[Status | Literal["absent"], ...]] = (
    "absent", "measured", "disturbed", "failed", "not measured",
)  # fmt: skip
"""States by their code in `Table.status`; absent: the night did not plan the case."""

Figures = npt.NDArray[np.float32]
_LARGEST: Final = float(np.finfo(np.float32).max)
"""Largest finite limit of an interval: that of two very different launches may be infinite."""

_LONG: Final = 2.5  # multiple of the usual distance between two nights that is a gap
_FEW: Final = 4  # nights needed to know the usual distance


@dataclass(frozen=True, slots=True)
class NightCase:
    """A case of a night: its interpreter and stack, its status, and notes.

    `disturbed`: measured, but nothing is decided from it. `flags` are sorted names; `reason` says
    why there is no figure.
    """

    python: str
    stack: str
    status: Status = "measured"
    flags: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """A run, or a stack against its anchor."""

    run: str
    kind: Kind
    profile: str  # of anchored points the anchor's name
    time: int  # start, s since 1970; of points the date of the stack
    commit: str | None  # None outside a repository
    machine: str
    stacks: Mapping[str, str]  # name → digest of the lock, if known
    packages: Mapping[str, Mapping[str, str]]  # stack → package → version
    cases: Mapping[str, NightCase]  # by id, in the order of `figures`
    metrics: tuple[str, ...]  # of `figures`, in their order: those that any case has
    figures: Figures  # cases × metrics × (figure, low, high, number of launches or duets), SI units
    as_of: str | None = None  # date of its stacks, if no commit has their locks

    @property
    def ratio(self) -> bool:
        """Whether its figures are ratios to an anchor."""
        return self.kind == "anchored"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All nights of one machine and kind, oldest first."""

    machine: str
    kind: Kind
    nights: tuple[Night, ...]
    cases: tuple[str, ...]  # all cases ever measured, in order of appearance
    metrics: tuple[str, ...]  # those that any night has, and the first one of all
    figures: Figures  # nights × cases × metrics × (figure, low, high, launches); NaN: none
    status: npt.NDArray[np.uint8]  # nights × cases: places in `STATES`

    @property
    def ratio(self) -> bool:
        """Whether its figures are ratios to an anchor."""
        return self.kind == "anchored"

    def length(self, case: str) -> int:
        """Return the number of nights on which a case has figures."""
        states = self.status[:, self.cases.index(case)]
        return int(np.isin(states, [STATES.index("measured"), STATES.index("disturbed")]).sum())


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one series, in SI units; if `figure` is None, `reason` says why."""

    night: Night
    case: NightCase
    figure: Interval | None

    @property
    def reason(self) -> str:
        return self.case.reason or ("" if self.figure else "this run has no such figure")


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


def of_run(run: Run) -> Night:
    """Return the night of a run; `summary` defines its figures and intervals."""
    metrics, block = figures([intervals(result.usable) for result in run.results])
    return Night(
        run=run.id,
        kind="load",
        profile=run.profile,
        time=int(datetime.fromisoformat(run.started).timestamp()),
        commit=run.commit,
        machine=run.machine.id,
        stacks={stack.name: stack.digest for stack in run.stacks},
        packages={stack.name: stack.packages for stack in run.stacks},
        cases={result.case.id: _case(result) for result in run.results},
        metrics=metrics,
        figures=block,
    )


def _case(result: CaseResult) -> NightCase:
    case, status, usable, reason = result.case, result.status, result.usable, ""
    disturbed = sum(any(flag.name in DISTURBING for flag in launch.flags) for launch in usable)
    if status == "failed":
        reason = "; ".join(dict.fromkeys(launch.failure for launch in result.launches))
    elif status == "not measured":
        reason = result.missing or "the run ended before it came to this case"
    return NightCase(
        python=case.python,
        stack=case.stack,
        status="disturbed" if 0 < len(usable) <= 2 * disturbed else status,
        flags=tuple(sorted({str(flag.name) for start in result.launches for flag in start.flags})),
        reason=reason,
    )


def tables(nights: Iterable[Night]) -> tuple[Table, ...]:
    """Build one table per machine and kind; runs of servers only of one profile (`PROFILES`)."""
    groups: dict[tuple[str, Kind], list[Night]] = {}
    for night in nights:
        groups.setdefault((night.machine, night.kind), []).append(night)
    return tuple(_table(*key, groups[key]) for key in sorted(groups))


def _table(machine: str, kind: Kind, nights: Sequence[Night]) -> Table:
    profiles = {night.profile for night in nights}
    profile = next((name for name in PROFILES if name in profiles), None)
    nights = [night for night in nights if profile in {None, night.profile}]
    nights.sort(key=lambda night: (night.time, night.run))
    cases = tuple(dict.fromkeys(case for night in nights for case in night.cases))
    used = {COLUMNS[0]}.union(*(night.metrics for night in nights))
    metrics = tuple(name for name in COLUMNS if name in used)
    row_of = {case: row for row, case in enumerate(cases)}
    column_of = {name: column for column, name in enumerate(metrics)}
    block = np.full((len(nights), len(cases), len(metrics), 4), math.nan, dtype=np.float32)
    block[..., 3] = 0
    status = np.zeros(block.shape[:2], dtype=np.uint8)
    for place, night in enumerate(nights):
        rows = [row_of[case] for case in night.cases]
        block[place][np.ix_(rows, [column_of[name] for name in night.metrics])] = night.figures
        status[place, rows] = [STATES.index(case.status) for case in night.cases.values()]
    return Table(machine, kind, tuple(nights), cases, metrics, block, status)


def points(
    table: Table, case: str, metric: str, nights: Sequence[int] | None = None
) -> tuple[Point, ...]:
    """Return the points of a series, oldest first, of these nights or all that planned the case."""
    row, column = table.cases.index(case), table.metrics.index(metric)
    if nights is None:
        nights = np.flatnonzero(table.status[:, row]).tolist()
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
