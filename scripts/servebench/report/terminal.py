"""Runs and comparisons on a terminal, with rich: they read well from 100 columns on.

Everything is made a `Text`, since a plain string would be read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from servebench.declare import names
from servebench.record.comparison import Comparison, Verdict
from servebench.report import formats
from servebench.report.comparison import make_view
from servebench.report.rows import Grid

if TYPE_CHECKING:  # pages are made with numpy and jinja2; comparisons need neither
    from servebench.report.claims import ShapeResult
    from servebench.report.page import RunPage, Section
    from servebench.report.tables import FigureRow, FigureTable

_ENDLESS: Final = 10_000  # columns
_MISSING_NAMED: Final = 3  # so many published cases that a run lacks are named, the rest counted
_GLOSSARY: Final = Text(f"\nwhat the words mean: {formats.GLOSSARY}", style="dim")
_SPARE: Final = ("base → head", "samples", "could see")
"""Columns that are left out where the terminal is narrow, in this order."""
_STYLES: Final = {
    formats.MARKS[Verdict.SLOWER]: "bold dark_orange",
    formats.MARKS[Verdict.FASTER]: "bold dodger_blue1",
    "does not hold": "bold magenta",
    "not decided": "yellow",
    "not measured": "dim",
}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison."""
    view = make_view(comparison)
    console.print(Text(view.headline, style="bold"))
    for block in view.blocks:
        if block.name == "Cases":  # their names stand beside the ids
            continue
        title = ", ".join(filter(None, (block.under, block.title)))
        if title or block.kind == "legend":
            console.print()
        if title:
            console.print(Text(title, style="bold underline"))
        style = "" if block.name in {"events", "Next", "Commands"} else "dim"
        for name, line in block.lines:
            said = f"{name}: {line}" if name else line
            said = f"{line}  # {name}" if block.kind == "commands" else said
            # What is copied must not be broken.
            console.print(Text(f"  {said}", style=style), soft_wrap=True)
        if block.grid is not None:
            _grid(console, block.grid)
    console.print(_GLOSSARY)


def _grid(console: Console, found: Grid) -> None:
    """Rows below their first column, whose names are long; reasons stand below their rows."""
    reasons = [row[-1] if found.head[-1] == "why" else "" for row in found.rows]
    further = [name for name in found.head[1:] if name != "why"]
    columns = {
        name: [row[found.head.index(name)] for row in found.rows]
        for name in further
        if any(row[found.head.index(name)] not in {"", formats.MISSING} for row in found.rows)
    }
    widths = {name: max(map(cell_len, (name, *cells))) for name, cells in columns.items()}
    for name in _SPARE:
        if sum(widths.values()) + 2 * len(widths) <= console.width:
            break
        widths.pop(name, None)

    def printed(cells: Iterable[str], style: str = "") -> None:
        line = Text("  ")
        for cell, (name, width) in zip(cells, widths.items(), strict=True):
            shown = Text(cell, style=style or _STYLES.get(cell[:1], ""))
            shown.align("left" if name in found.words else "right", width)
            line += shown + Text("  ")
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ellipsis")

    printed(widths, "dim")
    above = ""
    for at, row in enumerate(found.rows):
        if row[0] != above:
            above = row[0]
            case = names.name(above)
            called = Text(f"  {case}" if case.known else "", style="dim")
            console.print(Text(above) + called, soft_wrap=True)
        printed(columns[name][at] for name in widths)
        if reasons[at]:
            console.print(Text(f"    {reasons[at]}", style="dim"), soft_wrap=True)


def print_page(console: Console, page: RunPage) -> None:
    """Print a run."""
    console.print(Text(page.title, style="bold"))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in page.facts:
        facts.add_row(name, Text(value))
    console.print(facts)
    for part in (part for section in page.sections for part in _section(section, console)):
        console.print(part)
    console.print(_GLOSSARY)


def _section(section: Section, console: Console) -> Iterator[RenderableType]:
    yield Text()
    yield Text(section.experiment, style="bold underline")
    if section.question:
        yield Text(section.question, style="italic")
    if section.source:
        yield Text(f"published: {section.source}", style="dim")
    for answer in section.answers:
        yield Text(f"→ {answer.text}{answer.flagged}", style="" if answer.measured else "dim")
    for table in section.tables:
        yield Text()
        yield Text(table.title, style="bold")
        yield from _fitting(table, console)
        yield from map(_aside, table.notes)
    if section.notes or section.missing:
        yield Text()
    yield from map(_aside, section.notes)
    if section.missing:
        named = formats.some(section.missing, _MISSING_NAMED)
        yield _aside(f"published, not in this run: {named}")
    if section.shapes:
        yield Text()
        yield Text("Does the published shape hold?", style="bold")
        if measured := [one for one in section.shapes if one.verdict != "not measured"]:
            yield _shapes(measured)
        if left := len(section.shapes) - len(measured):
            yield _aside(
                f"{left} of {len(section.shapes)} statements: not measured, for lack of figures of "
                "their cases (--markdown says which)"
            )


def _aside(text: str) -> Padding:
    return Padding(Text(text, style="dim"), (0, 0, 0, 1))


def _fitting(table: FigureTable, console: Console) -> Iterator[RenderableType]:
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


def _table(table: FigureTable) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    marked = any(row.marks for row in table.rows)
    for key in (*table.keys, ""):
        drawn.add_column(Text(key), no_wrap=True)
    for column in table.columns:
        drawn.add_column(Text(column), justify="right", no_wrap=True)
    if marked:
        drawn.add_column("flags")
    for row in table.rows:
        shown = [("ours", "95 %", "published")]
        shown += [(one.ours, one.interval, one.published or formats.MISSING) for one in row.cells]
        cells = [*map(Text, row.keys), *(_lines(row, *lines) for lines in shown)]
        drawn.add_row(*cells, *([row.marks] if marked else []))
    return drawn


def _lines(row: FigureRow, ours: str, interval: str, published: str) -> Text:
    text = Text(ours)
    if any(cell.interval for cell in row.cells):
        text.append(f"\n{interval}", style="dim")
    if row.has_published:
        text.append(f"\n{published}", style="cyan")
    return text


def _shapes(shapes: Sequence[ShapeResult]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    drawn.add_column("statement", ratio=3, overflow="fold")
    for name in ("expected", "published", "ours"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("verdict", ratio=3, overflow="fold")
    for shape in shapes:
        verdict = Text(shape.verdict, style=_STYLES.get(shape.verdict, "bold"))
        verdict.append(shape.told.removeprefix(shape.verdict), style="dim")
        ours = shape.figure.replace(" (", "\n").removesuffix(")")
        cells = (shape.statement, shape.expected, formats.ratio(shape.published), ours)
        drawn.add_row(*map(Text, cells), verdict)
    return drawn
