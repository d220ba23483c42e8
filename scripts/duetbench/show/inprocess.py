"""asv's figures as sections of a report: tables and answers of the declared suites.

What failed is shown as failed, what does not apply is left out, and neither is a figure. Pure.
"""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from duetbench.core import units
from duetbench.core.protocol import evaluate
from duetbench.core.units import Interval
from duetbench.project.published import (
    Published,
    SuiteColumn,
    SuiteDeclaration,
    SuiteShape,
    SuiteSide,
    SuiteTable,
)
from duetbench.show import claims, formats
from duetbench.show.claims import Answer, Evidence, Side
from duetbench.show.page import (
    Cell,
    FigureRow,
    FigureTable,
    RunPage,
    Section,
    different,
    make_section,
)
from duetbench.store.asv_results import Reading, Snapshot, environments
from duetbench.trend.summary import RunSummary

TITLE: Final = "Inside the process"
IMPOSSIBLE: Final = 0.95
"""Below this share of the shortest possible time a figure is impossible; above, it is the scatter
of the two figures that are compared."""

_ONE_BY_ONE: Final = (
    "asv measures one environment after the other: what the machine does in the meantime is in the "
    "differences, so a few per cent between interpreters or stacks decide nothing here"
)
_FORMATS: Final[dict[str, units.Formatter]] = {
    "seconds": units.seconds,
    "bytes": units.size,
    "instructions": units.count,
}


def make_page(snapshots: Sequence[Snapshot], suites: Iterable[SuiteDeclaration]) -> RunPage:
    """All snapshots (newest first) as a page."""
    facts = [("measured", where(snapshot)) for snapshot in snapshots]
    return RunPage(TITLE, tuple(facts[:1]), sections(snapshots, suites))


def sections(
    snapshots: Sequence[Snapshot],
    suites: Iterable[SuiteDeclaration],
    runs: Sequence[RunSummary] = (),
) -> tuple[Section, ...]:
    """One section per suite that has a figure, all of the machine that has measured it most often.

    Tables are of the newest commit that has a figure, statements of all; some of these are about
    what servers did in `runs`, too.
    """
    result = []
    for suite in suites:
        having = [snapshot for snapshot in snapshots if snapshot.has(*suite.benchmarks)]
        most = Counter(snapshot.machine for snapshot in having).most_common(1)
        having = [snapshot for snapshot in having if snapshot.machine == most[0][0]]
        if having and (section := _section(suite, having, runs)).tables:
            result.append(section)
    return tuple(result)


def experiment(
    name: str,
    runs: Sequence[RunSummary],
    snapshots: Sequence[Snapshot],
    published: Mapping[str, Published],
    suites: Iterable[SuiteDeclaration],
) -> tuple[Evidence, tuple[Section, ...]]:
    """All that is known of an experiment: of servers, then inside the process."""
    evidence = Evidence.of(runs, name)
    own = name in published or evidence.cases
    served = [make_section(name, evidence, published.get(name))] if own else []
    inside = sections(snapshots, [suite for suite in suites if suite.page == name], runs)
    return evidence, (*served, *inside)


def where(snapshot: Snapshot) -> str:
    """When, on what and of which commit."""
    moment = datetime.fromtimestamp(snapshot.started / 1000, UTC)
    described = f" ({snapshot.described})" if snapshot.described else ""
    return (
        f"{moment:%Y-%m-%d %H:%M} UTC by asv on {snapshot.machine}{described}, "
        f"commit {snapshot.commit[:12]}"
    )


def as_json(snapshots: Sequence[Snapshot], page: RunPage) -> dict[str, Any]:
    """Everything for programs: SI units, and what failed without a figure."""
    return {
        "snapshots": [dataclasses.asdict(snapshot) for snapshot in snapshots],
        "sections": [
            {"name": section.experiment, **dataclasses.asdict(section)} for section in page.sections
        ],
    }


def label(benchmark: str, params: Sequence[tuple[str, str]]) -> str:
    """A benchmark and its parameters for people: `validate: 20, json` rather than asv's name."""
    *_, kind, function = benchmark.split(".")
    if kind == benchmark.partition(".")[0]:  # a function of the module, in no class
        kind = function.partition("_")[2].replace("_", " ")
    values = ", ".join(value for _, value in params)
    return f"{kind.lower()}: {values}" if values else kind.lower()


