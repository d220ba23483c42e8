"""A comparison on a terminal, with rich."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from servebench.compare.model import Comparison, Verdict
from servebench.report.comparison.view import Row, make_view

_STYLES: Final = {
    Verdict.SLOWER: "bold dark_orange",
    Verdict.FASTER: "bold dodger_blue1",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.NOT_COMPARABLE: "bold magenta",
    Verdict.NO_CHANGE: "",
}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the whole comparison: headline, events, what moved, what did not, what to do."""
    view = make_view(comparison)
    console.print(Text(view.headline, style="bold"))
    for name, value in view.facts:
        console.print(Text(f"  {name}: {value}", style="dim"))
    for event in view.events:
        console.print(Text(f"→ {event}"))
    for title, rows in (
        ("worse", view.worse),
        ("better", view.better),
        ("not decided", view.undecided),
        ("no change", view.unchanged),
    ):
        if rows:
            console.print()
            console.print(Text(title, style="bold underline"))
            console.print(_table(rows))
    for row in view.undecided:
        if row.judged.reason:
            console.print(Text(f"  {row.case}, {row.label}: {row.judged.reason}", style="dim"))
    if view.packages:
        changes = ", ".join(f"{name} {base} → {head}" for _, name, base, head in view.packages)
        console.print(Text(f"packages: {changes}", style="dim"))
    for line in (*view.notes, *view.steps):
        console.print(Text(f"  {line}", style="dim"))


def _table(rows: tuple[Row, ...]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    drawn.add_column("case", overflow="fold")
    drawn.add_column("metric", no_wrap=True)
    drawn.add_column("verdict", no_wrap=True)
    for name in ("change", "95 %", "could see", "base → head", "duets"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        drawn.add_row(
            Text(row.case),
            Text(row.label),
            Text(row.verdict, style=_STYLES[row.judged.verdict]),
            *map(Text, (row.change, row.interval, row.detectable, row.figures, row.duets)),
        )
    return drawn
