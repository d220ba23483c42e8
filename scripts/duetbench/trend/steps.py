"""Steps in the series of a table: where they moved for good. Pure.

A series of ratios to the anchor is cut into pieces of one level each, so that the squared
deviations, each over its variance, and a price for every piece are least together. A point costs no
more than a limit however far away it lies: few far points are outliers, and no piece of their own
(Fearnhead and Rigaill, JASA 114, 2019, doi 10.1080/01621459.2017.1385466). A simulation has chosen
the prices (docs/method.md).

Figures of one side are not searched: they scatter ten times as far. What the machine did moves both
sides of a ratio: another machine, kernel or interpreter is no break. Benchmarks inside the process
are searched by their instructions; asv finds the steps of the others itself.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import numpy as np

from duetbench.core.metrics import CPU, INSTRUCTIONS, JUDGED
from duetbench.core.metrics import row as metric_row
from duetbench.store.change import INPROCESS, SeriesName, Step
from duetbench.store.points import CANARY
from duetbench.trend.table import STATES, Table

PRICE: Final = 14.0
"""Price of another piece, in squared standard errors. With it none of 300 series of 60 points that
do not move had a step at any time while the points came one by one, and with 0.3 to 0.6 % of
standard error a step of 2 % is seen at its second point (docs/method.md)."""

LONE: Final = 0.6 * PRICE
"""Highest cost of a point: one alone makes no piece, two do. (It is an outlier from 3.3 standard
errors on.)"""

LEAST_ERROR: Final = 1e-4
"""Standard error of a logarithm that is believed: counts that repeat exactly still differ by as
much for nothing but a comment."""

_FEW: Final = 8
"""Points that it takes to say how far they scatter beyond their errors."""

_MEDIAN: Final = 0.4549
"""Of the square of a standard normal deviate."""

_FINE: Final = 16
"""Levels that are tried within the smallest standard error."""


LONGEST: Final = 180
"""Nights that are looked at: a step that is older was found when it was new."""

PLACED: Final = 4.0
"""Height in standard errors of a single point from which on none is taken for one of the other
level by chance."""

REPEATED: Final = 3e-4
"""Standard error of a count's logarithm from one counting to the next. The interval of its point is
that of the rounds within one counting, which differ alike every time."""

_WIDTH: Final = 1.96
"""Standard errors on either side of a 95 % interval. Those of few duets are wider, and what they
say counts less."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step, and its places in the table: the last night `before` it and the first one on it.

    `placed`: it is there, and not a night earlier or later.
    """

    step: Step
    night: int
    before: int
    placed: bool


def steps(table: Table, inside: Collection[str] = ()) -> Iterator[TableStep]:
    """All steps of a table's series that are large enough to matter, case by case.

    Of benchmarks only those `inside` are looked at, which a comparison can play.
    """
    for row, case in enumerate(table.cases):
        ours = case.startswith(CANARY)  # what moves there is the instrument's
        if not ours and (case in inside or not case.startswith(INPROCESS)):
            for metric in (*JUDGED, INSTRUCTIONS):
                yield from _of_series(table, row, table.metrics.index(metric))


def _of_series(table: Table, row: int, column: int) -> Iterator[TableStep]:
    metric = table.metrics[column]
    lone = metric == INSTRUCTIONS
    floor = metric_row(CPU if lone else metric).floor
    figures = table.figures[:, row, column].astype(float)
    usable = (table.status[:, row] == _MEASURED) & np.isfinite(figures[:, :3]).all(axis=1)
    nights = np.flatnonzero(usable & (figures[:, 1] > 0))
    nights = nights[nights >= len(table.nights) - LONGEST]
    mean, low, high = figures[nights, :3].T
    errors = np.full(len(nights), REPEATED) if lone else np.log(high / low) / 2 / _WIDTH
    chosen = [table.nights[night].as_of is not None for night in nights.tolist()]
    pieces = fitted(np.log(mean).tolist(), errors.tolist(), lone=lone, chosen=chosen)
    for left, right in pairwise(pieces):
        height, error = right.log - left.log, math.hypot(left.se, right.se)
        if abs(math.expm1(height)) <= floor:
            continue
        sizes = left.end - left.start, right.end - right.start
        single = max(left.se * math.sqrt(sizes[0]), right.se * math.sqrt(sizes[1]))
        before, after = int(nights[right.start - 1]), int(nights[right.start])
        yield TableStep(
            step=Step(
                series=SeriesName(machine=table.machine, case=table.cases[row], metric=metric),
                ratio=math.exp(height),
                within=(math.exp(height - _WIDTH * error), math.exp(height + _WIDTH * error)),
                strength=abs(height) / error,
                before_run=table.nights[before].run,
                after_run=table.nights[after].run,
                when=datetime.fromtimestamp(table.nights[after].time, UTC),
                nights=sizes,
            ),
            night=after,
            before=before,
            placed=abs(height) >= PLACED * single,
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece: first place, place after the last, level and its standard error (logarithms)."""

    start: int
    end: int
    log: float
    se: float


