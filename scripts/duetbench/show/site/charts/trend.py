"""A series over time as two paths, band and line, with its changes; and the same as a sparkline.

This is the picture that a page has without JavaScript. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import Final

from duetbench.show import formats
from duetbench.show.site.charts import figure, legend, plane, svg
from duetbench.show.site.charts.data import Caption, Quantity, Value, sentence
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.forest import TONES
from duetbench.show.site.charts.legend import LegendKey
from duetbench.show.site.charts.plane import BELOW, TITLE, Plane
from duetbench.show.site.charts.scale import AxisScale, day_text, time_axis, value_axis
from duetbench.show.site.charts.svg import NARROW, WIDE, Drawing, Line, Mark, Path, Shape
from duetbench.store.comparison import Verdict

_APART: Final = "not comparable with before: "
_HEIGHTS: Final = {WIDE: 320.0, NARROW: 270.0}
_LABEL_ROWS: Final = (30.0, 46.0)
_TOP: Final = 56.0  # the axis' title, and two lines of changes' labels
_DAY: Final = 86_400.0
_MOST: Final = 400  # points: more are no finer on a screen
_DOTTED: Final = 100  # up to so many points each has a mark
_EVENTS: Final = 60  # of a kind
_LONG: Final = 8.0  # times the usual distance between two runs: some nights missing are no silence
_LEAST: Final = 0.01  # to each side, so that noise does not look like a landslide
_SPARK: Final = (120.0, 28.0)  # px
_SPARK_EDGE: Final = 4.0  # room for the last value's dot
_SPARK_MOST: Final = 110  # points: about one per px


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """The figure of one run; without one, its value says why."""

    time: datetime
    run: str
    value: Value
    href: str = ""

    def __post_init__(self) -> None:
        if self.time.tzinfo is None:
            raise ValueError(f"{self.time}: a time without a time zone; use UTC")

    @property
    def at(self) -> float:
        return self.time.timestamp()


@dataclass(frozen=True, slots=True)
class TrendEvent:
    """What happened between two runs.

    Attributes:
        time: Time of the first run after it.
        label: What it was; of a change, what did it: `granian 2.8.7`.
        verdict: Of a change: faster or slower; None: a stack bump or a break.
    """

    time: datetime
    label: str = ""
    verdict: Verdict | None = None
    ratio: Value | None = None
    href: str = ""

    @property
    def at(self) -> float:
        return self.time.timestamp()

    @property
    def said(self) -> str:
        if self.verdict is None or self.ratio is None:
            return self.label
        change = formats.percent(self.ratio.mean)
        said = f"{formats.MARKS[self.verdict]} {self.verdict.value} {change}"
        if self.ratio.ends:
            said += f" ({' to '.join(map(formats.percent, self.ratio.ends))})"
        return f"{said}, {self.label}" if self.label else said


@dataclass(frozen=True, slots=True)
class Trend:
    """One series over time.

    Attributes:
        points: In the order of time; the newest 400 are drawn.
        breaks: Where machine, interpreter build or case definition changed.
        cut: Whether figures on either side of a break are not to be compared, nor joined; not so of
            ratios to an anchor, whose intervals are over duets.
    """

    about: Caption
    quantity: Quantity
    points: tuple[TrendPoint, ...]
    changes: tuple[TrendEvent, ...] = ()
    breaks: tuple[TrendEvent, ...] = ()
    bumps: tuple[TrendEvent, ...] = ()
    cut: bool = True

    def __post_init__(self) -> None:
        times = [point.time for point in self.points]
        if times != sorted(times):
            raise ValueError("points: expected in the order of time")

    def newest(self, most: int) -> Trend:
        """The newest points, with what happened in their time."""
        if len(self.points) <= most:
            return self
        points = self.points[-most:]
        changes, breaks, bumps = (
            tuple(one for one in kind if one.at >= points[0].at)
            for kind in (self.changes, self.breaks, self.bumps)
        )
        return replace(self, points=points, changes=changes, breaks=breaks, bumps=bumps)


def trend(data: Trend) -> Chart:
    """Draw the trend.

    Series of marks for the keyboard: 0 figures, where there are few; 1 changes, 2 breaks, 3 stack
    bumps.
    """
    shown = data.newest(_MOST)
    limits = _limits(shown)
    notes = []
    if limits is None:
        notes.append("No figures yet: the table says why.")
    elif limits[0] > 0:
        notes.append("The upright axis does not begin at zero.")
    if len(shown.points) < len(data.points):
        notes.append(f"The newest {_MOST} of {len(data.points)} runs are drawn.")
    rows = _rows(shown)[: figure.ROWS]
    return Chart(
        about=data.about,
        kind="trend",
        drawings=tuple(_draw(shown, limits, width) for width in (WIDE, NARROW)) if limits else (),
        table=figure.table(
            ("day", "run", *figure.VALUE_HEAD, "what happened"),
            (
                (day_text(point.at), figure.linked(point.run, point.href),
                 *figure.value_cells(data.quantity, point.value), happened)
                for point, happened in rows
            ),
            words=2,
            hidden=len(data.points) - len(rows),
        ),
        legend=tuple(_legend(shown)) if limits else (),
        notes=tuple(notes),
    )  # fmt: skip


def spark(label: str, values: Sequence[float | None], tone: str = "") -> str:
    """Draw the values in the height of a line of text (Tufte, Beautiful Evidence, 2006).

    Of more values than there is room for, every so-manieth is drawn, the last always.

    `values`: Evenly spaced, oldest first; None interrupts the line.
    `tone`: CSS class of the last dot: worse, better, same or open.
    """
    step = -(-len(values) // _SPARK_MOST) or 1
    points = [
        (float(place), None if value is None else Value(value))
        for place, value in enumerate(values[::-1][::step][::-1])
    ]
    known = [(at, value.mean) for at, value in points if value and value.mean is not None]
    width, height = _SPARK
    shapes: list[Shape] = []
    if known:
        means = [mean for _, mean in known]
        middle = statistics.fmean(means)
        least = _LEAST * abs(middle) or 1.0
        ends = min(*means, middle - least), max(*means, middle + least)
        x = AxisScale(0.0, max(1.0, len(points) - 1.0), _SPARK_EDGE, width - _SPARK_EDGE)
        y = AxisScale(*ends, height - _SPARK_EDGE, _SPARK_EDGE)
        last = svg.symbol("circle", x.at(known[-1][0]), y.at(means[-1]), 3)
        shapes = [*_paths(points, x, y), Path(f"dot {tone}".strip(), last)]
    return svg.written(Drawing(width, height, tuple(shapes)), label, "spark")


def _paths(
    points: Sequence[tuple[float, Value | None]], x: AxisScale, y: AxisScale
) -> Iterator[Path]:
    """Band and line through the figures; None interrupts both."""
    band, line = "", ""
    for known, stretch in groupby(points, key=lambda point: point[1] is not None):
        figures = [(x.at(at), value) for at, value in stretch if value and value.mean is not None]
        if not known:
            continue
        line += svg.polyline((at, y.at(value.mean or 0.0)) for at, value in figures)
        line += "h0" if len(figures) == 1 else ""  # its round ends are a dot
        ends = [(at, *(value.ends or (value.mean or 0.0,) * 2)) for at, value in figures]
        if any(low < high for _, low, high in ends):
            there, back = ((at, y.at(high)) for at, _, high in ends), reversed(ends)
            band += svg.polyline([*there, *((at, y.at(low)) for at, low, _ in back)]) + "Z"
    if band:
        yield Path("band", band)
    if line:
        yield Path("line trend-line", line)


def _joined(data: Trend) -> Iterator[tuple[float, Value | None]]:
    """The figures that may be judged, and None where nothing may be joined.

    That is where a run has no figure, after a break, and after a long silence.
    """
    steps = [after.at - before.at for before, after in pairwise(data.points)]
    silence = _LONG * statistics.median(steps) if len(steps) > 1 else float("inf")
    breaks = [event.at for event in data.breaks if data.cut]
    before = float("-inf")
    for point in data.points:
        cut = any(before < at <= point.at for at in breaks)
        if cut or point.at - before > silence or point.value.mean is None:
            yield point.at, None
        if point.value.mean is not None and point.value.valid:
            yield point.at, point.value
        before = point.at


def _limits(data: Trend) -> tuple[float, float] | None:
    """Ends of the axis: all figures that may be judged, and nine of ten intervals whole."""
    known = [point.value for point in data.points if point.value.mean is not None]
    good = [value for value in known if value.valid] or known
    means = [value.mean for value in good if value.mean is not None]
    if not means:
        return None
    spans = [value.ends for value in good if value.ends]
    rest = len(spans) // 10
    low = min([*means, *sorted(low for low, _ in spans)[rest : rest + 1]])
    high = max([*means, *sorted(high for _, high in spans)[len(spans) - 1 - rest :][:1]])
    lack = max(0.0, 2 * _LEAST * abs(statistics.median(means)) - (high - low)) / 2
    low, high = low - lack, high + lack
    pad = 0.06 * (high - low) or 1.0
    return max(0.0 if low >= 0 else low - pad, low - pad), high + pad


def _draw(data: Trend, limits: tuple[float, float], width: float) -> Drawing:
    height = _HEIGHTS[width]
    top = _TOP if data.changes else TITLE
    y = value_axis(data.quantity, AxisScale(*limits, height - BELOW, top), 5)
    area = plane.plane(width, height, y, top)
    times = [point.at for point in data.points]
    times += [event.at for event in (*data.changes, *data.breaks, *data.bumps)]
    lack = max(0.0, _DAY - (max(times) - min(times))) / 2
    span = AxisScale(min(times) - lack, max(times) + lack, area.left + 6, area.right - 6)
    x = time_axis(span)
    return Drawing(
        width,
        height,
        (
            *plane.axes(area, x, y, width),
            *_paths(list(_joined(data)), span, y.scale),
            *_events(data, span, area),
            *_figures(data, span, y.scale, area),
            *_changes(data, span, area, width),
        ),
    )


def _figures(data: Trend, x: AxisScale, y: AxisScale, area: Plane) -> Iterator[Shape | Mark]:
    """Marks of few figures; of many, those that are not part of the line."""
    dotted = len(data.points) <= _DOTTED
    for number, point in enumerate(data.points):
        value, at = point.value, x.at(point.at)
        if value.mean is None:
            up, kind = area.bottom - 6, "gap"
            shape = Path("missing-mark", svg.symbol("cross", at, up, 3))
        else:
            up, kind = y.at(value.mean), "" if value.valid else "flagged"
            hollow = "" if value.valid else " hollow flagged"
            shape = Path(f"dot{hollow}", svg.symbol("circle", at, up, 3))
        if dotted:
            say = f"{day_text(point.at)}: {sentence(data.quantity, value)}"
            yield Mark(say, 0, number, at, up, (shape,), kind, point.href)
        elif kind:
            yield shape


def _events(data: Trend, x: AxisScale, area: Plane) -> Iterator[Mark]:
    for number, event in enumerate(data.breaks[-_EVENTS:]):
        at, say = x.at(event.at), f"{day_text(event.at)}: {_apart(data)}{event.label}"
        line = Line("break", at, area.top, at, area.bottom)
        yield Mark(say, 2, number, at, area.top, (line,), "break-mark")
    for number, event in enumerate(data.bumps[-_EVENTS:]):
        at, say = x.at(event.at), f"{day_text(event.at)}: {event.label}"
        shape = Path("bump", svg.symbol("triangle", at, area.bottom + 3.5, 2.5))
        yield Mark(say, 3, number, at, area.bottom, (shape,), "bump-mark", event.href)


def _changes(data: Trend, x: AxisScale, area: Plane, width: float) -> Iterator[Mark]:
    """Changes; a label that finds no room in two lines is left to pointer and table."""
    free = [0.0 for _ in _LABEL_ROWS]
    for number, event in enumerate(data.changes[-_EVENTS:]):
        at, tone = x.at(event.at), TONES.get(event.verdict or Verdict.INCONCLUSIVE, "open")
        change = formats.percent(event.ratio.mean if event.ratio else None)
        label = f"{formats.MARKS[event.verdict]} {change}" if event.verdict else change
        half = svg.text_width(label) * 0.54
        middle = min(max(at, area.left + half), width - half)
        shapes: list[Shape] = [Line("change", at, area.top - 4, at, area.bottom)]
        row = next((r for r, left in enumerate(free) if middle - half > left), None)
        if row is not None:
            free[row] = middle + half + 6
            shapes.append(svg.Text("strong", round(middle, 1), _LABEL_ROWS[row], label, "middle"))
        say, kind = f"{day_text(event.at)}: {event.said}", f"change-mark {tone}"
        yield Mark(say, 1, number, at, area.top, tuple(shapes), kind, event.href)


def _apart(data: Trend) -> str:
    return _APART if data.cut else ""


def _rows(data: Trend) -> list[tuple[TrendPoint, str]]:
    """Points, newest first, with what happened since the one before each, as words."""
    happened = [(event.at, event.said) for event in (*data.changes, *data.bumps)]
    happened = sorted(happened + [(event.at, _apart(data) + event.label) for event in data.breaks])
    rows = []
    for point in data.points:
        since = [said for at, said in happened if at <= point.at]
        del happened[: len(since)]
        rows.append((point, "; ".join(since)))
    return rows[::-1]


def _legend(data: Trend) -> Iterator[LegendKey]:
    values = [point.value for point in data.points]
    if any(value.ends for value in values):
        yield legend.BAND if data.cut else legend.DUETS
    for verdict in dict.fromkeys(event.verdict for event in data.changes if event.verdict):
        yield LegendKey(
            f"{formats.MARKS[verdict]} {verdict.value} from here on",
            (Line("change", 14, 0, 14, 14),),
            f"change-mark {TONES.get(verdict, 'open')}",
        )
    if data.breaks:
        yield legend.BREAK if data.cut else legend.CIRCUMSTANCE
    if data.bumps:
        yield legend.BUMP
    if any(value.mean is not None and not value.valid for value in values):
        yield replace(legend.HOLLOW, kind="flagged")
    if any(value.mean is None for value in values):
        yield legend.MISSING
