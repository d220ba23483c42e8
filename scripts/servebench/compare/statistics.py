"""Statistics of duets: pure functions on values.

The sample is a duet, and its value the log ratio log(head / base): a change of +1 % and one of
-1 % are then equally far from nothing, and ratios are averaged as ratios are (the geometric mean).
Student's t holds for few duets of unknown scatter.

Three questions are asked of the same mean, standard error and degrees of freedom:

- Has it moved by more than matters? The minimal-effect test: the null hypothesis is not "exactly
  equal", which nothing ever is, but |log ratio| <= log(1 + floor) (Murphy & Myors, Journal of
  Applied Psychology 84 (1999) 234).
- Is it the same, as far as matters? Two one-sided tests against a tolerance (Schuirmann, Journal of
  Pharmacokinetics and Biopharmaceutics 15 (1987) 657). Not having seen a change is no answer.
- What could have been seen? The detectable change.

Whoever looks at growing data several times finds more than there is. Each look therefore gets a
share of the error rate, and the shares add up to one. The bound that makes this right is
Bonferroni's; it asks nothing of the correlation between looks, and it lets the last look come early
with all that is left (Lan & DeMets, Biometrika 70 (1983) 659, spend in the same way, and gain a
little from the correlation). Intervals taken at the share of their look hold whenever one stops
(repeated confidence intervals: Jennison & Turnbull, J. R. Statist. Soc. B 51 (1989) 305).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Logs = NDArray[np.float64]
Direction = Literal[-1, 0, 1]
"""Head's figure is smaller (-1) or larger (1); 0: either."""

RESOLUTION: Final = 4e-4
"""Least standard deviation of a log ratio that is believed.

Percentiles are rounded to three digits, so a ratio of two of them scatters by
0.001 * sqrt(2 / 12) even where all duets agree to the last bit.
"""

_MOST_DUETS: Final = 5000  # beyond which asking for more is no advice


@dataclass(frozen=True, slots=True)
class Looks:
    """When data are looked at, and which share of the error rate each look may spend.

    Attributes:
        counts: Usable duets at each look, rising.
        shares: Share of each look; they add up to 1.
        least: Fewest duets for a last look that comes early.
    """

    counts: tuple[int, ...]
    shares: tuple[float, ...]
    least: int

    def __post_init__(self) -> None:
        rising = list(self.counts) == sorted(set(self.counts))
        if not self.counts or len(self.counts) != len(self.shares) or not rising:
            raise ValueError(f"looks: one share per rising count; found {self}")
        if min(self.shares) <= 0 or not math.isclose(sum(self.shares), 1):
            raise ValueError(f"looks: positive shares that add up to 1; found {self.shares}")
        if not 2 <= self.least <= self.counts[0]:
            raise ValueError(f"looks: least from 2 to {self.counts[0]}; found {self.least}")

    @property
    def last(self) -> int:
        """Duets after which no more are taken."""
        return self.counts[-1]

    def latest(self, count: int, *, final: bool = False) -> tuple[int, float] | None:
        """The latest look at `count` duets: how many of them it sees, and its share.

        Args:
            count: Usable duets at hand.
            final: Nothing will follow (the time is up, whatever the data say): the last look is
                taken now, with all that earlier looks left of the error rate.

        Returns:
            None before the first look.
        """
        if final and count >= self.least:
            spent = sum(
                share for at, share in zip(self.counts, self.shares, strict=True) if at < count
            )
            # Beyond the last scheduled look nothing is left to spend: that look stays the last.
            if spent < 1 - 1e-9:
                return count, 1 - spent
        done = [look for look in zip(self.counts, self.shares, strict=True) if look[0] <= count]
        return done[-1] if done else None


@dataclass(frozen=True, slots=True)
class Sample:
    """What the log ratios of one case and metric amount to: number, mean, standard deviation."""

    n: int
    mean: float
    sd: float

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return max(self.sd, RESOLUTION) / math.sqrt(self.n)


def log_ratios(base: Sequence[float], head: Sequence[float]) -> Logs:
    """log(head / base), one per duet.

    Raises:
        ValueError: Different lengths, or a figure that is not positive and finite: a failure has no
            ratio.
    """
    below, above = np.asarray(base, dtype=np.float64), np.asarray(head, dtype=np.float64)
    if below.shape != above.shape:
        raise ValueError(f"one figure of each side per duet: found {below.size} and {above.size}")
    for side in (below, above):
        if not (np.isfinite(side).all() and (side > 0).all()):
            raise ValueError(f"ratios are of positive finite figures; found {side.tolist()}")
    logs: Logs = np.log(above) - np.log(below)
    return logs