def fitted(
    logs: Sequence[float],
    errors: Sequence[float],
    *,
    lone: bool = False,
    chosen: Sequence[bool] | None = None,
) -> list[Piece]:
    """The pieces of a series of logarithms with their standard errors.

    With `lone` one point can be a piece: what repeats exactly has no outliers. Nor have points of
    stacks that were `chosen` to be measured, a month apart: each may be on a level of its own.
    """
    if not len(logs):
        return []
    y = np.asarray(logs)
    far = np.zeros(len(y), dtype=bool) if chosen is None else np.asarray(chosen, dtype=bool)
    w = 1 / _variances(y, np.asarray(errors), ~(far[1:] | far[:-1]))
    limit = np.where(far | lone, math.inf, LONE)
    tried = _levels(y, w)
    cost = np.zeros(len(tried))
    since = np.zeros(len(tried), dtype=int)
    before: list[int] = []
    best = 0.0
    for place in range(len(y)):
        # Each level goes on, or begins here, after the best that led here.
        begins = cost > best + PRICE if place else np.zeros(len(tried), dtype=bool)
        cost = np.where(begins, best + PRICE, cost)
        since[begins] = place
        cost = cost + np.minimum(w[place] * (y[place] - tried) ** 2, limit[place])
        at = int(np.argmin(cost))
        best = float(cost[at])
        before.append(int(since[at]))
    pieces: list[Piece] = []
    end = len(y)
    while end:
        start = before[end - 1]
        pieces.append(_piece(y, w, tried, limit, start, end))
        end = start
    return pieces[::-1]


def _piece(
    y: np.ndarray, w: np.ndarray, tried: np.ndarray, limit: np.ndarray, start: int, end: int
) -> Piece:
    """A piece, its level without its outliers."""
    far = w[start:end, None] * (y[start:end, None] - tried) ** 2
    limits = limit[start:end]
    best = np.minimum(far, limits[:, None]).sum(axis=0).argmin()
    near = far[:, best] <= limits
    weights = w[start:end][near]
    level = float(np.average(y[start:end][near], weights=weights))
    return Piece(start, end, level, float(weights.sum() ** -0.5))


def _variances(y: np.ndarray, errors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Of each point: its error's, none smaller than the usual one, and what all scatter more.

    `near`: of each but the first, whether what it differs by from the one before is scatter.
    """
    variances: np.ndarray = np.maximum(errors, max(float(np.median(errors)), LEAST_ERROR)) ** 2
    # By neighbours, of which few are on two levels.
    steps = np.diff(y)[near]
    if len(steps) < _FEW - 1:
        return variances
    scatter = float(np.median(steps**2)) / _MEDIAN / 2
    variances += max(0.0, scatter - float(np.median(variances)))
    return variances


def _levels(y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Levels that are tried: the means of all runs of neighbours, as far as they differ."""
    sums, weights = (np.concatenate([[0.0], np.cumsum(part)]) for part in (w * y, w))
    ends, starts = np.tril_indices(len(sums), -1)
    means = (sums[ends] - sums[starts]) / (weights[ends] - weights[starts])
    _, places = np.unique(np.floor(means * math.sqrt(w.max()) * _FINE), return_index=True)
    levels: np.ndarray = means[places]
    return levels
