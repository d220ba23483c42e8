"""How a comparison decides: its error rates and looks, and the arithmetic behind them.

Instructions are counted first. Where they moved by more than CPU's relevance floor, CPU (and the
throughput of a closed loop that only computes) is a candidate from the start: counts repeat to
0.03 % and better, so nothing has to be searched for. Then two stages, on data that have nothing in
common:

1. **Screening** takes duets of all cases, round by round, and looks after 5, 8, 12 and 22. A case
   and metric becomes a *candidate* when the minimal-effect test, corrected for all pairs that are
   judged (Benjamini-Hochberg at `screening_rate`), says that it moved beyond the relevance floor.
   It is *settled* when the equivalence test, corrected for all pairs in the same way at
   `settling_rate`, says that it is the same within the tolerance.
2. **Confirmation** takes fresh duets of the candidates only and looks after 10, 18 and 28. A
   verdict needs the one-sided minimal-effect test in the direction of the screening, corrected for
   all candidates at `confirmation_rate`. That is half of what intervals leave out on both sides
   (`CONFIDENCE_RATE`), so the printed interval of whatever is called lies beyond the floor. Ratio
   and interval are those of the confirmation: what was chosen for being large would be shown too
   large (the winner's curse). Some of that is left, since only what looks large is called: at a
   scatter of 1.2 %, changes of 1 and 1.5 % that are called are shown as 1.13 and 1.57 % on average,
   and one of 0.5 %, of which a sixth is called, as 0.9 %. The intervals allow for it: those of
   what is called hold the truth in 99 % from 0.75 % on, in 92 % at 0.5 %, and in half at 0.3 %,
   of which one in 27 is called.

What is promised. A pair that is no candidate gets no verdict, and the candidates are tested on data
that did not choose them. So the confirmation alone holds the rate of false discoveries among all
judged pairs at 2.5 % (Cox, Biometrika 62 (1975) 441; Wasserman & Roeder, Annals of Statistics 37
(2009) 2178), and the screening may be generous: its rate decides what confirming costs, not what is
believed. When nothing changed at all, and no instructions moved, a false verdict needs both
stages: 0.20 * 0.025 = 0.5 % of the comparisons at most, however many cases they have - and that is
at the edge of the floor; without any change the floor is one more standard error away. Where
instructions moved and time did not, the screening is left out, and the 2.5 % are all there is.

Of all that a stage calls "no change", at most 5 % moved by as much as the tolerance, on average
over comparisons and however many cases there are. That is a rate of false discoveries too: a single
case that moved by just that much is called "no change" in up to 5 % (in simulations of 1, 5, 34 and
100 cases, CPU or throughput or both: 5, 5, 4 and 4 %, at a scatter of 1.2 %), and of many such
cases some will be. That no comparison in twenty contained any would take Bonferroni's correction:
of 34 unchanged cases it leaves 13 % where this one settles 92 %. Against a test of each case by
itself the correction costs 1.5 duets per case (20.6 instead of 19.1).

What is seen. A change of 1 % (0.00995 on the log scale) is 0.00795 beyond a floor of 0.2 %. On a
two-core virtual machine duets of FastAPI's json scatter by 1.0 to 1.4 %, so 28 of them, which take
110 s, have a standard error of 0.19 to 0.26 %: the change is 3.0 to 4.2 of them beyond the floor.
The confirmation's last look has 60 % of 2.5 % on one side (t = 2.29); with the looks before it, 73
to 95 % of such changes pass, 87 % at a scatter of 1.2 %, after 22 duets on average. Instructions
see to it that the screening loses none of those that cost instructions. What costs none (a lock, a
wait, memory that is far away) has to pass the screening too, which passes 80 % of such changes of
one metric of a case's three, and 86 % where throughput moves with CPU: seven of ten and more are
found. The detectable change counts both.

What is not claimed. The t distribution wants ratios that scatter independently and without a bias
between the sides; sides, ports and the order of starting are swapped from duet to duet for that.
What stays the same in all duets (two installations of the same packages, each with files of its
own) is not averaged out, and a duet more makes it no smaller. And throughput is no second witness:
both sides share their cores, so that it says what CPU per request says, once more.

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
