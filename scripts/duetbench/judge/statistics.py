"""The arithmetic of verdicts: samples of log ratios, tests and intervals. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from duetbench.core.metrics import row
from duetbench.core.model import Verdict

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


def quantile(freedom: float, p: float) -> float:
    """Return the value that Student's t exceeds with probability 1 - p."""
    from scipy import special  # noqa: PLC0415 - slow to import, and effects are shown without it

    return float(special.stdtrit(freedom, p))


def probability(freedom: Logs | float, t: Logs | float) -> Logs:
    """Return the probabilities that Student's t is below these values."""
    from scipy import special  # noqa: PLC0415 - as above

    return np.asarray(special.stdtr(freedom, t), np.float64)


def sample(logs: Logs) -> Sample:
    """Compute number, mean and standard deviation of two or more log ratios."""
    return Sample(len(logs), float(logs.mean()), float(logs.std(ddof=1)), len(logs) - 1)


def floor_of(limit: float) -> float:
    """Return the relative change up to which nothing moved: a tenth of the limit."""
    return limit / 10


def interval(sample: Sample, alpha: float) -> tuple[float, float]:
    """Return the two-sided t interval of the mean with coverage 1 - alpha, on the log scale."""
    half = reach(sample, alpha)
    return sample.mean - half, sample.mean + half


def reach(sample: Sample, alpha: float) -> float:
    """Compute the half width of a mean's two-sided interval with error rate alpha (log scale)."""
    return quantile(sample.freedom, 1 - alpha / 2) * sample.error


def moved_p(sample: Sample, floor: float) -> float:
    """Return the two-sided p value of the minimal-effect test; `floor` is relative."""
    return float(moved_ps(sample.mean, sample.error, sample.freedom, floor))


def moved_ps(mean: Logs | float, error: Logs | float, freedom: Logs | float, floor: float) -> Logs:
    """Return the p values of that test for as many means, with their errors."""
    beyond = np.abs(mean) - math.log1p(floor)
    return np.asarray(np.minimum(1, 2 * probability(freedom, -beyond / error)))


def direction(metric: str, log: float) -> Verdict:
    """Say whether a metric that moved, by the sign of its log ratio, got better or worse."""
    return Verdict.WORSE if (log > 0) == (row(metric).better == "lower") else Verdict.BETTER


def detectable(sample: Sample, floor: float, *, alpha: float, power: float) -> float:
    """Return the smallest relative change that as many duets with such scatter would detect.

    It is floor + (t of 1 - alpha/2 + t of the power) standard errors, on the log scale.
    """
    missed = quantile(sample.freedom, power) * sample.error
    return math.expm1(math.log1p(floor) + reach(sample, alpha) + missed)


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
