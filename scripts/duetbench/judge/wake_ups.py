"""Separates work and wake-ups: how much of a change of CPU per request is code, how much batching.

How many requests a thread serves per wake-up depends on the load and on what shares its core. The
same loop changed CPU per request by 1.7, 9.4 and 7.3 % at 8, 32 and 128 connections. So wake-ups
are judged beside CPU and, if their price is known, work: the change at equal wake-ups. The price is
the slope of CPU on wake-ups over the duets of one comparison, in which the change is the same. It
is pooled over this comparison and earlier ones of this machine with such a server.

Both parts of a change use logarithmic means (LMDI: Ang, Energy Policy 33 (2005) 867): they add up
to the whole, with either side as base.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple, Self

import numpy as np
from scipy import special

from duetbench.core.metrics import CPU, WAKE_UPS, WORK
from duetbench.core.model import Case
from duetbench.judge.statistics import CONFIDENCE_RATE, Logs
from duetbench.store.comparison import Comparison, Duet, Price

FEWEST: Final = 12
"""Degrees of freedom that a price needs."""

CERTAIN: Final = 3.0
"""Standard errors by which a price must be above 0, or nothing is subtracted from CPU for it."""

RARE: Final = 0.02
"""Wake-ups per request below which batching costs almost nothing, and counts are chance."""

FAR: Final = 1.5
"""Ratio of the sides' wake-ups from which they are of another kind: threads, a queue or a flush
that only one side has. Their price is not known, so nothing is subtracted from CPU for them."""


def kind(case: Case) -> Hashable:
    """Key that is equal for cases whose servers wake up alike."""
    return (
        case.server, case.loop, case.python, case.endpoint.interface, case.workers, case.threads
    )  # fmt: skip


class Differences(NamedTuple):
    """How the sides of duets differ: in each array, an element per duet.

    It contains only duets that have CPU and wake-ups of both sides from the same launches.
    """

    cpu: Logs  # log ratios
    wakes: Logs  # log ratios
    more: Logs  # wake-ups of head minus those of base, per second of CPU
    often: Logs  # wake-ups of both sides per second of CPU

    @property
    def alike(self) -> bool:
        """Whether there are duets, and the sides' wake-ups are of one kind by their number."""
        return len(self.cpu) > 0 and abs(float(self.wakes.mean())) < math.log(FAR)


def differences(duets: Iterable[Duet]) -> Differences:
    """Compute how the sides of duets differ in CPU and wake-ups."""
    rows = []
    for duet in duets:
        cpu, wakes = ([s.get(n, 0.0) for s in (duet.base, duet.head)] for n in (CPU, WAKE_UPS))
        if min(*cpu, *wakes) > 0 and max(wakes) > RARE and WAKE_UPS not in duet.alone:
            log = math.log(cpu[1] / cpu[0])
            mean = (cpu[1] - cpu[0]) / log if log else cpu[0]
            more = (wakes[1] - wakes[0]) / mean
            rows.append((log, math.log(wakes[1] / wakes[0]), more, sum(wakes) / sum(cpu)))
    cpus, wake_ups, more_, often = np.array(rows).reshape(-1, 4).T
    return Differences(cpus, wake_ups, more_, often)


class Slope(NamedTuple):
    """Sums of squares of CPU and wake-ups around the means of each comparison; they add up."""

    wakes: float = 0.0
    both: float = 0.0
    cpu: float = 0.0
    freedom: int = 0

    @classmethod
    def of(cls, duets: Iterable[Duet]) -> Self:
        """Compute the sums of the duets of one case of one comparison."""
        gaps = differences(duets)
        if not gaps.alike:
            return cls()
        more, cpu = gaps.more - gaps.more.mean(), gaps.cpu - gaps.cpu.mean()
        return cls(float(more @ more), float(more @ cpu), float(cpu @ cpu), len(cpu) - 1)

    def plus(self, other: "Slope") -> "Slope":
        return Slope(
            self.wakes + other.wakes,
            self.both + other.both,
            self.cpu + other.cpu,
            self.freedom + other.freedom,
        )

    @property
    def error(self) -> float:
        """Standard error of the price, s."""
        left = max(0.0, self.cpu - self.both**2 / self.wakes)
        return math.sqrt(left / (self.freedom - 1) / self.wakes)

    @property
    def price(self) -> Price | None:
        """CPU time of a wake-up, s; None if it may be zero."""
        if self.freedom < FEWEST or not self.wakes:
            return None
        seconds = self.both / self.wakes
        half = float(special.stdtrit(self.freedom - 1, 1 - CONFIDENCE_RATE / 2)) * self.error
        if seconds < CERTAIN * self.error:
            return None
        low, high = max(0.0, seconds - half), seconds + half
        return Price(seconds=seconds, low=low, high=high, duets=self.freedom)


def learn_slopes(comparisons: Iterable[Comparison]) -> dict[Hashable, Slope]:
    """Add up the sums of one machine's comparisons, by kind of case."""
    slopes: defaultdict[Hashable, Slope] = defaultdict(Slope)
    for case in (case for comparison in comparisons for case in comparison.cases):
        usable = [duet for duet in case.duets if duet.usable]
        slopes[kind(case.case)] = slopes[kind(case.case)].plus(Slope.of(usable))
    return dict(slopes)


def at_equal_wake_ups(duet: Duet, price: float) -> Duet:
    """Add work to a duet: base's CPU per request, and head's if both sides woke up as often."""
    gaps = differences([duet])
    if not len(gaps.cpu):
        return duet
    base = duet.base[CPU]
    head = base * math.exp(float(gaps.cpu[0] - price * gaps.more[0]))
    work = {"base": {**duet.base, WORK: base}, "head": {**duet.head, WORK: head}}
    return duet.model_copy(update=work)
