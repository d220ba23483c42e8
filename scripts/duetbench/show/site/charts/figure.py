"""A chart as HTML: caption, legend, its drawings or its grid, notes, and the data as a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import jinja2
from markupsafe import Markup

from duetbench.core.text import clean
from duetbench.show.site.charts import svg
from duetbench.show.site.charts.data import Caption, Link, Quantity, Value, interval
from duetbench.show.site.charts.legend import LegendKey
from duetbench.show.site.charts.svg import Drawing

Kind = Literal["forest", "lines", "heat", "trend", "flame"]
Cell = str | Link

VALUE_HEAD: Final = ("figure", "95 % interval", "ceiling", "published", "note")
"""Columns of a `Value`: see `value_cells`."""
ROWS: Final = 150
"""Most rows of a table; the rest is counted, and in the page's downloads."""
_PROSE: Final = ("note", "what happened")


@dataclass(frozen=True, slots=True)
class ChartData:
    """The data of a chart as a table.

    Attributes:
        words: So many leading columns are words; the others are figures, but for notes.
        hidden: Rows that were left out.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: int = 1
    hidden: int = 0

    @property
    def numbers(self) -> list[bool]:
        return [at >= self.words and name not in _PROSE for at, name in enumerate(self.head)]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, drawn, ready to be written.

    Attributes:
        drawings: For wide and for narrow pages (`charts.css` shows the one that fits); none where
            there is nothing to draw, which a note says.
        grid: HTML in the place of drawings.
    """

    about: Caption
    kind: Kind
    table: ChartData
    drawings: tuple[Drawing, ...] = ()
    legend: tuple[LegendKey, ...] = ()
    notes: tuple[str, ...] = ()
    grid: str = ""

    @property
    def wide(self) -> Drawing:
        return self.drawings[0]

    @property
    def narrow(self) -> Drawing:
        return self.drawings[1]


def figure(chart: Chart) -> str:
    """The chart as a `<figure>`."""
    sizes = zip(chart.drawings, ("wide", "narrow"), strict=False)
    drawn = (svg.written(drawing, chart.about.title, fitting) for drawing, fitting in sizes)
    return (
        environment("duetbench.show.site.charts", ".")
        .get_template("figure.html.j2")
        .render(
            chart=chart,
            legend=[(key, _markup("".join(map(svg.shape, key.shapes)))) for key in chart.legend],
            plot=_markup(chart.grid or "\n".join(drawn)),
            numbers=chart.table.numbers,
            rows=_markup(svg.rows(chart.table.rows, chart.table.numbers)),
        )
    )


def stylesheet() -> str:
    """The part of the site's stylesheet that charts need."""
    return Path(__file__).with_name("charts.css").read_text("utf-8")


def table(
    head: Sequence[str], rows: Iterable[Sequence[Cell]], words: int = 1, hidden: int = 0
) -> ChartData:
    """A table without the columns that are empty in every row; at most `ROWS` rows."""
    found = [tuple(row) for row in rows]
    kept = [at for at in range(len(head)) if not found or any(row[at] for row in found)]
    return ChartData(
        head=tuple(head[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in found[:ROWS]),
        words=sum(at < words for at in kept),
        hidden=hidden + max(0, len(found) - ROWS),
    )


def value_cells(quantity: Quantity, value: Value) -> tuple[str, ...]:
    """Cells of a figure for the columns of `VALUE_HEAD`."""
    doubt = "" if value.valid or value.mean is None else "not judged"
    return (
        "—" if value.mean is None else quantity.format(value.mean),
        interval(quantity, value),
        "" if value.ceiling is None else quantity.format(value.ceiling),
        "" if value.published is None else quantity.format(value.published),
        ": ".join(filter(None, (doubt, value.note))),
    )


def linked(label: str, href: str) -> Cell:
    """A cell that leads somewhere if there is an address."""
    return Link(label, href) if href else label


def _markup(made: str) -> Markup:
    return Markup(made)  # noqa: S704 - `svg` escapes


@cache
def environment(package: str, folder: str) -> jinja2.Environment:
    """Templates of a package, whose values are cleaned and escaped."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Not `isinstance`: markup is a str too, and is clean already.
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
