"""How much faster than the base of its row each variant of a table of asv's figures is. Pure."""

import re
from dataclasses import dataclass

from duetbench.core.formula import evaluate
from duetbench.project.suites import SuiteDeclaration, SuiteTable
from duetbench.store.asv_results import Reading, Snapshot


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
    readings = [one for one in snapshot.of(table.benchmark) if one.status != "skipped"]
    if not any(reading.status == "measured" for reading in readings):
        return ()
    rows: dict[tuple[str, ...], dict[str, None]] = {}
    for one in readings:
        row = tuple(one.param[key] for key in table.keys)
        rows.setdefault(row, {})[one.param[table.variant]] = None
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
        known = {key: float(value) for key, value in values.items() if value is not None}
        named = set(re.findall(r"[a-z_]+", table.best)) & {*values}
        best = evaluate(table.best, known) if named <= known.keys() else None
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
            (one[variant], one[base] / one[variant] if base in one else None) for one in theirs
        ),
    )


def slowest(snapshot: Snapshot, table: SuiteTable, python: str) -> float | None:
    """The slowest single round on an interpreter, in seconds."""
    readings = snapshot.of(table.slowest) if table.slowest else ()
    return next((one.value for one in readings if one.python == python), None)


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
    for one in snapshot.of(benchmark):
        if one.python == python and stack in {None, one.stack} and one.param == params:
            return one
    return None


def plural(value: str, key: str) -> str:
    """`4 tasks`, `1 task`; a value that is no number stands for itself."""
    if not _number(value):
        return value
    return f"{value} {key.removesuffix('s') if value == '1' else key}"


def _number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+(\.\d+)?", text))
