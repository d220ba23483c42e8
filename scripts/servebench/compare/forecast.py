"""How long it would take to decide what stayed inconclusive."""

from __future__ import annotations

import math
from collections.abc import Mapping

from servebench.compare import statistics
from servebench.compare.decide import Confirmation, Pair, Screening, State
from servebench.compare.method import Method
from servebench.compare.samples import CaseDuets, broken
from servebench.compare.statistics import Looks, Sample
from servebench.metrics import METRICS


def seconds_to_decide(
    case: str, screening: Screening, confirmation: Confirmation | None = None
) -> float | None:
    """Estimate of the time that would decide what is inconclusive about a case, s.

    Each open metric is taken to stay where it is: inside the tolerance, and then so many duets are
    missing until "no change" can be said; or beyond the floor, and then what the screening lacks
    and a whole confirmation are. The longest wait counts. Duets of the same scatter and length as
    those so far are meant, and as many other changes as were seen.

    Returns:
        None where nothing is open, or no time can be named: too few usable duets to know the
        scatter, or more would be missing than a comparison takes, however long it may take.
    """
    first = screening.duets[case]
    fresh = CaseDuets(first.case)
    states = dict(confirmation.states()) if confirmation else {}
    if confirmation is not None:
        fresh = confirmation.duets.get(case, fresh)
    if broken((*first.duets, *fresh.duets)) or len(first.usable) < 2:
        return None
    missing: list[int | None] = []
    for metric in first.metrics:
        in_screening = screening.state(case, metric)
        if (case, metric) in states:
            if confirmation is not None and states[case, metric] is State.OPEN:
                rates = (
                    _threshold(confirmation.adjusted(), screening.method.confirmation_rate),
                    _threshold(confirmation.settling(), screening.method.settling_rate),
                )
                missing.append(_until_confirmed(metric, first, fresh, screening.method, rates))
        elif in_screening is State.MOVED:
            rates = screening.method.confirmation_rate, screening.method.settling_rate
            missing.append(_until_confirmed(metric, first, fresh, screening.method, rates))
        elif in_screening is State.OPEN and metric in first.leading:
            missing.append(_until_screened(metric, first, screening))
    each = fresh.seconds() or first.seconds()
    counts = [count for count in missing if count is not None]
    if each is None or not counts or len(counts) < len(missing):
        return None
    return max(counts) * each


def _until_confirmed(
    metric: str, first: CaseDuets, fresh: CaseDuets, method: Method, rates: tuple[float, float]
) -> int | None:
    """Further duets of the confirmation that would confirm or refute a candidate."""
    if metric not in fresh.metrics:
        return None  # what a duet lacks, no further one brings back
    seen = statistics.sample((fresh if len(fresh.usable) >= 2 else first).logs(metric))
    total = _needed(seen, metric, rates, method.confirmation, method)
    return _further(total, len(fresh.usable), method.confirmation)


def _until_screened(metric: str, first: CaseDuets, screening: Screening) -> int | None:
    """Further duets until "no change" can be said, or a candidate is found and confirmed."""
    method, had = screening.method, len(first.usable)
    seen = statistics.sample(first.logs(metric))
    rates = (
        _threshold(screening.adjusted(), method.screening_rate) / 2,
        _threshold(screening.settling(), method.settling_rate),
    )
    total = _needed(seen, metric, rates, method.screening, method)
    screened = _further(total, had, method.screening)
    if screened is None or _settles(seen, metric):
        return screened
    rates = method.confirmation_rate, method.settling_rate
    fresh = _needed(seen, metric, rates, method.confirmation, method)
    confirmed = _further(fresh, 0, method.confirmation)
    return None if confirmed is None else screened + confirmed


def _threshold(ps: Mapping[Pair, float], rate: float) -> float:
    """Error rate that Benjamini-Hochberg leaves to one more beside those that passed already."""
    passed = sum(p <= rate for p in ps.values())
    return rate * (passed + 1) / len(ps)


def _further(total: int | None, had: int, looks: Looks) -> int | None:
    """Duets that lack of so many; None where a stage would not take them."""
    if total is None or total > looks.last or had >= looks.last:
        return None
    return max(1, total - had, looks.least - had)


def _needed(
    seen: Sample, metric: str, rates: tuple[float, float], looks: Looks, method: Method
) -> int | None:
    """Duets that settle a metric, or show that it moved, at the last look of a stage.

    Args:
        seen: Its log ratios: scatter and mean are taken to stay.
        metric: Key of the metric registry.
        rates: Error rates for "it moved", on one side, and for "no change".
        looks: Of the stage.
        method: With which power.
    """
    within, beyond = _distances(seen, metric)
    settles = _settles(seen, metric)
    return statistics.duets_needed(
        seen.sd,
        within if settles else beyond,
        alpha=looks.shares[-1] * rates[settles],
        power=method.power,
    )


def _settles(seen: Sample, metric: str) -> bool:
    """Whether "no change" is the nearer answer."""
    within, beyond = _distances(seen, metric)
    return within >= beyond


def _distances(seen: Sample, metric: str) -> tuple[float, float]:
    """How far the mean is inside the tolerance, and beyond the floor; one of them is positive."""
    kind, size = METRICS[metric], abs(seen.mean)
    return math.log1p(kind.tolerance) - size, size - math.log1p(kind.floor)
