"""A run, on a terminal and in Markdown.

On a terminal all text is made a `Text`, since rich reads a plain string as markup.
"""

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.project import case_names
from duetbench.show import formats
from duetbench.show.formats import GLOSSARY, MOST, WORDS, bullets, escape, facts, grid, print_rows
from duetbench.show.run_view import ANSWERED, Cell, FigureTable, RunPage, Section, answer_table
from duetbench.trend.summary import CaseSummary, RunSummary

_FIGURES: Final = 3  # figures in a case's line


def print_cases(console: Console, summary: RunSummary) -> None:
    """Print a line per case of a run: its headline figures with their intervals, or why not."""
    cases = [*summary.cases.values()]
    requests = case_names.requests(case.case for case in cases)
    present = {name for case in cases for name, figure in case.metrics.items() if figure.estimate}
    ranks = {name: row.rank for name, row in METRICS.items() if row.rank is not None}
    headline = sorted(present & {*ranks}, key=lambda name: ranks[name])[:_FIGURES]
    rows = [
        [requests.get(case.id, case.id), *(_figure(case, name) for name in headline), _state(case)]
        for case in cases[:MOST]
    ]
    print_rows(console, ["case", *map(formats.noun, headline), "state"], rows)
    if (left := len(cases) - MOST) > 0:
        console.print(Text(f"… and {formats.quantity(left, 'more case')}", style="dim"))


def _figure(case: CaseSummary, metric: str) -> str:
    figure = case.metrics.get(metric)
    ours = formats.figure(metric, figure.estimate if figure else None)
    return f"{ours} {formats.interval(metric, figure)}".rstrip()


def _state(case: CaseSummary) -> str:
    if case.failures:
        return f"✕ {len(case.failures)} of {case.expected} failed: {case.failures[0].reason}"
    # One launch is what was asked for: its figures have no interval, which shows.
    flags = [flag.name for flag in case.warnings]
    asked = {FlagName.FEW_LAUNCHES} if case.expected == 1 else set()
    warned = ", ".join(flag for flag in flags if flag not in asked)
    return f"{case.status} ({warned})" if warned else case.status


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
            expected = f"expected {answer.expected}, published {formats.ratio(answer.published)}"
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
        yield bullets(section.notes)


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
        yield bullets(content.notes)


def _cell(cell: Cell) -> str:
    ours = f"{cell.ours} ({cell.interval})" if cell.interval else cell.ours
    return f"{ours}; published {cell.published}" if cell.published else ours
