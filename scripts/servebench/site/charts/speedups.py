"""Suites inside the process as charts: how many times as fast as the base, beside the ceiling.

asv's samples are not independent of each other, so that a figure has no interval. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from servebench.core import units
from servebench.declare.suites import SuiteDeclaration
from servebench.record.asv_results import Snapshot
from servebench.report.asv_figures import SpeedUp, plural, speed_ups
from servebench.site.charts.data import Caption, Quantity, Value
from servebench.site.charts.figure import Chart
from servebench.site.charts.forest import Dot, DotGroup, Forest, forest


def charts(
    snapshot: Snapshot, suite: SuiteDeclaration, address: Callable[[str], str]
) -> Iterator[Chart]:
    """One chart for each table that has a speed-up; `address`: from a case's id to its page."""
    for table in suite.tables:
        found = [one for one in speed_ups(snapshot, suite, table) if one.variant != table.base]
        if all(one.gain is None for one in found):
            continue
        groups: dict[str, list[Dot]] = {}
        for one in found:
            groups.setdefault(one.title, []).append(_dot(one, table.variant or "", address))
        base = plural(table.base or "", table.variant or "")
        caption = f"That of {base} is 1."
        if table.best:
            caption += " The ceiling is what the cores, or the slowest wait, allow."
        yield forest(
            Forest(
                Caption(f"speed-up-{table.name}", table.title, caption),
                Quantity(f"times as fast as {base}", units.plain, "higher"),
                tuple(
                    DotGroup(title, tuple(sorted(many, key=lambda dot: (dot.label, dot.series))))
                    for title, many in sorted(groups.items(), key=lambda entry: len(entry[0]))
                ),
            )
        )


def _dot(one: SpeedUp, variant: str, address: Callable[[str], str]) -> Dot:
    published = next((gain for _, gain in one.published if gain), None)
    if one.gain is None:
        failed = one.reading is not None and one.reading.status == "failed"
        note = "failed" if failed else "not measured"
        value = Value(None, published=published, note=note)
    else:
        value = Value(one.gain, ceiling=one.ceiling, published=published)
    name = plural(one.variant, variant)
    href = address(one.reading.case) if one.reading else ""
    return Dot(f"{name}, {one.python}", value, one.python, href)
