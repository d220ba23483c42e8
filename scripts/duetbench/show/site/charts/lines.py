"""Lines over something that was varied: users, threads, or the throughput of rising loads. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from duetbench.core import units
from duetbench.show.site.charts import figure, legend, plane, svg
from duetbench.show.site.charts.data import Caption, Quantity, Value, sentence
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.legend import DASHES, STYLES, LegendKey, Style, assign
from duetbench.show.site.charts.plane import BELOW, TITLE, FreeSpace, span
from duetbench.show.site.charts.scale import AxisScale, declared_axis, value_axis
from duetbench.show.site.charts.svg import MARKS, NARROW, WIDE, Drawing, Line, Mark, Path, Shape

LEAST_CHANGE: Final = 0.01
"""Changes and ratios have room for so much to either side of none: noise must not look like a
landslide."""
_HEIGHTS: Final = {WIDE: 340.0, NARROW: 290.0}


@dataclass(frozen=True, slots=True)
class LinePoint:
    """One measured point; `label` is written beside it where there is room."""

    x: float
    y: Value
    label: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class LineSeries:
    """One line: its name gives colour and marker; its variant (`p50`, `p99`), if any, the dash."""

    name: str
    points: tuple[LinePoint, ...]
    variant: str = ""

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.name, self.variant)))


@dataclass(frozen=True, slots=True)
class Lines:
    """A whole chart of lines.

    Attributes:
        series: The lines, points in the order in which they are joined.
        log_y: Logarithmic upright axis; otherwise it begins at zero.
        declared: Whether the values of x were chosen: they are the ticks then.
        ratios: Whether figures are ratios, on an axis around 1.
        change: Whether figures are changes, around zero: dots, which no line joins. What may not be
            judged, and is further off than all others, lands on the edge.
    """

    about: Caption
    x: Quantity
    y: Quantity
    series: tuple[LineSeries, ...]
    log_x: bool = False
    log_y: bool = False
    declared: bool = True
    ratios: bool = False
    change: bool = False

    @property
    def values(self) -> list[Value]:
        return [p.y for one in self.series for p in one.points if self.height(p) is not None]

    def height(self, point: LinePoint) -> float | None:
        """A point's figure, if its axes can show it."""
        if (self.log_y and (point.y.mean or 0) <= 0) or (self.log_x and point.x <= 0):
            return None
        return point.y.mean

    def styles(self) -> list[Style]:
        """How each series looks: the name gives the colour, of several variants each a dash."""
        looks = assign(one.name for one in self.series)
        variants = list(dict.fromkeys(one.variant for one in self.series))
        if len(variants) < 2:
            return [looks[one.name] for one in self.series]
        dashes = (DASHES[variants.index(one.variant) % len(DASHES)] for one in self.series)
        return [replace(looks[one.name], dash=dash)
                for one, dash in zip(self.series, dashes, strict=True)]  # fmt: skip


def lines(data: Lines) -> Chart:
    """Draw the lines. A point without a figure is a gap, and a cross on the lying axis."""
    shown, notes = _limited(data)
    values = shown.values
    limits = _limits(data, values) if values else None
    notes += plane.notes(values, limits) if limits else ["No figures to draw: the table says why."]
    if limits and limits[0] > 0 and not data.log_y:
        notes.append("The upright axis does not begin at zero.")
    return Chart(
        about=data.about,
        kind="lines",
        drawings=tuple(_draw(shown, limits, width) for width in (WIDE, NARROW)) if limits else (),
        table=figure.table(
            ("series", "label", data.x.title, *figure.VALUE_HEAD),
            (
                (figure.linked(one.title, point.href), point.label, data.x.format(point.x),
                 *figure.value_cells(data.y, point.y))
                for one in data.series
                for point in one.points
            ),
            words=2,
        ),
        legend=tuple(_legend(shown)) if limits else (),
        notes=tuple(notes),
    )  # fmt: skip


def _limits(data: Lines, values: Sequence[Value]) -> tuple[float, float]:
    if data.ratios:
        around = Value(1 - LEAST_CHANGE), Value(1 + LEAST_CHANGE)
        return plane.ends([*values, *around], zero=False)
    if not data.change:
        return plane.ends(values, log=data.log_y)
    judged = [value for value in values if value.valid] or values
    return plane.ends([*judged, Value(-LEAST_CHANGE), Value(LEAST_CHANGE)])


