"""The arithmetic of verdicts: samples of log ratios, tests and intervals. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from duetbench.core.comparison import row
from duetbench.core.model import Verdict
from duetbench.core.units import Interval

Logs = NDArray[np.float64]

RATE: Final = 0.05
"""Error rate of verdicts and of reported intervals: 95 % coverage."""

POWER: Final = 0.8
"""Share of the comparisons in which a change of the detectable size would be detected."""

RESOLUTION: Final = 4e-4
"""Least standard deviation of a log ratio that is assumed.

Percentiles are rounded to three digits, so a ratio of two of them scatters by
0.001 * sqrt(2 / 12) even where all duets agree to the last bit.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Number, mean and standard deviation of log ratios, and its degrees of freedom."""

    n: int
    mean: float
    sd: float
    freedom: float

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return max(self.sd, RESOLUTION) / math.sqrt(self.n)

    @property
    def reach(self) -> float:
        """Half the width of the mean's 95 % interval, on the log scale."""
        return self._quantile(1 - RATE / 2) * self.error

    @property
    def interval(self) -> Interval:
        """The ratio with its 95 % interval by Student's t."""
        ends = math.exp(self.mean - self.reach), math.exp(self.mean + self.reach)
        return Interval(math.exp(self.mean), *ends)

    def detectable(self, floor: float, alpha: float = RATE) -> float:
        """Return the smallest relative change that as many duets with such scatter would detect.

        It is floor + (t of 1 - alpha/2 + t of the power) standard errors, on the log scale.
        """
        errors = self._quantile(1 - alpha / 2) + self._quantile(POWER)
        return math.expm1(math.log1p(floor) + errors * self.error)

    def _quantile(self, p: float) -> float:
        from scipy import special  # noqa: PLC0415 - slow to import, and effects need no scipy

        return float(special.stdtrit(self.freedom, p))


def probability(freedom: Logs | float, t: Logs | float) -> Logs:
    """Return the probabilities that Student's t is below these values."""
    from scipy import special  # noqa: PLC0415 - as above

    return np.asarray(special.stdtr(freedom, t), np.float64)


def floor_of(limit: float) -> float:
    """Return the relative change up to which nothing moved: a tenth of the limit."""
    return limit / 10


def moved_ps(mean: Logs | float, error: Logs | float, freedom: Logs | float, floor: float) -> Logs:
    """Return two-sided p values of the minimal-effect test of means; `floor` is relative."""
    beyond = np.abs(mean) - math.log1p(floor)
    return np.asarray(np.minimum(1, 2 * probability(freedom, -beyond / error)))


def direction(metric: str, log: float) -> Verdict:
    """Say whether a metric that moved, by the sign of its log ratio, got better or worse."""
    return Verdict.WORSE if (log > 0) == (row(metric).better == "lower") else Verdict.BETTER


def adjust(ps: Sequence[float]) -> list[float]:
    """Adjust p values for their number: the false discovery rate at which each is detected.

    Benjamini & Hochberg's procedure. Metrics of one case that depend on each other (what costs CPU
    costs throughput) do not invalidate it (Benjamini & Yekutieli, Annals of Statistics 29 (2001)
    1165).
    """
    if not ps:
        return []
    from scipy import stats  # noqa: PLC0415 - it takes half a second, and only verdicts need it

    return [float(p) for p in stats.false_discovery_control(list(ps))]