def _section(
    suite: SuiteDeclaration, snapshots: Sequence[Snapshot], runs: Sequence[RunSummary]
) -> Section:
    source, newest = suite.source, snapshots[0]
    tables = (
        _variants(newest, suite, table) if table.variant else _figures(newest, table)
        for table in suite.tables
    )
    return Section(
        experiment=suite.title,
        question=suite.question,
        source=f"{source.title}, {source.date} ({source.setting})" if source else "",
        answers=tuple(_answer(snapshots, suite, shape, runs) for shape in suite.shapes),
        tables=tuple(table for table in tables if table is not None),
        notes=(f"measured {where(newest)}", _ONE_BY_ONE, *different(suite.deviations)),
    )


def _variants(snapshot: Snapshot, suite: SuiteDeclaration, table: SuiteTable) -> FigureTable | None:
    """The table of a benchmark that does the same work in several ways."""
    # What nobody asked for (large files) is no row; what failed is one.
    readings = [r for r in snapshot.of(table.benchmark) if r.status != "skipped"]
    if not any(reading.status == "measured" for reading in readings):
        return None
    key = str(table.variant)
    pythons = sorted({reading.python for reading in readings})
    params = dict.fromkeys(
        tuple(reading.param[name] for name in (*table.keys, key)) for reading in readings
    )
    places = [row[:-1] for row in params]
    ordered = sorted(params, key=lambda row: places.index(row[:-1]))
    cells = {
        row: [
            _variant(
                snapshot, suite, table, dict(zip((*table.keys, key), row, strict=True)), python
            )
            for python in pythons
        ]
        for row in ordered
    }
    impossible = (
        f"impossible: {row[-1]} on {python} took {units.share(1 / share)} of the shortest; "
        "the measurement is wrong"
        for row, of_row in cells.items()
        for python, (*_, share) in zip(pythons, of_row, strict=True)
        if share > 1 / IMPOSSIBLE and row[-1] != table.base
    )
    published = [row.run for row in suite.published if row.table == table.name and row.run]
    notes = [
        table.note,
        _spread_note(readings),
        f"published: {', '.join(published)}" if published else "",
        _at_best(snapshot, table, pythons),
        *impossible,
    ]
    kinds = ("time", "speed-up", *(("at best", "efficiency") if table.best else ()))
    return FigureTable(
        title=table.title,
        keys=(*table.keys, key),
        columns=tuple(f"{python} {kind}" for python in pythons for kind in kinds),
        rows=tuple(
            FigureRow(row, tuple(cell for *many, _ in of_row for cell in many))
            for row, of_row in cells.items()
        ),
        notes=tuple(filter(None, notes)),
    )


def _variant(
    snapshot: Snapshot,
    suite: SuiteDeclaration,
    table: SuiteTable,
    params: dict[str, str],
    python: str,
) -> tuple[Any, ...]:
    """Cells of one variant on one interpreter, and the share of the ceiling that it reached.

    The speed-up is work per second over that of the table's base.
    """
    name, base = str(table.variant), str(table.base)
    ours = _find(snapshot, table.benchmark, params, python)
    alone = _find(snapshot, table.benchmark, {**params, name: base}, python)
    numbers = {key: float(text) for key, text in params.items() if _number(text)}
    times, slower = numbers[table.times] if table.times else 1.0, _quotient(ours, alone)
    gain = times / slower if slower else None
    where_ = {key: value for key, value in params.items() if key != name}
    theirs = [
        row.seconds
        for row in (suite.published if suite.source and suite.source.python == python else ())
        if row.table == table.name and row.where == where_ and params[name] in row.seconds
    ]
    gains = [row[base] / row[params[name]] for row in theirs if base in row]
    best = _best(snapshot, table, alone, numbers, python)
    ceiling = times * alone.value / best if best and alone and alone.value else None
    share = gain / ceiling if gain and ceiling else 0.0
    published = ", ".join(units.seconds(row[params[name]]) for row in theirs)
    cells = [
        _cell(ours, published),
        Cell(
            formats.ratio(gain),
            published=", ".join(map(formats.ratio, gains)),
            bar=(python, gain, ceiling, gains[0] if gains else None),
        ),
    ]
    if table.best is not None:
        cells.append(Cell(formats.MISSING if best is None else units.seconds(best)))
        cells.append(Cell(units.share(share) if share else formats.MISSING))
    return (*cells, share)


def _best(
    snapshot: Snapshot,
    table: SuiteTable,
    alone: Reading | None,
    numbers: Mapping[str, float],
    python: str,
) -> float | None:
    """The shortest possible time in seconds; None: not declared, or something was not measured."""
    values = {
        "base": alone.value if alone else None,
        "cores": snapshot.cores,
        "slowest": _slowest(snapshot, table, python),
        **numbers,
    }
    measured = {key: float(value) for key, value in values.items() if value is not None}
    needed = set(re.findall(r"[a-z_]+", table.best or "")) & values.keys()
    return evaluate(table.best, measured) if table.best and needed <= measured.keys() else None


