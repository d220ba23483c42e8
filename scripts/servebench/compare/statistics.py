"""The arithmetic of verdicts: looks, error rates, tests and intervals.

docs/comparing.md ("How it decides") says what is promised, and where it comes from. The sample is a
duet, and its value the log ratio log(head / base): changes of +1 % and of -1 % are then equally far
from nothing, and ratios are averaged as ratios are (the geometric mean). Student's t holds for few
duets of unknown scatter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

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

    `least`: fewest duets for a last look that comes early.
    """

    counts: tuple[int, ...]
    shares: tuple[float, ...]
    least: int

    def __post_init__(self) -> None:
        rising = list(self.counts) == sorted(set(self.counts))
        if not self.counts or len(self.counts) != len(self.shares) or not rising:
            raise ValueError(f"looks: one share per rising count; found {self!r}")
        if min(self.shares) <= 0 or not math.isclose(sum(self.shares), 1):
            raise ValueError(f"looks: positive shares that add up to 1; found {self.shares}")
        if not 2 <= self.least <= self.counts[0]:
            raise ValueError(f"looks: least from 2 to {self.counts[0]}; found {self.least}")

    def __str__(self) -> str:
        pairs = zip(self.counts, self.shares, strict=True)
        return ", ".join(f"{count} duets: {share:.0%}" for count, share in pairs)

    @property
    def last(self) -> int:
        """Duets after which no more are taken."""
        return self.counts[-1]

    def latest(self, count: int, *, final: bool = False) -> tuple[int, float] | None:
        """The latest look at `count` duets: how many it sees, and its share; None before the first.

        `final`: nothing will follow, and the last look is taken now, with all that earlier ones
        left.
        """
        looks = list(zip(self.counts, self.shares, strict=True))
        spent = sum(share for at, share in looks if at < count)
        # Beyond the last scheduled look nothing is left to spend: that look stays the last.
        if final and count >= self.least and spent < 1 - 1e-9:
            return count, 1 - spent
        return max((look for look in looks if look[0] <= count), default=None)


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
        ValueError: Different lengths, or a figure that is not positive and finite.
    """
    if len(base) != len(head):
        raise ValueError(f"one figure of each side per duet: found {len(base)} and {len(head)}")
    both = np.asarray([base, head], dtype=np.float64)
    if not (np.isfinite(both) & (both > 0)).all():
        raise ValueError(f"ratios are of positive finite figures; found {both.tolist()}")
    logs: Logs = np.log(both[1]) - np.log(both[0])
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
    half = float(_quantile(1 - alpha / 2, found.n - 1)) * found.error
    return found.mean - half, found.mean + half


def moved_p(found: Sample, floor: float, direction: Direction = 0) -> float:
    """P value of the minimal-effect test, doubled for direction 0; `floor` is relative."""
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
        _tail((edge - mean) / found.error, found.n - 1) for mean in (found.mean, -found.mean)
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

    Floor + (t of 1 - alpha/2 + t of the power) standard errors, on the log scale. `then` is a test
    of fresh duets that has to call it as well: how many, and its error rate on one side; the power
    is that of both.
    """
    tests = [(found.n, alpha / 2), *([then] if then else [])]
    sd = found.error * math.sqrt(found.n)

    def reach(n: int, rate: float, power: float) -> float:
        return float(_quantile(1 - rate, n - 1) + _quantile(power, n - 1)) * sd / math.sqrt(n)

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
    """How many duets tell apart what is `distance` away, on the log scale; None: thousands.

    `alpha` is the error rate on that one side.
    """
    n = np.arange(2, _MOST_DUETS)
    reach = _quantile(1 - alpha, n - 1) + _quantile(power, n - 1)
    enough = np.flatnonzero(reach * max(sd, RESOLUTION) / np.sqrt(n) <= distance)
    return int(n[enough[0]]) if len(enough) else None


def adjusted(ps: Sequence[float]) -> list[float]:
    """P values adjusted for their number: the false discovery rate at which each would be called.

    Benjamini & Hochberg, J. R. Statist. Soc. B 57 (1995) 289. Metrics of one case go together
    (what costs CPU costs throughput), which the method bears (Benjamini & Yekutieli, Annals of
    Statistics 29 (2001) 1165).
    """
    from scipy import stats  # noqa: PLC0415 - takes a second to import

    return stats.false_discovery_control(np.asarray(ps), method="bh").tolist() if ps else []


def _tail(t: float, freedom: int) -> float:
    """P(T > t) of Student's t."""
    from scipy import special  # noqa: PLC0415 - only those who compare wait for its import

    return float(special.stdtr(freedom, -t))


def _quantile(p: float, freedom: Any) -> Any:
    """Student's t of a probability, for one number of degrees of freedom or an array of them."""
    from scipy import special  # noqa: PLC0415 - only those who compare wait for its import

    return special.stdtrit(freedom, p)


CONFIDENCE_RATE: Final = 0.05
"""Error rate of reported intervals: 95 % coverage."""

MEMORY: Final = "as without the other side's server"
"""How a duet's PSS and USS are to be read: see `duet`. Comparisons that do not say so are older."""


@dataclass(frozen=True, slots=True)
class Method:
    """Parameters of a comparison: looks, error rates, and for how long.

    `settling_rate` is that of changes as large as the tolerance among what a stage calls "no
    change". `patience` bounds the duets that a case may take in a stage, in multiples of the last
    look: on a disturbed machine the usable ones may never be enough.
    """

    screening: Looks = Looks((5, 8, 12, 22), (0.05, 0.15, 0.3, 0.5), least=3)
    confirmation: Looks = Looks((10, 18, 28), (0.15, 0.25, 0.6), least=5)
    screening_rate: float = 0.20  # of false candidates among the candidates
    confirmation_rate: float = 0.025  # of false verdicts; one side, half of `CONFIDENCE_RATE`
    settling_rate: float = 0.05
    power: float = 0.8  # for which detectable changes and missing times are given
    patience: float = 1.5

    @property
    def confirming(self) -> tuple[int, float]:
        """The confirmation's last look: its duets, and the error rate on one side of one test."""
        return self.confirmation.last, self.confirmation_rate * self.confirmation.shares[-1]

    def record(self) -> dict[str, float | int | str]:
        """The parameters as a comparison's file keeps them."""
        rates = ("screening_rate", "confirmation_rate", "settling_rate", "power", "patience")
        return {
            "screening_looks": str(self.screening),
            "confirmation_looks": str(self.confirmation),
            **{name: getattr(self, name) for name in rates},
            "memory": MEMORY,
        }