def _limited(data: Lines) -> tuple[Lines, list[str]]:
    """As many series as have styles of their own, and points evenly thinned to the limit."""
    notes = []
    names = list(dict.fromkeys(one.name for one in data.series))[: len(STYLES)]
    kept = [one for one in data.series if one.name in names][: len(STYLES) * 4]
    if left := len(data.series) - len(kept):
        notes.append(f"{left} of {len(data.series)} lines are not drawn; the table has them.")
    most = max(2, MARKS // max(1, len(kept)))
    thin = [replace(one, points=tuple(_thinned(one.points, most))) for one in kept]
    if dropped := sum(len(one.points) for one in kept) - sum(len(one.points) for one in thin):
        notes.append(f"{dropped} points are not drawn; the table has them.")
    return replace(data, series=tuple(thin)), notes


def _thinned(points: Sequence[LinePoint], most: int) -> Sequence[LinePoint]:
    last, most = len(points) - 1, min(most, len(points))
    return [points[round(i * last / max(1, most - 1))] for i in range(most)]


def _draw(data: Lines, limits: tuple[float, float], width: float) -> Drawing:
    height = _HEIGHTS[width]
    shown = replace(data.y, format=units.share) if data.change else data.y
    y = value_axis(shown, AxisScale(*limits, height - BELOW, TITLE, data.log_y), 6)
    area = plane.plane(width, height, y)
    values = [point.x for one in data.series for point in one.points]
    left, right = span(values, zero=not data.declared, log=data.log_x)
    scale = AxisScale(left, right, area.left, area.right, data.log_x)
    x = (
        declared_axis(data.x, scale, values)
        if data.declared
        else value_axis(data.x, scale, 7, sideways=True)
    )
    found: list[Shape | Mark] = [*plane.axes(area, x, y, width), *_ceilings(data, scale, y.scale)]
    if data.change:
        found.append(Line("zero", area.left, y.scale.at(0), area.right, y.scale.at(0)))
    room = FreeSpace(area)
    marks: list[Mark] = []
    for row, (one, style) in enumerate(zip(data.series, data.styles(), strict=True)):
        for piece in () if data.change else _pieces(one, data, scale, y.scale):
            found.append(Path(f"line {style.kind}", svg.polyline(piece)))
            room.take_line(piece)
        marks += _marks(row, one, data, style, scale, y.scale)
    for mark in marks:
        room.take(mark.x, mark.y, 5)
    points = [point for one in data.series for point in one.points]
    for mark, point in zip(marks, points, strict=True):
        if point.label and data.height(point) is not None:
            label = room.label(mark.x, mark.y, svg.fit(point.label, 120))
            found += [label] if label else []
    return Drawing(width, height, (*found, *marks))


def _pieces(
    one: LineSeries, data: Lines, x: AxisScale, y: AxisScale
) -> list[list[tuple[float, float]]]:
    known = groupby(one.points, key=lambda point: data.height(point) is not None)
    pieces = (
        [(x.at(p.x), y.at(data.height(p) or 0)) for p in some] for there, some in known if there
    )
    return [piece for piece in pieces if len(piece) > 1]


def _ceilings(data: Lines, x: AxisScale, y: AxisScale) -> Iterator[Path]:
    found = {
        tuple(
            (x.at(point.x), y.at(point.y.ceiling))
            for point in one.points
            if point.y.ceiling is not None and y.holds(point.y.ceiling)
        )
        for one in data.series
    }
    for line in sorted(found):
        if len(line) > 1:
            yield Path("ceiling", svg.polyline(line))
        elif line:
            ((at, up),) = line
            yield Path("ceiling", svg.polyline([(at - 8, up), (at + 8, up)]))


def _marks(
    row: int, one: LineSeries, data: Lines, style: Style, x: AxisScale, y: AxisScale
) -> Iterator[Mark]:
    for index, point in enumerate(one.points):
        height, at = data.height(point), x.at(point.x)
        up = y.start if height is None else y.at(height)
        where = point.label or f"{data.x.format(point.x)} {data.x.title}"
        missing = (Path("missing-mark", svg.symbol("cross", at, up, 4)),)
        yield Mark(
            say=f"{one.title}, {where}: {sentence(data.y, point.y)}",
            series=row,
            point=index,
            x=at,
            y=up,
            shapes=missing if height is None else tuple(_dot(point.y, style, y, at, up)),
            kind="gap" if height is None else style.kind,
            href=point.href,
        )


def _dot(value: Value, style: Style, y: AxisScale, at: float, up: float) -> Iterator[Shape]:
    if value.ends:
        low, high = value.ends
        yield Line("whisker", at, y.at(y.low if y.log and low <= 0 else low), at, y.at(high))
    if value.published is not None and y.holds(value.published):
        yield Path("published", svg.symbol("diamond", at, y.at(value.published), 4))
    hollow = "" if value.valid else " hollow"
    yield Path(f"dot m-{style.marker}{hollow}", svg.symbol(style.marker, at, up, 4))


def _legend(data: Lines) -> Iterator[LegendKey]:
    if len(data.series) > 1:
        for one, style in zip(data.series, data.styles(), strict=True):
            yield legend.series(one.title, style, joined=not data.change)
    yield from legend.beside(data.values, lying=False, change=data.change or data.ratios)
    if len(data.values) < sum(len(one.points) for one in data.series):
        yield legend.MISSING
