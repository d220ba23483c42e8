"""Elements of reports: tables and lists in Markdown, aligned lines on a terminal.

Text from files is escaped in Markdown; on a terminal everything is made a `Text`, since a plain
string would be read as markup.
"""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from duetbench.core.model import Verdict
from duetbench.core.text import ASCII, visible
from duetbench.show import formats

WORDS: Final = f"<sub>What the words mean: `{formats.GLOSSARY}` of duetbench.</sub>\n"
"""The end of a report, where the address of no site is known."""

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: str) -> str:
    """Escape text so that Markdown and terminals show it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def grid(head: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join([row(head), f"| {' | '.join(align)} |", *map(row, rows)])


def row(cells: Iterable[str]) -> str:
    """A line of a table; cells are escaped here."""
    return f"| {' | '.join(map(escape, cells))} |"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as a list."""
    return "\n".join(f"- **{escape(name)}**: {escape(value)}" for name, value in rows)


def bullets(notes: Iterable[str]) -> str:
    """Sentences as a list."""
    return "\n".join(f"- {escape(note)}" for note in notes)


MOST: Final = 40
"""Lines that are shown; rows without change beyond them are counted."""

GLOSSARY: Final = Text(f"\nwhat the words mean: {formats.GLOSSARY}", style="dim")
_AFTER: Final = 24  # columns of text behind cells that names may take no room from
_STYLES: Final = {
    formats.MARKS[Verdict.SLOWER]: "bold dark_orange",
    formats.MARKS[Verdict.FASTER]: "bold dodger_blue1",
    formats.MARKS[Verdict.NOT_COMPARABLE]: "bold",
}


@dataclass(frozen=True, slots=True)
class TextLine:
    """Cells of one case, and text around them.

    Attributes:
        after: Text of any length behind the cells.
        below: A line below the cells.
        beside: The case in words; shown where its name stands above its lines.
    """

    name: str
    cells: Sequence[str]
    after: str = ""
    below: str = ""
    beside: str = ""


def print_lines(
    console: Console,
    lines: Sequence[TextLine],
    right: Container[int],
    head: TextLine | None = None,
    *,
    inline: bool = True,
) -> None:
    """Print cells below each other, each case's name once: before its cells, if there is room.

    Otherwise, or without `inline`, it stands above them, whole. Cells of columns `right` are
    aligned to the right.
    """

    def printed(text: str) -> str:
        return text.translate(ASCII) if console.options.ascii_only else text

    every = [head, *lines] if head else lines
    columns = zip_longest(*(line.cells for line in every), fillvalue="")
    widths = [max(cell_len(printed(cell)) for cell in column) for column in columns]
    name = max((cell_len(printed(line.name)) for line in lines), default=0)
    longest = max(
        sum(2 + width for width in widths[: len(line.cells)]) + min(cell_len(line.after), _AFTER)
        for line in every
    )
    inline = inline and 2 + name + longest <= console.width
    above = ""
    for line in every:
        new, above = line.name != above, line.name
        if new and not inline:
            beside = Text(f"  {line.beside}" if line.beside else "", style="dim")
            console.print(Text(line.name) + beside, soft_wrap=True)
        text = Text("  ")
        if inline and name:
            text.append(printed(line.name if new else "")).align("left", name + 4)
        for at, (cell, width) in enumerate(zip(line.cells, widths, strict=False)):
            room = " " * (width - cell_len(printed(cell)))
            aligned = room + printed(cell) if at in right else printed(cell) + room
            text.append(aligned + "  ", "dim" if line is head else _style(cell))
        indent = cell_len(text.plain) if line.after else 4
        text.append(line.after, _style(line.after))
        text.rstrip()
        if line.after:
            console.print(text, soft_wrap=True)
        else:
            console.print(text, no_wrap=True, overflow="ellipsis")
        if line.below:
            console.print(Text(" " * indent + line.below, style="dim"), soft_wrap=True)


def _style(cell: str) -> str:
    return _STYLES.get(cell[:1], "")