def sample(logs: Logs) -> Sample:
    """Number, mean and standard deviation of log ratios.

    Raises:
        ValueError: Fewer than two values, or one that is not finite.
    """
    if len(logs) < 2 or not np.isfinite(logs).all():
        raise ValueError(f"at least two finite log ratios; found {np.asarray(logs).tolist()}")
    return Sample(len(logs), float(logs.mean()), float(logs.std(ddof=1)))


def interval(found: Sample, alpha: float) -> tuple[float, float]:
    """The two-sided t interval of the mean with coverage 1 - alpha, on the log scale."""
    half = _quantile(1 - alpha / 2, found.n - 1) * found.error
    return found.mean - half, found.mean + half


def moved_p(found: Sample, floor: float, direction: Direction = 0) -> float:
    """P value of the minimal-effect test.

    Args:
        found: The log ratios.
        floor: Relevance floor, relative (0.01 is 1 %).
        direction: Where the change is looked for. For 0 both are tried, and p is doubled.
    """
    edge = math.log1p(floor)
    up = _tail((found.mean - edge) / found.error, found.n - 1)
    down = _tail((-found.mean - edge) / found.error, found.n - 1)
    if direction:
        return up if direction > 0 else down
    return min(1.0, 2 * min(up, down))


def same_p(found: Sample, tolerance: float) -> float:
    """P value of the equivalence test: small where |log ratio| is below log(1 + tolerance)."""
    edge = math.log1p(tolerance)
    return max(
        _tail((edge - found.mean) / found.error, found.n - 1),
        _tail((edge + found.mean) / found.error, found.n - 1),
    )


def detectable(
    found: Sample,
    floor: float,
    *,
    alpha: float,
    power: float,
    then: tuple[int, float] | None = None,
) -> float:
    """Smallest relative change that so many duets with such scatter would have called.

    Floor + (t of 1 - alpha/2 + t of the power) standard errors, on the log scale; the change is
    given as a ratio minus one.

    Args:
        found: The log ratios.
        floor: Relevance floor, relative.
        alpha: Error rate, on both sides together.
        power: How often it would have been called.
        then: A test of fresh duets that has to call it as well: how many, and its error rate on one
            side. The power is then that of both, which are independent.
    """
    tests = [(found.n, alpha / 2), *([then] if then else [])]
    sd = found.error * math.sqrt(found.n)

    def reach(n: int, rate: float, power: float) -> float:
        return (_quantile(1 - rate, n - 1) + _quantile(power, n - 1)) * sd / math.sqrt(n)

    def lacking(distance: float) -> float:
        called = (_tail(_quantile(1 - a, n - 1) - distance * math.sqrt(n) / sd, n - 1)
                  for n, a in tests)  # fmt: skip
        return math.prod(called) - power

    distance = max(reach(n, a, power) for n, a in tests)
    if then and lacking(distance) < 0:
        from scipy import optimize  # noqa: PLC0415 - only those who compare wait for its import

        most = max(reach(n, a, math.sqrt(power)) for n, a in tests)
        distance = float(optimize.brentq(lacking, distance, 1.01 * most))
    return math.expm1(math.log1p(floor) + distance)


def duets_needed(sd: float, distance: float, *, alpha: float, power: float) -> int | None:
    """How many duets tell apart what is `distance` away, on the log scale.

    Args:
        sd: Standard deviation of the log ratios.
        distance: Between the mean and the edge that it should be beyond; positive.
        alpha: Error rate on that one side.
        power: How often so many duets shall succeed.

    Returns:
        None where thousands would not do.
    """
    from scipy import special  # noqa: PLC0415 - only those who compare wait for its import

    n = np.arange(2, _MOST_DUETS)
    reach = special.stdtrit(n - 1, 1 - alpha) + special.stdtrit(n - 1, power)
    enough = np.flatnonzero(reach * max(sd, RESOLUTION) / np.sqrt(n) <= distance)
    return int(n[enough[0]]) if len(enough) else None


def adjusted(ps: Sequence[float]) -> list[float]:
    """P values adjusted for their number: the false discovery rate at which each would be called.

    Benjamini & Hochberg, J. R. Statist. Soc. B 57 (1995) 289. Metrics of one case go together
    (what costs CPU costs throughput), which the method bears (Benjamini & Yekutieli, Annals of
    Statistics 29 (2001) 1165).
    """
    if not ps:
        return []
    from scipy import stats  # noqa: PLC0415 - takes a second to import

    found: list[float] = stats.false_discovery_control(np.asarray(ps), method="bh").tolist()
    return found


def _tail(t: float, freedom: int) -> float:
    """P(T > t) of Student's t."""
    from scipy import special  # noqa: PLC0415 - only those who compare wait for its import

    return float(special.stdtr(freedom, -t))


def _quantile(p: float, freedom: int) -> float:
    from scipy import special  # noqa: PLC0415 - only those who compare wait for its import

    return float(special.stdtrit(freedom, p))
