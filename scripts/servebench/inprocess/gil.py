"""Experiment 4 from asv's results: ours beside the published seconds and the shortest possible.

The GIL columns carry the published figures: the source knew no other build. A time below the
shortest possible one is marked as impossible, for then the measurement is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from servebench import units
from servebench.formulas import evaluate
from servebench.inprocess.declared import Declared, GilShape, Part
from servebench.inprocess.readings import Reading, Snapshot
from servebench.inprocess.tables import cell, quotient, spread_note
from servebench.report import formats
from servebench.report.shapes import ShapeResult, judge
from servebench.report.tables import Cell, Row, Table
from servebench.summary import Estimate, ratio

GIL: Final = "3.14"
SERIAL: Final = "serial"
IMPOSSIBLE: Final = 0.95
"""Below this share of the shortest possible time a figure is impossible; above, it is the scatter
of the two figures that are compared."""


def tables(snapshot: Snapshot, declared: Declared) -> tuple[Table, ...]:
    """One table per part that has a figure."""
    made = (_table(snapshot, declared, name) for name in declared.parts)
    return tuple(table for table in made if table is not None)


def shapes(snapshot: Snapshot, declared: Declared) -> tuple[ShapeResult, ...]:
    """Check every statement about the shape."""
    return tuple(_shape(snapshot, declared, shape) for shape in declared.shapes)


def _table(snapshot: Snapshot, declared: Declared, name: str) -> Table | None:
    part = declared.parts[name]
    readings = snapshot.of(part.benchmark)
    # What nobody asked for (the large files) is no row; what failed is one.
    shown = [reading for reading in readings if reading.status != "skipped"]
    if not any(reading.status == "measured" for reading in shown):
        return None
    pythons = sorted({reading.python for reading in shown})
    columns: list[str] = []
    for python in pythons:
        columns += [f"{python} time", f"{python} speed-up"]
        columns += [f"{python} at best", f"{python} efficiency"] if part.least else []
    impossible: list[str] = []
    rows = []
    for params in dict.fromkeys(reading.params for reading in shown):
        param = dict(params)
        where = {key: param[key] for key in part.keys}
        cells: list[Cell] = []
        for python in pythons:
            cells += _cells(snapshot, declared, name, where, param["mode"], python, impossible)
        rows.append(Row(keys=(*where.values(), param["mode"]), cells=tuple(cells)))
    rows.sort(key=lambda row: tuple(float(key) for key in row.keys[:-1]))
    runs = [row.run for row in declared.published if row.part == name and row.run]
    notes = [spread_note(shown), f"published: {', '.join(runs)}" if runs else ""]
    if part.least:
        notes.append(_least_note(snapshot, part, pythons))
    notes += [f"impossible: {text}; the measurement is wrong" for text in impossible]
    return Table(
        title=part.title,
        keys=(*part.keys, "mode"),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(note for note in notes if note),
    )


def _cells(
    snapshot: Snapshot,
    declared: Declared,
    name: str,
    where: dict[str, str],
    mode: str,
    python: str,
    impossible: list[str],
) -> list[Cell]:
    """Time, speed-up and, where there is a ceiling, the shortest possible time and its share."""
    part = declared.parts[name]
    ours = reading_of(snapshot, part, where, mode, python)
    serial = reading_of(snapshot, part, where, SERIAL, python)
    theirs, gains = "", ""
    if python == GIL:
        theirs = ", ".join(units.seconds(s) for (s,) in declared.seconds(name, where, mode))
        gains = ", ".join(
            formats.ratio(s / m) for s, m in declared.seconds(name, where, SERIAL, mode)
        )
    value, gained = ours.value if ours else None, quotient(serial, ours)
    cells = [
        cell(ours, theirs),
        Cell(formats.MISSING if gained is None else formats.ratio(gained), published=gains),
    ]
    if part.least:
        least = least_time(snapshot, part, where, python)
        share = least / value if least and value else None
        if share is not None and share > 1 / IMPOSSIBLE and mode != SERIAL:
            impossible.append(f"{mode} on {python} took {units.share(1 / share)} of the shortest")
        cells += [
            Cell(formats.MISSING if least is None else units.seconds(least)),
            Cell(formats.MISSING if share is None else units.share(share)),
        ]
    return cells


def least_time(snapshot: Snapshot, part: Part, where: dict[str, str], python: str) -> float | None:
    """The shortest possible time in seconds; None where what it follows from was not measured."""
    serial = reading_of(snapshot, part, where, SERIAL, python)
    known: dict[str, float] = {}
    if serial and serial.value is not None:
        known["serial"] = serial.value
    if snapshot.cores is not None:
        known["cores"] = float(snapshot.cores)
    if "tasks" in where:
        known["tasks"] = float(where["tasks"])
    slowest = _slowest(snapshot, part, python)
    if slowest is not None:
        known["slowest"] = slowest
    if part.least is None or any(name not in known for name in _names(part.least)):
        return None
    return evaluate(part.least, known)


def _names(formula: str) -> set[str]:
    words = "".join(letter if letter.isalnum() else " " for letter in formula).split()
    return {word for word in words if word in {"serial", "tasks", "cores", "slowest"}}


def _slowest(snapshot: Snapshot, part: Part, python: str) -> float | None:
    if part.slowest is None:
        return None
    found = [r.value for r in snapshot.of(part.slowest) if r.python == python]
    return found[0] if found else None


def _least_note(snapshot: Snapshot, part: Part, pythons: Sequence[str]) -> str:
    text = f"at best: {part.least}"
    if "cores" in _names(part.least or ""):
        text += f", with {snapshot.cores or 'an unknown number of'} cores"
    rounds = [
        f"{units.seconds(slowest)} on {python}"
        for python in pythons
        if (slowest := _slowest(snapshot, part, python)) is not None
    ]
    return text + (f" (the slowest single round: {', '.join(rounds)})" if rounds else "")


def reading_of(
    snapshot: Snapshot, part: Part, where: dict[str, str], mode: str, python: str
) -> Reading | None:
    """The reading of one row and mode on an interpreter; None if there is none."""
    wanted = {**where, "mode": mode}
    found = (
        reading
        for reading in snapshot.of(part.benchmark)
        if reading.python == python and reading.param == wanted
    )
    return next(found, None)


def _shape(snapshot: Snapshot, declared: Declared, shape: GilShape) -> ShapeResult:
    part = declared.parts[shape.part]
    sides = [
        reading_of(snapshot, part, shape.where, side.mode, side.python)
        for side in (shape.above, shape.below)
    ]
    ours = _ratio(*sides)
    verdict = judge(ours, shape.least, shape.most)
    published = declared.seconds(shape.part, shape.where, shape.above.mode, shape.below.mode)
    reason = ""
    if verdict == "not measured":
        named = zip((shape.above, shape.below), sides, strict=True)
        missing = [f"{s.mode} on {s.python}" for s, r in named if not r or r.value is None]
        reason = f"no figures of {', '.join(missing)}"
    elif verdict == "not decided":
        reason = "the interval reaches over the limit: more samples would decide"
    elif verdict == "does not hold":
        reason = shape.if_not or ""
    return ShapeResult(
        statement=shape.statement,
        expected=formats.limits(shape.least, shape.most),
        # The source's Python had the GIL. Of its runs, the first that has both.
        published=published[0][0] / published[0][1]
        if published and shape.above.python == shape.below.python == GIL
        else None,
        ours=ours,
        verdict=verdict,
        reason=reason,
    )


def _ratio(above: Reading | None, below: Reading | None) -> Estimate | None:
    """Ratio of two times, with an interval where the samples were recorded."""
    plain = quotient(above, below)
    if above is None or below is None or plain is None:
        return None
    if above.samples and below.samples:
        return ratio(above.samples, below.samples)
    return Estimate(n=1, mean=plain)
