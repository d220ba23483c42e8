"""What lines are drawn from: points over something that was varied, and how many fit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from servebench.site.charts.data import About, Quantity, Value, check_href
from servebench.site.charts.plane import span
from servebench.site.charts.shapes import MARKS
from servebench.site.charts.styles import STYLES

_REACH: Final = 2.5  # as for bars: what lies further out is not worth squeezing the lines


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point; `label` is written beside it where there is room."""

    x: float
    y: Value
    label: str = ""
    href: str = ""

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its name gives colour and marker; its variant (`p50`, `p99`), if any, the dash."""

    name: str
    points: tuple[Point, ...]
    variant: str = ""

    @property
    def title(self) -> str:
        """Name and variant."""
        return " ".join(filter(None, (self.name, self.variant)))


@dataclass(frozen=True, slots=True)
class Lines:
    """A whole chart of lines.

    Attributes:
        about: What it is.
        x: What was varied.
        y: What was measured.
        series: The lines, points in the order in which they are joined.
        log_x: Logarithmic lying axis.
        log_y: Logarithmic upright axis; otherwise it begins at zero.
        declared: Whether the values of x were chosen: they are the ticks then.
    """

    about: About
    x: Quantity
    y: Quantity
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    declared: bool = True


def limited(data: Lines) -> tuple[Lines, list[str]]:
    """As many series as have styles of their own, and points evenly thinned to the limit."""
    notes = []
    names = list(dict.fromkeys(one.name for one in data.series))[: len(STYLES)]
    kept = [one for one in data.series if one.name in names][: len(STYLES) * 4]
    if len(kept) < len(data.series):
        notes.append(
            f"{len(data.series) - len(kept)} of {len(data.series)} lines are not drawn; "
            "the table has them."
        )
    most = max(2, MARKS // max(1, len(kept)))
    thin = [replace(one, points=_thinned(one.points, most)) for one in kept]
    dropped = sum(len(one.points) for one in kept) - sum(len(one.points) for one in thin)
    if dropped:
        notes.append(f"{dropped} points are not drawn; the table has them.")
    return replace(data, series=tuple(thin)), notes


def _thinned(points: tuple[Point, ...], most: int) -> tuple[Point, ...]:
    if len(points) <= most:
        return points
    return tuple(points[round(i * (len(points) - 1) / (most - 1))] for i in range(most))


def measured(data: Lines) -> list[Point]:
    """Points that can be drawn: with a figure, and a positive one on a logarithmic axis."""
    return [point for one in data.series for point in one.points if is_drawn(point, data)]


def upright(data: Lines) -> tuple[float, float]:
    """Range of the upright axis: all intervals, and what stands beside them if it is near."""
    points = measured(data)
    own = [
        end
        for point in points
        for end in (point.y.mean, point.y.low, point.y.high)
        if end is not None
    ]  # fmt: skip
    most = max(own) * _REACH
    beside = [end for end in _beside(points) if end <= most or data.log_y]
    return span([*own, *beside], zero=True, log=data.log_y)


def _beside(points: Sequence[Point]) -> list[float]:
    return [
        end
        for point in points
        for end in (point.y.ceiling, point.y.published)
        if end is not None
    ]  # fmt: skip


def far(data: Lines) -> int:
    """How many ceilings and published figures lie beyond the axis."""
    points = measured(data)
    if not points:
        return 0
    low, high = upright(data)
    return sum(not low <= end <= high for end in _beside(points))


def is_drawn(point: Point, data: Lines) -> bool:
    """Whether a point has a figure, and one that its axes can show."""
    return (
        point.y.mean is not None
        and (point.y.mean > 0 or not data.log_y)
        and (point.x > 0 or not data.log_x)
    )
