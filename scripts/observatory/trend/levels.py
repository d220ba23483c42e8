"""Cuts a series of logarithms into pieces of one level each. Pure.

The cut minimises the squared deviations, each over its variance, plus a price for every piece. The
cost of one point is limited, however far away it lies. So a few far points are outliers, and form
no piece of their own (Fearnhead and Rigaill, JASA 114, 2019, doi 10.1080/01621459.2017.1385466). A
simulation has chosen the prices (docs/observatory/method.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from duetbench.core.units import Interval
from observatory.store.points import NORMAL, interval

PRICE: Final = 14.0
"""Price of another piece, in squared standard errors. With it, none of 300 series of 60 points that
do not move showed a step at any time while the points came one by one. With a standard error of
0.3 to 0.6 %, a step of 2 % is detected at its second point (docs/observatory/method.md)."""

LONE: Final = 0.6 * PRICE
"""Highest cost of a point: one alone makes no piece, two do. A point counts as an outlier from
3.3 standard errors on."""

LEAST_ERROR: Final = 1e-4
"""Smallest standard error of a logarithm that is used. Counts that repeat exactly still differ by
as much after a change of nothing but a comment."""

_FEW: Final = 8  # points needed to estimate how far they scatter beyond their errors

_MEDIAN: Final = 0.4549  # median of the square of a standard normal deviate

_FINE: Final = 16  # levels tried within the smallest standard error


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece: first place, place after the last, level, and the level's standard error (logs)."""

    start: int
    end: int
    log: float
    se: float

    @property
    def size(self) -> int:
        return self.end - self.start


class Rise(NamedTuple):
    """A step: the pieces on both sides of it."""

    left: Piece
    right: Piece

    @property
    def height(self) -> float:
        return self.right.log - self.left.log

    @property
    def error(self) -> float:
        """Standard error of the height."""
        return math.hypot(self.left.se, self.right.se)

    @property
    def ratio(self) -> Interval:
        return interval(self.height, NORMAL * self.error)

    @property
    def single(self) -> float:
        """Standard error of a single point, on the side where it is larger."""
        return max(piece.se * math.sqrt(piece.size) for piece in self)


def rises(
    logs: Sequence[float], errors: Sequence[float], floor: float, lone: Sequence[bool] | None = None
) -> list[Rise]:
    """Find the steps of a series beyond a relative change; the rest is as for `fit`."""
    steps = (Rise(*pair) for pair in pairwise(fit(logs, errors, lone)))
    return [step for step in steps if abs(math.expm1(step.height)) > floor]


def fit(
    logs: Sequence[float], errors: Sequence[float], lone: Sequence[bool] | None = None
) -> list[Piece]:
    """Cut a series of logarithms, with their standard errors, into pieces.

    One `lone` point can be a piece: counts that repeat exactly have no outliers, and points of
    dates a month apart may each be on a level of their own.
    """
    if not len(logs):
        return []
    y = np.asarray(logs)
    far = np.zeros(len(y), dtype=bool) if lone is None else np.asarray(lone, dtype=bool)
    w = 1 / _variances(y, np.asarray(errors), ~(far[1:] | far[:-1]))
    limit = np.where(far, math.inf, LONE)
    tried = _levels(y, w)
    cost = np.zeros(len(tried))
    since = np.zeros(len(tried), dtype=int)
    before: list[int] = []
    best = 0.0
    for place in range(len(y)):
        # Each level continues, or begins here after the best sequence up to here.
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
        part = slice(start, end)
        costs = w[part, None] * (y[part, None] - tried) ** 2
        level = np.minimum(costs, limit[part, None]).sum(axis=0).argmin()
        near = costs[:, level] <= limit[part]  # the level is computed without the outliers
        weights = w[part][near]
        mean = float(np.average(y[part][near], weights=weights))
        pieces.append(Piece(start, end, mean, float(weights.sum() ** -0.5)))
        end = start
    return pieces[::-1]


def _variances(y: np.ndarray, errors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Variance of each point: that of its error, at least the usual one, plus common extra scatter.

    `near`: for each point but the first, whether its distance from the previous one is scatter.
    """
    variances: np.ndarray = np.maximum(errors, max(float(np.median(errors)), LEAST_ERROR)) ** 2
    # Estimated from neighbours, few of which are on two levels.
    steps = np.diff(y)[near]
    if len(steps) < _FEW - 1:
        return variances
    scatter = float(np.median(steps**2)) / _MEDIAN / 2
    variances += max(0.0, scatter - float(np.median(variances)))
    return variances


def _levels(y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Levels to try: the means of all runs of neighbours, without those that hardly differ."""
    sums, weights = (np.concatenate([[0.0], np.cumsum(part)]) for part in (w * y, w))
    ends, starts = np.tril_indices(len(sums), -1)
    means = (sums[ends] - sums[starts]) / (weights[ends] - weights[starts])
    _, places = np.unique(np.floor(means * math.sqrt(w.max()) * _FINE), return_index=True)
    return np.asarray(means[places])
