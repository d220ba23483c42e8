"""A page as Markdown. Everything that comes from a file is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from servebench.report import formats
from servebench.text import visible

if TYPE_CHECKING:  # pages are made with numpy and jinja2; Markdown alone needs neither
    from servebench.report.page import Page, Section
    from servebench.report.shapes import ShapeResult
    from servebench.report.tables import Row, Table

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, and a terminal too, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def page(content: Page) -> str:
    """A whole page."""
    parts = [f"# {escape(content.title)}", facts(content.facts)]
    parts += [section_text(section) for section in content.sections]
    return "\n\n".join(parts) + "\n"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as a list."""
    return "\n".join(f"- **{escape(name)}**: {escape(value)}" for name, value in rows)


def section_text(section: Section) -> str:
    """One experiment."""
    return "\n\n".join(_section(section))


def table(content: Table) -> str:
    """One table: a line of ours and a line of the published figures per row."""
    marked = any(row.marks for row in content.rows)
    head = [*content.keys, "", *content.columns, *(["flags"] if marked else [])]
    align = [*["---"] * (len(content.keys) + 1), *["---:"] * len(content.columns)]
    lines = [grid(head, align + ["---"] * marked, _table_rows(content.rows, marked=marked))]
    if content.notes:
        lines.append("\n".join(f"- {escape(note)}" for note in content.notes))
    return "\n\n".join(lines)


def grid(head: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are escaped here."""
    lines = [_line(map(escape, head)), _line(align)]
    lines += [_line(map(escape, row)) for row in rows]
    return "\n".join(lines)


def shape_rows(shapes: Iterable[ShapeResult]) -> Iterator[list[str]]:
    """Rows of the table of shapes."""
    for shape in shapes:
        published = formats.MISSING if shape.published is None else formats.ratio(shape.published)
        yield [shape.statement, shape.expected, published, *shape_cells(shape)]


def shape_cells(shape: ShapeResult) -> tuple[str, str]:
    """A shape's figure with interval, and its verdict with reason and flags."""
    ours = formats.MISSING
    if shape.ours is not None:
        interval = formats.ratio_interval(shape.ours)
        ours = formats.ratio(shape.ours.mean) + (f" ({interval})" if interval else "")
    verdict: str = shape.verdict
    if shape.reason:
        verdict += f": {shape.reason}"
    if shape.flags:
        verdict += f" [{', '.join(shape.flags)}]"
    return ours, verdict


def _section(section: Section) -> Iterator[str]:
    yield f"## {escape(section.experiment)}"
    if section.question:
        yield f"*{escape(section.question)}*"
    if section.source:
        yield f"Published: {escape(section.source)}."
    if section.answers:
        yield "\n".join(
            f"- {answer.text}" + (f" [{', '.join(answer.flags)}]" if answer.flags else "")
            for answer in section.answers
        )
    for content in section.tables:
        yield f"### {escape(content.title)}"
        yield table(content)
    if section.notes:
        yield "\n".join(f"- {escape(note)}" for note in section.notes)
    if section.deviations:
        yield "Deviations from the source:"
        yield "\n".join(f"- {escape(text)}" for text in section.deviations)
    if section.missing:
        yield f"Published, not in this run: {escape(', '.join(section.missing))}"
    if section.shapes:
        yield "### Does the published shape hold?"
        yield grid(
            ["statement", "expected", "published", "ours", "verdict"],
            ["---", "---:", "---:", "---:", "---"],
            shape_rows(section.shapes),
        )


def _table_rows(rows: Iterable[Row], *, marked: bool) -> Iterator[list[str]]:
    for row in rows:
        marks = [row.marks] if marked else []
        ours = [
            cell.ours + (f" ({cell.interval})" if cell.interval else "") for cell in row.cells
        ]  # fmt: skip
        yield [*row.keys, "ours", *ours, *marks]
        if row.has_published:
            theirs = [cell.published or formats.MISSING for cell in row.cells]
            yield [*[""] * len(row.keys), "published", *theirs, *[""] * marked]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
