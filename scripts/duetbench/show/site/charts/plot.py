"""Charts that the browser draws: lines over time, over something that was varied, over releases.

The page holds the figures as JSON, which `chart.js` draws, and below them as a table. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from markupsafe import Markup

from duetbench.show.site.charts.figure import (
    STYLES,
    Caption,
    Quantity,
    Value,
    assign,
    interval,
    note,
)
from duetbench.show.site.words import drawing

ROWS: Final = 150
"""Most rows of the table below; all figures are in the data."""


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One measured point; `label` names it in place of its x."""

    x: float
    value: Value
    label: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One line: its name gives colour and marker; its variant (`p50`, `p99`), if any, the dash."""

    name: str
    points: tuple[PlotPoint, ...]
    variant: str = ""

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.name, self.variant)))


@dataclass(frozen=True, slots=True)
class Plot:
    """A whole chart of lines.

    Attributes:
        names: What stands at 0, 1, 2 … of x; empty: x is a number.
        log: Logarithmic upright axis.
        styles: Names of series that look the same on every page, and their styles.
        zero: Whether the upright axis begins at zero; otherwise it is where figures are.
    """

    about: Caption
    x: Quantity
    y: Quantity
    series: tuple[PlotSeries, ...]
    names: tuple[str, ...] = ()
    log: bool = False
    zero: bool = True
    styles: Mapping[str, int] = field(default_factory=dict)

    @property
    def figures(self) -> int:
        """How many points can be drawn."""
        return sum(point.value.mean is not None for line in self.series for point in line.points)


def plot(data: Plot) -> Markup:
    """The chart with its data for the script, and as a table."""
    rows = [
        (line.title, point.label or _place(data, point.x), point.href, *cells(data.y, point.value))
        for line in data.series
        for point in line.points
    ]
    return figure(data.about, _model(data), ("series", data.x.title), data.y.title, rows)


def figure(
    about: Caption,
    model: dict[str, Any],
    heads: Sequence[str],
    title: str,
    rows: Iterable[Sequence[str]],
    kind: str = "plot",
) -> Markup:
    """A figure that a script fills; a row has its words, an address, and the cells of a figure.

    `kind`: `plot`: the model is drawn as it is; `trend`: it is where a trend's data are.
    """
    every = list(rows)
    words = len(heads)
    return drawing(
        "plot.html.j2",
        about=about,
        kind=kind,
        model=model,
        heads=heads,
        title=title,
        rows=[(row[:words], row[words], row[words + 1 :]) for row in every[:ROWS]],
        hidden=max(0, len(every) - ROWS),
    )


def cells(quantity: Quantity, value: Value) -> tuple[str, str, str]:
    """Figure, interval and note of a row."""
    written = "—" if value.mean is None else quantity.format(value.mean)
    published = "" if value.published is None else f"published {quantity.format(value.published)}"
    return written, interval(quantity, value), "; ".join(filter(None, (published, note(value))))


def _place(data: Plot, x: float) -> str:
    return data.names[round(x)] if data.names else data.x.format(x)


def _model(data: Plot) -> dict[str, Any]:
    slots = list(_slots(data))
    return {
        "x": {"title": data.x.title, "kind": "number", "names": list(data.names)},
        "y": {
            "title": data.y.title,
            "format": data.y.script,
            "log": data.log,
            "zero": data.zero,
        },
        "series": [
            {
                "name": line.title,
                "slot": slot,
                "points": [_point(point) for point in line.points],
            }
            for line, slot in zip(data.series, slots, strict=True)
        ],
        "marks": [],
    }


def _slots(data: Plot) -> Iterator[int]:
    """The style of each series: the name gives the colour, of several variants each its dash."""
    slots = assign((line.name for line in data.series), data.styles)
    variants = list(dict.fromkeys(line.variant for line in data.series))
    for line in data.series:
        yield (slots[line.name] + variants.index(line.variant) * STYLES // 2) % STYLES


def _point(point: PlotPoint) -> dict[str, Any]:
    value = point.value
    fields = {
        "x": point.x,
        "mean": value.mean,
        "low": value.low,
        "high": value.high,
        "hollow": not value.valid,
        "note": note(value),
        "label": point.label,
        "href": point.href,
        "beside": value.published,
    }
    return {
        name: field
        for name, field in fields.items()
        if field or (field == 0.0 and field is not False)
    }


SPARK: Final = (120, 28)
"""Width and height of a sparkline, px."""


def spark(values: Sequence[float | None], describe: Callable[[int], str]) -> Markup:
    """A series as a line without axes; empty for fewer than two figures.

    `describe`: What is said of a line of so many figures.
    """
    figures = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(figures) < 2:
        return Markup("")
    width, height = SPARK
    low, high = (end(value for _, value in figures) for end in (min, max))
    middle, span = (low + high) / 2, max(high - low, 0.02 * abs(high), 1e-12)
    points = [
        f"{3 + (width - 6) * place / (len(values) - 1):.1f},"
        f"{height / 2 - (height - 8) * (value - middle) / span:.1f}"
        for place, value in figures
    ]
    x, y = points[-1].split(",")
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        '<polyline points="{}"/><circle cx="{}" cy="{}" r="2.5"/></svg>'
    ).format(width, height, width, height, describe(len(figures)), " ".join(points), x, y)
