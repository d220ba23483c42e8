"""Anchored points in words, for the terminal."""

from collections.abc import Iterator
from pathlib import Path

from servebench.core.metrics import METRICS
from servebench.record.points import INSTRUCTIONS, Points
from servebench.report.formats import percent


def sentences(found: Points, path: Path | None = None) -> Iterator[str]:
    """A line per case and metric, and per case without points."""
    yield f"{found.label} against the anchor {found.anchor}, {found.seconds / 60:.0f} min:"
    for case in found.cases:
        for point in case.points:
            low, high = point.interval()
            title = METRICS[point.metric].title if point.metric in METRICS else point.metric
            yield (
                f"{case.case}  {title} {percent(point.ratio)} "
                f"({percent(low)} to {percent(high)}; "
                f"{'counted' if point.metric == INSTRUCTIONS else point.duets})"
            )
    for one in found.missing:
        yield f"{one.case}: no point: {one.reason}"
    if path is not None:
        yield f"saved: {path}"
