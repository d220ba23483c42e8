"""Time of a comparison: how it is shared out, what duets take, and what would decide the rest.

Later stages keep their share only as far as they have something to do. A comparison in which
nothing seems to have moved screens to its end; where much has moved, the confirmation gets its
full share before the screening may go on.
"""

from __future__ import annotations

import math
import statistics as figures
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from servebench.compare import statistics
from servebench.compare.decide import Confirmation, K, Screening, Stage, State
from servebench.compare.samples import MetricScale, Samples
from servebench.compare.statistics import Looks, Sample
from servebench.core.model import Case
from servebench.core.protocol import DUET_SECONDS, DUET_WARM_UP, SLOW_SECONDS, UNIT_REQUESTS
from servebench.declare.servers import costs
from servebench.measure.duet import duet_load
from servebench.plan.duration import COSTS, PRIOR_LAUNCHES, drain

_Item = TypeVar("_Item")

CONFIRMATION: Final = 0.35
"""Largest share of the budget that the screening leaves to the confirmation."""

FOLLOW_UP: Final = 0.20
"""Largest share that both leave to sequential launches."""

COUNTING: Final = 0.15
"""Share of the budget that instruction counts may take before the first duet."""

FIRST_LOOK: Final = 0.65
"""Share of the budget in which all chosen cases must reach their first look."""

INPROCESS: Final = 0.20
"""Largest share that is kept for in-process benchmarks, where servers are compared as well; what
those leave of the budget is theirs besides."""

NOISE: Final = 0.10
"""Share of the budget that duets of base against itself may take."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The time of a comparison, s (None: as long as it takes), from a moment on its clock."""

    total: float | None
    began: float

    @property
    def ends(self) -> float:
        return self.part_ends(1.0)

    def part_ends(self, share: float, since: float | None = None) -> float:
        """Moment at which a share of it has passed, from the beginning or another moment."""
        began = self.began if since is None else since
        return math.inf if self.total is None else began + share * self.total

    def screening_ends(self, *, confirming: float, follow_up: float) -> float:
        """Moment at which the screening has to be over, by the seconds of later stages."""
        if self.total is None:
            return math.inf
        kept = min(confirming, CONFIRMATION * self.total) + min(follow_up, FOLLOW_UP * self.total)
        return self.ends - kept

    def confirmation_ends(self, *, follow_up: float) -> float:
        return self.screening_ends(confirming=0, follow_up=follow_up)


def kept_inprocess(total: float | None, wanted: float, *, alone: bool) -> float:
    """Seconds of a budget that are kept for in-process benchmarks, by those that they want."""
    if total is None:
        return 0.0
    return total if alone else min(wanted, INPROCESS * total)


class DuetSeconds:
    """Seconds that a duet of each case takes: the mean of those seen, or as expected.

    What is expected is corrected by how far it was off in other cases.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        self._expected = {
            case.id: expected(case.model_copy(update={"load": duet_load(case)})) for case in cases
        }
        self._seen: dict[str, list[float]] = {}
        self._errors: list[float] = []

    def observe(self, case: str, seconds: float) -> None:
        """Note what a duet of a case took, s."""
        self._seen.setdefault(case, []).append(seconds)
        self._errors.append(seconds - self._expected[case])

    def of(self, case: str) -> float:
        """Seconds that the next duet of a case will take."""
        if case in self._seen:
            return figures.fmean(self._seen[case])
        correction = sum(self._errors) / (len(self._errors) + PRIOR_LAUNCHES)
        return max(1.0, self._expected[case] + correction)

    def until_looks(self, stage: Stage[str], cases: Iterable[str]) -> dict[str, float]:
        """Seconds until each of the cases has its next look."""
        return {
            case: self.of(case) * missing(len(stage.samples[case].usable), stage.looks)
            for case in cases
        }

    def confirming(self, screening: Screening[str]) -> float:
        """Seconds until the first look of a confirmation of what seems to have moved, as of now."""
        first = screening.method.confirmation.counts[0]
        return sum(first * self.of(case) for case in seemingly_moved(screening))


def expected(case: Case, seconds: float = DUET_SECONDS) -> float:
    """Seconds that a duet of a case (with its load) will take, before one has been seen."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    start = costs(case.server).start(case.workers)
    verify = COSTS.probes + (UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if single >= SLOW_SECONDS else DUET_WARM_UP + COSTS.window_gap
    load = max(seconds, case.load.duration) + COSTS.generator
    # Both sides share the cores, so each step of one also waits for the other's.
    return 2 * (start + verify + drain(case) + COSTS.stop) + warm_up + load


def missing(usable: int, looks: Looks) -> int:
    """Usable samples that lack until the next look; none after the last."""
    return min((count - usable for count in looks.counts if count > usable), default=0)


def seemingly_moved(screening: Screening[K]) -> tuple[K, ...]:
    """What would have to be confirmed, by its samples so far or by its instructions."""
    return tuple(dict.fromkeys(candidate.key for candidate in screening.candidates()))


def affordable(
    cases: Sequence[Case], seconds: Callable[[str], float], looks: int, total: float | None
) -> tuple[Case, ...]:
    """Choose the cases that can all reach their first look, spread over kinds; at least one.

    Half a screening of every case would decide none. The others are reported as not measured.
    """
    if total is None:
        return tuple(cases)
    left = FIRST_LOOK * total
    chosen: set[str] = set()
    for case in spread(cases, lambda c: (c.experiment, c.python, c.server, c.endpoint.interface)):
        cost = looks * seconds(case.id)
        if cost <= left or not chosen:
            chosen.add(case.id)
            left -= cost
    return tuple(case for case in cases if case.id in chosen)


def spread(items: Sequence[_Item], kind: Callable[[_Item], Hashable]) -> list[_Item]:
    """Order items so that each kind's first comes before any kind's second."""
    seen: dict[Hashable, int] = defaultdict(int)
    ranked = []
    for item in items:
        ranked.append((seen[kind(item)], item))
        seen[kind(item)] += 1
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]


