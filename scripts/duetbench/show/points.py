"""Anchored points in words and with their intervals drawn, for the terminal. Pure."""

from collections.abc import Iterator
from pathlib import Path

from duetbench.core.metrics import METRICS
from duetbench.show import drawn, formats
from duetbench.show.formats import percent
from duetbench.show.rows import ComparisonRow
from duetbench.store.comparison import Judgement, Verdict
from duetbench.store.points import INSTRUCTIONS, AnchoredPoint, Points


def sentences(found: Points, path: Path | None = None) -> Iterator[str]:
    """A line per case and metric, and per case without points."""
    yield f"{found.label} against the anchor {found.anchor}, {found.seconds / 60:.0f} min:"
    for case in found.cases:
        for point in case.points:
            low, high = point.interval.ends or (point.ratio, point.ratio)
            yield (
                f"{case.case}  {_title(point)} {percent(point.ratio)} "
                f"({percent(low)} to {percent(high)}; "
                f"{'counted' if point.metric == INSTRUCTIONS else point.duets})"
            )
    for one in found.missing:
        yield f"{one.case}: no point: {one.reason}"
    if path is not None:
        yield f"saved: {path}"


def lines(found: Points, width: int) -> Iterator[str]:
    """Each case and below it its points, their intervals on one axis as wide as `width` allows."""
    yield f"{found.label} against the anchor {found.anchor}, {found.seconds / 60:.0f} min"
    drawable = [
        (case.case, one, _row(case.case, one)) for case in found.cases for one in case.points
    ]
    labels = max((len(_title(one)) for _, one, _ in drawable), default=0)
    changes = max((len(row.change) for *_, row in drawable), default=0)
    ends = max((len(row.interval) for *_, row in drawable), default=0)
    blank = " " * (2 + labels + 2 + changes + 2 + ends + 2)
    room = min(width - len(blank), drawn.WIDEST)
    axis = room - (room % 2 == 0) if room >= drawn.NARROWEST and drawable else 0
    far = drawn.reach([row for *_, row in drawable])
    if axis:
        yield f"{blank}{drawn.scale(far, axis)}"
    above = ""
    for case, one, row in drawable:
        if case != above:
            yield (above := case)
        told = f"  {_title(one):{labels}}  {row.change:>{changes}}  {row.interval:>{ends}}  "
        yield (told + (drawn.interval(row, far, axis) if axis else "")).rstrip()
    for left in found.missing:
        yield f"{left.case}: no point: {left.reason}"
    if drawable:
        yield "●: this stack over the anchor, within its 95 % interval"


def _row(case: str, point: AnchoredPoint) -> ComparisonRow:
    """The point as what draws comparisons knows it; its verdict is nobody's."""
    ends = point.interval
    metric = point.metric if point.metric in METRICS else ""
    found = Judgement(
        metric=metric, verdict=Verdict.INCONCLUSIVE, ratio=point.ratio, low=ends.low, high=ends.high
    )
    return ComparisonRow(case, metric, found)


def _title(point: AnchoredPoint) -> str:
    return formats.title(point.metric) if point.metric in METRICS else point.metric
