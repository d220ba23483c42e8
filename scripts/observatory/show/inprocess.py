"""asv's figures as sections of a report: tables and answers of the declared suites.

A failure is shown as failed, an inapplicable benchmark is left out, and neither is a figure. Pure.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from duetbench.core import units
from duetbench.core.comparison import Comparison
from duetbench.core.units import Interval
from duetbench.load.summary import RunSummary
from duetbench.report import formats
from observatory.matrix.published import (
    Published,
    SuiteDeclaration,
    SuiteShape,
    SuiteSide,
    SuiteTable,
)
from observatory.show import claims, published_page
from observatory.show.claims import Evidence, Side
from observatory.show.run_view import (
    Answer,
    Cell,
    FigureRow,
    FigureTable,
    RunPage,
    Section,
    different,
    ratio,
)
from observatory.store.asv_results import Reading, Snapshot

TITLE: Final = "Inside the process"
IMPOSSIBLE: Final = 0.95
"""A figure below this share of the shortest possible time is impossible. Above, the scatter of the
two compared figures explains it."""

_ONE_BY_ONE: Final = (
    "asv measures one environment after the other, so changes of the machine in the meantime are "
    "in the differences: a few per cent between interpreters or stacks decide nothing here"
)
_FORMATS: Final[dict[str, units.Formatter]] = {
    "seconds": units.seconds,
    "bytes": units.size,
    "instructions": units.count,
}


def make_page(snapshots: Sequence[Snapshot], suites: Iterable[SuiteDeclaration]) -> RunPage:
    """Return all snapshots (newest first) as a page."""
    facts = [("measured", where(snapshot)) for snapshot in snapshots]
    return RunPage(TITLE, tuple(facts[:1]), sections(snapshots, suites))


def sections(
    snapshots: Sequence[Snapshot],
    suites: Iterable[SuiteDeclaration],
    runs: Sequence[RunSummary] = (),
) -> tuple[Section, ...]:
    """Return one section per suite with figures, of the machine that measured it most often.

    Tables show the newest commit that has a figure, statements use all; some statements also use
    figures of servers in `runs`.
    """
    result = []
    for suite in suites:
        measured = [snapshot for snapshot in snapshots if snapshot.has(*suite.benchmarks)]
        most = Counter(snapshot.machine for snapshot in measured).most_common(1)
        measured = [snapshot for snapshot in measured if snapshot.machine == most[0][0]]
        if measured and (section := _section(suite, measured, runs)).tables:
            result.append(section)
    return tuple(result)


def experiment(
    name: str,
    runs: Sequence[RunSummary],
    snapshots: Sequence[Snapshot],
    published: Mapping[str, Published],
    suites: Iterable[SuiteDeclaration],
    comparisons: Iterable[Comparison] = (),
) -> tuple[Evidence, Section]:
    """Return all evidence of an experiment, and its section: of servers, then of benchmarks."""
    evidence, section = published_page.experiment(name, runs, published, comparisons)
    own = [suite for suite in suites if suite.page == name]
    for inside in sections(snapshots, own, evidence.runs):
        section = dataclasses.replace(
            section,
            question=section.question or inside.question,
            source=section.source or inside.source,
            answers=section.answers + inside.answers,
            tables=section.tables + inside.tables,
            notes=section.notes + inside.notes,
            measured=inside.measured,
        )
    return evidence, section


def names(published: Iterable[str], suites: Iterable[SuiteDeclaration]) -> list[str]:
    """List the experiments: those with servers, and suites with a source."""
    return sorted({*published, *(suite.page for suite in suites if suite.page)})


def where(snapshot: Snapshot) -> str:
    """Describe when, on what and at which commit asv measured."""
    moment = datetime.fromtimestamp(snapshot.started / 1000, UTC)
    machine = (
        f"{snapshot.machine} ({snapshot.described})" if snapshot.described else snapshot.machine
    )
    return f"{moment:%Y-%m-%d %H:%M} UTC by asv on {machine}, commit {snapshot.commit[:12]}"


def as_json(snapshots: Sequence[Snapshot], page: RunPage) -> dict[str, Any]:
    """Return everything for programs: SI units, and failures without a figure."""
    sections = [{"name": s.experiment, **dataclasses.asdict(s)} for s in page.sections]
    return {"snapshots": [*map(dataclasses.asdict, snapshots)], "sections": sections}


def label(benchmark: str, params: Sequence[tuple[str, str]]) -> str:
    """Describe a benchmark and its parameters: `validate: 20, json` rather than asv's name."""
    *_, kind, function = benchmark.split(".")
    if kind == benchmark.partition(".")[0]:  # a function of the module, in no class
        kind = function.partition("_")[2].replace("_", " ")
    values = ", ".join(value for _, value in params)
    return f"{kind.lower()}: {values}" if values else kind.lower()


