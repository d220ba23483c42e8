"""asv's figures as sections of a report: tables, statements and answers of the declared suites.

What failed is shown as failed, what does not apply is left out, and neither is a figure. Pure.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from duetbench.core import units
from duetbench.core.model import Case
from duetbench.core.protocol import evaluate
from duetbench.core.units import Interval
from duetbench.project.suites import SuiteColumn, SuiteDeclaration, SuiteShape, SuiteTable
from duetbench.show import formats
from duetbench.show.claims import ShapeResult, judge
from duetbench.show.page import Cell, FigureRow, FigureTable, RunPage, Section
from duetbench.store.asv_results import Reading, Snapshot, environments, newest
from duetbench.trend import summary
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


def make_page(
    snapshots: Sequence[Snapshot], suites: Iterable[SuiteDeclaration], run: RunSummary | None = None
) -> RunPage:
    """All snapshots (newest first) as a page; tables may show a `run` with servers beside."""
    facts = [("measured", where(snapshot)) for snapshot in snapshots]
    return RunPage(TITLE, tuple(facts[:1]), sections(snapshots, suites, run))


def sections(
    snapshots: Sequence[Snapshot], suites: Iterable[SuiteDeclaration], run: RunSummary | None = None
) -> tuple[Section, ...]:
    """One section per suite that has a figure, of the newest commit that has one."""
    newest_of = ((suite, newest(snapshots, *suite.benchmarks)) for suite in suites)
    all_of = (_section(suite, snapshot, run) for suite, snapshot in newest_of if snapshot)
    return tuple(section for section in all_of if section.tables)


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
            {
                "name": section.experiment,
                "question": section.question,
                "tables": [dataclasses.asdict(table) for table in section.tables],
                "shapes": [shape.model_dump(mode="json") for shape in section.shapes],
                "notes": list(section.notes),
            }
            for section in page.sections
        ],
    }


def answer(snapshot: Snapshot, suite: SuiteDeclaration) -> str:
    """The suite's sentence with quotients of medians; empty: not declared, or not measured.

    They have no interval: asv's samples are not independent of each other.
    """
    if suite.answer is None:
        return ""
    gains = [
        f"{formats.ratio(variant.gain)} times as fast on {variant.python}"
        for variant in speed_ups(snapshot, suite, suite.table(suite.answer.table))
        if variant.where == suite.answer.where
        and variant.variant == suite.answer.variant
        and variant.gain is not None
    ]
    return f"{suite.answer.says}: {' and '.join(gains)} (medians)." if gains else ""


def label(benchmark: str, params: Sequence[tuple[str, str]]) -> str:
    """A benchmark and its parameters for people: `validate: 20, json` rather than asv's name."""
    *_, kind, function = benchmark.split(".")
    if kind == benchmark.partition(".")[0]:  # a function of the module, in no class
        kind = function.partition("_")[2].replace("_", " ")
    values = ", ".join(value for _, value in params)
    return f"{kind.lower()}: {values}" if values else kind.lower()


def _section(suite: SuiteDeclaration, snapshot: Snapshot, run: RunSummary | None) -> Section:
    source = suite.source
    tables = (
        _variants(snapshot, suite, table) if table.variant else _figures(snapshot, table, run)
        for table in suite.tables
    )
    return Section(
        experiment=suite.title,
        question=suite.question,
        source=f"{source.title}, {source.date} ({source.setting})" if source else None,
        tables=tuple(table for table in tables if table is not None),
        shapes=tuple(_shape(snapshot, suite, shape, run) for shape in suite.shapes),
        notes=(f"measured {where(snapshot)}", _ONE_BY_ONE),
        deviations=suite.deviations,
    )


def _variants(snapshot: Snapshot, suite: SuiteDeclaration, table: SuiteTable) -> FigureTable | None:
    """The table of a benchmark that does the same work in several ways."""
    variants = speed_ups(snapshot, suite, table)
    if not variants:
        return None
    pythons = list(dict.fromkeys(variant.python for variant in variants))
    kinds = ("time", "speed-up", *(("at best", "efficiency") if table.best else ()))
    rows: dict[tuple[str, ...], list[Cell]] = {}
    impossible = []
    for variant in variants:
        cells = rows.setdefault((*variant.where.values(), variant.variant), [])
        times = ", ".join(units.seconds(seconds) for seconds, _ in variant.published)
        gains = ", ".join(formats.ratio(gain) for _, gain in variant.published if gain)
        cells += [
            _cell(variant.reading, times),
            Cell(formats.ratio(variant.gain), published=gains),
        ]
        share = variant.gain / variant.ceiling if variant.gain and variant.ceiling else 0.0
        if table.best is not None:
            best = formats.MISSING if variant.best is None else units.seconds(variant.best)
            cells += [Cell(best), Cell(units.share(share) if share else formats.MISSING)]
        if share > 1 / IMPOSSIBLE and variant.variant != table.base:
            impossible.append(
                f"impossible: {variant.variant} on {variant.python} took "
                f"{units.share(1 / share)} of the shortest; the measurement is wrong"
            )
    runs = [row.run for row in suite.published if row.table == table.name and row.run]
    notes = [
        table.note,
        _spread_note(variant.reading for variant in variants),
        f"published: {', '.join(runs)}" if runs else "",
        _at_best(snapshot, table, pythons),
        *impossible,
    ]
    return FigureTable(
        title=table.title,
        keys=(*table.keys, str(table.variant)),
        columns=tuple(f"{python} {kind}" for python in pythons for kind in kinds),
        rows=tuple(FigureRow(keys=key, cells=tuple(cells)) for key, cells in rows.items()),
        notes=tuple(filter(None, notes)),
    )


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


