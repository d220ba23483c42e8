"""Charts of figures: interval plots, and lines that chart.js draws from the JSON in the page. Pure.

Tables show what is drawn. Plots of changes are the tool's (`duetbench.report.html.charts`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval
from duetbench.report import formats
from duetbench.report.html.charts import (
    Caption,
    ChartRow,
    Scale,
    axis,
    interval_key,
    interval_plot,
    line,
    mark,
    picture,
)
from observatory.show.site.words import drawing

ROWS: Final = 150
"""Most rows of the table below a line chart; the data file has all figures."""
STYLES: Final = 10
"""Styles of series: five colours (Okabe and Ito's) in the stylesheet, first with full lines, then
with dashes."""

_REACH: Final = 2.5  # times the largest figure: farther ceilings would squeeze the figures
_DIAMOND: Final = '<path class="published" d="M0-5L5 0 0 5-5 0z"/>'
_MARKS: Final = (
    '<circle class="dot{}" r="4.5"/>',
    '<path class="dot{}" d="M-4-4h8v8h-8z"/>',
    '<path class="dot{}" d="M0-5.5L5 4H-5z"/>',
    '<path class="dot{}" d="M0 5.5L5-4H-5z"/>',
    '<path class="dot{}" d="M-4-4h8L-4 4h8z"/>',
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """What an axis shows, and how its figures are written.

    `script` is the name of the format in formats.js, or the unit if formats.js lacks the format.
    """

    title: str
    format: units.Formatter
    script: str = ""

    @classmethod
    def of(cls, metric: str) -> "Quantity":
        row = METRICS[metric]
        return cls(row.title, row.format, row.format.name)

    def figure(self, figure: Interval | None) -> str:
        return self.format(figure.estimate) if figure else formats.MISSING

    def interval(self, figure: Interval | None) -> str:
        """Write an interval: `±1.2 %`, or `lo…hi` if it is wide; empty if there is none."""
        return formats.spread(self.format, figure)


@dataclass(frozen=True, slots=True)
class Value:
    """A figure with its ceiling and published figure, or the reason why it is missing.

    Attributes:
        figure: None if it is missing; `note` has the reason.
        ceiling: The most that arithmetic allows.
        valid: Whether it may be judged; if not, its mark is hollow.
        note: Its flags, or why it is missing.
    """

    figure: Interval | None
    ceiling: float | None = None
    published: float | None = None
    valid: bool = True
    note: str = ""

    @property
    def remark(self) -> str:
        """Return its flags or why it is missing, after "not judged" if it is not valid."""
        doubt = "" if self.valid or self.figure is None else "not judged"
        return ": ".join(filter(None, (doubt, self.note)))


@dataclass(frozen=True, slots=True)
class FigureDot:
    """One row of an interval plot of figures; the series determines colour and marker."""

    label: str
    value: Value
    series: str
    href: str = ""


def styles(names: Iterable[str]) -> dict[str, int]:
    """Give each name of a chart a style, in alphabetical order."""
    return {name: place % STYLES for place, name in enumerate(sorted(set(names)))}


def draw_figures(
    about: Caption, quantity: Quantity, groups: Mapping[str, Sequence[FigureDot]]
) -> Markup:
    """Draw a row for each figure, in the given order; a missing figure's row has the reason.

    `groups`: rows to compare, by title, which may be empty.
    """
    dots = [dot for group in groups.values() for dot in group]
    style, scale = styles(dot.series for dot in dots), _scale([dot.value for dot in dots])
    rows = {
        title: [_row(dot, quantity, scale, style[dot.series]) for dot in group]
        for title, group in groups.items()
    }
    labels = axis(scale, quantity.format) if scale else Markup("")
    legend = [*_legend(dots, style)] if scale else []
    return interval_plot(about, quantity.title, labels, rows, legend)


def _scale(values: Sequence[Value]) -> Scale | None:
    """Return an axis that begins at zero; None without figures."""
    figures = [value.figure for value in values if value.figure]
    if not figures:
        return None
    inner = [end for interval in figures for end in (interval.estimate, *(interval.ends or ()))]
    measured = [value for value in values if value.figure]
    beside = [end for value in measured for end in (value.ceiling, value.published) if end]
    ends = [*inner, *(end for end in beside if end <= _REACH * max(inner))]
    return Scale(0.0, 1.06 * max(ends) or 1.0)


def _row(dot: FigureDot, quantity: Quantity, scale: Scale | None, style: int) -> ChartRow:
    value, drawn = dot.value, Markup("")
    if scale:
        above = []
        if value.ceiling is not None and scale.holds(value.ceiling):
            above.append(line("ceiling", scale.at(value.ceiling), scale.at(value.ceiling), 4, 22))
        if value.published is not None and scale.holds(value.published):
            above.append(mark(scale.at(value.published), 13, _DIAMOND))
        shape = _MARKS[style % len(_MARKS)].format("" if value.valid else " hollow")
        drawn = picture(scale, value.figure, shape, above=above)
    figure, interval = quantity.figure(value.figure), quantity.interval(value.figure)
    return ChartRow(
        dot.label, dot.href, f"s{style}", drawn, figure, interval, further(quantity, value)
    )


def _legend(dots: Sequence[FigureDot], style: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    if len(style) > 1 and {dot.label for dot in dots} != {*style}:
        for name, number in style.items():
            yield f"s{number}", name, mark("14", 7, _MARKS[number % len(_MARKS)].format(""))
    values = [dot.value for dot in dots]
    if any(value.figure and value.figure.ends for value in values):
        yield interval_key("launches")
    if any(value.ceiling for value in values):
        words = "ceiling: the most that arithmetic allows"
        yield "ceiling", words, '<line class="ceiling" x1="14" x2="14" y2="14"/>'
    if any(value.published for value in values):
        yield "published", "published, on another machine", mark("14", 7, _DIAMOND)
    if not all(value.valid for value in values):
        words = "flagged, or too few launches: not judged"
        yield "hollow", words, '<circle class="dot hollow" cx="14" cy="7" r="4.5"/>'


def further(quantity: Quantity, value: Value) -> str:
    """Write what else is known of a figure: its ceiling, the published one, a note."""
    parts = [
        f"{name} {quantity.format(figure)}"
        for name, figure in (("published", value.published), ("ceiling", value.ceiling))
        if figure is not None
    ]
    return "; ".join(filter(None, (*parts, value.remark)))


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One measured point and its link; `cut`: no line joins it to the point before."""

    x: float
    value: Value
    href: str = ""
    cut: bool = False


def plot(
    about: Caption,
    x: Quantity,
    y: Quantity,
    lines: Mapping[str, Sequence[PlotPoint]],
    *,
    names: Sequence[str] = (),
    log: bool = False,
    marks: Iterable[Mapping[str, Any]] = (),
) -> Markup:
    """Draw lines by name, which determines colour and marker, as data and as a table.

    `names` label x at 0, 1, 2 …. Without them x is a number, and the vertical axis begins at zero
    or is logarithmic.
    """
    style = styles(lines)
    rows = [
        (
            name,
            names[round(point.x)] if names else x.format(point.x),
            point.href,
            y.figure(point.value.figure),
            y.interval(point.value.figure),
            further(y, point.value),
        )
        for name, points in lines.items()
        for point in points
    ]
    model = {
        "x": {"title": x.title, "kind": "number", "names": list(names)},
        "y": {"title": y.title, "format": y.script, "log": log, "zero": not names},
        "series": [
            {"name": name, "slot": style[name], "points": [*map(_point, points)]}
            for name, points in lines.items()
        ],
        "marks": [*marks],
    }
    return figure(about, model, ("series", x.title), y.title, rows)


def _point(point: PlotPoint) -> dict[str, Any]:
    value, figure = point.value, point.value.figure
    fields = {
        "x": point.x,
        "mean": figure and figure.estimate,
        "low": figure and figure.low,
        "high": figure and figure.high,
        "hollow": not value.valid or None,
        "cut": point.cut or None,
        "note": value.remark or None,
        "href": point.href or None,
        "beside": value.published,
    }
    return {name: field for name, field in fields.items() if field is not None}


def figure(
    about: Caption,
    model: Mapping[str, Any],
    heads: Sequence[str],
    title: str,
    rows: Iterable[Sequence[str]],
    kind: str = "plot",
) -> Markup:
    """Make a figure that a script fills; a row is its words, a link, and a figure's cells.

    `kind`: a `plot` is drawn from the model; for a `trend`, the model says where the data are.
    """
    all_rows, words = list(rows), len(heads)
    return drawing(
        "plot.html.j2",
        about=about,
        kind=kind,
        model=model,
        heads=heads,
        title=title,
        rows=[(row[:words], row[words], row[words + 1 :]) for row in all_rows[:ROWS]],
        hidden=max(0, len(all_rows) - ROWS),
    )


def spark(values: Sequence[float | None], label: str) -> Markup:
    """Draw a series as a labelled line without axes; empty if it has fewer than two figures."""
    figures = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(figures) < 2:
        return Markup("")
    low, high = (end(value for _, value in figures) for end in (min, max))
    middle, span = (low + high) / 2, max(high - low, 0.02 * abs(high), 1e-12)
    points = [
        f"{3 + 114 * place / (len(values) - 1):.1f},{14 - 20 * (value - middle) / span:.1f}"
        for place, value in figures
    ]
    x, y = points[-1].split(",")
    return Markup(
        '<svg class="spark" viewBox="0 0 120 28" width="120" height="28" role="img" '
        'aria-label="{}"><polyline points="{}"/><circle cx="{}" cy="{}" r="2.5"/></svg>'
    ).format(label, " ".join(points), x, y)
