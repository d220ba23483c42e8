"""The arithmetic of verdicts: looks, error rates, tests and intervals.

docs/decides.md ("Error rates") says what is promised, and where it comes from. The sample is a
duet, and its value the log ratio log(head / base): changes of +1 % and of -1 % are then equally far
from nothing, and ratios are averaged as ratios are (the geometric mean). Student's t holds for few
duets of unknown scatter; what is known of it beforehand is a `Prior`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from duetbench.core.metrics import MATERIAL, Concern
from duetbench.core.model import Case
from duetbench.store.comparison import ACTED_ON

Logs = NDArray[np.float64]
RESOLUTION: Final = 4e-4
"""Least standard deviation of a log ratio that is believed.

Percentiles are rounded to three digits, so a ratio of two of them scatters by
0.001 * sqrt(2 / 12) even where all duets agree to the last bit.
"""

LOUD: Final = 0.1
"""Chance of a louder sample under its prior, below which the prior is not the case's."""

QUIET: Final = 0.02
"""Chance of a quieter sample, likewise; smaller, since luck looks quiet, too."""


@dataclass(frozen=True, slots=True)
class Looks:
    """When data are looked at, and which share of the error rate each look may spend.

    `least`: fewest duets for a last look that comes early.
    """

    counts: tuple[int, ...]
    shares: tuple[float, ...]
    least: int

    def __str__(self) -> str:
        pairs = zip(self.counts, self.shares, strict=True)
        return ", ".join(f"{count} duets: {share:.0%}" for count, share in pairs)

    @property
    def last(self) -> int:
        """Duets after which no more are taken."""
        return self.counts[-1]

    def missing(self, count: int) -> int:
        """Count the duets that are missing until the next look; none after the last."""
        return min((look - count for look in self.counts if look > count), default=0)

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
class Prior:
    """Standard deviation of a log ratio as known beforehand, and how many duets that is worth."""

    sd: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Number, mean and standard deviation of the log ratios of one case and metric.

    `prior` are the degrees of freedom that its standard deviation has from a `Prior`.
    """

    n: int
    mean: float
    sd: float
    prior: float = 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard deviation."""
        return self.n - 1 + self.prior

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return max(self.sd, RESOLUTION) / math.sqrt(self.n)


def sample(logs: Logs, prior: Prior | None = None) -> Sample:
    """Number, mean and standard deviation of two or more log ratios.

    With a prior the variance is the mean of both, by degrees of freedom (the moderated t of Smyth
    2004); unless the duets scatter more than the prior allows, or far less.
    """
    own = Sample(len(logs), float(logs.mean()), float(logs.std(ddof=1)))
    if prior is None or not _fits(own, prior):
        return own
    squares = own.freedom * own.sd**2 + prior.freedom * prior.sd**2
    sd = math.sqrt(squares / (own.freedom + prior.freedom))
    return replace(own, sd=sd, prior=prior.freedom)