def prefix(cases: Sequence[str], needs: Mapping[str, float], left: float) -> tuple[str, ...]:
    """The first cases whose needs together fit into the seconds left; at least one."""
    chosen: list[str] = []
    for case in cases:
        if chosen and needs[case] > left:
            break
        chosen.append(case)
        left -= needs[case]
    return tuple(chosen)


def seconds_to_decide(
    key: K, screening: Screening[K], confirmation: Confirmation[K] | None = None
) -> float | None:
    """Estimate of the time that would decide what is inconclusive about a case, s.

    Each open metric is taken to stay where it is: inside the tolerance, and then so many duets are
    missing until "no change" can be said; or beyond the threshold, and then what the screening
    lacks and a whole confirmation are. The longest wait counts. Duets of the same scatter and
    length as those so far are meant, and as many other changes as were seen.

    Returns:
        None where nothing is open, or no time can be named: too few usable duets to know the
        scatter, or more would be missing than a comparison takes, however long it may take.
    """
    first = screening.samples[key]
    fresh = confirmation.samples.get(key) if confirmation else None
    fresh = fresh or first.fresh()
    if fresh.void() or len(first.usable) < 2:
        return None
    counts: list[int | None] = []
    for metric in first.metrics:
        state = screening.state(key, metric)
        if confirmation and (key, metric) in confirmation.tests():
            if confirmation.state(key, metric) is State.OPEN:
                counts.append(_until_confirmed(metric, first, fresh, confirmation))
        elif state is State.MOVED:
            counts.append(_until_confirmed(metric, first, fresh, screening))
        elif state is State.OPEN and metric in first.leading:
            counts.append(_until_screened(metric, first, screening))
    each = fresh.mean_seconds() or first.mean_seconds()
    known = [count for count in counts if count is not None]
    if each is None or not known or len(known) < len(counts):
        return None
    return max(known) * each


def _until_confirmed(
    metric: str, first: Samples[Any], fresh: Samples[Any], stage: Stage[Any]
) -> int | None:
    """Further samples of the confirmation that would confirm or refute a candidate."""
    if metric not in fresh.metrics:
        return None  # what a sample lacks, no further one brings back
    method = stage.method
    rates = method.confirmation_rate, method.settling_rate
    if isinstance(stage, Confirmation):
        rates = (
            _left(stage.adjusted(), method.confirmation_rate),
            _left(stage.settling(), method.settling_rate),
        )
    seen = (fresh if len(fresh.usable) >= 2 else first).logs(metric)
    gap = _Gap(statistics.sample(seen), first.scales[metric])
    total = gap.samples_needed(rates, method.confirmation, method.power)
    return _further(total, len(fresh.usable), method.confirmation)


def _until_screened(metric: str, first: Samples[Any], screening: Screening[Any]) -> int | None:
    """Further samples until "no change" can be said, or a candidate is found and confirmed."""
    method = screening.method
    gap = _Gap(statistics.sample(first.logs(metric)), first.scales[metric])
    rates = (
        _left(screening.adjusted(), method.screening_rate) / 2,
        _left(screening.settling(), method.settling_rate),
    )
    total = gap.samples_needed(rates, method.screening, method.power)
    screened = _further(total, len(first.usable), method.screening)
    if screened is None or gap.settles:
        return screened
    rates = method.confirmation_rate, method.settling_rate
    fresh = gap.samples_needed(rates, method.confirmation, method.power)
    confirmed = _further(fresh, 0, method.confirmation)
    return None if confirmed is None else screened + confirmed


def _left(ps: Mapping[Any, float], rate: float) -> float:
    """Error rate that Benjamini-Hochberg leaves to one more beside those that passed already."""
    passed = sum(p <= rate for p in ps.values())
    return rate * (passed + 1) / len(ps)


def _further(total: int | None, had: int, looks: Looks) -> int | None:
    """Samples that lack of so many; None where a stage would not take them."""
    if total is None or total > looks.last or had >= looks.last:
        return None
    return max(1, total - had, looks.least - had)


@dataclass(frozen=True, slots=True)
class _Gap:
    """How far a mean is from either answer; scatter and mean are taken to stay."""

    seen: Sample
    scale: MetricScale

    @property
    def within(self) -> float:
        return math.log1p(self.scale.tolerance) - abs(self.seen.mean)

    @property
    def beyond(self) -> float:
        return abs(self.seen.mean) - math.log1p(self.scale.floor)

    @property
    def settles(self) -> bool:
        """Whether "no change" is the nearer answer."""
        return self.within >= self.beyond

    def samples_needed(self, rates: tuple[float, float], looks: Looks, power: float) -> int | None:
        """Samples that settle a metric, or show that it moved, at the last look of a stage."""
        distance = self.within if self.settles else self.beyond
        alpha = looks.shares[-1] * rates[self.settles]
        return statistics.duets_needed(self.seen.sd, distance, alpha=alpha, power=power)
