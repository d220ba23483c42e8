"""gil-in-process as charts: how many times as fast as one after another, against the best possible.

A time's least possible value is its speed-up's ceiling. asv's samples are not independent of each
other, so that a dot has no interval. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from servebench import units
from servebench.inprocess import gil
from servebench.inprocess.declared import Declared
from servebench.inprocess.readings import Reading, Snapshot
from servebench.inprocess.tables import quotient
from servebench.report import formats
from servebench.site.charts.data import Caption, Quantity, Value
from servebench.site.charts.figure import Chart
from servebench.site.charts.forest import Dot, DotGroup, Forest, forest

_THREADS: Final = "threads"
SPEED_UP: Final = Quantity("times as fast as serial", units.significant, "higher")


def charts(
    snapshot: Snapshot, declared: Declared, address: Callable[[str], str]
) -> Iterator[Chart]:
    """One chart for each part that has a speed-up.

    Args:
        snapshot: asv's results.
        declared: What the source published.
        address: From a case's id to where its page is.
    """
    for name, part in declared.parts.items():
        readings = [one for one in snapshot.of(part.benchmark) if one.status != "skipped"]
        groups: dict[str, list[Dot]] = {}
        for reading in readings:
            if reading.param["mode"] != gil.SERIAL:
                where = {key: reading.param[key] for key in part.keys}
                title = ", ".join(_plural(value, key) for key, value in where.items())
                dot = _dot(snapshot, declared, name, where, reading)
                dot = replace(dot, href=address(reading.case))
                groups.setdefault(title, []).append(dot)
        if not any(dot.value.mean is not None for many in groups.values() for dot in many):
            continue
        caption = "The same work one after another is 1."
        if part.least:
            caption += " The ceiling is what the cores, or the slowest wait, allow."
        yield forest(
            Forest(
                Caption(f"speed-up-{name}", part.title, caption),
                SPEED_UP,
                tuple(
                    DotGroup(title, tuple(sorted(many, key=lambda dot: (dot.label, dot.series))))
                    for title, many in sorted(groups.items(), key=lambda entry: len(entry[0]))
                ),
            )
        )


def _dot(
    snapshot: Snapshot, declared: Declared, name: str, where: dict[str, str], reading: Reading
) -> Dot:
    part, python, mode = declared.parts[name], reading.python, reading.param["mode"]
    serial = gil.reading_of(snapshot, part, where, gil.SERIAL, python)
    gain = quotient(serial, reading)
    least = gil.least_time(snapshot, part, where, python) if part.least else None
    # The source's Python had the GIL; of its runs the first that has both modes.
    theirs = declared.seconds(name, where, gil.SERIAL, mode) if python == gil.GIL else []
    published = theirs[0][0] / theirs[0][1] if theirs else None
    if gain is None:
        why = "failed" if "failed" in {reading.status, serial and serial.status} else "not measured"
        value = Value(None, published=published, note=why)
    else:
        alone = serial.value if serial else None
        ceiling = alone / least if alone and least else None
        value = Value(gain, ceiling=ceiling, published=published)
    return Dot(f"{mode}, {python}", value, python)


def _plural(value: str, key: str) -> str:
    """`4 tasks`, `1 task`."""
    return f"{value} {key.removesuffix('s') if value == '1' else key}"


def answer(snapshot: Snapshot, declared: Declared) -> str:
    """What threads gain for computing, with and without the GIL, in a sentence; empty: unknown.

    Quotients of medians, as in charts and tables. They have no interval: asv's samples are not
    independent of each other.
    """
    part = next(iter(declared.parts.values()))
    readings = [
        one
        for one in snapshot.of(part.benchmark)
        if one.status == "measured" and one.param["mode"] == _THREADS
    ]
    if not readings:
        return ""
    most = max(readings, key=lambda one: [float(one.param[key]) for key in part.keys])
    where = {key: most.param[key] for key in part.keys}
    parts = []
    for python in sorted({reading.python for reading in readings}):
        serial, threads = (
            gil.reading_of(snapshot, part, where, mode, python) for mode in (gil.SERIAL, _THREADS)
        )
        gain = quotient(serial, threads)
        if gain is not None:
            parts.append(f"{formats.ratio(gain)} times as fast on {python}")
    if not parts:
        return ""
    what = ", ".join(_plural(value, key) for key, value in where.items())
    return f"{part.title.partition(':')[0]}, {what} in threads instead of one after another: " + (
        " and ".join(parts) + " (medians)."
    )
