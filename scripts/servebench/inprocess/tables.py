"""Tables from asv's results: scaling over threads, cost per environment; and what tables share.

They are values in the shape of the reports' own tables, so that Markdown and terminal show them
alike. What failed is shown as failed, what does not apply is left out, and neither is a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from servebench import units
from servebench.inprocess.readings import Reading, Snapshot, environments
from servebench.report import formats
from servebench.report.tables import Cell, Row, Table

SCALING: Final = "scaling.Scaling.time_threads"

_FORMATS: Final[dict[str, units.Formatter]] = {
    "seconds": units.seconds,
    "bytes": units.size,
    "instructions": units.count,
}


def figure(value: float, unit: str) -> str:
    """A figure of asv with its unit."""
    return _FORMATS.get(unit, units.significant)(value)


def status_text(reading: Reading | None) -> str:
    """A reading's figure, or `failed`; a dash where nothing applies."""
    if reading is None or reading.status == "skipped":
        return formats.MISSING
    return "failed" if reading.value is None else figure(reading.value, reading.unit)


def cell(reading: Reading | None, published: str = "") -> Cell:
    """A reading's figure with its name, and what was published."""
    named = "" if reading is None or reading.status == "skipped" else reading.case
    return Cell(status_text(reading), published=published, case=named)


def worst(readings: Iterable[Reading]) -> float | None:
    """The largest spread of any reading; None if none has one."""
    return max((r.spread for r in readings if r.spread is not None), default=None)


def spread_note(readings: Iterable[Reading]) -> str:
    """How far half of the samples lie from the median."""
    spread = worst(readings)
    if spread is None:
        return ""
    return (
        "figures are medians; half of their samples lie within "
        f"±{units.significant(100 * spread, 2)} % in the widest case"
    )


def scaling(snapshot: Snapshot) -> Table | None:
    """Threads with the same work each: how many times the work of one thread is done in its time.

    The ideal is the number of threads; the time itself would ideally stay the same.
    """
    shown = [reading for reading in snapshot.of(SCALING) if reading.status != "skipped"]
    if not any(reading.status == "measured" for reading in shown):
        return None
    by_key = {(r.param["work"], r.param["threads"], r.python): r for r in shown}
    pythons = sorted({reading.python for reading in shown})
    rows = []
    for work, threads in dict.fromkeys((r.param["work"], r.param["threads"]) for r in shown):
        cells = []
        for python in pythons:
            here, alone = by_key.get((work, threads, python)), by_key.get((work, "1", python))
            slower = quotient(here, alone)
            gain = int(threads) / slower if slower else None
            cells += [
                cell(here),
                Cell(formats.MISSING if gain is None else formats.ratio(gain)),
            ]
        ideal = min(int(threads), snapshot.cores or int(threads))
        rows.append(Row(keys=(work, threads, str(ideal)), cells=tuple(cells)))
    return Table(
        title="Threads that each do the same work",
        keys=("work", "threads", "ideal"),
        columns=tuple(f"{python} {what}" for python in pythons for what in ("time", "speed-up")),
        rows=tuple(rows),
        notes=tuple(
            note
            for note in (
                "speed-up: work done per second, as a multiple of one thread's",
                spread_note(shown),
            )
            if note
        ),
    )


def cost(snapshot: Snapshot, module: str, title: str) -> Table | None:
    """A suite's figures, one column per environment; and the build without the GIL over the other.

    Args:
        snapshot: asv's results.
        module: The suite.
        title: Of the table.
    """
    readings = snapshot.of(module)
    columns = environments(readings)
    if not columns:
        return None
    by_key = {(r.benchmark, r.params, r.python, r.stack): r for r in readings}
    both = [
        (stack, f"{stack} 3.14t / 3.14")
        for stack in dict.fromkeys(stack for _, stack in columns)
        if {("3.14", stack), ("3.14t", stack)} <= set(columns)
    ]
    rows = []
    for benchmark, params in dict.fromkeys((r.benchmark, r.params) for r in readings):
        here = [by_key.get((benchmark, params, *environment)) for environment in columns]
        if all(reading is None or reading.status == "skipped" for reading in here):
            continue
        cells = [cell(reading) for reading in here]
        for stack, _ in both:
            sides = [by_key.get((benchmark, params, p, stack)) for p in ("3.14t", "3.14")]
            ratio = quotient(*sides)
            cells.append(Cell(formats.MISSING if ratio is None else formats.ratio(ratio)))
        rows.append(Row(keys=(label(benchmark, params),), cells=tuple(cells)))
    note = spread_note(readings)
    return Table(
        title=title,
        keys=("what",),
        columns=(*(f"{stack} {python}" for python, stack in columns), *(name for _, name in both)),
        rows=tuple(rows),
        notes=(note,) if note else (),
    )


def label(benchmark: str, params: Sequence[tuple[str, str]]) -> str:
    """A benchmark and its parameters for people: `validate: 20, json` rather than asv's name."""
    *_, kind, function = benchmark.split(".")
    if kind == benchmark.partition(".")[0]:  # a function of the module, in no class
        kind = function.partition("_")[2].replace("_", " ")
    values = ", ".join(value for _, value in params)
    return f"{kind.lower()}: {values}" if values else kind.lower()


def quotient(above: Reading | None, below: Reading | None) -> float | None:
    """One figure over another; None unless both were measured."""
    if above is None or below is None or above.value is None or not below.value:
        return None
    return above.value / below.value
