"""A run on a terminal and in Markdown: figures beside the published ones, answers and statements.

On a terminal everything is made a `Text`, since a plain string would be read as markup.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from duetbench.core.metrics import METRICS
from duetbench.core.text import short
from duetbench.project import names
from duetbench.show import formats
from duetbench.show.claims import ShapeResult
from duetbench.show.layout import (
    GLOSSARY,
    MOST,
    WORDS,
    TextLine,
    bullets,
    escape,
    facts,
    grid,
    print_lines,
)
from duetbench.show.page import FigureRow, FigureTable, RunPage, Section
from duetbench.trend.summary import CaseSummary, RunSummary

_ENDLESS: Final = 10_000  # columns
_MISSING_NAMED: Final = 3  # so many published cases that a run lacks are named, the rest counted
_FIGURES: Final = 3  # of a case that stand in its line
_REASON: Final = 120  # letters of a failure; the details have all
_STYLES: Final = {
    "does not hold": "bold magenta",
    "not decided": "yellow",
    "not measured": "dim",
}


def print_cases(console: Console, summary: RunSummary) -> None:
    """Print a line per case of a run: its headline figures with their intervals, or why not."""
    cases = [*summary.cases.values()]
    requests = names.requests(case.case for case in cases)
    wanted = {name for case in cases for name, figure in case.metrics.items() if figure.estimate}
    headline = sorted(
        (name for name in wanted if METRICS[name].rank is not None),
        key=lambda name: METRICS[name].rank or 0,
    )[:_FIGURES]
    lines = [
        TextLine(
            requests.get(case.id, case.id), [_figure(case, name) for name in headline], _state(case)
        )
        for case in cases[:MOST]
    ]
    titles = [formats.title(name) for name in headline]
    print_lines(console, lines, range(_FIGURES), TextLine("", titles, "state"))
    if (left := len(cases) - MOST) > 0:
        console.print(Text(f"… and {formats.quantity(left, 'more case')}", style="dim"))


def _figure(case: CaseSummary, metric: str) -> str:
    figure = case.metrics.get(metric)
    within = formats.interval(metric, figure)
    return " ".join(
        filter(None, (formats.figure(metric, figure.estimate if figure else None), within))
    )


def _state(case: CaseSummary) -> str:
    if case.failures:
        failed = f"✕ {len(case.failures)} of {case.expected} failed: {case.failures[0].reason}"
        return short(failed, _REASON)
    warned = ", ".join(flag.name for flag in case.warnings)
    return f"{case.status}{f' ({warned})' if warned else ''}"


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
    console.print(GLOSSARY)


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
        names = formats.some(section.missing, _MISSING_NAMED)
        yield _aside(f"published, not in this run: {names}")
    if section.shapes:
        yield Text()
        yield Text("Does the published shape hold?", style="bold")
        if measured := [shape for shape in section.shapes if shape.verdict != "not measured"]:
            yield _shapes(measured)
        if left := len(section.shapes) - len(measured):
            yield _aside(
                f"{left} of {len(section.shapes)} statements: not measured, for lack of figures of "
                "their cases (--markdown says which)"
            )


def _aside(text: str) -> Padding:
    return Padding(Text(text, style="dim"), (0, 0, 0, 1))


def _fitting(table: FigureTable, console: Console) -> Iterator[RenderableType]:
    """Draw the table in as many parts as the width needs: no figure is ever cut or broken."""
    drawn = _table(table)
    columns = len(table.columns)
    # Measured without a limit: otherwise it is the width of the console at most.
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
        lines = [("ours", "95 %", "published")]
        lines += [
            (cell.ours, cell.interval, cell.published or formats.MISSING) for cell in row.cells
        ]
        cells = [*map(Text, row.keys), *(_lines(row, *texts) for texts in lines)]
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
        verdict.append(shape.text.removeprefix(shape.verdict), style="dim")
        ours = shape.figure.replace(" (", "\n").removesuffix(")")
        cells = (shape.statement, shape.expected, formats.ratio(shape.published), ours)
        drawn.add_row(*map(Text, cells), verdict)
    return drawn


def as_markdown(content: RunPage) -> str:
    """A whole run as Markdown."""
    parts = [f"# {escape(content.title)}", facts(content.facts)]
    parts += [section_text(section) for section in content.sections]
    return "\n\n".join((*parts, WORDS))


def section_text(section: Section) -> str:
    """One experiment as Markdown."""
    return "\n\n".join(_paragraphs(section))


def _paragraphs(section: Section) -> Iterator[str]:
    yield f"## {escape(section.experiment)}"
    if section.question:
        yield f"*{escape(section.question)}*"
    if section.source:
        yield f"Published: {escape(section.source)}."
    if section.answers:
        yield "\n".join(f"- {answer.text}{answer.flagged}" for answer in section.answers)
    for content in section.tables:
        yield f"### {escape(content.title)}"
        yield table_text(content)
    if section.notes:
        yield bullets(section.notes)
    if section.deviations:
        yield "Deviations from the source:"
        yield bullets(section.deviations)
    if section.missing:
        yield f"Published, not in this run: {escape(', '.join(section.missing))}"
    if section.shapes:
        yield "### Does the published shape hold?"
        head = ["statement", "expected", "published", "ours", "verdict"]
        rows = (
            [
                shape.statement,
                shape.expected,
                formats.ratio(shape.published),
                shape.figure,
                shape.text,
            ]
            for shape in section.shapes
        )
        yield grid(head, ["---", "---:", "---:", "---:", "---"], rows)


def table_text(content: FigureTable) -> str:
    """One table: a line of ours and a line of the published figures per row."""
    marked = any(row.marks for row in content.rows)
    head = [*content.keys, "", *content.columns, *(["flags"] if marked else [])]
    align = [*["---"] * (len(content.keys) + 1), *["---:"] * len(content.columns)]
    rows = []
    for row in content.rows:
        ours = [
            f"{cell.ours} ({cell.interval})" if cell.interval else cell.ours for cell in row.cells
        ]
        rows.append([*row.keys, "ours", *ours, *[row.marks] * marked])
        if row.has_published:
            theirs = [cell.published or formats.MISSING for cell in row.cells]
            rows.append([*[""] * len(row.keys), "published", *theirs, *[""] * marked])
    drawn = grid(head, align + ["---"] * marked, rows)
    return f"{drawn}\n\n{bullets(content.notes)}" if content.notes else drawn
