"""The code behind a change in words: the functions whose instructions differ."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.comparison import APPLICATION, PYTHON, Attribution, FunctionChange
from duetbench.core.text import short
from duetbench.host.console import duration
from duetbench.report import changes
from duetbench.report.formats import Section

_LONGEST: Final = 150  # characters of a name
_STATES: Final = {"came": (" (new)", "adds"), "went": (" (gone)", "saves"), "both": ("", "")}
_HEAD: Final = ("of a request", "entries", "function")


class RowText(NamedTuple):
    """A row in words: `+8.0 %` of the instructions of a request of the base."""

    moved: str
    entries: str
    function: str
    where: str
    package: str
    caller: str
    effect: str  # on a request: `adds 8.0 % of a request`
    row: FunctionChange


@dataclass(frozen=True, slots=True)
class AttributionText:
    """An attribution in words that claim no more than its counts show."""

    record: Attribution

    @property
    def headline(self) -> str:
        record, counts = self.record, self.record.instructions
        name = record.asked or case_names.name(record.case).what
        ends = " → ".join(map(units.count, (counts.base, counts.head)))
        change = changes.change(counts.head / counts.base)
        return f"{name}: {ends} instructions per request, {change}."

    @property
    def cause(self) -> str:
        """The function that moved most, or none."""
        for first in self.rows:
            return f"{first.function} {first.effect}: {first.where}, {first.package}."
        least = changes.size(self.record.threshold)
        return f"No function is named: none moved by {least} of a request or more."

    @property
    def precision(self) -> str:
        """How precise the figures of rows are."""
        least = changes.size(self.record.threshold)
        return f"Rows are precise to {least} of a request, by which equal sides differed at most."

    @property
    def rows(self) -> tuple[RowText, ...]:
        return tuple(map(self._row, self.record.rows))

    @property
    def section(self) -> Section:
        """The rows, as a part of a report whose findings say how much moved."""
        took = duration(self.record.seconds)
        lines = [f"{self.record.case}, Python {self.record.python}, in {took}"]
        lines += [self.precision] * bool(self.rows)
        rows = [
            (
                *row[:2],
                f"{row.function}  {row.where} ({row.package}), called by {row.caller or '—'}",
            )
            for row in self.rows
        ]
        return Section("Which code it is", [("", line) for line in lines], _HEAD, rows)

    def _row(self, row: FunctionChange) -> RowText:
        change, package = 100 * (row.head - row.base) / self.record.counted, row.package
        moves = (str(move) for move in self.record.packages if move.package == package)
        if package != APPLICATION:
            package = f"Python {self.record.python}" if package == PYTHON else next(moves, package)
        part = f"{units.significant(abs(change), 2)} %"
        mark, effect = _STATES[row.state]
        more = "" if effect else " more" if change > 0 else " less"
        return RowText(
            f"{'+' if change > 0 else '−'}{part}",
            " → ".join(
                units.count(figure) if figure == round(figure) else units.significant(figure)
                for figure in row.entries or ()
            ),
            short(row.name, _LONGEST) + mark,
            short(f"{row.file}:{row.line}" if row.line else row.file, _LONGEST),
            short(package, _LONGEST),
            short(row.caller or "", _LONGEST),
            f"{effect or 'itself does'} {part} of a request{more}",
            row,
        )
