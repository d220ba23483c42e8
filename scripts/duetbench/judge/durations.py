"""Time of a comparison: how it is shared out, what duets take, and what would decide the rest."""

import math
import statistics as figures
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeVar

from duetbench.core.metrics import METRICS
from duetbench.core.model import Case
from duetbench.core.protocol import DUET_WARM_UP, SLOW_SECONDS, UNIT_REQUESTS
from duetbench.judge import statistics
from duetbench.judge.decide import SequentialTest, State
from duetbench.judge.statistics import Looks
from duetbench.measure.duet import duet_load
from duetbench.project.duration import PRIOR_LAUNCHES, Costs, drain
from duetbench.project.servers import costs

_Item = TypeVar("_Item")

FOLLOW_UP: Final = 0.10
"""Largest share of the budget that is kept for sequential launches of what moved."""

COUNTING: Final = 0.15
"""Share of the budget that instruction counts may take before the first duet."""

FIRST_LOOK: Final = 0.75
"""Share of the budget in which all chosen cases must reach their first look."""

NOISE: Final = 0.12
"""Share of the budget that duets of base against itself may take: several in five minutes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The time of a comparison, s (None: as long as it takes), from a moment on its clock."""

    total: float | None
    began: float

    @property
    def ends(self) -> float:
        return math.inf if self.total is None else self.began + self.total

    def duets_end(self, follow_up: float) -> float:
        """Moment at which the last duet has to be over, by the seconds that launches want."""
        return self.ends - min(follow_up, FOLLOW_UP * (self.total or 0))


class DuetSeconds:
    """Seconds that duets take, as expected, or as far from it as those seen.

    Duets on one launch (`servers` has an equal value) share its start and end; what is expected of
    a case is corrected by how far off it was there, or in others.
    """

    def __init__(self, cases: Iterable[Case], servers: Mapping[str, Hashable]) -> None:
        self._servers = servers
        self._expected = {case.id: expected(case) for case in cases}
        self._errors: dict[str, list[float]] = defaultdict(list)

    def observe(self, case: str, seconds: float, together: int) -> None:
        """Take the seconds of a duet, with its share of a launch on which were so many."""
        launch, own = self._expected[case]
        self._errors[case].append(seconds - own - launch / together)

    def of(self, *cases: str) -> float:
        """Seconds of a duet of each of the cases, on as few launches as can be."""
        launches = {self._servers[case]: self._expected[case][0] for case in cases}
        every = [error for many in self._errors.values() for error in many]
        others = sum(every) / (len(every) + PRIOR_LAUNCHES)
        own = (
            self._expected[case][1]
            + (figures.fmean(self._errors[case]) if case in self._errors else others)
            for case in cases
        )
        return max(1.0, sum(launches.values()) + sum(own)) if cases else 0.0

    def until_looks(self, test: SequentialTest, cases: Iterable[str]) -> float:
        """Seconds until each of the cases has its next look."""
        looks = test.method.looks
        lacking = {case: missing(len(test.samples[case].usable), looks) for case in cases}
        rounds = range(max(lacking.values(), default=0))
        return sum(self.of(*(one for one in lacking if lacking[one] > n)) for n in rounds)


def expected(case: Case) -> tuple[float, float]:
    """Seconds of a launch of both sides, and of a case's duet on it, before one has been seen."""
    case = case.model_copy(update={"load": duet_load(case)})
    single = max(case.endpoint.takes, case.endpoint.floor)
    slow = single >= SLOW_SECONDS
    verify = (2 if slow else UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if slow else DUET_WARM_UP + Costs.window_gap
    load = case.load.duration + Costs.generator
    # Both sides start at once, and are killed. Then they share the cores, so that each step of one
    # also waits for the other's; waiting does not.
    launch = costs(case.server).start(case.workers) + 2 * Costs.probes
    apart = verify + drain(case)
    return launch, apart * (1 if case.endpoint.floor else 2) + warm_up + load


def missing(usable: int, looks: Looks) -> int:
    """Usable samples that lack until the next look; none after the last."""
    return min((look - usable for look in looks.counts if look > usable), default=0)


def affordable(
    cases: Sequence[Case], seconds: Callable[..., float], looks: int, total: float | None
) -> tuple[Case, ...]:
    """Choose the cases that can all reach their first look, spread over kinds; at least one.

    Half a look at every case would decide none. The others are reported as not measured.
    `seconds` are those of a round of cases.
    """
    if total is None:
        return tuple(cases)
    chosen: list[str] = []
    for case in spread(cases, lambda c: (c.experiment, c.python, c.server, c.endpoint.interface)):
        if not chosen or looks * seconds(*chosen, case.id) <= FIRST_LOOK * total:
            chosen.append(case.id)
    return tuple(case for case in cases if case.id in chosen)


def spread(items: Sequence[_Item], kind: Callable[[_Item], Hashable]) -> list[_Item]:
    """Order items so that each kind's first comes before any kind's second."""
    seen: dict[Hashable, Iterator[int]] = defaultdict(count)
    ranks = [next(seen[kind(item)]) for item in items]
    return [items[place] for place in sorted(range(len(items)), key=ranks.__getitem__)]


def seconds_to_decide(key: str, test: SequentialTest) -> float | None:
    """Estimate of the time that would decide what is inconclusive about a case, s.

    Each open metric is taken to stay where it is: inside the tolerance, and then so many duets are
    missing until "no change" can be said; or beyond the threshold. The longest wait counts. Duets
    of the same scatter and length as those so far are meant, and as many other changes as were
    seen.

    Returns:
        None where nothing is open, or no time can be named: too few usable duets to know the
        scatter, or more would be missing than a comparison takes, however long it may take.
    """
    samples = test.samples[key]
    if samples.void() or len(samples.usable) < 2:
        return None
    open_ = [
        metric
        for metric in samples.metrics
        if metric in samples.leading and test.state(key, metric) is State.OPEN
    ]
    counts = [_lacking(key, metric, test) for metric in open_]
    known = [lacking for lacking in counts if lacking is not None]
    if not known or len(known) < len(counts):
        return None
    return max(known) * figures.fmean(one.seconds for one in samples.all)


def _lacking(key: str, metric: str, test: SequentialTest) -> int | None:
    """Samples that lack until the last look shows a change or that there is none.

    Scatter and mean are taken to stay; the nearer answer counts. None: more than a test takes.
    """
    samples, method = test.samples[key], test.method
    had, looks = len(samples.usable), method.looks
    seen, scale = statistics.sample(samples.logs(metric)), METRICS[metric]
    beyond = abs(seen.mean) - math.log1p(scale.floor)
    within = math.log1p(scale.tolerance) - abs(seen.mean)
    # What Benjamini-Hochberg leaves to one more beside those that passed already.
    settled = sum(p <= method.settling_rate for p in test.settling().values())
    moved = sum(p <= method.rate for p in test.adjusted().values())
    rate = (
        method.settling_rate * (settled + 1) / len(test.settling())
        if within >= beyond
        else test.level(key, metric, moved + 1) / 2
    )
    alpha = looks.shares[-1] * rate
    total = statistics.duets_needed(seen.sd, max(within, beyond), alpha=alpha, power=method.power)
    if total is None or total > looks.last or had >= looks.last:
        return None
    return max(1, total - had, looks.least - had)
