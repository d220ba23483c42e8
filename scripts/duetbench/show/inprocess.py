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
from duetbench.core.formula import evaluate
from duetbench.core.interval import Interval
from duetbench.core.model import Case
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
    pairs = ((suite, newest(snapshots, *suite.benchmarks)) for suite in suites)
    filled = (_section(suite, snapshot, run) for suite, snapshot in pairs if snapshot is not None)
    return tuple(section for section in filled if section.tables)


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
    sentences = [
        f"{formats.ratio(speed_up.gain)} times as fast on {speed_up.python}"
        for speed_up in speed_ups(snapshot, suite, suite.table(suite.answer.table))
        if speed_up.where == suite.answer.where
        and speed_up.variant == suite.answer.variant
        and speed_up.gain is not None
    ]
    return f"{suite.answer.says}: {' and '.join(sentences)} (medians)." if sentences else ""


def label(benchmark: str, params: Sequence[tuple[str, str]]) -> str:
    """A benchmark and its parameters for people: `validate: 20, json` rather than asv's name."""
    *_, kind, function = benchmark.split(".")
    if kind == benchmark.partition(".")[0]:  # a function of the module, in no class
        kind = function.partition("_")[2].replace("_", " ")
    values = ", ".join(value for _, value in params)
    return f"{kind.lower()}: {values}" if values else kind.lower()


def _section(suite: SuiteDeclaration, snapshot: Snapshot, run: RunSummary | None) -> Section:
    source = suite.source
    figure_tables = (
        _variants(snapshot, suite, table) if table.variant else _figures(snapshot, table, run)
        for table in suite.tables
    )
    return Section(
        experiment=suite.title,
        question=suite.question,
        source=f"{source.title}, {source.date} ({source.setting})" if source else None,
        tables=tuple(table for table in figure_tables if table is not None),
        shapes=tuple(_shape(snapshot, suite, shape, run) for shape in suite.shapes),
        notes=(f"measured {where(snapshot)}", _ONE_BY_ONE),
        deviations=suite.deviations,
    )


def _variants(snapshot: Snapshot, suite: SuiteDeclaration, table: SuiteTable) -> FigureTable | None:
    compared = speed_ups(snapshot, suite, table)
    if not compared:
        return None
    pythons = list(dict.fromkeys(speed_up.python for speed_up in compared))
    kinds = ("time", "speed-up", *(("at best", "efficiency") if table.best else ()))
    rows: dict[tuple[str, ...], list[Cell]] = {}
    impossible = []
    for speed_up in compared:
        cells = rows.setdefault((*speed_up.where.values(), speed_up.variant), [])
        times = ", ".join(units.seconds(seconds) for seconds, _ in speed_up.published)
        ratios = ", ".join(formats.ratio(ratio) for _, ratio in speed_up.published if ratio)
        cells += [
            _cell(speed_up.reading, times),
            Cell(formats.ratio(speed_up.gain), published=ratios),
        ]
        share = speed_up.gain / speed_up.ceiling if speed_up.gain and speed_up.ceiling else 0.0
        if table.best is not None:
            cells.append(
                Cell(formats.MISSING if speed_up.best is None else units.seconds(speed_up.best))
            )
            cells.append(Cell(units.share(share) if share else formats.MISSING))
        if share > 1 / IMPOSSIBLE and speed_up.variant != table.base:
            impossible.append(
                f"impossible: {speed_up.variant} on {speed_up.python} took "
                f"{units.share(1 / share)} of the shortest; the measurement is wrong"
            )
    at_best = f"at best: {table.best}" if table.best else ""
    if "cores" in at_best:
        at_best += f", with {snapshot.cores or 'an unknown number of'} cores"
    longest = {python: slowest(snapshot, table, python) for python in pythons}
    rounds = [f"{units.seconds(time)} on {python}" for python, time in longest.items() if time]
    if at_best and rounds:
        at_best += f" (the slowest single round: {', '.join(rounds)})"
    runs = [row.run for row in suite.published if row.table == table.name and row.run]
    measured = [speed_up.reading for speed_up in compared if speed_up.reading is not None]
    notes = [
        table.note,
        _spread_note(measured),
        f"published: {', '.join(runs)}" if runs else "",
        at_best,
        *impossible,
    ]
    return FigureTable(
        title=table.title,
        keys=(*table.keys, str(table.variant)),
        columns=tuple(f"{python} {kind}" for python in pythons for kind in kinds),
        rows=tuple(FigureRow(keys=key, cells=tuple(cells)) for key, cells in rows.items()),
        notes=tuple(filter(None, notes)),
    )


