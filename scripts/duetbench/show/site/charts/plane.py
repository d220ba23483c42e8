"""The plane of a chart: its ends, margins, grid and labels; texts that avoid each other. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from duetbench.show.site.charts import svg
from duetbench.show.site.charts.data import Value
from duetbench.show.site.charts.scale import Axis
from duetbench.show.site.charts.svg import Line, Shape, Text

TITLE: Final = 24.0
"""Height of the upright axis' title, which lies above the plane: nobody turns their head."""
BELOW: Final = 44.0
"""Height of labels and title below the plane."""
_EDGE: Final = 14.0  # right of the plane: room for half a tick's label
_REACH: Final = 2.5  # what lies further out is not worth squeezing the figures


@dataclass(frozen=True, slots=True)
class Plane:
    """The area between the axes, px."""

    left: float
    right: float
    top: float
    bottom: float


def plane(width: float, height: float, y: Axis, top: float = TITLE) -> Plane:
    """The area that labels and titles leave of a drawing."""
    labels = max((svg.text_width(tick.text) for tick in y.ticks), default=0.0)
    return Plane(round(labels + 10, 1), width - _EDGE, top, height - BELOW)


def axes(area: Plane, x: Axis, y: Axis, width: float) -> list[Shape]:
    """Grid, labels, titles, and the line at the bottom."""
    found: list[Shape] = [Text("faint", 0.0, 12.0, svg.fit(y.title, width))] if y.title else []
    for tick in y.ticks:
        found.append(Line("grid", area.left, tick.at, area.right, tick.at))
        found.append(Text("tick", area.left - 6, tick.at + 4, tick.text, "end"))
    axis = Line("axis", area.left, area.bottom, area.right, area.bottom)
    return [*found, *lying_axis(x, area.top, area.bottom), axis]


def lying_axis(axis: Axis, top: float, bottom: float) -> list[Shape]:
    """Grid lines from `top` to `bottom`, tick labels and the title below them (38 px)."""
    found: list[Shape] = []
    for tick in axis.ticks:
        found.append(Line("grid", tick.at, top, tick.at, bottom))
        found.append(Text("tick", tick.at, bottom + 16, tick.text, tick.anchor))
    if axis.title:
        middle = (axis.scale.start + axis.scale.end) / 2
        title = svg.fit(axis.title, abs(axis.scale.end - axis.scale.start))
        found.append(Text("faint", middle, bottom + 33, title, "middle"))
    return found


def ends(values: Sequence[Value], *, zero: bool = True, log: bool = False) -> tuple[float, float]:
    """Ends of an axis: all intervals, and ceilings and published figures that are near."""
    own = [end for value in values for end in (value.mean, *(value.ends or ())) if end is not None]
    near = [end for end in _beside(values) if log or end <= _REACH * max(own)]
    return span([*own, *near], zero=zero, log=log)


def notes(values: Sequence[Value], axis: tuple[float, float] | None) -> list[str]:
    """What to say of ceilings and published figures."""
    found = []
    if axis and (hidden := sum(not axis[0] <= end <= axis[1] for end in _beside(values))):
        found.append(f"{hidden} published figures or ceilings lie beyond the axis: see the table.")
    if any(value.published is not None for value in values):
        found.append("Published figures are of another machine: compare shapes, not sizes.")
    return found


def _beside(values: Iterable[Value]) -> list[float]:
    found = [end for v in values if v.mean is not None for end in (v.ceiling, v.published)]
    return [end for end in found if end is not None]


def span(values: Iterable[float], *, zero: bool, log: bool) -> tuple[float, float]:
    """The range of an axis that holds the values; at least one, and positive for a log scale."""
    found = [value for value in values if value > 0 or not log]
    low, high = min(found), max(found)
    if log:
        return low / 1.15, high * 1.15
    if zero and low >= 0:
        return 0.0, 1.06 * high if high > 0 else 1.0
    pad = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    return low - pad, high + pad


Box = tuple[float, float, float, float]
"""Left, top, right and bottom, px."""


@dataclass(slots=True)
class FreeSpace:
    """Which places of a plane are taken, so that texts do not lie on texts or marks."""

    area: Plane
    _taken: list[Box] = field(default_factory=list)

    def take(self, x: float, y: float, r: float) -> None:
        """A mark of radius `r` is there."""
        self._taken.append((x - r, y - r, x + r, y + r))

    def take_line(self, points: Sequence[tuple[float, float]]) -> None:
        """A line is there."""
        for (x1, y1), (x2, y2) in pairwise(points):
            steps = 1 + int(max(abs(x2 - x1), abs(y2 - y1)) / 8)
            for step in range(steps + 1):
                share = step / steps
                self.take(x1 + share * (x2 - x1), y1 + share * (y2 - y1), 1.5)

    def label(self, x: float, y: float, words: str) -> Text | None:
        """A label beside the mark at a place, where there is room; None: there is none."""
        width = svg.text_width(words)
        for dx, dy in ((9.0, 4.0), (-9.0 - width, 4.0), (-width / 2, -9.0), (-width / 2, 18.0)):
            box = (x + dx, y + dy - 10, x + dx + width, y + dy + 3)
            if self._inside(box) and not any(
                box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                for other in self._taken
            ):
                self._taken.append(box)
                return Text("note", round(x + dx, 1), round(y + dy, 1), words)
        return None

    def _inside(self, box: Box) -> bool:
        left, top, right, bottom = box
        inside = left >= self.area.left and right <= self.area.right + _EDGE
        return inside and top >= self.area.top - TITLE / 2 and bottom <= self.area.bottom
