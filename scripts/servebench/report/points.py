"""Anchored points in words, for the terminal."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from servebench.core.metrics import METRICS
from servebench.record.points import Point, Points
from servebench.report.formats import percent

WIDTH: Final = 1.96
"""Standard errors on either side of a ratio: its 95 % interval."""


def interval(point: Point) -> tuple[float, float]:
    """The 95 % interval of a point's ratio."""
    return math.exp(point.log - WIDTH * point.se), math.exp(point.log + WIDTH * point.se)


def sentences(found: Points, path: Path | None = None) -> Iterator[str]:
    """A line per case and metric, and per case without points."""
    yield f"{found.label} against the anchor {found.anchor}, {found.seconds / 60:.0f} min:"
    for point in found.points:
        low, high = interval(point)
        title = METRICS[point.metric].title if point.metric in METRICS else point.metric
        yield (
            f"{point.case}  {title} {percent(point.ratio)} "
            f"({percent(low)} to {percent(high)}; {point.duets} duets)"
        )
    for one in found.missing:
        yield f"{one.case}: no point: {one.reason}"
    if path is not None:
        yield f"saved: {path}"