def _figures(snapshot: Snapshot, table: SuiteTable, run: RunSummary | None) -> FigureTable | None:
    readings = snapshot.of(table.benchmark)
    columns = table.columns or _columns(readings)
    wanted = {(column.python, column.stack) for column in columns}
    readings = tuple(reading for reading in readings if (reading.python, reading.stack) in wanted)
    if not any(reading.status == "measured" for reading in readings):
        return None
    by_key = {
        (reading.benchmark, reading.params, reading.python, reading.stack): reading
        for reading in readings
    }
    where_ = ("in process",) if table.beside else ()
    rows = []
    for benchmark, params in dict.fromkeys(
        (reading.benchmark, reading.params) for reading in readings
    ):
        sides = [by_key.get((benchmark, params, str(c.python), str(c.stack))) for c in columns]
        if all(side is None or side.status == "skipped" for side in sides):
            continue
        cells = (
            Cell(formats.ratio(quotient(*(sides[place] for place in column.over))))
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
    places = environments(readings)
    without_gil = (
        SuiteColumn(
            title=f"{stack} {python}t / {python}",
            over=(places.index((f"{python}t", stack)), places.index((python, stack))),
        )
        for python, stack in places
        if (f"{python}t", stack) in places
    )
    plain = (SuiteColumn(title=f"{s} {python}", python=python, stack=s) for python, s in places)
    return (*plain, *without_gil)


def _beside(table: SuiteTable, run: RunSummary) -> Iterator[FigureRow]:
    """What a response gains in a run with servers: one row per load and metric."""
    if table.beside is None:
        return
    by_load: dict[str, dict[tuple[str | None, str | None], Case]] = {}
    for case in (measured.case for measured in run.cases.values()):
        if case.experiment == table.beside.experiment:
            kind = "users" if case.load.rate is not None else "connections"
            load = by_load.setdefault(f"{case.load.connections} {kind}", {})
            load[case.python, case.stack] = case
    for load_, cases in by_load.items():
        sides = [cases.get((column.python, column.stack)) for column in table.columns]
        for metric, title in table.beside.metrics.items():
            cells = []
            for column, side in zip(table.columns, sides, strict=True):
                if column.over:
                    pair = (sides[place] for place in column.over)
                    gain = summary.ratio(
                        *(summary.values(run.run, case.id, metric) if case else [] for case in pair)
                    )
                    if gain is None:
                        break
                    cells.append(Cell(formats.ratio_with_interval(gain)))
                elif side and (figure := run.cases[side.id].metrics.get(metric)):
                    cells.append(Cell(formats.figure(metric, figure.estimate), case=side.id))
                else:
                    cells.append(Cell(formats.MISSING))
            else:
                yield FigureRow(keys=("end to end", f"{title}, {load_}"), cells=tuple(cells))


def _shape(
    snapshot: Snapshot, suite: SuiteDeclaration, shape: SuiteShape, run: RunSummary | None
) -> ShapeResult:
    table = suite.table(shape.table)
    sides = (shape.above, shape.below)
    readings = []
    for side in sides:
        variant = {table.variant: side.variant} if table.variant and side.variant else {}
        params, name = {**shape.where, **variant}, shape.benchmark or table.benchmark
        readings.append(find(snapshot, name, params, side.python, side.stack))
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
    plain = quotient(above, below)
    if above is None or below is None or plain is None:
        return None
    if shape.per is None:
        if above.samples and below.samples:
            return summary.ratio(above.samples, below.samples)
        return Interval(plain)
    cases = (shape.per.above, shape.per.below)
    launches = [summary.values(run.run, case, shape.per.metric) for case in cases] if run else []
    whole = summary.ratio(*launches) if launches else None
    if whole is None:
        return None
    low, high = whole.ends or (None, None)
    return Interval(
        plain / whole.estimate,
        None if high is None else plain / high,
        None if low is None else plain / low,
        whole.n,
    )


def _cell(reading: Reading | None, published: str = "") -> Cell:
    """A figure, or `failed`; a dash where nothing applies."""
    if reading is None or reading.status == "skipped":
        return Cell(formats.MISSING, published=published)
    value, form = reading.value, _FORMATS.get(reading.unit, units.significant)
    return Cell("failed" if value is None else form(value), published=published)


def _spread_note(readings: Iterable[Reading]) -> str:
    spread = max(
        (reading.spread for reading in readings if reading.spread is not None), default=None
    )
    if spread is None:
        return ""
    return (
        "figures are medians; half of their samples lie within "
        f"±{units.significant(100 * spread, 2)} % in the widest case"
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
    readings = [reading for reading in snapshot.of(table.benchmark) if reading.status != "skipped"]
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
    ours = find(snapshot, table.benchmark, {**params, name: variant}, python)
    alone = find(snapshot, table.benchmark, {**params, name: base}, python)
    numbers = {key: float(text) for key, text in {**params, name: variant}.items() if _number(text)}
    times = numbers[table.times] if table.times else 1.0
    slower = quotient(ours, alone)
    best = None
    if table.best is not None:
        values = {
            "base": alone.value if alone else None,
            "cores": snapshot.cores,
            "slowest": slowest(snapshot, table, python),
            **numbers,
        }
        inputs = {key: float(value) for key, value in values.items() if value is not None}
        names = set(re.findall(r"[a-z_]+", table.best)) & {*values}
        best = evaluate(table.best, inputs) if names <= inputs.keys() else None
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
            (run[variant], run[base] / run[variant] if base in run else None) for run in theirs
        ),
    )


def slowest(snapshot: Snapshot, table: SuiteTable, python: str) -> float | None:
    """The slowest single round on an interpreter, in seconds."""
    readings = snapshot.of(table.slowest) if table.slowest else ()
    return next((reading.value for reading in readings if reading.python == python), None)


def quotient(above: Reading | None, below: Reading | None) -> float | None:
    """One figure over another; None unless both were measured."""
    if above is None or below is None or above.value is None or not below.value:
        return None
    return above.value / below.value


def find(
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
