"""The code behind a change in words: the functions whose instructions differ."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.comparison import APPLICATION, PYTHON, Attribution, FunctionChange
from duetbench.core.text import short
from duetbench.core.units import Interval
from duetbench.report import formats

_FIRST: Final = 3
"""Rows shown in narrow places."""

_LONGEST: Final = 150  # characters of a cell in issues and comments
_HEAD: Final = ("of a request", "entries", "function", "where", "package", "called by")
_ALIGN: Final = ("---:", "---:", "---", "---", "---", "---")


class RowText(NamedTuple):
    """A row in words: `+8.0 %` of the instructions of a request of the base."""

    moved: str
    entries: str
    function: str
    where: str
    package: str
    caller: str
    row: FunctionChange

    @property
    def effect(self) -> str:
        """What it does to a request: `adds 8.0 % of a request`."""
        part = f"{self.moved.lstrip('+−')} of a request"
        if self.row.state == "both":
            return f"itself does {part} {'more' if self.row.head > self.row.base else 'less'}"
        return f"{'adds' if self.row.state == 'came' else 'saves'} {part}"


@dataclass(frozen=True, slots=True)
class AttributionText:
    """An attribution in words that claim no more than its counts show."""

    record: Attribution

    @property
    def headline(self) -> str:
        record, totals = self.record, self.record.instructions
        name = record.asked or case_names.name(record.case).what
        ratio, spread = totals.head / totals.base, totals.spread
        if abs(ratio - 1) <= spread:
            repeat = formats.size(spread)
            return f"{name}: instructions per request did not move (counts repeat within {repeat})."
        scatter = Interval(ratio, ratio * (1 - spread), ratio * (1 + spread))
        return (
            f"{name} executes {formats.change(scatter).lstrip('+−')} "
            f"{'more' if ratio > 1 else 'fewer'} instructions per request "
            f"({formats.within(scatter)}, as far as counts repeat): "
            f"{units.count(totals.base)} → {units.count(totals.head)}."
        )

    @property
    def cause(self) -> str:
        """The function that moved most, or none."""
        if not (rows := self.rows):
            least = formats.size(self.record.threshold)
            return f"No function is named: none moved by {least} of a request or more."
        first = rows[0]
        return f"{first.function} {first.effect}: {first.where}, {first.package}."

    @property
    def scatter(self) -> str:
        """How precise the figures of rows are."""
        least = formats.size(self.record.threshold)
        return (
            f"Equal sides differed by up to {least} of a request: rows are no more precise than "
            "that."
        )

    @property
    def rows(self) -> tuple[RowText, ...]:
        return tuple(map(self._row, self.record.rows))

    def _row(self, row: FunctionChange) -> RowText:
        change, package = 100 * (row.head - row.base) / self.record.counted, row.package
        moves = (str(move) for move in self.record.packages if move.package == package)
        if package != APPLICATION:
            package = f"Python {self.record.python}" if package == PYTHON else next(moves, package)
        return RowText(
            f"{'+' if change > 0 else '−'}{units.significant(abs(change), 2)} %",
            " → ".join(map(_entries, row.entries or ())),
            row.name + {"came": " (new)", "went": " (gone)", "both": ""}[row.state],
            f"{row.file}:{row.line}" if row.line else row.file,
            package,
            row.caller or "",
            row,
        )


def _entries(figure: float) -> str:
    return units.count(figure) if figure == round(figure) else units.significant(figure)


def brief(text: AttributionText, more: str = "") -> str:
    """Write an attribution's sentences and first rows as Markdown for issues and comments."""
    sentences = f"{text.headline} {text.cause} {more}".rstrip()
    parts = [f"**Which code it is**: {formats.escape(short(sentences, _LONGEST * len(_HEAD)))}"]
    if rows := text.rows[:_FIRST]:
        cells = ([short(str(cell), _LONGEST) for cell in row[: len(_HEAD)]] for row in rows)
        parts.append(formats.grid(_HEAD, _ALIGN, cells))
        parts.append(f"{text.scatter} It explains, and is never a verdict.")
    return "\n\n".join(parts)


def print_attribution(console: Console, record: Attribution) -> None:
    """Print an attribution: a line per row."""
    text = AttributionText(record)
    console.print(Text(text.headline, style="bold"), soft_wrap=True)
    took = f"{record.case}, Python {record.python}, in {formats.duration(record.seconds)}"
    console.print(Text(f"  {took}\n  {text.cause}"), soft_wrap=True)
    if rows := text.rows:
        cells = [
            (
                "",
                *row[:2],
                f"{row.function}  {row.where} ({row.package}), called by {row.caller or '—'}",
            )
            for row in rows
        ]
        console.print()
        formats.print_rows(console, ("", *_HEAD[:3]), cells)
        console.print(Text(f"  {text.scatter}", style="dim"), soft_wrap=True)
