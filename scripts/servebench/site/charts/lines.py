"""Lines over something that was varied: users, threads, or the throughput of rising loads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from servebench.site.charts import figure, keys, text
from servebench.site.charts.data import About, Quantity, Value, sentence
from servebench.site.charts.figure import Chart, Key
from servebench.site.charts.plane import BELOW, TITLE, Plane, Room, axes, plane, span
from servebench.site.charts.scale import Axis, Scale, declared_axis, value_axis
from servebench.site.charts.shapes import (
    NARROW,
    WIDE,
    Drawing,
    Line,
    Mark,
    Path,
    Shape,
    polyline,
    symbol,
)
from servebench.site.charts.styles import DASHES, Style, assign
from servebench.site.charts.varied import (
    Lines,
    Series,
    far,
    is_drawn,
    limited,
    measured,
    upright,
)

_HEIGHTS: Final = {WIDE: 340.0, NARROW: 290.0}


def percentiles(about: About, x: Quantity, y: Quantity, series: tuple[Series, ...]) -> Chart:
    """Latency percentiles against users; logarithmic, for a tail is many times a median."""
    return lines(Lines(about, x, y, series, log_y=True))


def sweep(
    about: About, x: Quantity, y: Quantity, series: tuple[Series, ...], *, log_y: bool = False
) -> Chart:
    """One figure against threads or workers, which are doubled rather than added."""
    return lines(Lines(about, x, y, series, log_x=True, log_y=log_y))


def curve(about: About, x: Quantity, y: Quantity, series: tuple[Series, ...]) -> Chart:
    """Latency against throughput, one point per load, joined from the lightest load on."""
    return lines(Lines(about, x, y, series, log_y=True, declared=False))


def lines(data: Lines) -> Chart:
    """Draw the lines. A point without a figure is a gap, and a cross on the lying axis."""
    shown, notes = limited(data)
    hidden = far(shown)
    if hidden:
        notes.append(f"{hidden} published figures or ceilings lie beyond the axis: see the table.")
    if any(point.y.published is not None for one in shown.series for point in one.points):
        notes.append("Published figures are of another machine: compare shapes, not sizes.")
    return Chart(
        about=data.about,
        kind="lines",
        wide=_draw(shown, WIDE),
        narrow=_draw(shown, NARROW),
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
        legend=tuple(_legend(shown)),
        notes=tuple(notes),
    )  # fmt: skip


def _draw(data: Lines, width: float) -> Drawing:
    points = measured(data)
    if not points:
        return figure.empty(width, "No figures to draw: the table says why.")
    height = _HEIGHTS[width]
    low, high = upright(data)
    y = value_axis(data.y, Scale(low, high, height - BELOW, TITLE, data.log_y), 6)
    area = plane(width, height, y)
    values = [point.x for one in data.series for point in one.points]
    # A few px inside the plane, so that marks do not lie on its edges.
    left, right = span(values, zero=not data.declared, log=data.log_x)
    scale = Scale(left, right, area.left, area.right, data.log_x)
    x = (
        declared_axis(data.x, scale, values)
        if data.declared
        else value_axis(data.x, scale, 7, sideways=True)
    )
    styles = assign(one.name for one in data.series)
    variants = list(dict.fromkeys(one.variant for one in data.series))
    found: list[Shape | Mark] = [*axes(area, x, y, width)]
    found += _ceilings(data, x.scale, y.scale)
    room = Room(area)
    marks: list[Mark] = []
    for row, one in enumerate(data.series):
        style = _style(one, styles, variants)
        for piece in _pieces(one, data, x.scale, y.scale):
            found.append(Path(f"line {style.kind}", polyline(piece)))
            room.take_line(piece)
        marks += _marks(row, one, data, style, (x, y, area))
    for mark in marks:
        room.take(mark.x, mark.y, 5)
    found += marks
    for point in points:
        if point.label and point.y.mean is not None:
            at = x.scale.at(point.x), y.scale.at(point.y.mean)
            label = room.label(*at, text.fit(point.label, 120))
            found += [label] if label else []
    return Drawing(width, height, tuple(found))


def _style(one: Series, styles: dict[str, Style], variants: Sequence[str]) -> Style:
    style = styles[one.name]
    if len(variants) == 1:
        return style
    return replace(style, dash=DASHES[variants.index(one.variant) % len(DASHES)])


def _pieces(one: Series, data: Lines, x: Scale, y: Scale) -> list[list[tuple[float, float]]]:
    """The line as px, interrupted where a figure is missing."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in one.points:
        if is_drawn(point, data) and point.y.mean is not None:
            pieces[-1].append((x.at(point.x), y.at(point.y.mean)))
        else:
            pieces.append([])
    return [piece for piece in pieces if len(piece) > 1]


def _ceilings(data: Lines, x: Scale, y: Scale) -> Iterator[Path]:
    """Each sequence of ceilings once, however many series share it."""
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
            yield Path("ceiling", polyline(line))
        elif line:
            ((at, up),) = line
            yield Path("ceiling", polyline([(at - 8, up), (at + 8, up)]))


def _marks(
    row: int, one: Series, data: Lines, style: Style, place: tuple[Axis, Axis, Plane]
) -> Iterator[Mark]:
    x, y, area = place
    for index, point in enumerate(one.points):
        drawn = is_drawn(point, data) and point.y.mean is not None
        at = x.scale.at(point.x)
        up = y.scale.at(point.y.mean) if drawn and point.y.mean is not None else area.bottom
        where = point.label or f"{data.x.format(point.x)} {data.x.title}"
        shapes = _dot(point.y, style, y.scale, at, up) if drawn else _missing(at, up)
        yield Mark(
            say=text.clip(f"{one.title}, {where}: {sentence(data.y, point.y)}"),
            series=row,
            point=index,
            x=at,
            y=up,
            shapes=tuple(shapes),
            kind=style.kind if drawn else "gap",
            href=point.href,
        )


def _dot(value: Value, style: Style, scale: Scale, at: float, up: float) -> Iterator[Shape]:
    if value.low is not None and value.high is not None:
        low = scale.low if scale.log and value.low <= 0 else value.low
        yield Line("whisker", at, scale.at(low), at, scale.at(value.high))
    if value.published is not None and scale.holds(value.published):
        yield Path("published", symbol("diamond", at, scale.at(value.published), 4))
    hollow = "" if value.valid else " hollow"
    yield Path(f"dot m-{style.marker}{hollow}", symbol(style.marker, at, up, 4))


def _missing(at: float, up: float) -> Iterator[Shape]:
    yield Path("missing-mark", symbol("cross", at, up, 4))


def _legend(data: Lines) -> Iterator[Key]:
    styles = assign(one.name for one in data.series)
    variants = list(dict.fromkeys(one.variant for one in data.series))
    if len(data.series) > 1:
        for one in data.series:
            yield keys.line(one.title, _style(one, styles, variants))
    values = [point.y for point in measured(data)]
    if any(value.low is not None for value in values):
        yield keys.UPRIGHT
    if any(value.ceiling is not None for value in values):
        yield keys.CEILING_LINE
    if any(value.published is not None for value in values):
        yield keys.PUBLISHED
    if any(not value.valid for value in values):
        yield keys.HOLLOW
    if len(values) < sum(len(one.points) for one in data.series):
        yield keys.MISSING
