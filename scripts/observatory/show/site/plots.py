"""Line charts: chart.js draws them from the JSON in the page; tables show their figures. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from duetbench.show.html.charts import Caption, Quantity, Value, further, styles
from observatory.show.site.words import drawing

ROWS: Final = 150
"""Most rows of the table below a line chart; the data file has all figures."""


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
            y.format(point.value.figure.estimate) if point.value.figure else "—",
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
