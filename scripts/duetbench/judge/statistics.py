"""The arithmetic of verdicts: looks, error rates, tests and intervals.

docs/decides.md ("Error rates") explains what is promised, and why. The sample is a duet, and its
value the log ratio log(head / base). Then changes of +1 % and of -1 % are equally far from none,
and the mean of ratios is the geometric mean. Student's t suits few duets of unknown scatter; prior
knowledge of the scatter is a `Prior`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from duetbench.core.metrics import MATERIAL, Concern, row
from duetbench.core.model import Case, Verdict
from duetbench.store.comparison import ACTED_ON

Logs = NDArray[np.float64]
RESOLUTION: Final = 4e-4
"""Least standard deviation of a log ratio that is assumed.

Percentiles are rounded to three digits, so a ratio of two of them scatters by
0.001 * sqrt(2 / 12) even where all duets agree to the last bit.
"""

LOUD: Final = 0.1
"""Chance of a more scattered sample under its prior, below which the prior does not apply."""

QUIET: Final = 0.02
"""Chance of a less scattered sample, likewise. It is smaller, since luck also looks quiet."""


@dataclass(frozen=True, slots=True)
class Looks:
    """When the data are looked at, and which share of the error rate each look may spend.

    `least` is the fewest duets for a last look that comes early.
    """

    counts: tuple[int, ...]
    shares: tuple[float, ...]
    least: int

    def __str__(self) -> str:
        pairs = zip(self.counts, self.shares, strict=True)
        return ", ".join(f"{count} duets: {share:.0%}" for count, share in pairs)

    @property
    def last(self) -> int:
        """The number of duets after which no more are run."""
        return self.counts[-1]

    def missing(self, count: int) -> int:
        """Count the duets until the next look; 0 after the last."""
        return min((look - count for look in self.counts if look > count), default=0)

    def latest(self, count: int, *, final: bool = False) -> tuple[int, float] | None:
        """Return the latest look at `count` duets: its duets and its share; None before the first.

        With `final`, no look will follow. The last look is then taken now, with all of the error
        rate that earlier looks left.
        """
        looks = list(zip(self.counts, self.shares, strict=True))
        spent = sum(share for at, share in looks if at < count)
        # After the last scheduled look nothing is left to spend, so that look stays the last.
        if final and count >= self.least and spent < 1 - 1e-9:
            return count, 1 - spent
        return max((look for look in looks if look[0] <= count), default=None)


@dataclass(frozen=True, slots=True)
class Prior:
    """Standard deviation of a log ratio known in advance, and how many duets that is worth."""

    sd: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Number, mean and standard deviation of the log ratios of one case and metric.

    `prior` is the degrees of freedom that the standard deviation gets from a `Prior`.
    """

    n: int
    mean: float
    sd: float
    prior: float = 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard deviation, including the prior's."""
        return self.n - 1 + self.prior

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return max(self.sd, RESOLUTION) / math.sqrt(self.n)


def sample(logs: Logs, prior: Prior | None = None) -> Sample:
    """Compute number, mean and standard deviation of two or more log ratios.

    With a prior, the variance is the mean of both, by degrees of freedom (the moderated t of Smyth
    2004). The prior is ignored if the duets scatter more than it allows, or far less.
    """
    own = Sample(len(logs), float(logs.mean()), float(logs.std(ddof=1)))
    if prior is None or not _fits(own, prior):
        return own
    squares = own.freedom * own.sd**2 + prior.freedom * prior.sd**2
    sd = math.sqrt(squares / (own.freedom + prior.freedom))
    return replace(own, sd=sd, prior=prior.freedom)


def _fits(own: Sample, prior: Prior) -> bool:
    return LOUD <= chance(own.sd**2, own.freedom, prior) <= 1 - QUIET


def chance(variance: float, freedom: float, prior: Prior) -> float:
    """Compute the chance of a sample variance of at least this size under a prior (F test)."""
    return float(special.fdtrc(freedom, prior.freedom, variance / prior.sd**2))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The likeliest log ratio of a case, from its sample; `same`: "no change" is shown."""

    case: Case
    log: float
    sample: Sample
    same: bool


def interval(sample: Sample, alpha: float) -> tuple[float, float]:
    """Return the two-sided t interval of the mean with coverage 1 - alpha, on the log scale."""
    half = reach(sample, alpha)
    return sample.mean - half, sample.mean + half


def reach(sample: Sample, alpha: float) -> float:
    """Compute the half width of a mean's two-sided interval with error rate alpha (log scale)."""
    return float(special.stdtrit(sample.freedom, 1 - alpha / 2)) * sample.error


def moved_p(sample: Sample, floor: float) -> float:
    """Return the two-sided p value of the minimal-effect test; `floor` is relative."""
    beyond = abs(sample.mean) - math.log1p(floor)
    return min(1.0, 2 * float(special.stdtr(sample.freedom, -beyond / sample.error)))