def _figures(snapshot: Snapshot, table: SuiteTable, run: RunSummary | None) -> FigureTable | None:
    """The table of many benchmarks: one column per environment."""
    readings = snapshot.of(table.benchmark)
    columns = table.columns or _columns(readings)
    in_columns = {(column.python, column.stack) for column in columns}
    readings = tuple(r for r in readings if (r.python, r.stack) in in_columns)
    if not any(reading.status == "measured" for reading in readings):
        return None
    by_key = {(r.benchmark, r.params, r.python, r.stack): r for r in readings}
    where_ = ("in process",) if table.beside else ()
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
        rows.append(FigureRow(keys=(*where_, label(benchmark, params)), cells=tuple(cells)))
    notes = [table.note, _spread_note(readings)]
    if run is not None and (further := list(_beside(table, run))):
        rows += further
        notes.append(f"end to end: run {run.run.id}; the ratios with their intervals over launches")
    return FigureTable(
        title=table.title,
        keys=("where", "what") if table.beside else ("what",),
        columns=tuple(column.title for column in columns),
        rows=tuple(rows),
        notes=tuple(filter(None, notes)),
    )


def _columns(readings: Sequence[Reading]) -> tuple[SuiteColumn, ...]:
    """Every environment; and of each stack, the build without the GIL over the one with it."""
    measured = environments(readings)
    plain = [SuiteColumn(title=f"{s} {python}", python=python, stack=s) for python, s in measured]
    ratios = [
        SuiteColumn(
            title=f"{stack} {python}t / {python}",
            over=(measured.index((f"{python}t", stack)), measured.index((python, stack))),
        )
        for python, stack in measured
        if (f"{python}t", stack) in measured
    ]
    return (*plain, *ratios)


def _beside(table: SuiteTable, run: RunSummary) -> Iterator[FigureRow]:
    """What a response gains in a run with servers: one row per load and metric."""
    if table.beside is None:
        return
    by_load: dict[str, dict[tuple[str | None, str | None], Case]] = {}
    for case in (result.case for result in run.cases.values()):
        if case.experiment == table.beside.experiment:
            kind = "users" if case.load.rate is not None else "connections"
            cases = by_load.setdefault(f"{case.load.connections} {kind}", {})
            cases[case.python, case.stack] = case
    for load, cases in by_load.items():
        sides = [cases.get((column.python, column.stack)) for column in table.columns]
        for metric, title in table.beside.metrics.items():
            cells = [
                _beside_cell(run, metric, [sides[place] for place in column.over or ()] or [side])
                for column, side in zip(table.columns, sides, strict=True)
            ]
            if None not in cells:
                keys = ("end to end", f"{title}, {load}")
                yield FigureRow(keys=keys, cells=tuple(cell for cell in cells if cell))


def _beside_cell(run: RunSummary, metric: str, cases: Sequence[Case | None]) -> Cell | None:
    """A figure of one case, or the ratio of two; None: the ratio was not measured."""
    if len(cases) == 2:
        sides = (summary.values(run.run, case.id, metric) if case else [] for case in cases)
        gain = summary.ratio(*sides)
        return Cell(formats.ratio_with_interval(gain)) if gain else None
    (case,) = cases
    figure = run.cases[case.id].metrics.get(metric) if case else None
    if case is None or figure is None:
        return Cell(formats.MISSING)
    return Cell(formats.figure(metric, figure.estimate), case=case.id)


