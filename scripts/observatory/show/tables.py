"""Tables of figures as an experiment or a suite declares them, ready to be written anywhere. Pure.

A failure is shown as failed, what does not apply is left out, and neither is a figure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.load.summary import CaseSummary
from duetbench.report import formats
from duetbench.report.run import notes
from observatory.matrix.published import (
    KEYS,
    InProcess,
    Published,
    SuiteColumn,
    SuiteTable,
    TableLayout,
)
from observatory.store.asv_results import Reading, Snapshot

_FORMATS: Final = {"seconds": units.seconds, "bytes": units.size}


@dataclass(frozen=True, slots=True)
class Cell:
    """The measured figure, its interval, and the published figure; each may be empty."""

    ours: str
    interval: str = ""
    published: str = ""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row: its keys, its cells, its flags, and the id of its case, if it is one's."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    flags: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table with its notes."""

    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def flagged(self) -> bool:
        return any(row.flags for row in self.rows)


def of_cases(cases: Sequence[CaseSummary], about: Published) -> tuple[FigureTable, ...]:
    """Make the tables of one experiment, but those of which others show all cases before."""
    tables, rest = [], list(cases)
    for layout in about.tables:
        chosen = [case for case in cases if any(fnmatchcase(case.id, g) for g in layout.select)]
        if any(case in rest for case in chosen):
            rest = [case for case in rest if case not in chosen]
            tables.append(_table(layout, chosen, about))
    return tuple(tables)


def _table(layout: TableLayout, cases: Sequence[CaseSummary], about: Published) -> FigureTable:
    """Make the table of a layout."""
    keys = layout.keys
    # Numbers by size, names by the alphabet.
    values = {case.id: [KEYS[key](case.case) or 0 for key in keys] for case in cases}
    cases = sorted(cases, key=lambda case: [(isinstance(v, str), v) for v in values[case.id]])
    rows = (
        FigureRow(
            _keys(case, keys),
            tuple(_cell(case, metric, about) for metric in layout.columns),
            ", ".join(flag.name for flag in case.warnings),
            case.id,
        )
        for case in cases
    )
    return FigureTable(
        layout.title,
        tuple(key.replace("python", "Python") for key in keys),
        tuple(layout.headings.get(name, METRICS[name].title) for name in layout.columns),
        tuple(rows),
        tuple(filter(None, (layout.note, *notes(cases)))),
    )


def _keys(case: CaseSummary, keys: Iterable[str]) -> tuple[str, ...]:
    values = (KEYS[key](case.case) for key in keys)
    return tuple(formats.MISSING if value is None else str(value) for value in values)


def _cell(case: CaseSummary, metric: str, about: Published) -> Cell:
    """Make the cell of one figure; a case without figures says why."""
    source = about.figures_of(case.id).get(metric)
    ours, interval = formats.cells(metric, case.metrics.get(metric))
    published = "" if source is None else formats.figure(metric, source)
    return Cell(ours if case.status == "measured" else case.status, interval, published)


def of_suite(snapshot: Snapshot, suite: InProcess) -> tuple[FigureTable, ...]:
    """Make the tables of a suite that have figures: a column for each environment."""
    tables = (_benchmarks(snapshot, suite, table) for table in suite.tables)
    return tuple(table for table in tables if table.rows)


def _benchmarks(snapshot: Snapshot, suite: InProcess, table: SuiteTable) -> FigureTable:
    """Make a table of benchmarks: a row for each benchmark with its parameters."""
    rows: dict[tuple[str, ...], dict[SuiteColumn, Reading]] = {}
    readings = snapshot.of(table.benchmark)
    for reading in readings:
        key = tuple(reading.params[name] for name in table.keys) or (_label(reading),)
        for column in table.columns:
            if column.python == reading.python and column.stack in {None, reading.stack}:
                rows.setdefault(key, {})[column] = reading
    spreads = [reading.spread for reading in readings if reading.spread is not None]
    widest = units.significant(100 * max(spreads, default=0.0), 2)
    note = f"figures are medians; half of their samples lie within ±{widest} % in the widest case"
    return FigureTable(
        table.title,
        table.keys or ("what",),
        tuple(column.title for column in table.columns),
        tuple(
            FigureRow(key, tuple(_reading(suite, rows[key].get(c)) for c in table.columns))
            for key in sorted(rows, key=lambda key: key[:-1])
        ),
        tuple(filter(None, (table.note, note * bool(spreads)))),
    )


def _reading(suite: InProcess, reading: Reading | None) -> Cell:
    """Make a cell: a figure or `failed`, beside what each run of the source says; else a dash."""
    if reading is None:
        return Cell(formats.MISSING)
    published = (units.seconds(run[reading.id]) for run in suite.published if reading.id in run)
    write = _FORMATS.get(reading.unit, units.plain)
    figure = "failed" if reading.value is None else write(reading.value)
    return Cell(figure, published=", ".join(published))


def _label(reading: Reading) -> str:
    """Describe a benchmark and its parameters: `validate: 20, json` rather than asv's name."""
    kind, values = reading.benchmark.split(".")[-2].lower(), ", ".join(reading.params.values())
    return f"{kind}: {values}" if values else kind
