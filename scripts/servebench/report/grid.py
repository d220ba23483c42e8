"""What reports are written from, in Markdown as on a terminal: grids of text, and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns and rows of text; `words`: columns that are words and not figures."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[str]

    @property
    def align(self) -> list[str]:
        """How Markdown says which columns are aligned to the right."""
        return ["---" if name in self.words else "---:" for name in self.head]


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[str] = ()) -> Grid:
    """Make a grid."""
    return Grid(tuple(head), tuple(map(tuple, rows)), frozenset(words))


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a report.

    Attributes:
        name: What to call it where it did not fit.
        title: Its heading; empty: none.
        kind: How its lines are written.
        lines: A name, which may be empty, and a sentence.
        grid: Below the lines.
        folded: Whether it is closed until somebody opens it.
        under: The heading that a folded block stands below.
    """

    name: str
    title: str = ""
    kind: Literal["facts", "news", "list", "legend", "commands"] = "list"
    lines: tuple[tuple[str, str], ...] = ()
    grid: Grid | None = None
    folded: bool = False
    under: str = ""