def _shape(
    snapshot: Snapshot, suite: SuiteDeclaration, shape: SuiteShape, run: RunSummary | None
) -> ShapeResult:
    table, sides = suite.table(shape.table), (shape.above, shape.below)
    readings = []
    for side in sides:
        variant = {table.variant: side.variant} if table.variant and side.variant else {}
        params, name = {**shape.where, **variant}, shape.benchmark or table.benchmark
        readings.append(_find(snapshot, name, params, side.python, side.stack))
    ours = _ours(readings, shape, run)
    verdict = judge(ours, shape.least, shape.most)
    reason = ""
    if verdict == "not measured":
        missing = [
            f"{side.variant or side.stack} on {side.python}"
            for side, reading in zip(sides, readings, strict=True)
            if not reading or reading.value is None
        ]
        reason = f"no figures of {', '.join(missing)}" if missing else "no run has both responses"
    elif verdict == "not decided":
        more = "launches" if shape.per else "samples"
        reason = f"the interval reaches over the limit: more {more} would decide"
    elif verdict == "does not hold":
        reason = shape.if_not or ""
    published = None
    if suite.source and {side.python for side in sides} == {suite.source.python}:
        # Of the source's runs, the first that has both.
        theirs = suite.seconds(shape.table, shape.where, *(str(side.variant) for side in sides))
        published = theirs[0][0] / theirs[0][1] if theirs else None
    return ShapeResult(
        statement=shape.statement,
        expected=formats.limits(shape.least, shape.most),
        published=published,
        ours=ours,
        verdict=verdict,
        reason=reason,
    )


def _ours(
    sides: Sequence[Reading | None], shape: SuiteShape, run: RunSummary | None
) -> Interval | None:
    """Ratio of two figures, with an interval where there is one: over samples, or launches."""
    above, below = sides
    plain = _quotient(above, below)
    if above is None or below is None or plain is None:
        return None
    if shape.per is None:
        if above.samples and below.samples:
            return summary.ratio(above.samples, below.samples)
        return Interval(plain)
    if run is None:
        return None
    cases = (shape.per.above, shape.per.below)
    whole = summary.ratio(*(summary.values(run.run, case, shape.per.metric) for case in cases))
    if whole is None:
        return None
    low, high = (end and plain / end for end in reversed(whole.ends or (None, None)))
    return Interval(plain / whole.estimate, low, high, whole.n)


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


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How much faster one variant is than the base of its row, on one interpreter.

    `gain` is work per second over that of the base, `ceiling` the gain at the shortest possible
    time `best` (s); None where that is not declared or was not measured. `published` has time (s)
    and gain of every run of the source.
    """

    where: dict[str, str]
    variant: str
    python: str
    reading: Reading | None
    gain: float | None
    best: float | None
    ceiling: float | None
    published: tuple[tuple[float, float | None], ...]

    @property
    def title(self) -> str:
        return ", ".join(plural(value, key) for key, value in self.where.items())


def speed_ups(
    snapshot: Snapshot, suite: SuiteDeclaration, table: SuiteTable
) -> tuple[SpeedUp, ...]:
    """All that a table with a variant compares, row by row and interpreter by interpreter."""
    if table.variant is None or table.base is None:
        return ()
    # What nobody asked for (large files) is no row; what failed is one.
    readings = [r for r in snapshot.of(table.benchmark) if r.status != "skipped"]
    if not any(reading.status == "measured" for reading in readings):
        return ()
    rows: dict[tuple[str, ...], dict[str, None]] = {}
    for reading in readings:
        row = tuple(reading.param[key] for key in table.keys)
        rows.setdefault(row, {})[reading.param[table.variant]] = None
    return tuple(
        _speed_up(snapshot, suite, table, dict(zip(table.keys, row, strict=True)), variant, python)
        for row, variants in rows.items()
        for variant in variants
        for python in sorted({reading.python for reading in readings})
    )


def _speed_up(
    snapshot: Snapshot,
    suite: SuiteDeclaration,
    table: SuiteTable,
    params: dict[str, str],
    variant: str,
    python: str,
) -> SpeedUp:
    name, base = str(table.variant), str(table.base)
    ours = _find(snapshot, table.benchmark, {**params, name: variant}, python)
    alone = _find(snapshot, table.benchmark, {**params, name: base}, python)
    numbers = {key: float(text) for key, text in {**params, name: variant}.items() if _number(text)}
    times = numbers[table.times] if table.times else 1.0
    slower = _quotient(ours, alone)
    best = None
    if table.best is not None:
        values = {
            "base": alone.value if alone else None,
            "cores": snapshot.cores,
            "slowest": _slowest(snapshot, table, python),
            **numbers,
        }
        measured = {key: float(value) for key, value in values.items() if value is not None}
        needed = set(re.findall(r"[a-z_]+", table.best)) & values.keys()
        best = evaluate(table.best, measured) if needed <= measured.keys() else None
    theirs = [
        row.seconds
        for row in (suite.published if suite.source and suite.source.python == python else ())
        if row.table == table.name and row.where == params and variant in row.seconds
    ]
    return SpeedUp(
        where=params,
        variant=variant,
        python=python,
        reading=ours,
        gain=times / slower if slower else None,
        best=best,
        ceiling=times * alone.value / best if best and alone and alone.value else None,
        published=tuple(
            (seconds[variant], seconds[base] / seconds[variant] if base in seconds else None)
            for seconds in theirs
        ),
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
