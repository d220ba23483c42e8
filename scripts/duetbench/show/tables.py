"""Tables as values: which rows, which figures, ours beside the published ones. No output here.

The layout comes from `published.toml`. Cases that no declared table selects get a table of their
own, so that nothing measured is ever left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from string import ascii_lowercase
from typing import Final

from duetbench.core.metrics import METRICS
from duetbench.project.published import KEYS, Published, TableLayout
from duetbench.show import formats
from duetbench.trend.summary import CaseSummary

_DEFAULT_KEYS: Final = (
    "endpoint", "python", "stack", "server", "loop", "workers", "threads", "load", "connections",
    "rate", "cores",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """Our figure, its interval, and the published figure; each may be empty.

    `case` is the id of the case that it is of, where that is one.
    """

    ours: str
    interval: str = ""
    published: str = ""
    case: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row: what tells it apart, its cells, and letters of the notes that concern it."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    marks: str = ""

    @property
    def has_published(self) -> bool:
        return any(cell.published for cell in self.cells)


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table with its notes, ready to be written in any format."""

    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    notes: tuple[str, ...] = ()


def experiment_tables(
    cases: Sequence[CaseSummary], published: Published | None
) -> tuple[FigureTable, ...]:
    """All tables of one experiment: the declared ones, then whatever they do not select.

    A declared table whose cases others have shown already is left out: its comparison is not here.
    """
    tables = []
    shown: set[str] = set()
    for layout in published.tables if published else ():
        chosen = select(cases, layout.select, layout.but_not)
        if (ids := {case.id for case in chosen}) - shown:
            shown |= ids
            tables.append(_table(layout, chosen, published))
    if rest := [case for case in cases if case.id not in shown]:
        title = "Further cases" if tables else "All cases"
        tables.append(_table(_default_layout(rest, title), rest, published))
    return tuple(tables)


def select(
    cases: Iterable[CaseSummary], globs: Sequence[str], but_not: Sequence[str] = ()
) -> list[CaseSummary]:
    """The cases whose id matches one of the globs and none of the others, in their order."""

    def matches(name: str, globs: Sequence[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs)

    return [case for case in cases if matches(case.id, globs) and not matches(case.id, but_not)]


def ordered(cases: Sequence[CaseSummary], keys: Sequence[str]) -> list[CaseSummary]:
    """Sorted by the keys: numbers by size, names in the order in which they first come."""
    places: dict[tuple[str, str], int] = {}
    for case in cases:
        for key in keys:
            places.setdefault((key, KEYS[key].text(case.case)), len(places))
    return sorted(
        cases,
        key=lambda case: tuple(
            (*KEYS[key].order(case.case), places[key, KEYS[key].text(case.case)]) for key in keys
        ),
    )


def _default_layout(cases: Sequence[CaseSummary], title: str) -> TableLayout:
    """A table for cases that nobody declared one for: the properties and figures they have."""
    keys = (k for k in _DEFAULT_KEYS if len({KEYS[k].text(case.case) for case in cases}) > 1)
    columns = (
        name for name, row in METRICS.items()
        if row.column and any(name in case.metrics for case in cases)
    )  # fmt: skip
    return TableLayout(
        title=title,
        select=("*",),
        keys=tuple(keys) or ("endpoint",),
        columns=tuple(columns) or ("throughput",),
    )


def _keys(case: CaseSummary, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(KEYS[key].text(case.case) for key in keys)


def _table(
    layout: TableLayout, cases: Sequence[CaseSummary], published: Published | None
) -> FigureTable:
    """A table of the cases that its layout selects; ids where the keys tell not all apart."""
    keys, across = layout.keys, layout.across
    if len({_keys(case, (*keys, *filter(None, [across]))) for case in cases}) < len(cases):
        keys = (*keys, "id")
    cases = ordered(cases, keys)
    marks, notes = _notes(cases, keys)
    keys = tuple(key for key in keys if key != across)
    titles = tuple(KEYS[key].title for key in keys)
    columns = tuple(layout.headings.get(name, METRICS[name].title) for name in layout.columns)
    if across is None:
        rows = tuple(
            FigureRow(
                _keys(case, keys),
                tuple(
                    _cell(case, metric, published, first=place == 0)
                    for place, metric in enumerate(layout.columns)
                ),
                marks.get(case.id, ""),
            )
            for case in cases
        )
    else:
        titles = (f"{KEYS[across].title} →", *titles)
        metrics = dict(zip(layout.columns, columns, strict=True))
        columns, rows = _pivot(metrics, across, cases, keys, marks, published)
    notes = (layout.note, *notes) if layout.note else notes
    return FigureTable(layout.title, titles, columns, rows, notes)


def _pivot(
    metrics: Mapping[str, str],
    across: str,
    cases: Sequence[CaseSummary],
    keys: Sequence[str],
    marks: Mapping[str, str],
    published: Published | None,
) -> tuple[tuple[str, ...], tuple[FigureRow, ...]]:
    """Columns and rows where the values of one property are the columns, a metric a row."""
    by_size = sorted(cases, key=lambda case: KEYS[across].order(case.case))
    columns = tuple(dict.fromkeys(KEYS[across].text(case.case) for case in by_size))
    lines: dict[tuple[str, ...], dict[str, CaseSummary]] = {}
    for case in cases:
        lines.setdefault(_keys(case, keys), {})[KEYS[across].text(case.case)] = case

    def cell(case: CaseSummary | None, metric: str) -> Cell:
        if case is None:
            return Cell(formats.MISSING)
        found = _cell(case, metric, published, first=True)
        letters = marks.get(case.id)
        return replace(found, ours=f"{found.ours} {letters}") if letters else found

    return columns, tuple(
        FigureRow((title, *line), tuple(cell(by_column.get(one), metric) for one in columns))
        for metric, title in metrics.items()
        for line, by_column in lines.items()
    )


def _cell(case: CaseSummary, metric: str, published: Published | None, *, first: bool) -> Cell:
    """One figure; a case without figures says so once, in its first cell."""
    figure = case.metrics.get(metric)
    ours = formats.figure(metric, figure.estimate if figure else None)
    if case.status != "measured" and first:
        ours = case.status
    theirs = published.figure(case.id, metric) if published else None
    return Cell(
        ours=ours,
        interval=formats.interval(metric, figure),
        published="" if theirs is None else formats.figure(metric, theirs),
        case=case.id,
    )


def _notes(
    cases: Sequence[CaseSummary], keys: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Letters per case, and the notes that they point to: flags first, then failures."""
    marks: dict[str, str] = {}
    notes: list[str] = []
    everywhere: list[str] = []
    measured = sum(case.status == "measured" for case in cases)
    letters = iter(ascii_lowercase)
    for name in dict.fromkeys(flag.name for case in cases for flag in case.warnings):
        raised = {
            case.id: flag.detail for case in cases for flag in case.warnings if flag.name == name
        }
        example = next(iter(raised.values()))
        if len(raised) == measured > 1:
            everywhere.append(f"all rows: {name} — {name.meaning} ({example})")
            continue
        letter = next(letters)
        marks |= {case: marks.get(case, "") + letter for case in raised}
        notes.append(f"{letter}  {name} — {name.meaning} (for example: {example})")
    for case in cases:
        if case.failures:
            reasons = " | ".join(dict.fromkeys(failure.reason for failure in case.failures))
            failed = f"{len(case.failures)} of {case.expected} launches failed: {reasons}"
            notes.append(f"{' '.join(_keys(case, keys))}: {failed}")
    return marks, (*notes, *everywhere)
