"""A comparison as Markdown: a comment on a pull request, bounded by construction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from servebench.compare.model import Comparison, Verdict
from servebench.report import formats
from servebench.report.comparison.view import Row, View, make_view
from servebench.report.markdown import escape, facts, grid

LIMIT: Final = 60_000
"""Characters of a report. GitHub refuses comments above 65,536."""

_HEAD: Final = ("case", "metric", "verdict", "change", "95 % interval", "could see", "base → head",
                "duets")  # fmt: skip
_ALIGN: Final = ("---", "---", "---", "---:", "---:", "---:", "---:", "---:")
_ROOM: Final = 200  # for the sentence that counts what was left out


def markdown(comparison: Comparison, *, limit: int = LIMIT) -> str:
    """Write the report.

    Blocks come in the order of their importance. One that no longer fits loses its last rows, and
    says how many: the headline and the rows that got worse are there whatever the size.
    """
    view = make_view(comparison)
    text = ""
    for block in _blocks(view):
        left = limit - len(text) - _ROOM
        text += _fitted(block, left)
    return text


def _blocks(view: View) -> Iterator[tuple[str, Sequence[str], str]]:
    """Opening, lines that may be shortened, and closing of each block."""
    yield f"## {escape(view.headline)}\n\n", [f"{facts(view.facts)}\n\n"], ""
    if view.events:
        yield "", [f"> {escape(event)}\n" for event in view.events], "\n"
    for title, rows in (
        ("Worse", view.worse),
        ("Better", view.better),
        ("Not decided", view.undecided),
    ):
        if rows:
            yield f"### {title}\n\n{_header()}\n", [_line(row) for row in rows], "\n"
    reasons = sorted(
        {
            f"- {escape(row.case)}: {escape(row.judged.reason)}\n"
            for row in view.undecided
            if row.judged.reason and row.judged.verdict is Verdict.NOT_COMPARABLE
        }
    )
    if reasons:
        yield "", reasons, "\n"
    if view.steps:
        yield "### Next\n\n", [f"- {escape(step)}\n" for step in view.steps], "\n"
    if view.unchanged:
        yield (
            _fold(
                f"No change: {len(view.unchanged)} rows, each with the smallest change that would "
                "have been seen"
            )
            + f"{_header()}\n",
            [_line(row) for row in view.unchanged],
            "\n</details>\n\n",
        )
    yield from _aside(view)


def _aside(view: View) -> Iterator[tuple[str, Sequence[str], str]]:
    if view.packages:
        yield (
            _fold(f"Packages that differ: {len(view.packages)}")
            + grid(["stack", "package", "base", "head"], ["---"] * 4, [])
            + "\n",
            [_cells(change) + "\n" for change in view.packages],
            "\n</details>\n\n",
        )
    if view.flags:
        yield (
            _fold("What the machine could not give"),
            [f"- {escape(name)}: {escape(meaning)}\n" for name, meaning in view.flags],
            "\n</details>\n\n",
        )
    if view.notes:
        yield (
            _fold("Notes"),
            [f"- {escape(note)}\n" for note in view.notes],
            "\n</details>\n\n",
        )
    if view.reproduce:
        # Indented, not fenced: no text can close an indented block.
        yield (
            _fold("Reproduce"),
            ["    " + " ".join(command.split()) + "\n" for command in view.reproduce],
            "\n</details>\n",
        )


def _fitted(block: tuple[str, Sequence[str], str], room: int) -> str:
    opening, lines, closing = block
    room -= len(opening) + len(closing)
    if room < 0:
        return ""
    kept: list[str] = []
    for line in lines:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line)
    if not kept:
        return ""
    left = len(lines) - len(kept)
    more = f"\n… and {left} more, in the comparison's JSON.\n" if left else ""
    return opening + "".join(kept) + more + closing


def _fold(summary: str) -> str:
    """The opening of what is closed until somebody wants to see it."""
    return f"<details><summary>{summary}</summary>\n\n"


def _header() -> str:
    return grid(_HEAD, _ALIGN, [])


def _line(row: Row) -> str:
    return (
        _cells(
            (
                row.case,
                row.label,
                row.verdict,
                row.change,
                row.interval,
                row.detectable,
                row.figures or formats.MISSING,
                row.duets,
            )
        )
        + "\n"
    )


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
