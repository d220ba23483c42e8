"""What asv's figures say: how much faster variants are, and the instructions of two commits. Pure.

Instructions are a screening: counts repeat where clocks scatter, also on shared machines, and say
what one thread executes. What executes more need not be slower, and waiting is not in them.
"""

import re
from dataclasses import dataclass
from typing import Final

from duetbench.core.formula import evaluate
from duetbench.core.metrics import METRICS
from duetbench.project.suites import SuiteDeclaration, SuiteTable
from duetbench.show.formats import percent
from duetbench.show.markdown import escape, grid
from duetbench.store.asv_results import Reading, Snapshot

SUITE: Final = "instructions"
FLOOR: Final = METRICS["server_cpu_per_request"].floor
"""Smaller changes are counted, and matter to nobody."""

_LISTED: Final = 40  # rows of a table


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


@dataclass(frozen=True, slots=True)
class CountRow:
    """One thing that both commits could do: instructions per request or validation."""

    name: str
    base: float
    head: float

    @property
    def ratio(self) -> float:
        return self.head / self.base


@dataclass(frozen=True, slots=True)
class InstructionChanges:
    """Two commits side by side: `rows` counted on both, the largest increase first.

    `broken` is what head alone fails at; `others` were counted on one side for other reasons.
    """

    rows: tuple[CountRow, ...]
    broken: tuple[str, ...]
    others: int

    @property
    def more(self) -> tuple[CountRow, ...]:
        """What executes more by at least the floor."""
        return tuple(row for row in self.rows if row.ratio >= 1 + FLOOR)

    @property
    def fewer(self) -> tuple[CountRow, ...]:
        """What executes fewer by at least the floor, the largest decrease first."""
        return tuple(row for row in reversed(self.rows) if row.ratio <= 1 / (1 + FLOOR))

    @property
    def exit_code(self) -> int:
        """0: nothing executes more; 1: something does, or is broken; 3: nothing was counted."""
        if self.more or self.broken:
            return 1
        return 0 if self.rows else 3


def screen(base: Snapshot, head: Snapshot) -> InstructionChanges:
    """Hold head's counts against base's."""
    before, after = (
        {_name(one): one.value for one in side.of(SUITE) if one.status != "skipped"}
        for side in (base, head)
    )
    rows: list[CountRow] = []
    broken: list[str] = []
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if old is not None and new is None:
            broken.append(name)
        elif old and new is not None:
            rows.append(CountRow(name, old, new))
    rows.sort(key=lambda row: -row.ratio)
    others = len(before.keys() | after.keys()) - len(rows) - len(broken)
    return InstructionChanges(tuple(rows), tuple(broken), others)


def markdown(found: InstructionChanges, base: str, head: str) -> str:
    """The screening for a step's summary; `base` and `head` are the commits as they are shown."""
    blocks = [f"## {headline(found)}", f"Instructions of `{head}` held against `{base}`."]
    for title, rows in (("More", found.more), ("Fewer", found.fewer)):
        if rows:
            blocks += [f"### {title}", _table(rows)]
    if found.broken:
        listed = "\n".join(f"- {escape(name)}" for name in found.broken[:_LISTED])
        blocks += [f"### Broken: {len(found.broken)}", listed]
    same = len(found.rows) - len(found.more) - len(found.fewer)
    blocks.append(
        f"{same} differ by less than {FLOOR:.1%}. A screening: what executes more need not be "
        "slower, and waiting is not in it; `/bench` on the pull request decides."
    )
    return "\n\n".join(blocks) + "\n"


def headline(found: InstructionChanges) -> str:
    """What came out, in a line."""
    if not found.rows and not found.broken:
        return "Nothing was counted on both sides"
    said = [f"{len(found.more)} of {len(found.rows)} execute more instructions"]
    if found.more:
        said[0] += f", at most {percent(found.more[0].ratio)}"
    if found.fewer:
        said.append(f"{len(found.fewer)} fewer, at most {percent(found.fewer[0].ratio)}")
    if found.broken:
        said.append(f"{len(found.broken)} broken")
    return "; ".join(said)


def _table(rows: tuple[CountRow, ...]) -> str:
    lines = [
        [row.name, f"{row.base:,.0f}", f"{row.head:,.0f}", percent(row.ratio)]
        for row in rows[:_LISTED]
    ]
    text = grid(["what", "base", "head", "change"], ["---", "---:", "---:", "---:"], lines)
    left = len(rows) - len(lines)
    return text + (f"\n\n{left} more are not shown." if left else "")


def _name(reading: Reading) -> str:
    values = ", ".join(value for _, value in reading.params)
    what = reading.benchmark.removeprefix(f"{SUITE}.")
    return f"{what}({values}) on {reading.python}, {reading.stack}"
