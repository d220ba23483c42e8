"""How long it would take to decide what stayed inconclusive."""

from __future__ import annotations

import math

from servebench.compare import statistics
from servebench.compare.decide import Confirmation, Screening, State
from servebench.compare.method import Method
from servebench.compare.samples import CaseDuets, broken
from servebench.compare.statistics import Sample
from servebench.metrics import METRICS


def seconds_to_decide(
    case: str, screening: Screening, confirmation: Confirmation | None = None
) -> float | None:
    """Estimate of the time that would decide what is inconclusive about a case, s.

    Each open metric is taken to stay where it is: inside the tolerance, and then so many duets are
    missing until "no change" can be said; or beyond the floor, and then what the screening lacks
    and a whole confirmation are. The longest wait counts. Duets of the same scatter and length as
    those so far are meant.

    Returns:
        None where nothing is open, or no time can be named: too few usable duets to know the
        scatter, or thousands would be missing.
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
            if states[case, metric] is State.OPEN:
                missing.append(_until_confirmed(metric, first, fresh, screening.method))
        elif in_screening is State.MOVED:
            missing.append(_until_confirmed(metric, first, fresh, screening.method))
        elif in_screening is State.OPEN and metric in first.leading:
            missing.append(_until_screened(metric, first, screening.method))
    each = fresh.seconds() or first.seconds()
    counts = [count for count in missing if count is not None]
    if each is None or not counts or len(counts) < len(missing):
        return None
    return max(counts) * each


def _until_confirmed(metric: str, first: CaseDuets, fresh: CaseDuets, method: Method) -> int | None:
    """Further duets of the confirmation that would confirm or refute a candidate."""
    had = len(fresh.usable)
    seen = statistics.sample(fresh.logs(metric) if had >= 2 else first.logs(metric))
    within, beyond = _distances(seen, metric)
    share = method.confirmation.shares[-1]
    if within >= beyond:
        total = _needed(seen, within, method.settling_rate * share, method)
    else:
        total = _needed(seen, beyond, method.confirmation_rate * share, method)
    return None if total is None else max(1, total - had, method.confirmation.least - had)


def _until_screened(metric: str, first: CaseDuets, method: Method) -> int | None:
    """Further duets until "no change" can be said, or a candidate is found and confirmed."""
    had, seen = len(first.usable), statistics.sample(first.logs(metric))
    within, beyond = _distances(seen, metric)
    share = method.screening.shares[-1]
    if within >= beyond:
        total = _needed(seen, within, method.settling_rate * share, method)
        return None if total is None else max(1, total - had)
    screened = _needed(seen, beyond, method.screening_rate / 2 * share, method)
    confirmed = _needed(
        seen, beyond, method.confirmation_rate * method.confirmation.shares[-1], method
    )
    if screened is None or confirmed is None:
        return None
    return max(1, screened - had) + max(confirmed, method.confirmation.least)


def _distances(seen: Sample, metric: str) -> tuple[float, float]:
    """How far the mean is inside the tolerance, and beyond the floor; one of them is positive."""
    kind, size = METRICS[metric], abs(seen.mean)
    return math.log1p(kind.tolerance) - size, size - math.log1p(kind.floor)


def _needed(seen: Sample, distance: float, alpha: float, method: Method) -> int | None:
    return statistics.duets_needed(seen.sd, distance, alpha=alpha, power=method.power)
