"""A series over time: figures with band and noise ribbon, change points, breaks, bumps, gaps. Pure.

This is the picture that a page has without JavaScript. A history of years has more points than a
picture has room for: neighbours then share a mark at their median, and the band spans all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from servebench.report.comparison import words
from servebench.site.charts import figure, keys, text, timeline
from servebench.site.charts.figure import Chart, Key
from servebench.site.charts.forest import tone
from servebench.site.charts.history import Trend
from servebench.site.charts.plane import BELOW, TITLE, Plane, axes, plane
from servebench.site.charts.scale import Scale, day_text, time_axis, value_axis
from servebench.site.charts.shapes import (
    NARROW,
    WIDE,
    Drawing,
    Line,
    Mark,
    Path,
    Rect,
    Shape,
    Text,
    band,
    polyline,
    symbol,
)
from servebench.site.charts.timeline import Timeline
from servebench.site.charts.told import Told, told

_HEIGHTS: Final = {WIDE: 320.0, NARROW: 270.0}
_TOP: Final = 56.0  # the axis' title, and two lines of change points' labels
_LABEL_ROWS: Final = (30.0, 46.0)
_BUMP: Final = 3.5  # below the axis, px
_DOT: Final = 3.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where things go in one drawing."""

    area: Plane
    x: Scale
    y: Scale

    def point(self, at: float, value: float) -> tuple[float, float]:
        """Px of a time and a figure."""
        return self.x.at(at), self.y.at(value)


def trend(data: Trend) -> Chart:
    """Draw the trend.

    Series of marks for the keyboard: 0 the figures (with gaps and flagged ones), 1 change points,
    2 breaks, 3 stack bumps.
    """
    line = timeline.make(data)
    marks = told(data, line)
    recent = timeline.newest_first(data, figure.ROWS)
    return Chart(
        about=data.about,
        kind="trend",
        wide=_draw(data, line, marks, WIDE),
        narrow=_draw(data, line, marks, NARROW),
        table=figure.table(
            ("day", "run", *figure.VALUE_HEAD, "what happened"),
            (
                (day_text(point.time.timestamp()), figure.linked(point.run, point.href),
                 *figure.value_cells(data.quantity, point.value), happened)
                for point, happened in recent
            ),
            words=2,
            hidden=len(data.points) - len(recent),
        ),
        legend=tuple(_legend(data, line)),
        notes=tuple(_notes(data, line)),
    )  # fmt: skip


def _draw(data: Trend, line: Timeline, marks: Told, width: float) -> Drawing:
    if line.range is None:
        return figure.empty(width, "No figures yet: the table says why.")
    height = _HEIGHTS[width]
    top = _TOP if line.changes else TITLE
    y = value_axis(data.quantity, Scale(*line.range, height - BELOW, top), 5)
    area = plane(width, height, y, top)
    x = time_axis(Scale(*line.span, area.left + 6, area.right - 6))
    place = _Place(area, x.scale, y.scale)
    found: list[Shape | Mark] = [*axes(area, x, y, width)]
    found += _backdrop(line, place)
    found += _breaks(marks, place)
    found += _bumps(marks, place)
    found += _figures(marks, place)
    found += _changes(line, marks, place, width)
    return Drawing(width, height, tuple(found))


def _backdrop(line: Timeline, place: _Place) -> Iterator[Shape]:
    """Noise ribbon, confidence band and the line, from back to front."""
    for ribbon in line.ribbons:
        left, top = place.point(ribbon.start, ribbon.high)
        right, bottom = place.point(ribbon.end, ribbon.low)
        yield Rect("ribbon", left, top, max(2.0, right - left), max(0.0, bottom - top))
    for run in line.lines:
        if len(run) > 1:
            across = [place.x.at(each.at) for each in run]
            high, low, mean = (
                list(zip(across, map(place.y.at, ends), strict=True))
                for ends in (
                    [each.high for each in run],
                    [each.low for each in run],
                    [each.mean for each in run],
                )
            )
            yield Path("band", band(high, low))
            yield Path("line trend-line", polyline(mean))
        elif run[0].low < run[0].high:
            x, bottom = place.point(run[0].at, run[0].low)
            yield Line("whisker", x, bottom, x, place.y.at(run[0].high))


