"""From a run's summary to the figures that charts draw. Pure."""

from __future__ import annotations

from servebench.flags import DISTURBING
from servebench.published import Published
from servebench.site.charts.data import Value
from servebench.summary import ENOUGH_LAUNCHES, CaseSummary


def value_of(case: CaseSummary, metric: str, published: Published | None = None) -> Value:
    """The figure of one metric, with its ceiling and the published figure beside it.

    It may not be judged where there are too few launches for an interval, or where at least half of
    them measured something else besides; the other warnings describe case and machine, and are
    named only.
    """
    estimate = case.metrics.get(metric)
    theirs = published.figure(case.id, metric) if published else None
    if estimate is None:
        return Value(None, published=theirs, note=_reason(case, metric))
    ceiling = case.metrics.get("ceiling") if metric in {"throughput", "achieved"} else None
    disturbed = any(
        flag.name in DISTURBING and 2 * flag.launches >= case.measured for flag in case.warnings
    )
    return Value(
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        ceiling=ceiling.mean if ceiling else None,
        published=theirs,
        valid=not disturbed and case.measured >= ENOUGH_LAUNCHES,
        note=", ".join(flag.name for flag in case.warnings),
    )


def _reason(case: CaseSummary, metric: str) -> str:
    if case.status == "measured":
        return f"no {metric} was recorded"
    reasons = dict.fromkeys(failure.reason for failure in case.failures)
    return "; ".join((case.status, *reasons))
