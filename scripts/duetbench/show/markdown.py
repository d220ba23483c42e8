"""Elements of Markdown. Everything that comes from a file is escaped."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from duetbench.core.text import visible
from duetbench.show import formats

WORDS: Final = f"<sub>What the words mean: `{formats.GLOSSARY}` of duetbench.</sub>\n"
"""The end of a report, where the address of no site is known."""

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, and a terminal too, on one line."""
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
