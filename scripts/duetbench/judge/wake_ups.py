"""Work and wake-ups: what of a change of CPU per request is the code's, and what is batching.

How many requests a thread serves each time that it is woken depends on the load and on who shares
the core: one and the same loop changed CPU per request by 1.7, 9.4 and 7.3 % at 8, 32 and 128
connections. So wake-ups are judged beside it and, where their price is known, work: the change at
equal wake-ups. The price is the slope of CPU on wake-ups over duets of one comparison, in which
what changed is equal; over this one and earlier ones of this machine with such a server.

Both parts of a change are by logarithmic means (LMDI: Ang, Energy Policy 33 (2005) 867): together
they are the whole, with either side as base.
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
"""Degrees of freedom that a price takes."""

CERTAIN: Final = 3.0
"""Standard errors that a price has to be above 0, or nothing is taken from CPU for it."""

RARE: Final = 0.02
"""Wake-ups per request below which batching costs next to nothing, and counts are chance."""

FAR: Final = 1.5
"""Times as many wake-ups on one side from which they are of another kind: threads, a queue or a
flush that the other has not. Their price is not known, and nothing is taken from CPU for them."""


def kind(case: Case) -> Hashable:
    """Equal of cases whose servers wake up alike."""
    return (
        case.server, case.loop, case.python, case.endpoint.interface, case.workers, case.threads
    )  # fmt: skip


class Differences(NamedTuple):
    """How the sides of duets differ, a duet at a place of each array.

    Only duets that have CPU and wake-ups of both sides, of the same launches.
    """

    cpu: Logs  # log ratios
    wakes: Logs  # log ratios
    more: Logs  # wake-ups of head beyond base's per second of CPU
    often: Logs  # wake-ups of both per second of CPU

    @property
    def alike(self) -> bool:
        """Whether there are any, of wake-ups that are of the same kind, by their number."""
        return len(self.cpu) > 0 and abs(float(self.wakes.mean())) < math.log(FAR)


def differences(duets: Iterable[Duet]) -> Differences:
    """How the sides of duets differ in CPU and wake-ups."""
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
        """The sums of the duets of one case of one comparison."""
        found = differences(duets)
        if not found.alike:
            return cls()
        more, cpu = found.more - found.more.mean(), found.cpu - found.cpu.mean()
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
        """Seconds of CPU that a wake-up takes; None where it could be nothing."""
        if self.freedom < FEWEST or not self.wakes:
            return None
        seconds = self.both / self.wakes
        half = float(special.stdtrit(self.freedom - 1, 1 - CONFIDENCE_RATE / 2)) * self.error
        if seconds < CERTAIN * self.error:
            return None
        low, high = max(0.0, seconds - half), seconds + half
        return Price(seconds=seconds, low=low, high=high, duets=self.freedom)


def learned(comparisons: Iterable[Comparison]) -> dict[Hashable, Slope]:
    """The sums of comparisons of one machine, by the kind of their cases."""
    slopes: defaultdict[Hashable, Slope] = defaultdict(Slope)
    for case in (case for comparison in comparisons for case in comparison.cases):
        usable = [duet for duet in case.duets if duet.usable]
        slopes[kind(case.case)] = slopes[kind(case.case)].plus(Slope.of(usable))
    return dict(slopes)


def at_equal_wake_ups(duet: Duet, price: float) -> Duet:
    """The duet with its work: base's CPU per request, and head's if both woke up as often."""
    found = differences([duet])
    if not len(found.cpu):
        return duet
    base = duet.base[CPU]
    head = base * math.exp(float(found.cpu[0] - price * found.more[0]))
    work = {"base": {**duet.base, WORK: base}, "head": {**duet.head, WORK: head}}
    return duet.model_copy(update=work)
