"""A run as a page to read: facts, then per experiment its answers and tables. Pure.

An experiment may declare tables; cases that none of them selects get a table of their own, so that
no measurement is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from duetbench.core.metrics import COLUMNS, METRICS
from duetbench.core.units import Interval, significant
from duetbench.load.summary import CaseSummary
from duetbench.report import formats
from duetbench.report.run import explain_flags, failed_launches
from observatory.matrix.layouts import KEYS, KeyValue, TableLayout
from observatory.matrix.published import Published


def select(cases: Iterable[CaseSummary], globs: Sequence[str]) -> list[CaseSummary]:
    """Select the cases whose id matches one of the globs, in their order."""
    return [case for case in cases if any(fnmatchcase(case.id, glob) for glob in globs)]


StatementVerdict = Literal[
    "holds", "does not hold here", "cannot be asked here", "not decided", "not measured"
]
DECIDED: Final = ("holds", "does not hold here")
ANSWERED: Final = (*DECIDED, "cannot be asked here")


def ratio(value: float | None) -> str:
    """Format a ratio with at least three significant digits; a dash if there is none."""
    return formats.MISSING if value is None else significant(value)


@dataclass(frozen=True, slots=True)
class Answer:
    """A statement, its figure here, whether it holds, and a sentence about that.

    `comparisons`: ids of those that answer it, the newest first; none if launches do.
    """

    statement: str
    least: float | None
    most: float | None
    published: float | None
    ours: Interval | None
    verdict: StatementVerdict
    reason: str
    comparisons: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The range that the statement expects: `≥ 1.5`."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    @property
    def figure(self) -> str:
        if self.ours is None:
            return formats.MISSING
        within = f" ({'…'.join(map(ratio, self.ours.ends))})" if self.ours.ends else ""
        return f"{ratio(self.ours.estimate)}{within}"

    @property
    def sentence(self) -> str:
        figure = f", {self.figure}" if self.ours else ""
        return f"{self.statement} — {self.verdict}{figure}"


@dataclass(frozen=True, slots=True)
class Cell:
    """The measured figure, its interval, and the published figure; each may be empty.

    `case` is the id of its case, if it has one.
    """

    ours: str
    interval: str = ""
    published: str = ""
    case: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row: its keys, its cells, and its flags, or a verdict."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    marks: str = ""


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table with its notes, ready to be written in any format."""

    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    notes: tuple[str, ...] = ()
    marks: str = "flags"

    @property
    def marked(self) -> bool:
        return any(row.marks for row in self.rows)


def answer_table(answers: Iterable[Answer], *, published: bool = True) -> FigureTable:
    """Make a table of an experiment's statements with their verdicts; `published`: an article's."""
    return FigureTable(
        "Does the published shape hold here?" if published else "Do its statements hold here?",
        ("statement",),
        ("expected", "published", "ours"),
        tuple(
            FigureRow(
                (answer.statement,),
                (Cell(answer.expected), Cell(ratio(answer.published)), Cell(answer.figure)),
                ": ".join(filter(None, (answer.verdict, answer.reason))),
            )
            for answer in answers
        ),
        marks="verdict",
    )


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment, or one suite: of a run, or of all evidence.

    `measured`: when and where asv measured a suite.
    """

    experiment: str
    question: str = ""
    source: str = ""
    answers: tuple[Answer, ...] = ()
    tables: tuple[FigureTable, ...] = ()
    notes: tuple[str, ...] = ()
    measured: str = ""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run, ready to be written in any format."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def different(deviations: Iterable[str]) -> Iterator[str]:
    """Describe differences from the source, as notes."""
    return (f"Different from the source: {text}" for text in deviations)


def experiment_tables(cases: Sequence[CaseSummary], about: Published) -> tuple[FigureTable, ...]:
    """Make all tables of one experiment: the declared ones, then one of the remaining cases.

    A declared table is left out if other tables already show all of its cases.
    """
    tables = []
    covered: set[str] = set()
    for layout in about.tables:
        chosen = select(cases, layout.select)
        if (ids := {case.id for case in chosen}) - covered:
            covered |= ids
            tables.append(_table(layout, chosen, about))
    if rest := [case for case in cases if case.id not in covered]:
        title = "Further cases" if tables else "All cases"
        columns = (name for name in COLUMNS if any(name in case.metrics for case in rest))
        layout = TableLayout(
            title=title, select=("*",), keys=("id",), columns=tuple(columns) or ("throughput",)
        )
        tables.append(_table(layout, rest, about))
    return tuple(tables)


def order_cases(cases: Sequence[CaseSummary], keys: Sequence[str]) -> list[CaseSummary]:
    """Sort by the keys: numbers by size, names in the order of their first appearance."""
    places: dict[KeyValue, int] = {}
    for case in cases:
        for key in keys:
            places.setdefault(KEYS[key].of(case.case), len(places))

    def place(value: KeyValue) -> tuple[bool, float]:
        return (False, value) if isinstance(value, int | float) else (True, places[value])

    return sorted(cases, key=lambda case: [place(KEYS[key].of(case.case)) for key in keys])


def _keys(case: CaseSummary, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(KEYS[key].text(case.case) for key in keys)


def _table(layout: TableLayout, cases: Sequence[CaseSummary], about: Published) -> FigureTable:
    """Make the table of a layout; cases get their ids if the keys do not distinguish them."""
    keys = layout.keys
    if len({_keys(case, keys) for case in cases}) < len(cases):
        keys = (*keys, "id")
    cases = order_cases(cases, keys)
    return FigureTable(
        layout.title,
        tuple(KEYS[key].title for key in keys),
        tuple(layout.headings.get(name, METRICS[name].title) for name in layout.columns),
        tuple(
            FigureRow(
                _keys(case, keys),
                tuple(
                    _cell(case, metric, about, first=place == 0)
                    for place, metric in enumerate(layout.columns)
                ),
                ", ".join(flag.name for flag in case.warnings),
            )
            for case in cases
        ),
        tuple(filter(None, (layout.note, *_notes(cases, keys)))),
    )


def _cell(case: CaseSummary, metric: str, about: Published, *, first: bool) -> Cell:
    """Make the cell of one figure; the first cell of a case without figures says so."""
    source = about.figures_of(case.id).get(metric)
    ours, interval = formats.cells(metric, case.metrics.get(metric))
    return Cell(
        ours=case.status if case.status != "measured" and first else ours,
        interval=interval,
        published="" if source is None else formats.figure(metric, source),
        case=case.id,
    )


def _notes(cases: Sequence[CaseSummary], keys: Sequence[str]) -> Iterator[str]:
    """Explain each flag, then why cases failed or were not launched."""
    yield from explain_flags(cases)
    for case in cases:
        if case.failures:
            yield f"{' '.join(_keys(case, keys))}: {failed_launches(case)}"
    lost: dict[str, list[str]] = {}
    for case in cases:
        if case.missing:
            lost.setdefault(case.missing, []).append(" ".join(_keys(case, keys)))
    for reason, names in lost.items():
        yield f"{', '.join(names)}: not measured: {reason}"
