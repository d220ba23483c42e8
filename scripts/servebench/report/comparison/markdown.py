"""A comparison as Markdown: a comment on a pull request, bounded by construction."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from servebench.compare.model import Comparison
from servebench.report import formats
from servebench.report.comparison import words
from servebench.report.comparison.rows import Row
from servebench.report.comparison.view import View, make_view
from servebench.report.markdown import escape, facts, grid
from servebench.text import visible

LIMIT: Final = 60_000
"""Characters of a report. GitHub refuses comments above 65,536."""

_ROOM: Final = 400  # for what is said of rows and blocks that were left out


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table of rows."""

    name: str
    cell: Callable[[Row], str]
    right: bool = True


_CASE: Final = _Column("case", lambda row: row.case, right=False)
_METRIC: Final = _Column("metric", lambda row: row.label, right=False)
_FIGURES: Final = (
    _Column("change", lambda row: row.change),
    _Column("95 % interval", lambda row: row.interval),
    _Column("could see", lambda row: row.detectable),
)
_SAMPLES: Final = _Column("samples", lambda row: row.samples)
_JUDGED: Final = (
    _CASE,
    _METRIC,
    _Column("verdict", lambda row: row.verdict, right=False),
    *_FIGURES,
    _Column("base → head", lambda row: row.figures or formats.MISSING),
    _SAMPLES,
)
_UNCHANGED: Final = (_CASE, _METRIC, *_FIGURES, _SAMPLES)
_UNDECIDED: Final = (*_UNCHANGED, _Column("why", lambda row: row.why, right=False))


@dataclass(frozen=True, slots=True)
class _Block:
    """A part of the report.

    Attributes:
        name: What to call it where it did not fit.
        opening: Before the lines.
        lines: The last of them are left out where room is short.
        closing: After them.
    """

    name: str
    opening: str
    lines: Sequence[str]
    closing: str = "\n"


def markdown(comparison: Comparison, *, limit: int = LIMIT) -> str:
    """Write the report.

    Blocks come in the order of their importance. One that no longer fits loses its last rows, and
    says how many; one of which nothing fits is named at the end. The headline and the rows that got
    worse are there whatever the size.
    """
    view = make_view(comparison)
    text, lost = "", []
    for block in _blocks(view):
        part = _fitted(block, limit - len(text) - _ROOM)
        text += part
        if not part:
            lost.append(block.name)
    if lost:
        text += f"Left out, for lack of room: {', '.join(dict.fromkeys(lost))}.\n"
    return text


def _blocks(view: View) -> Iterator[_Block]:
    groups = view.groups
    yield _Block("facts", f"## {escape(view.headline)}\n\n", [f"{facts(view.facts)}\n"])
    if view.events:
        yield _Block("events", "", [f"> {escape(event)}\n\n" for event in view.events], "")
    yield from _moved("Worse", groups.worse, view)
    yield from _moved("Better", groups.better, view)
    if groups.broken:
        reasons = dict.fromkeys((row.case, row.why) for row in groups.broken)
        yield _Block("Not comparable", "### Not comparable\n\n", _named(tuple(reasons)))
    if groups.undecided:
        yield _table("Not decided", "### Not decided\n\n", _UNDECIDED, groups.undecided)
    if view.unjudged:
        yield _Block("Not judged", "### Not judged\n\n", _named(view.unjudged))
    if view.steps:
        yield _Block("Next", "### Next\n\n", [f"- {escape(step)}\n" for step in view.steps])
    if view.legend:
        yield _Block("legend", "", [_legend(view)])
    yield from _folded(view)


def _moved(title: str, rows: Sequence[Row], view: View) -> Iterator[_Block]:
    """What moved; what an event tells together is folded."""
    alone = [row for row in rows if not row.grouped]
    together = [row for row in rows if row.grouped]
    heading = f"### {title}\n\n"
    if alone:
        yield _table(title, heading, _JUDGED, alone)
    if together:
        events = "event" if len(view.events) == 1 else "events"
        summary = f"{words.many(len(together), 'row')} of the {events} above"
        opening = ("" if alone else heading) + _fold(summary)
        yield _table(title, opening, _JUDGED, together, folded=True)


def _folded(view: View) -> Iterator[_Block]:
    """What is closed until somebody wants to see it."""
    unchanged = view.groups.unchanged
    if unchanged:
        opening = _fold(f"No change: {words.many(len(unchanged), 'row')}")
        opening += f"{escape(view.same)}\n\n" if view.same else ""
        yield _table("No change", opening, _UNCHANGED, unchanged, folded=True)
    if view.counts:
        yield _Block(
            "Instructions",
            _fold(f"Instructions per request, without a server: {len(view.counts)}")
            + f"{grid(('case', 'base', 'head', 'change'), ['---', *['---:'] * 3], [])}\n",
            [f"{_cells((one.case, one.base, one.head, one.change))}\n" for one in view.counts],
            _END,
        )
    if view.packages:
        yield _Block(
            "Packages",
            _fold(f"Packages that differ: {len(view.packages)}")
            + f"{grid(('stack', 'package', 'base', 'head'), ['---'] * 4, [])}\n",
            [f"{_cells(change)}\n" for change in view.packages],
            _END,
        )
    if view.because:
        yield _Block("Reasons", _fold("Why these were judged"), _named(view.because), _END)
    if view.flags:
        yield _Block("Flags", _fold("Validity flags"), _named(view.flags), _END)
    if view.notes:
        notes = [f"- {escape(note)}\n" for note in view.notes]
        yield _Block("Notes", _fold("Notes"), notes, _END)
    if view.commands:
        # Indented, not fenced: no text can close an indented block.
        commands = [
            textwrap.indent(visible(f"# {what}\n{command}\n"), "    ")
            for what, command in view.commands
        ]
        yield _Block("Commands", _fold("Reproduce"), commands, _END)


_END: Final = "\n</details>\n\n"


def _table(
    name: str,
    opening: str,
    columns: Sequence[_Column],
    rows: Sequence[Row],
    *,
    folded: bool = False,
) -> _Block:
    header = grid(
        [column.name for column in columns],
        ["---:" if column.right else "---" for column in columns],
        [],
    )
    lines = [f"{_cells([column.cell(row) for column in columns])}\n" for row in rows]
    return _Block(name, f"{opening}{header}\n", lines, _END if folded else "\n")


def _fitted(block: _Block, room: int) -> str:
    room -= len(block.opening) + len(block.closing)
    kept: list[str] = []
    for line in block.lines:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line)
    if not kept:
        return ""
    left = len(block.lines) - len(kept)
    more = f"\n… and {left} more, in the comparison's JSON.\n" if left else ""
    return block.opening + "".join(kept) + more + block.closing


def _legend(view: View) -> str:
    meanings = (f"**{name}**: {escape(meaning)}" for name, meaning in view.legend)
    return f"<sub>{'. '.join(meanings)}.</sub>\n"


def _named(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [f"- {escape(name)}: {escape(meaning)}\n" for name, meaning in pairs]


def _fold(summary: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n"


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
