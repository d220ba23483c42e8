"""A chart as HTML: caption, legend, two drawings, notes, and the data as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import jinja2
from markupsafe import Markup

from servebench.site.charts import shapes, text, written
from servebench.site.charts.data import About, Link, Quantity, Value, interval
from servebench.site.charts.shapes import Drawing, Shape

Kind = Literal["bars", "lines", "heat", "forest", "trend"]
Cell = str | Link
Fitting = Literal["wide", "narrow", "any", "spark"]

VALUE_HEAD: Final = ("figure", "95 % interval", "ceiling", "published", "note")
"""Columns of a `Value`: see `value_cells`."""
ROWS: Final = 150
"""Most rows of a table; the rest is counted, and in the page's downloads."""


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: what is drawn (in a box of 28 × 14 px), and what it is."""

    label: str
    shapes: tuple[Shape, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The data of a chart.

    Attributes:
        head: Column headings.
        rows: Cells, as many in each row as there are headings.
        words: So many leading columns are words; the others are figures, aligned to the right,
            but for the headings in `prose`.
        hidden: Rows that were left out.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: int = 1
    hidden: int = 0
    prose: tuple[str, ...] = ("note", "what happened")

    def is_number(self, column: int) -> bool:
        """Whether a column holds figures."""
        return column >= self.words and self.head[column] not in self.prose


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, drawn, ready to be written."""

    about: About
    kind: Kind
    wide: Drawing
    narrow: Drawing
    table: Table
    legend: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()


def figure(chart: Chart) -> str:
    """The chart as a `<figure>`."""
    numbers = [chart.table.is_number(column) for column in range(len(chart.table.head))]
    template = _environment().get_template("figure.html.j2")
    return template.render(
        chart=chart,
        legend=[(key, _markup("".join(map(written.shape, key.shapes)))) for key in chart.legend],
        drawings=[
            _markup(written.svg(drawing, chart.about.title, fitting))
            for drawing, fitting in ((chart.wide, "wide"), (chart.narrow, "narrow"))
        ],
        rows=_markup(written.rows(chart.table.rows, numbers)),
    )


def svg(drawing: Drawing, label: str, fitting: Fitting = "any") -> str:
    """One drawing as an `<svg>` of its own; colours come from the page's stylesheet."""
    return written.svg(drawing, label, fitting)


def stylesheet() -> str:
    """The part of the site's stylesheet that charts need."""
    return Path(__file__).with_name("charts.css").read_text("utf-8")


def empty(width: float, sentence: str) -> Drawing:
    """What is drawn when there is nothing to draw."""
    height = 72.0
    label = text.fit(sentence, width - 24)
    return Drawing(
        width,
        height,
        (
            shapes.Rect("nothing", 0.5, 0.5, width - 1, height - 1),
            shapes.Text("faint", width / 2, height / 2 + 4, label, "middle"),
        ),
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[Cell]], words: int = 1, hidden: int = 0
) -> Table:
    """A table without the columns that are empty in every row; at most `ROWS` rows.

    Args:
        head: Column headings.
        rows: Cells.
        words: So many leading columns are words.
        hidden: Rows that were left out before.
    """
    found = [tuple(row) for row in rows]
    kept = [
        column
        for column in range(len(head))
        if not found or any(row[column] for row in found)
    ]  # fmt: skip
    return Table(
        head=tuple(head[column] for column in kept),
        rows=tuple(tuple(row[column] for column in kept) for row in found[:ROWS]),
        words=sum(column < words for column in kept),
        hidden=hidden + max(0, len(found) - ROWS),
    )


def value_cells(quantity: Quantity, value: Value) -> tuple[str, ...]:
    """Cells of a figure for the columns of `VALUE_HEAD`."""
    notes = [] if value.valid or value.mean is None else ["not judged"]
    return (
        "—" if value.mean is None else quantity.format(value.mean),
        interval(quantity, value),
        "" if value.ceiling is None else quantity.format(value.ceiling),
        "" if value.published is None else quantity.format(value.published),
        ": ".join([*notes, *([value.note] if value.note else [])]),
    )


def linked(label: str, href: str) -> Cell:
    """A cell that leads somewhere if there is an address."""
    return Link(label, href) if href else label


def _markup(made: str) -> Markup:
    return Markup(made)  # noqa: S704 - `written` escapes


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("servebench.site.charts", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )


def _finalize(value: object) -> object:
    """Text without what HTML forbids. Escaping comes after this."""
    # Not `isinstance`: markup is a str too, and is clean already.
    return text.clean(value) if type(value) is str else value
