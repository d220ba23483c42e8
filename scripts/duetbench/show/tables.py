"""Tables as values: which rows, which figures, ours beside the published ones. No output here.

The layout comes from `published.toml`. Cases that no declared table selects get a table of their
own, so that nothing measured is ever left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.metrics import METRICS
from duetbench.project.layouts import KEYS, Key
from duetbench.project.published import Published, TableLayout
from duetbench.show import formats
from duetbench.trend.summary import CaseSummary

DEFAULT_KEYS: Final = (
    "endpoint", "python", "stack", "server", "loop", "workers", "threads", "load", "connections",
    "rate", "cores",
)  # fmt: skip
DEFAULT_COLUMNS: Final = tuple(name for name, row in METRICS.items() if row.column)


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
    layouts = published.tables if published else ()
    tables = []
    shown: set[str] = set()
    for layout in layouts:
        chosen = select(cases, layout.select, layout.but_not)
        if (ids := {case.id for case in chosen}) - shown:
            shown |= ids
            tables.append(build(layout, chosen, published))
    if rest := [case for case in cases if case.id not in shown]:
        title = "Further cases" if tables else "All cases"
        tables.append(build(default_layout(rest, title), rest, published))
    return tuple(tables)


def select(
    cases: Iterable[CaseSummary], globs: Sequence[str], but_not: Sequence[str] = ()
) -> list[CaseSummary]:
    """The cases whose id matches one of the globs and none of the others, in their order."""

    def matches(name: str, globs: Sequence[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs)

    return [case for case in cases if matches(case.id, globs) and not matches(case.id, but_not)]


def default_layout(cases: Sequence[CaseSummary], title: str) -> TableLayout:
    """A table for cases that nobody declared one for: the properties and figures they have."""
    keys = (k for k in DEFAULT_KEYS if len({KEYS[k].text(case.case) for case in cases}) > 1)
    columns = (name for name in DEFAULT_COLUMNS if any(name in case.metrics for case in cases))
    return TableLayout(
        title=title,
        select=("*",),
        keys=tuple(keys) or ("endpoint",),
        columns=tuple(columns) or ("throughput",),
    )


def build(
    layout: TableLayout, cases: Sequence[CaseSummary], published: Published | None
) -> FigureTable:
    """Build one table from the cases that it selects; ids where the keys tell not all apart."""
    keys = layout.keys
    told = [*keys, *([layout.across] if layout.across else [])]
    if len({tuple(KEYS[key].text(case.case) for key in told) for case in cases}) < len(cases):
        keys = (*keys, "id")
    cases = ordered(cases, keys)
    marks, notes = _notes(cases, keys)
    keys = tuple(key for key in keys if key != layout.across)
    titles = tuple(KEYS[key].title for key in keys)
    if layout.across is None:
        columns = tuple(heading(layout, metric) for metric in layout.columns)
        rows = tuple(
            FigureRow(
                keys=tuple(KEYS[key].text(case.case) for key in keys),
                cells=tuple(
                    _cell(case, metric, published, first=place == 0)
                    for place, metric in enumerate(layout.columns)
                ),
                marks=marks.get(case.id, ""),
            )
            for case in cases
        )
    else:
        titles = (f"{KEYS[layout.across].title} →", *titles)
        columns, rows = _pivot(layout, KEYS[layout.across], cases, keys, marks, published)
    notes = (layout.note, *notes) if layout.note else notes
    return FigureTable(title=layout.title, keys=titles, columns=columns, rows=rows, notes=notes)


def heading(layout: TableLayout, metric: str) -> str:
    """A metric's column heading."""
    return layout.headings.get(metric, METRICS[metric].title)


def _pivot(
    layout: TableLayout,
    across: Key,
    cases: Sequence[CaseSummary],
    keys: tuple[str, ...],
    marks: Mapping[str, str],
    published: Published | None,
) -> tuple[tuple[str, ...], tuple[FigureRow, ...]]:
    by_size = sorted(cases, key=lambda case: across.order(case.case))
    columns = tuple(dict.fromkeys(across.text(case.case) for case in by_size))
    lines: dict[tuple[str, ...], dict[str, CaseSummary]] = {}
    for case in cases:
        line = tuple(KEYS[key].text(case.case) for key in keys)
        lines.setdefault(line, {})[across.text(case.case)] = case

    def cell(case: CaseSummary | None, metric: str) -> Cell:
        if case is None:
            return Cell(formats.MISSING)
        found = _cell(case, metric, published, first=True)
        letters = marks.get(case.id)
        return replace(found, ours=f"{found.ours} {letters}") if letters else found

    return columns, tuple(
        FigureRow(
            (heading(layout, metric), *line), tuple(cell(having.get(c), metric) for c in columns)
        )
        for metric in layout.columns
        for line, having in lines.items()
    )


def _cell(case: CaseSummary, metric: str, published: Published | None, *, first: bool) -> Cell:
    """One figure; a case without figures says so once, in its first cell."""
    estimate = case.metrics.get(metric)
    ours = formats.figure(metric, estimate.estimate if estimate else None)
    if case.status != "measured" and first:
        ours = case.status
    theirs = published.figure(case.id, metric) if published else None
    return Cell(
        ours=ours,
        interval=formats.interval(metric, estimate),
        published="" if theirs is None else formats.figure(metric, theirs),
        case=case.id,
    )


def ordered(cases: Sequence[CaseSummary], keys: tuple[str, ...]) -> list[CaseSummary]:
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


def _notes(
    cases: Sequence[CaseSummary], keys: tuple[str, ...]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Letters per case, and the notes that they point to: flags first, then failures."""
    marks: dict[str, str] = {}
    notes: list[str] = []
    everywhere: list[str] = []
    measured = [case for case in cases if case.status == "measured"]
    names = dict.fromkeys(flag.name for case in cases for flag in case.warnings)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for name in names:
        raised = [(case, one) for case in cases for one in case.warnings if one.name == name]
        example = raised[0][1].detail
        if len(raised) == len(measured) and len(measured) > 1:
            everywhere.append(f"all rows: {name} — {name.meaning} ({example})")
            continue
        letter = next(letters)
        for case, _ in raised:
            marks[case.id] = marks.get(case.id, "") + letter
        notes.append(f"{letter}  {name} — {name.meaning} (for example: {example})")
    for case in cases:
        label = " ".join(KEYS[key].text(case.case) for key in keys)
        if case.failures:
            reasons = dict.fromkeys(failure.reason for failure in case.failures)
            notes.append(
                f"{label}: {len(case.failures)} of {case.expected} launches failed: "
                + " | ".join(reasons)
            )
    return marks, (*notes, *everywhere)