def _fits(own: Sample, prior: Prior) -> bool:
    chance = special.fdtrc(own.freedom, prior.freedom, (own.sd / prior.sd) ** 2)
    return bool(LOUD <= chance <= 1 - QUIET)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The likeliest log ratio of a case, from its sample; `same`: it is shown to be none."""

    case: Case
    log: float
    sample: Sample
    same: bool


def interval(sample: Sample, alpha: float) -> tuple[float, float]:
    """The two-sided t interval of the mean with coverage 1 - alpha, on the log scale."""
    half = reach(sample, alpha)
    return sample.mean - half, sample.mean + half


def reach(sample: Sample, alpha: float) -> float:
    """Largest distance of a mean from the truth, but for alpha (both sides), on the log scale."""
    return float(special.stdtrit(sample.freedom, 1 - alpha / 2)) * sample.error


def moved_p(sample: Sample, floor: float) -> float:
    """Two-sided P value of the minimal-effect test; `floor` is relative."""
    beyond = abs(sample.mean) - math.log1p(floor)
    return min(1.0, 2 * float(special.stdtr(sample.freedom, -beyond / sample.error)))


def likeliest(sample: Sample, last: Sample, edge: float) -> float:
    """Mean that makes a sample likeliest, given that it was called at all, on the log scale.

    What is called for looking large looks too large (the winner's curse). Called at all is, nearly,
    what would be at the `last` look, with a mean beyond `edge`. By the normal approximation, as in
    Ghosh, Zou & Wright, American Journal of Human Genetics 82 (2008) 1064; between 0 and the
    sample's own mean.
    """
    from scipy import optimize  # noqa: PLC0415 - it takes 0.4 s, and only what moved waits for it

    def slope(true: float) -> float:
        ends = np.array([true - edge, -true - edge]) / last.error
        called = np.logaddexp(*special.log_ndtr(ends))
        up, down = np.exp(-(ends**2) / 2 - math.log(math.tau) / 2 - called)
        return float((abs(sample.mean) - true) / sample.error**2 - (up - down) / last.error)

    return math.copysign(optimize.brentq(slope, 0, abs(sample.mean)), sample.mean)


def same_p(sample: Sample, tolerance: float) -> float:
    """P value of the equivalence test: small where |log ratio| is below log(1 + tolerance)."""
    edge = math.log1p(tolerance)
    # The larger of both sides' is that on which the mean lies.
    return float(special.stdtr(sample.freedom, (abs(sample.mean) - edge) / sample.error))


def detectable(sample: Sample, floor: float, *, alpha: float, power: float) -> float:
    """Smallest relative change that so many duets with such scatter would have called.

    Floor + (t of 1 - alpha/2 + t of the power) standard errors, on the log scale.
    """
    missed = float(special.stdtrit(sample.freedom, power)) * sample.error
    return math.expm1(math.log1p(floor) + reach(sample, alpha) + missed)


def adjusted(ps: Sequence[float], weights: Sequence[float]) -> list[float]:
    """P values adjusted for their number: the false discovery rate at which each would be called.

    Benjamini & Hochberg's, of p over weight (Genovese, Roeder & Wasserman, Biometrika 93 (2006)
    509): weights are known beforehand, and 1 on average. None is made smaller than it was, so that
    an interval at the rate agrees with it. That metrics of one case go together (what costs CPU
    costs throughput) it bears (Benjamini & Yekutieli, Annals of Statistics 29 (2001) 1165).
    """
    if not ps:
        return []
    ranks = np.arange(len(ps))
    # By row, as if one more were called in each: at which rate would a p value be among so many?
    share = np.minimum(1, np.outer((ranks + 1) / len(ps), weights))
    rates = np.asarray(ps) / share
    enough = np.sort(rates)[ranks, ranks]
    result: list[float] = np.minimum(1, np.maximum(rates, enough[:, None]).min(axis=0)).tolist()
    return result


CONFIDENCE_RATE: Final = 0.05
"""Error rate of reported intervals: 95 % coverage."""

MEMORY: Final = "as without the other side's server"
"""Meaning of a duet's PSS and USS: see `duet`. Comparisons without this are older."""


@dataclass(frozen=True, slots=True)
class Method:
    """Parameters of a comparison: looks, error rates, and for how long.

    `rate` is that of false verdicts among the verdicts, `settling_rate` that of changes as large as
    the tolerance among what is called "no change". `hinted` is the least share of `rate` that is
    spent where instructions moved. `patience` bounds the duets of a case, in multiples of the last
    look: on a disturbed machine the usable ones may never be enough. `material` are the sizes from
    which on a change is acted on, by `metrics.Concern`: no verdict depends on them.
    """

    looks: Looks = Looks(
        (2, 3, 4, 6, 10, 16, 25, 40, 60),
        (0.02, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.22, 0.28),
        least=2,
    )
    rough: int = 6  # duets until which the size of what moved is made more precise
    joint: float = 0.2  # share of `rate` for all cases together, where there are several
    admitted: int = 4  # duets that a case must have time for, to be begun
    rate: float = CONFIDENCE_RATE  # both sides: what is called has its interval beyond the floor
    settling_rate: float = 0.05
    hinted: float = 0.5
    power: float = 0.8  # for which detectable changes and missing times are given
    patience: float = 1.5
    material: Mapping[Concern, float] = field(default_factory=lambda: MATERIAL)

    def record(self) -> dict[str, float | int | str]:
        """The parameters as a comparison's file keeps them."""
        rates = ("rate", "settling_rate", "hinted", "joint", "power", "patience")
        values = {name: getattr(self, name) for name in rates}
        sizes = {f"{ACTED_ON}{concern}": size for concern, size in self.material.items()}
        return {"looks": str(self.looks), **values, **sizes, "memory": MEMORY}