def _figures(marks: Told, place: _Place) -> Iterator[Mark]:
    for point, each in enumerate(marks.figures):
        x = place.x.at(each.at)
        y = place.area.bottom - 6 if each.value is None else place.y.at(each.value)
        shape = Path(each.look, symbol(each.marker, x, y, _DOT))
        yield Mark(each.say, 0, point, x, y, (shape,), each.kind, each.href)


def _breaks(marks: Told, place: _Place) -> Iterator[Mark]:
    for point, (at, say) in enumerate(marks.breaks):
        x = place.x.at(at)
        yield Mark(
            say=say,
            series=2,
            point=point,
            x=x,
            y=place.area.top,
            shapes=(Line("break", x, place.area.top, x, place.area.bottom),),
            kind="break-mark",
        )


def _bumps(marks: Told, place: _Place) -> Iterator[Mark]:
    bottom = place.area.bottom
    for point, (at, say) in enumerate(marks.bumps):
        x = place.x.at(at)
        yield Mark(
            say=say,
            series=3,
            point=point,
            x=x,
            y=bottom,
            shapes=(Path("bump", symbol("triangle", x, bottom + _BUMP, 2.5)),),
            kind="bump-mark",
        )


def _changes(line: Timeline, marks: Told, place: _Place, width: float) -> Iterator[Mark]:
    """Change points; a label that finds no room in two lines is left to pointer and table."""
    free = [0.0 for _ in _LABEL_ROWS]
    for point, (change, (label, say)) in enumerate(zip(line.changes, marks.changes, strict=True)):
        x = place.x.at(change.time.timestamp())
        half = text.width(label) * 0.54
        middle = min(max(x, place.area.left + half), width - half)
        shapes: list[Shape] = [Line("change", x, place.area.top - 4, x, place.area.bottom)]
        row = next((r for r, left in enumerate(free) if middle - half > left), None)
        if row is not None:
            free[row] = middle + half + 6
            shapes.append(Text("strong", round(middle, 1), _LABEL_ROWS[row], label, "middle"))
        yield Mark(
            say=say,
            series=1,
            point=point,
            x=x,
            y=place.area.top,
            shapes=tuple(shapes),
            kind=f"change-mark {tone(change.verdict)}",
            href=change.href,
        )


def _notes(data: Trend, line: Timeline) -> Iterator[str]:
    if line.per_mark > 1:
        intervals = any(point.value.low is not None for point in data.points)
        yield (
            f"{line.figures} figures in {len(line.bins)} marks: each is the median of up to "
            f"{line.per_mark} neighbours, and the band spans all of "
            + ("their intervals." if intervals else "these figures.")
        )
    if line.clipped:
        yield f"{line.clipped} figures beyond the axis are drawn at its edge."
    if line.hidden_changes:
        yield f"{line.hidden_changes} older change points are not drawn."
    if line.range is not None and line.range[0] > 0:
        yield "The upright axis does not begin at zero."


def _legend(data: Trend, line: Timeline) -> Iterator[Key]:
    if line.range is None:
        return
    if any(each.low < each.high for each in line.bins):
        intervals = any(point.value.low is not None for point in data.points)
        yield keys.band(merged=line.per_mark > 1, intervals=intervals)
    if line.ribbons:
        yield keys.RIBBON
    for verdict in dict.fromkeys(change.verdict for change in line.changes):
        yield Key(
            f"{words.MARKS[verdict]} {verdict.value} from here on",
            (Line("change", 14, 0, 14, 14),),
            f"change-mark {tone(verdict)}",
        )
    if data.breaks:
        yield keys.BREAK
    if data.bumps:
        yield keys.BUMP
    if line.flagged:
        yield replace(keys.HOLLOW, kind="flagged")
    if line.gaps:
        yield keys.MISSING
