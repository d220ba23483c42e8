"""A page on a terminal, with rich: reads well from 100 columns on.

Everything is made a `Text`, since a plain string would be read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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

_ENDLESS: Final = 10_000  # columns
_MISSING_NAMED: Final = 3  # so many published cases that a run lacks are named, the rest counted
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
        for part in _section(section, console):
            console.print(part)


def _section(section: Section, console: Console) -> Iterator[RenderableType]:
    yield Text()
    yield Text(section.experiment, style="bold underline")
    if section.question:
        yield Text(section.question, style="italic")
    if section.source:
        yield Text(f"published: {section.source}", style="dim")
    for answer in section.answers:
        flags = f" [{', '.join(answer.flags)}]" if answer.flags else ""
        yield Text(f"→ {answer.text}{flags}", style="" if answer.measured else "dim")
    for table in section.tables:
        yield Text()
        yield Text(table.title, style="bold")
        yield from _fitting(table, console)
        for note in table.notes:
            yield _aside(note)
    if section.notes or section.missing:
        yield Text()
    for note in section.notes:
        yield _aside(note)
    if section.missing:
        named = ", ".join(section.missing[:_MISSING_NAMED])
        more = len(section.missing) - _MISSING_NAMED
        rest = f" and {more} more" if more > 0 else ""
        yield _aside(f"published, not in this run: {named}{rest}")
    if section.shapes:
        yield Text()
        yield Text("Does the published shape hold?", style="bold")
        measured = tuple(shape for shape in section.shapes if shape.verdict != "not measured")
        if measured:
            yield _shapes(measured)
        if left := len(section.shapes) - len(measured):
            yield _aside(
                f"{left} of {len(section.shapes)} statements: not measured, for lack of figures of "
                "their cases (--markdown says which)"
            )


def _aside(text: str) -> Padding:
    return Padding(Text(text, style="dim"), (0, 0, 0, 1))


def _fitting(table: Table, console: Console) -> Iterator[RenderableType]:
    """The table, in as many parts as the width asks for: no figure is ever cut or broken."""
    drawn = _table(table)
    columns = len(table.columns)
    # Measured on a line without end: what fits the console would only be cut to it.
    wanted = console.measure(drawn, options=console.options.update_width(_ENDLESS)).maximum
    if columns < 2 or wanted <= console.width:
        yield drawn
        return
    half = (columns + 1) // 2
    for part in (slice(None, half), slice(half, None)):
        if part.start:
            yield Text("… and further:", style="dim")
        rows = tuple(replace(row, cells=row.cells[part]) for row in table.rows)
        yield from _fitting(replace(table, columns=table.columns[part], rows=rows), console)


def _table(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    for key in table.keys:
        drawn.add_column(Text(key), no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for column in table.columns:
        drawn.add_column(Text(column), justify="right", no_wrap=True)
    marked = any(row.marks for row in table.rows)
    if marked:
        drawn.add_column("flags")
    for row in table.rows:
        drawn.add_row(
            *map(Text, row.keys),
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
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    drawn.add_column("statement", ratio=3, overflow="fold")
    for name in ("expected", "published", "ours"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("verdict", ratio=3, overflow="fold")
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
        cells = map(Text, (shape.statement, shape.expected, published, ours))
        drawn.add_row(*cells, verdict)
    return drawn
