"""Instructions of two commits side by side, from what asv has counted. Pure.

A screening: counts repeat where clocks scatter, also on shared machines, and say what one thread
executes. What executes more need not be slower, and what waits longer executes no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from servebench.core.metrics import METRICS
from servebench.record.asv_results import Reading, Snapshot
from servebench.report.formats import percent
from servebench.report.markdown import escape, grid

SUITE: Final = "instructions"
FLOOR: Final = METRICS["server_cpu_per_request"].floor
"""Smaller changes are counted, and matter to nobody."""

_LISTED: Final = 40  # rows of a table


@dataclass(frozen=True, slots=True)
class CountRow:
    """One thing that both commits could do: instructions per request or validation."""

    name: str
    base: float
    head: float

    @property
    def ratio(self) -> float:
        """Head over base."""
        return self.head / self.base


@dataclass(frozen=True, slots=True)
class InstructionChanges:
    """Two commits side by side.

    Attributes:
        rows: What was counted on both sides, the largest increase first.
        broken: What head fails at, and base does not.
        others: How many were counted on one side only, for other reasons.
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
    before = {_name(r): r for r in base.of(SUITE) if r.status != "skipped"}
    after = {_name(r): r for r in head.of(SUITE) if r.status != "skipped"}
    rows: list[CountRow] = []
    broken: list[str] = []
    for name in before.keys() & after.keys():
        old, new = before[name].value, after[name].value
        if old is not None and new is not None and old > 0:
            rows.append(CountRow(name, old, new))
        elif old is not None and new is None:
            broken.append(name)
    rows.sort(key=lambda row: (-row.ratio, row.name))
    counted = len(rows) + len(broken)
    return InstructionChanges(
        tuple(rows), tuple(sorted(broken)), len(before.keys() | after.keys()) - counted
    )


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
    """What was counted, for people, and different for all of them."""
    values = ", ".join(value for _, value in reading.params)
    what = reading.benchmark.removeprefix(f"{SUITE}.")
    return f"{what}({values}) on {reading.python}, {reading.stack}"