def _at_best(snapshot: Snapshot, table: SuiteTable, pythons: Sequence[str]) -> str:
    """The formula of the shortest possible time, with what it was worked out from."""
    if not table.best:
        return ""
    text = f"at best: {table.best}"
    if "cores" in table.best:
        text += f", with {snapshot.cores or 'an unknown number of'} cores"
    slowest = ((_slowest(snapshot, table, python), python) for python in pythons)
    rounds = [f"{units.seconds(seconds)} on {python}" for seconds, python in slowest if seconds]
    return text + (f" (the slowest single round: {', '.join(rounds)})" if rounds else "")


def _figures(snapshot: Snapshot, table: SuiteTable) -> FigureTable | None:
    """The table of many benchmarks: one column per environment."""
    readings = snapshot.of(table.benchmark)
    columns = table.columns or tuple(
        SuiteColumn(title=f"{stack} {python}", python=python, stack=stack)
        for python, stack in environments(readings)
    )
    in_columns = {(column.python, column.stack) for column in columns}
    readings = tuple(r for r in readings if (r.python, r.stack) in in_columns)
    if not any(reading.status == "measured" for reading in readings):
        return None
    by_key = {(r.benchmark, r.params, r.python, r.stack): r for r in readings}
    rows = []
    for benchmark, params in dict.fromkeys((r.benchmark, r.params) for r in readings):
        sides = [by_key.get((benchmark, params, str(c.python), str(c.stack))) for c in columns]
        if all(side is None or side.status == "skipped" for side in sides):
            continue
        cells = (
            Cell(formats.ratio(_quotient(*(sides[place] for place in column.over))))
            if column.over
            else _cell(side)
            for column, side in zip(columns, sides, strict=True)
        )
        rows.append(FigureRow(keys=(label(benchmark, params),), cells=tuple(cells)))
    return FigureTable(
        title=table.title,
        keys=("what",),
        columns=tuple(column.title for column in columns),
        rows=tuple(rows),
        notes=tuple(filter(None, (table.note, _spread_note(readings)))),
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
            note = f"{formats.ratio(ours.estimate)} alone, {formats.ratio(whole.estimate)} served"
        ours = _divided(ours, whole)
    published = None
    if suite.source and {shape.above.python, shape.below.python} == {suite.source.python}:
        # Of the source's runs, the first that has both.
        variants = (str(side.variant) for side in (shape.above, shape.below))
        theirs = suite.seconds(shape.table, shape.where, *variants)
        published = theirs[0][0] / theirs[0][1] if theirs else None
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


def _divided(above: Interval | None, below: Interval | None) -> Interval | None:
    """One ratio over another that was measured apart from it."""
    if above is None or below is None:
        return None
    mean = above.estimate / below.estimate
    if above.ends is None or below.ends is None:
        return Interval(mean)
    half = math.hypot(*(math.log(b / a) / 2 for a, b in (above.ends, below.ends)))
    return Interval(mean, mean / math.exp(half), mean * math.exp(half), min(above.n, below.n))


def _cell(reading: Reading | None, published: str = "") -> Cell:
    """A figure, or `failed`; a dash where nothing applies."""
    if reading is None or reading.status == "skipped":
        return Cell(formats.MISSING, published=published)
    value, form = reading.value, _FORMATS.get(reading.unit, units.significant)
    return Cell("failed" if value is None else form(value), published=published)


def _spread_note(readings: Iterable[Reading | None]) -> str:
    spreads = [reading.spread for reading in readings if reading is not None]
    widest = max((spread for spread in spreads if spread is not None), default=None)
    if widest is None:
        return ""
    return (
        "figures are medians; half of their samples lie within "
        f"±{units.significant(100 * widest, 2)} % in the widest case"
    )


def _slowest(snapshot: Snapshot, table: SuiteTable, python: str) -> float | None:
    """The slowest single round on an interpreter, in seconds."""
    readings = snapshot.of(table.slowest) if table.slowest else ()
    return next((reading.value for reading in readings if reading.python == python), None)


def _quotient(above: Reading | None, below: Reading | None) -> float | None:
    """One figure over another; None unless both were measured."""
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
    """The reading of these parameters; without a stack, of any."""
    for reading in snapshot.of(benchmark):
        if reading.python == python and stack in {None, reading.stack} and reading.param == params:
            return reading
    return None


def plural(value: str, key: str) -> str:
    """`4 tasks`, `1 task`; a value that is no number stands for itself."""
    if not _number(value):
        return value
    return f"{value} {key.removesuffix('s') if value == '1' else key}"


def _number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+(\.\d+)?", text))