def likeliest(sample: Sample, last: Sample, edge: float) -> float:
    """Find the mean that makes a sample likeliest, given that it was detected, on the log scale.

    A change that is detected because it looks large looks too large (the winner's curse). Changes
    are detected, nearly, if their mean would be beyond `edge` at the `last` look. By the normal
    approximation of Ghosh, Zou & Wright, American Journal of Human Genetics 82 (2008) 1064. The
    result is between 0 and the sample's own mean.
    """
    from scipy import optimize  # noqa: PLC0415 - it takes 0.4 s, and only what moved waits for it

    def slope(true: float) -> float:
        ends = np.array([true - edge, -true - edge]) / last.error
        log_power = np.logaddexp(*special.log_ndtr(ends))
        up, down = np.exp(-(ends**2) / 2 - math.log(math.tau) / 2 - log_power)
        return float((abs(sample.mean) - true) / sample.error**2 - (up - down) / last.error)

    return math.copysign(optimize.brentq(slope, 0, abs(sample.mean)), sample.mean)


def direction(metric: str, log: float) -> Verdict:
    """Say whether a metric that moved, by the sign of its log ratio, got better or worse."""
    return Verdict.SLOWER if (log > 0) == (row(metric).better == "lower") else Verdict.FASTER


def same_p(sample: Sample, tolerance: float) -> float:
    """Return the p value of equivalence: small if |log ratio| is clearly below the tolerance."""
    edge = math.log1p(tolerance)
    # The larger p value of both sides is that of the side on which the mean lies.
    return float(special.stdtr(sample.freedom, (abs(sample.mean) - edge) / sample.error))


def detectable(sample: Sample, floor: float, *, alpha: float, power: float) -> float:
    """Return the smallest relative change that as many duets with such scatter would detect.

    It is floor + (t of 1 - alpha/2 + t of the power) standard errors, on the log scale.
    """
    missed = float(special.stdtrit(sample.freedom, power)) * sample.error
    return math.expm1(math.log1p(floor) + reach(sample, alpha) + missed)


def adjust(ps: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Adjust p values for their number: the false discovery rate at which each would be detected.

    This is Benjamini & Hochberg's, of p over weight (Genovese, Roeder & Wasserman, Biometrika 93
    (2006) 509); weights are set in advance, with mean 1. No p value gets smaller, so an interval at
    the rate agrees with it. Dependent metrics of one case (what costs CPU costs throughput) do not
    invalidate it (Benjamini & Yekutieli, Annals of Statistics 29 (2001) 1165).
    """
    if not ps:
        return []
    ranks = np.arange(len(ps))
    # Row k assumes that k + 1 pairs are detected: at which rate is each p value among them?
    share = np.minimum(1, np.outer((ranks + 1) / len(ps), weights))
    rates = np.asarray(ps) / share
    enough = np.sort(rates)[ranks, ranks]
    result: list[float] = np.minimum(1, np.maximum(rates, enough[:, None]).min(axis=0)).tolist()
    return result


CONFIDENCE_RATE: Final = 0.05
"""Error rate of reported intervals: 95 % coverage."""

MEMORY: Final = "as without the other side's server"
"""Meaning of a duet's PSS and USS: see `duet`. Comparisons without this text are older."""


@dataclass(frozen=True, slots=True)
class Method:
    """Parameters of a comparison: looks, error rates and limits of duets.

    `rate` is the rate of false verdicts among the verdicts. `settling_rate` is the rate of changes
    as large as the tolerance among the verdicts "no change". `hinted` is the least share of `rate`
    for cases whose instructions moved. `patience` limits the duets of a case, in multiples of the
    last look: a disturbed machine may never give enough usable duets. `material` has the sizes of
    material changes by `metrics.Concern`, on which no verdict depends.
    """

    looks: Looks = Looks(
        (2, 3, 4, 6, 10, 16, 25, 40, 60),
        (0.02, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.22, 0.28),
        least=2,
    )
    few: int = 3  # duets below which a change must exceed `large` in each, and none is "no change"
    large: float = 0.4
    rough: int = 6  # duets up to which a case continues to measure the size of its change better
    joint: float = 0.2  # share of `rate` for all cases together, if there are several
    admitted: int = 4  # duets for which there must be time to begin a case
    rate: float = CONFIDENCE_RATE  # two-sided: a detected change's interval is beyond the floor
    settling_rate: float = 0.05
    hinted: float = 0.5
    power: float = 0.8  # of the detectable changes and missing times
    patience: float = 1.5
    material: Mapping[Concern, float] = field(default_factory=lambda: MATERIAL)

    def moved_p(self, logs: Logs, sample: Sample, floor: float) -> float:
        """Return the p value of a change beyond the `floor`, and of few duets whether it is large.

        Few duets say little of their scatter. But equal sides never differ so far in each of them.
        """
        p = moved_p(sample, floor)
        if sample.n >= self.few:
            return p
        sign = math.copysign(1, sample.mean)
        large = float((sign * logs).min()) > math.log1p(self.large)
        return 0.0 if large and p <= CONFIDENCE_RATE else 1.0

    def record(self) -> dict[str, float | int | str]:
        """Return the parameters for a comparison's file."""
        rates = ("rate", "settling_rate", "hinted", "joint", "power", "patience", "few", "large")
        values = {name: getattr(self, name) for name in rates}
        sizes = {f"{ACTED_ON}{concern}": size for concern, size in self.material.items()}
        return {"looks": str(self.looks), **values, **sizes, "memory": MEMORY}
