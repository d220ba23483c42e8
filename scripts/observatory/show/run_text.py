"""A run, on a terminal and in Markdown.

On a terminal all text is made a `Text`, since rich reads a plain string as markup.
"""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from duetbench.core.metrics import row as row_of
from duetbench.host.console import duration
from duetbench.report import formats
from duetbench.report.formats import GLOSSARY, WORDS, escape, facts, grid, print_rows
from observatory.show.run_view import (
    ANSWERED,
    Cell,
    FigureTable,
    RunPage,
    Section,
    answer_table,
    ratio,
)
from observatory.store.points import Points


def print_page(console: Console, content: RunPage) -> None:
    """Print a run: a line per figure, which fits any terminal."""
    console.print(Text(content.title, style="bold"))
    for name, value in content.facts:
        console.print(Text.assemble((f"{name}  ", "dim"), value))
    for section in content.sections:
        console.print(Text(f"\n{section.experiment}", style="bold underline"))
        console.print(Text(section.question, style="italic"))
        if section.source:
            console.print(Text(f"published: {section.source}", style="dim"))
        for answer in section.answers:
            console.print(Text(answer.sentence, style="bold" if answer.verdict in ANSWERED else ""))
            expected = f"expected {answer.expected}, published {ratio(answer.published)}"
            console.print(Text("; ".join(filter(None, (expected, answer.reason))), style="dim"))
        for table in section.tables:
            console.print(Text(f"\n{table.title}", style="bold"))
            print_rows(console, ["case", "metric", "ours", "95 %", "published"], _lines(table))
            for note in table.notes:
                console.print(Text(note, style="dim"))
        for note in section.notes:
            console.print(Text(note, style="dim"))
    console.print(GLOSSARY)


def _lines(table: FigureTable) -> Iterator[tuple[str, ...]]:
    for row in table.rows:
        name = " ".join(row.keys)
        for column, cell in zip(table.columns, row.cells, strict=True):
            yield name, column, cell.ours, cell.interval, cell.published
        if row.marks:
            yield name, table.marks, row.marks, "", ""


def as_markdown(content: RunPage) -> str:
    """Write a whole run as Markdown."""
    parts = [f"# {escape(content.title)}", facts(content.facts)]
    parts += ["\n\n".join(_paragraphs(section)) for section in content.sections]
    return "\n\n".join((*parts, WORDS))


def _paragraphs(section: Section) -> Iterator[str]:
    yield from write_head(section.experiment, section)
    statements = answer_table(section.answers, published=bool(section.source))
    for content in (statements, *section.tables):
        if content.rows:
            yield f"### {escape(content.title)}"
            yield from write_table(content)
    if section.notes:
        yield facts(("", note) for note in section.notes)


def write_head(name: str, section: Section) -> Iterator[str]:
    """Write an experiment's heading, its question and its source."""
    yield f"## {escape(name)}"
    question = f"*{escape(section.question)}*" if section.question else ""
    source = f"Published: {escape(section.source)}." if section.source else ""
    if question or source:
        yield " ".join(filter(None, (question, source)))


def write_table(content: FigureTable) -> Iterator[str]:
    """Write one table; a published figure follows the measured one."""
    marked = [content.marks] * content.marked
    head = [*content.keys, *content.columns, *marked]
    align = [*["---"] * len(content.keys), *["---:"] * len(content.columns), *["---"] * len(marked)]
    rows = ([*row.keys, *map(_cell, row.cells), *[row.marks] * len(marked)] for row in content.rows)
    yield grid(head, align, rows)
    if content.notes:
        yield facts(("", note) for note in content.notes)


def _cell(cell: Cell) -> str:
    ours = f"{cell.ours} ({cell.interval})" if cell.interval else cell.ours
    return f"{ours}; published {cell.published}" if cell.published else ours


def print_points(console: Console, points: Points) -> None:
    """Print each case of anchored points with its intervals."""
    took = duration(points.seconds)
    text = f"{points.label} against the anchor {points.anchor}, {took}"
    console.print(Text(text), soft_wrap=True)
    rows = [
        (
            case.case,
            row_of(point.metric).title,
            formats.change(point.interval),
            formats.ends(point.interval),
        )
        for case in points.cases
        for point in case.points
    ]
    if rows:
        formats.print_rows(console, ("case", "metric", "change", "95 % sure"), rows)
    for missing in points.missing:
        console.print(Text(f"{missing.case}: no point: {missing.reason}"), soft_wrap=True)