def _section(
    suite: SuiteDeclaration, snapshots: Sequence[Snapshot], runs: Sequence[RunSummary]
) -> Section:
    newest = snapshots[0]
    tables = (
        _variants(newest, suite, table) if table.variant else _figures(newest, table)
        for table in suite.tables
        if newest.has(table.benchmark)
    )
    return Section(
        experiment=suite.title,
        question=suite.question,
        source=suite.source,
        answers=tuple(_answer(snapshots, suite, shape, runs) for shape in suite.shapes),
        tables=tuple(table for table in tables if table.rows),
        notes=(f"measured {where(newest)}", _ONE_BY_ONE, *different(suite.deviations)),
        measured=where(newest),
    )


def _variants(snapshot: Snapshot, suite: SuiteDeclaration, table: SuiteTable) -> FigureTable:
    """Make the table of a benchmark that does the same work in several ways."""
    readings = snapshot.of(table.benchmark)
    names = (*table.keys, str(table.variant))
    pythons = sorted({reading.python for reading in readings})
    keys = dict.fromkeys(tuple(r.param[name] for name in names) for r in readings)
    places = list(dict.fromkeys(key[:-1] for key in keys))
    rows, impossible = [], []
    for key in sorted(keys, key=lambda key: places.index(key[:-1])):
        cells: list[Cell] = []
        for python in pythons:
            params = dict(zip(names, key, strict=True))
            of_python, efficiency = _variant(snapshot, suite, table, params, python)
            cells += of_python
            if efficiency * IMPOSSIBLE > 1 and key[-1] != table.base:
                impossible.append(
                    f"impossible: {key[-1]} on {python} took less than the shortest time; "
                    "the measurement is wrong"
                )
        rows.append(FigureRow(key, tuple(cells)))
    best = f"at best: {table.at_best}, with {snapshot.cores or '?'} cores" if table.at_best else ""
    kinds = ("time", "speed-up", *(("at best", "efficiency") if table.at_best else ()))
    return FigureTable(
        title=table.title,
        keys=names,
        columns=tuple(f"{python} {kind}" for python in pythons for kind in kinds),
        rows=tuple(rows),
        notes=tuple(filter(None, (_spread_note(readings), table.note, best, *impossible))),
    )


def _variant(
    snapshot: Snapshot,
    suite: SuiteDeclaration,
    table: SuiteTable,
    params: dict[str, str],
    python: str,
) -> tuple[list[Cell], float]:
    """Return the cells of one variant on one interpreter, and its efficiency, or 0 if unknown.

    Speed-up: work per second over that of the base. At best: the shortest possible time.
    """
    name, base = str(table.variant), str(table.base)
    ours = _find(snapshot, table.benchmark, params, python)
    alone = _find(snapshot, table.benchmark, {**params, name: base}, python)
    faster, times = _quotient(alone, ours), float(params[table.times]) if table.times else 1.0
    place = {key: value for key, value in params.items() if key != name}
    sources = [row for row in suite.seconds(python, table.name, place) if params[name] in row]
    gains = [row[base] / row[params[name]] for row in sources if base in row]
    cells = [
        _cell(ours, ", ".join(units.seconds(row[params[name]]) for row in sources)),
        Cell(
            ratio(times * faster if faster else None),
            published=", ".join(map(ratio, gains)),
        ),
    ]
    best = None
    if table.slowest:
        slowest = _find(snapshot, table.slowest, {}, python)
        best = slowest.value if slowest else None
    elif table.shared and alone and alone.value and snapshot.cores:
        best = alone.value / min(int(params[table.shared]), snapshot.cores)
    efficiency = best / ours.value if best and ours and ours.value and faster else 0.0
    if table.at_best:
        cells.append(Cell(formats.MISSING if best is None else units.seconds(best)))
        cells.append(Cell(units.share(efficiency) if efficiency else formats.MISSING))
    return cells, efficiency


