"""Time of a comparison: how it is shared out, what duets take, and what would decide the rest.

Later stages keep their share only as far as they have something to do. A comparison in which
nothing seems to have moved screens to its end; where much has moved, the confirmation gets its
full share before the screening may go on.
"""

import math
import statistics as figures
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, takewhile
from typing import Any, Final, TypeVar

from servebench.compare import statistics
from servebench.compare.decide import Confirmation, K, Screening, Stage, State
from servebench.compare.samples import Samples
from servebench.compare.statistics import Looks
from servebench.core.model import Case
from servebench.core.protocol import DUET_SECONDS, DUET_WARM_UP, SLOW_SECONDS, UNIT_REQUESTS
from servebench.declare.servers import costs
from servebench.measure.duet import duet_load
from servebench.plan.duration import PRIOR_LAUNCHES, Costs, drain

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
        return math.inf if self.total is None else self.began + self.total

    def stage_ends(self, *, confirming: float = 0, follow_up: float) -> float:
        """Moment at which a stage has to be over, by the seconds that later ones want."""
        if self.total is None:
            return math.inf
        kept = min(confirming, CONFIRMATION * self.total) + min(follow_up, FOLLOW_UP * self.total)
        return self.ends - kept


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


def expected(case: Case, seconds: float = DUET_SECONDS) -> float:
    """Seconds that a duet of a case (with its load) will take, before one has been seen."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    start = costs(case.server).start(case.workers)
    verify = Costs.probes + (UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if single >= SLOW_SECONDS else DUET_WARM_UP + Costs.window_gap
    load = max(seconds, case.load.duration) + Costs.generator
    # Both sides share the cores, so each step of one also waits for the other's.
    return 2 * (start + verify + drain(case) + Costs.stop) + warm_up + load


def missing(usable: int, looks: Looks) -> int:
    """Usable samples that lack until the next look; none after the last."""
    return min((look - usable for look in looks.counts if look > usable), default=0)


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
    seen: dict[Hashable, Iterator[int]] = defaultdict(count)
    ranks = [next(seen[kind(item)]) for item in items]
    return [items[place] for place in sorted(range(len(items)), key=ranks.__getitem__)]


def prefix(cases: Sequence[str], needs: Mapping[str, float], left: float) -> tuple[str, ...]:
    """The first cases whose needs together fit into the seconds left; at least one."""
    sums = accumulate(needs[case] for case in cases)
    fitting = sum(1 for _ in takewhile(lambda total: total <= left, sums))
    return tuple(cases[: max(1, fitting)])


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
    known = [lacking for lacking in counts if lacking is not None]
    if not known or len(known) < len(counts):
        return None
    return max(known) * figures.fmean(one.seconds for one in fresh.all or first.all)


def _until_confirmed(
    metric: str, first: Samples[Any], fresh: Samples[Any], stage: Stage[Any]
) -> int | None:
    """Further samples of the confirmation that would confirm or refute a candidate."""
    if metric not in fresh.metrics:
        return None  # what a sample lacks, no further one brings back
    rates = stage.method.confirmation_rate, stage.method.settling_rate
    if isinstance(stage, Confirmation):
        rates = _left(stage.adjusted(), rates[0]), _left(stage.settling(), rates[1])
    samples = fresh if len(fresh.usable) >= 2 else first
    looks, had = stage.method.confirmation, len(fresh.usable)
    return _lacking(metric, samples, looks, rates, had, stage.method.power)[0]


def _until_screened(metric: str, first: Samples[Any], screening: Screening[Any]) -> int | None:
    """Further samples until "no change" can be said, or a candidate is found and confirmed."""
    method, had = screening.method, len(first.usable)
    rates = (
        _left(screening.adjusted(), method.screening_rate) / 2,
        _left(screening.settling(), method.settling_rate),
    )
    screened, settles = _lacking(metric, first, method.screening, rates, had, method.power)
    if screened is None or settles:
        return screened
    rates = method.confirmation_rate, method.settling_rate
    confirmed, _ = _lacking(metric, first, method.confirmation, rates, 0, method.power)
    return None if confirmed is None else screened + confirmed


def _left(ps: Mapping[Any, float], rate: float) -> float:
    """Error rate that Benjamini-Hochberg leaves to one more beside those that passed already."""
    passed = sum(p <= rate for p in ps.values())
    return rate * (passed + 1) / len(ps)


def _lacking(
    metric: str,
    samples: Samples[Any],
    looks: Looks,
    rates: tuple[float, float],
    had: int,
    power: float,
) -> tuple[int | None, bool]:
    """Samples that lack until the last look shows a change or that there is none, and which.

    Scatter and mean are taken to stay; the nearer answer counts. None: more than a stage takes.
    `rates`: of errors, for a change and for none.
    """
    seen, scale = statistics.sample(samples.logs(metric)), samples.scales[metric]
    beyond = abs(seen.mean) - math.log1p(scale.floor)
    within = math.log1p(scale.tolerance) - abs(seen.mean)
    settles = within >= beyond
    alpha = looks.shares[-1] * rates[settles]
    total = statistics.duets_needed(seen.sd, max(within, beyond), alpha=alpha, power=power)
    if total is None or total > looks.last or had >= looks.last:
        return None, settles
    return max(1, total - had, looks.least - had), settles
