"""Runs and comparisons as Markdown. Everything that comes from a file is escaped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from duetbench.core.text import visible
from duetbench.show import formats
from duetbench.show.view import Block, make_view

if TYPE_CHECKING:  # pages are made with numpy and jinja2; Markdown alone needs neither
    from duetbench.show.page import RunPage, Section
    from duetbench.show.tables import FigureTable
    from duetbench.store.comparison import Comparison

LIMIT: Final = 60_000
"""Characters of a comparison's report. GitHub refuses comments above 65,536."""

WORDS: Final = f"<sub>What the words mean: `{formats.GLOSSARY}` of duetbench.</sub>\n"
"""The end of a report, where the address of no site is known."""

_ROOM: Final = 400  # for what is said of rows and blocks that were left out
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")
_FOLD_END: Final = "\n</details>\n\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, and a terminal too, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def grid(head: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are escaped here."""
    return "\n".join([_line(head), f"| {' | '.join(align)} |", *map(_line, rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as a list."""
    return "\n".join(f"- **{escape(name)}**: {escape(value)}" for name, value in rows)


def comparison(found: Comparison, *, limit: int = LIMIT, end: str = WORDS) -> str:
    """A comparison as a comment on a pull request, bounded by construction.

    A block that no longer fits loses its last rows, and says how many; one of which nothing fits is
    named at the end. The headline and the rows that got worse are there whatever the size.
    """
    view = make_view(found)
    text, lost = f"## {escape(view.headline)}\n\n", []
    for block in view.blocks:
        opening, lines, closing = _block(block)
        room = limit - len(text) - _ROOM - len(opening) - len(closing)
        kept = sum(size <= room for size in accumulate(map(len, lines)))
        if kept:
            left = len(lines) - kept
            more = f"\n… and {left} more, in the comparison's JSON.\n" if left else ""
            text += opening + "".join(lines[:kept]) + more + closing
        else:
            lost.append(block.name)
    if lost:
        text += f"Left out, for lack of room: {', '.join(dict.fromkeys(lost))}.\n\n"
    return text + end


def _block(block: Block) -> tuple[str, list[str], str]:
    """What stands before its lines, the lines, and what stands after them."""
    opening = f"### {block.under}\n\n" if block.under else ""
    if block.folded:
        opening += f"<details><summary>{block.title}</summary>\n\n"
    elif block.title:
        opening += f"### {block.title}\n\n"
    closing = _FOLD_END if block.folded else "\n"
    if block.grid is not None:
        opening += "".join(f"{escape(line)}\n\n" for _, line in block.lines)
        opening += grid(block.grid.head, block.grid.align, []) + "\n"
        return opening, [f"{_line(row)}\n" for row in block.grid.rows], closing
    if block.kind == "facts":
        return opening, [f"{facts(block.lines)}\n"], closing
    if block.kind == "legend":
        meanings = (f"**{name}**: {escape(meaning)}" for name, meaning in block.lines)
        return opening, [f"<sub>{'. '.join(meanings)}.</sub>\n"], closing
    if block.kind == "news":
        return opening, [f"> {escape(line)}\n\n" for _, line in block.lines], ""
    if block.kind == "commands":
        # Indented, not fenced: no text can close an indented block.
        told = (visible(f"# {what}\n{command}\n") for what, command in block.lines)
        return opening, [textwrap.indent(one, "    ") for one in told], closing
    named = (f"{escape(name)}: " if name else "" for name, _ in block.lines)
    lines = (escape(line) for _, line in block.lines)
    return opening, [f"- {n}{line}\n" for n, line in zip(named, lines, strict=True)], closing


def page(content: RunPage) -> str:
    """A whole run."""
    parts = [f"# {escape(content.title)}", facts(content.facts)]
    parts += [section_text(section) for section in content.sections]
    return "\n\n".join((*parts, WORDS))


def section_text(section: Section) -> str:
    """One experiment."""
    return "\n\n".join(_section(section))


def _section(section: Section) -> Iterator[str]:
    yield f"## {escape(section.experiment)}"
    if section.question:
        yield f"*{escape(section.question)}*"
    if section.source:
        yield f"Published: {escape(section.source)}."
    if section.answers:
        yield "\n".join(f"- {answer.text}{answer.flagged}" for answer in section.answers)
    for content in section.tables:
        yield f"### {escape(content.title)}"
        yield table(content)
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
            [one.statement, one.expected, formats.ratio(one.published), one.figure, one.told]
            for one in section.shapes
        )
        yield grid(head, ["---", "---:", "---:", "---:", "---"], rows)


def bullets(notes: Iterable[str]) -> str:
    """Sentences as a list."""
    return "\n".join(f"- {escape(note)}" for note in notes)


def table(content: FigureTable) -> str:
    """One table: a line of ours and a line of the published figures per row."""
    marked = any(row.marks for row in content.rows)
    head = [*content.keys, "", *content.columns, *(["flags"] if marked else [])]
    align = [*["---"] * (len(content.keys) + 1), *["---:"] * len(content.columns)]
    rows = []
    for row in content.rows:
        ours = [f"{one.ours} ({one.interval})" if one.interval else one.ours for one in row.cells]
        rows.append([*row.keys, "ours", *ours, *[row.marks] * marked])
        if row.has_published:
            theirs = [cell.published or formats.MISSING for cell in row.cells]
            rows.append([*[""] * len(row.keys), "published", *theirs, *[""] * marked])
    drawn = grid(head, align + ["---"] * marked, rows)
    return f"{drawn}\n\n{bullets(content.notes)}" if content.notes else drawn