def _figures(snapshot: Snapshot, table: SuiteTable) -> FigureTable:
    """Make the table of many benchmarks: one column per environment."""
    places = [(column.python, column.stack) for column in table.columns]
    by_row: dict[str, dict[tuple[str | None, str | None], Reading]] = {}
    for reading in snapshot.of(table.benchmark):
        if (place := (reading.python, reading.stack)) in places:
            by_row.setdefault(label(reading.benchmark, reading.params), {})[place] = reading
    rows = []
    for name, readings in by_row.items():
        sides = [readings.get(place) for place in places]
        cells = (
            Cell(ratio(_quotient(*(sides[place] for place in column.over))))
            if column.over
            else _cell(side)
            for column, side in zip(table.columns, sides, strict=True)
        )
        rows.append(FigureRow((name,), tuple(cells)))
    spread = _spread_note(reading for of_row in by_row.values() for reading in of_row.values())
    return FigureTable(
        title=table.title,
        keys=("what",),
        columns=tuple(column.title for column in table.columns),
        rows=tuple(rows),
        notes=tuple(filter(None, (table.note, spread))),
    )


def _answer(
    snapshots: Sequence[Snapshot],
    suite: SuiteDeclaration,
    shape: SuiteShape,
    runs: Sequence[RunSummary],
) -> Answer:
    table = suite.table(shape.table)
    sides = [_side(snapshots, table, shape, side) for side in (shape.above, shape.below)]
    ours, note = claims.compare(sides), ""
    if shape.per is not None:
        evidence = Evidence.of(runs, suite.experiment)
        cases = (shape.per.above, shape.per.below)
        whole = claims.compare([evidence.side(case, shape.per.metric) for case in cases])
        if ours is not None and whole is not None:
            note = f"{ratio(ours.estimate)} alone, {ratio(whole.estimate)} served"
        ours = _divide(ours, whole)
    above, below = str(shape.above.variant), str(shape.below.variant)
    same_python = shape.above.python == shape.below.python
    sources = suite.seconds(shape.above.python, shape.table, shape.where) if same_python else ()
    pairs = (row for row in sources if {above, below} <= row.keys())
    published = next((row[above] / row[below] for row in pairs), None)
    return claims.answer(shape, sides, published, ours, what="samples", note=note)


def _side(
    snapshots: Sequence[Snapshot], table: SuiteTable, shape: SuiteShape, side: SuiteSide
) -> Side:
    variant = {table.variant: side.variant} if table.variant and side.variant else {}
    params, name = {**shape.where, **variant}, shape.benchmark or table.benchmark
    readings = (
        (snapshot.commit, _find(snapshot, name, params, side.python, side.stack))
        for snapshot in snapshots
    )
    return Side(
        f"{side.variant or side.stack} on {side.python}",
        units.seconds,
        {
            commit: reading.samples or (reading.value,)
            for commit, reading in readings
            if reading is not None and reading.value is not None
        },
    )


def _divide(above: Interval | None, below: Interval | None) -> Interval | None:
    """Divide one ratio by another that was measured apart from it."""
    if above is None or below is None:
        return None
    mean = above.estimate / below.estimate
    if above.ends is None or below.ends is None:
        return Interval(mean)
    half = math.hypot(*(math.log(b / a) / 2 for a, b in (above.ends, below.ends)))
    return Interval(mean, mean / math.exp(half), mean * math.exp(half), min(above.n, below.n))


def _cell(reading: Reading | None, published: str = "") -> Cell:
    """Return a figure, or `failed`; a dash if the benchmark does not apply."""
    if reading is None:
        return Cell(formats.MISSING, published=published)
    value, form = reading.value, _FORMATS.get(reading.unit, units.significant)
    return Cell("failed" if value is None else form(value), published=published)


def _spread_note(readings: Iterable[Reading]) -> str:
    spreads = [reading.spread for reading in readings if reading.spread is not None]
    if not spreads:
        return ""
    return (
        "figures are medians; half of their samples lie within "
        f"±{units.significant(100 * max(spreads), 2)} % in the widest case"
    )


def _quotient(above: Reading | None, below: Reading | None) -> float | None:
    """Divide one figure by another; None unless both were measured."""
    if above is None or below is None or above.value is None or not below.value:
        return None
    return above.value / below.value


def _find(
    snapshot: Snapshot,
    benchmark: str,
    params: dict[str, str],
    python: str,
    stack: str | None = None,
) -> Reading | None:
    """Return the reading of these parameters; without a stack, of any stack."""
    of_python = (reading for reading in snapshot.of(benchmark) if reading.python == python)
    alike = (r for r in of_python if stack in {None, r.stack} and r.param == params)
    return next(alike, None)
