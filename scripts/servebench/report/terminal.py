"""A page on a terminal, with rich: reads well from 100 columns on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from servebench.report import formats
from servebench.report.page import Page, Section
from servebench.report.shapes import ShapeResult
from servebench.report.tables import Cell, Row, Table

_VERDICT_STYLES: Final = {
    "holds": "bold",
    "does not hold": "bold magenta",
    "not decided": "yellow",
    "not measured": "dim",
}


def print_page(console: Console, page: Page) -> None:
    """Print a whole page."""
    console.print(Text(page.title, style="bold"))
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in page.facts:
        facts.add_row(name, Text(value))
    console.print(facts)
    for section in page.sections:
        for part in _section(section):
            console.print(part)


def _section(section: Section) -> Iterator[RenderableType]:
    yield Text()
    yield Text(section.experiment, style="bold underline")
    if section.question:
        yield Text(section.question, style="italic")
    if section.source:
        yield Text(f"published: {section.source}", style="dim")
    for table in section.tables:
        yield Text()
        yield _table(table)
        for note in table.notes:
            yield Padding(Text(note, style="dim"), (0, 0, 0, 1))
    for note in section.notes:
        yield Padding(Text(note, style="dim"), (0, 0, 0, 1))
    if section.missing:
        names = ", ".join(section.missing)
        yield Padding(Text(f"published, not in this run: {names}", style="dim"), (0, 0, 0, 1))
    if section.shapes:
        yield Text()
        yield _shapes(section.shapes)
    for answer in section.answers:
        flags = f" [{', '.join(answer.flags)}]" if answer.flags else ""
        yield Text(f"→ {answer.text}{flags}", style="" if answer.measured else "dim")


def _table(table: Table) -> RichTable:
    drawn = RichTable(
        title=table.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        show_edge=False,
    )
    for key in table.keys:
        drawn.add_column(key, overflow="fold")
    drawn.add_column("")
    for column in table.columns:
        drawn.add_column(column, justify="right")
    marked = any(row.marks for row in table.rows)
    if marked:
        drawn.add_column("flags")
    for row in table.rows:
        drawn.add_row(
            *row.keys,
            _labels(row),
            *(_cell(cell, row) for cell in row.cells),
            *((row.marks,) if marked else ()),
        )
    return drawn


def _labels(row: Row) -> Text:
    """The names of the lines in a row's cells: ours, its interval, the published figure."""
    labels = Text("ours")
    if _has_intervals(row):
        labels.append("\n95 %", style="dim")
    if row.has_published:
        labels.append("\npublished", style="cyan")
    return labels


def _cell(cell: Cell, row: Row) -> Text:
    text = Text(cell.ours, style="")
    if _has_intervals(row):
        text.append(f"\n{cell.interval}", style="dim")
    if row.has_published:
        text.append(f"\n{cell.published or formats.MISSING}", style="cyan")
    return text


def _has_intervals(row: Row) -> bool:
    return any(cell.interval for cell in row.cells)


def _shapes(shapes: tuple[ShapeResult, ...]) -> RichTable:
    drawn = RichTable(
        title="Does the published shape hold?",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    drawn.add_column("statement", ratio=3)
    for name in ("expected", "published", "ours"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("verdict", ratio=2)
    for shape in shapes:
        ours = formats.MISSING
        if shape.ours is not None:
            ours = formats.ratio(shape.ours.mean)
            if interval := formats.ratio_interval(shape.ours):
                ours += f"\n{interval}"
        verdict = Text(shape.verdict, style=_VERDICT_STYLES[shape.verdict])
        if shape.reason:
            verdict.append(f": {shape.reason}", style="dim")
        if shape.flags:
            verdict.append(f" [{', '.join(shape.flags)}]", style="dim")
        published = formats.MISSING if shape.published is None else formats.ratio(shape.published)
        drawn.add_row(shape.statement, shape.expected, published, ours, verdict)
    return drawn
