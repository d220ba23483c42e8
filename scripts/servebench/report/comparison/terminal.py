"""A comparison on a terminal, with rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from servebench.compare.model import Comparison, Verdict
from servebench.report.comparison.rows import Row
from servebench.report.comparison.view import make_view

_STYLES: Final = {
    Verdict.SLOWER: "bold dark_orange",
    Verdict.FASTER: "bold dodger_blue1",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.NOT_COMPARABLE: "bold magenta",
    Verdict.NO_CHANGE: "",
}
_INDENT: Final = "  "
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of figures; the case stands above its rows, since its name is long."""

    name: str
    cell: Callable[[Row], str]
    right: bool = True


_COLUMNS: Final = (
    _Column("metric", lambda row: row.label, right=False),
    _Column("verdict", lambda row: row.verdict, right=False),
    _Column("change", lambda row: row.change),
    _Column("95 % interval", lambda row: row.interval),
    _Column("could see", lambda row: row.detectable),
    _Column("base → head", lambda row: row.figures),
    _Column("samples", lambda row: row.samples),
)
_SPARE: Final = ("base → head", "samples", "could see")
"""Columns that are left out where the terminal is narrow, in this order."""


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the whole comparison: headline, events, what moved, what did not, what to do."""
    view = make_view(comparison)
    groups = view.groups
    console.print(Text(view.headline, style="bold"))
    for name, value in view.facts:
        console.print(Text(f"{_INDENT}{name}: {value}", style="dim"))
    for event in view.events:
        console.print(Text(f"→ {event}"))
    for title, rows in (
        ("worse", groups.worse),
        ("better", groups.better),
        ("not decided", groups.undecided),
        ("no change", groups.unchanged),
    ):
        if rows:
            _heading(console, title)
            _rows(console, rows)
    if view.legend:
        told = [f"{name}: {meaning}" for name, meaning in view.legend]
        _lines(console, "", [*told, view.same] if view.same else told)
    broken = dict.fromkeys(f"{row.case}: {row.why}" for row in groups.broken)
    open_ = [
        f"{row.case}, {row.label}: {row.why}"
        for row in groups.undecided
        if row.judged.reason and "no time" not in row.verdict  # which says it already
    ]
    _lines(console, "not comparable", broken)
    _lines(console, "not decided, because", open_)
    _lines(console, "not judged", (f"{reason}: {cases}" for reason, cases in view.unjudged))
    _lines(console, "packages", (f"{stack}: {name} {base} → {head}"
                                 for stack, name, base, head in view.packages))  # fmt: skip
    _lines(console, "instructions per request, without a server",
           (f"{one.case}: {one.base} → {one.head} ({one.change})"
            for one in view.counts))  # fmt: skip
    _lines(console, "validity flags", (f"{name}: {meaning}" for name, meaning in view.flags))
    _lines(console, "notes", view.notes)
    _lines(console, "next", view.steps, style="")
    _lines(console, "again", (f"{command}  # {what}" for what, command in view.commands), style="")


def _heading(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))


def _lines(console: Console, title: str, lines: Iterable[str], style: str = "dim") -> None:
    """Sentences under a title, if there are any; what is copied must not be broken."""
    lines = tuple(lines)
    if lines and title:
        _heading(console, title)
    elif lines:
        console.print()
    for line in lines:
        console.print(Text(f"{_INDENT}{line}", style=style), soft_wrap=True)


def _rows(console: Console, rows: Sequence[Row]) -> None:
    """Rows below the names of their cases, in columns as wide as they need to be."""
    columns, widths = _fitting(rows, console.width)
    heads = [_cell(column.name, widths[column.name], column, "dim") for column in columns]
    _print(console, heads)
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row.case, []).append(row)
    for case, many in cases.items():
        console.print(Text(case), soft_wrap=True)
        for row in many:
            _print(
                console,
                [
                    _cell(
                        column.cell(row),
                        widths[column.name],
                        column,
                        _STYLES[row.judged.verdict] if column.name == "verdict" else "",
                    )
                    for column in columns
                ],
            )


def _fitting(rows: Sequence[Row], width: int) -> tuple[list[_Column], dict[str, int]]:
    """Columns that have something to show and fit, and their widths in cells."""
    columns = [column for column in _COLUMNS if any(column.cell(row) for row in rows)]
    widths = {
        column.name: max(cell_len(column.name), *(cell_len(column.cell(row)) for row in rows))
        for column in columns
    }
    for name in _SPARE:
        needed = len(_INDENT) + sum(widths[column.name] + len(_GAP) for column in columns)
        if needed - len(_GAP) <= width:
            break
        columns = [column for column in columns if column.name != name]
    return columns, widths


def _cell(text: str, width: int, column: _Column, style: str) -> Text:
    found = Text(text, style=style)
    found.align("right" if column.right else "left", width)
    return found


def _print(console: Console, cells: Iterable[Text]) -> None:
    line = Text(_INDENT) + Text(_GAP).join(cells)
    line.rstrip()
    console.print(line, no_wrap=True, overflow="ellipsis")
