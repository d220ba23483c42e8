"""Machines: what they are, what they have measured, and how quiet they have been."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import numpy as np
from markupsafe import Markup

from duetbench.core.units import share
from duetbench.show.page import describe_machine
from duetbench.show.site import data_files
from duetbench.show.site.charts import trend
from duetbench.show.site.charts.data import Caption, Quantity, Value
from duetbench.show.site.charts.trend import Trend, TrendEvent, TrendPoint
from duetbench.show.site.pages import addresses
from duetbench.show.site.pages.page import PageFile, markup, render
from duetbench.show.site.pages.run import newest_first, run_row, started
from duetbench.show.site.pages.site import Site, Trended, grouped
from duetbench.trend.columns import RunHeader
from duetbench.trend.events import differing
from duetbench.trend.table import STATES, Table

NEWEST: Final = 20
"""So many runs are on a machine's page."""
METRIC: Final = "throughput"
"""Whose intervals say how quiet a machine is."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class MachineSummary:
    """A machine in the list.

    Attributes:
        runs: Of server runs, how many.
        snapshots: Of commits that asv measured, how many.
        stacks: That were held against the anchor, how many.
    """

    id: str
    described: str
    runs: int
    snapshots: int
    stacks: int
    newest: RunHeader


def pages(site: Site) -> Iterator[PageFile]:
    """The list, and one page for each machine."""
    by_machine = grouped((header.machine, header) for header in site.headers.values())
    every = [_summary(site, machine, many) for machine, many in by_machine.items()]
    yield render(
        site,
        "machines.html.j2",
        addresses.MACHINES,
        "Machines",
        "What the figures were measured on, and how quiet it was.",
        machines=sorted(every, key=lambda one: one.newest.time, reverse=True),
    )
    for one in every:
        yield _page(site, one, by_machine[one.id])


def widths(table: Table, metric: str = METRIC) -> list[float | None]:
    """Night by night, how far launches of one case are apart: the noise of machine and method.

    The median over cases of half the 95 % interval of a metric, relative to the figure. None: no
    case has an interval.
    """
    if metric not in table.metrics:
        return [None] * len(table.nights)
    column = table.metrics.index(metric)
    mean, low, high = (block[:, :, column] for block in (table.mean, table.low, table.high))
    halves = (high - low) / 2 / np.where(mean > 0, mean, np.nan)
    halves = np.where((table.status == _MEASURED) & (halves > 0), halves, np.nan)
    medians = data_files.medians(halves) if halves.size else np.full(len(halves), np.nan)
    return [None if np.isnan(value) else float(value) for value in medians]


def moves(headers: Sequence[RunHeader]) -> list[tuple[RunHeader, str]]:
    """Where the machine's description changed: the first run after it, and what is different."""
    return [
        (after, " → ".join(differing(before.fingerprint, after.fingerprint)))
        for before, after in pairwise(header for header in headers if header.track.served)
        if before.fingerprint != after.fingerprint
    ]


def _summary(site: Site, machine: str, headers: Sequence[RunHeader]) -> MachineSummary:
    newest = max(headers, key=lambda header: (header.track.served, header.time, header.run))
    known = (summary.run for (name, *_), summary in site.newest.items() if name == machine)
    last = max(known, key=lambda run: run.started, default=None)
    described = describe_machine(last.machine) if last else newest.fingerprint
    return MachineSummary(
        id=machine,
        described=described.removeprefix(f"{machine}: "),
        runs=sum(header.track.served for header in headers),
        snapshots=sum(header.kind == "inprocess" for header in headers),
        stacks=sum(header.kind == "anchored" for header in headers),
        newest=newest,
    )


def _page(site: Site, one: MachineSummary, headers: Sequence[RunHeader]) -> PageFile:
    address, table = addresses.machine(one.id), site.tables.get((one.id, "load"))
    anchored: Trended = (one.id, "anchored")
    known = widths(table) if table else []
    told = [width for width in known if width is not None]
    changed = moves(headers)
    return render(
        site,
        "machine.html.j2",
        address,
        f"Machine {one.id}",
        one.described,
        modules=("js/keyboard.js",),
        one=one,
        noise=_noise(address, table, known, changed) if table and len(told) > 1 else None,
        width=share(told[0]) if told else "",
        moves=changed[::-1],
        rows=[(started(one), run_row(one)) for one in newest_first(headers)[:NEWEST]],
        total=len(headers),
        cases=next((one.cases for one in (table, site.tables.get(anchored)) if one), ()),
    )


def _noise(
    address: str,
    table: Table,
    found: Sequence[float | None],
    changed: Sequence[tuple[RunHeader, str]],
) -> Markup:
    root = addresses.root(addresses.file(address))
    points = tuple(
        TrendPoint(
            datetime.fromtimestamp(night.time, UTC),
            night.run,
            Value(width, note="" if width is not None else "no case has an interval"),
            root + addresses.run(night.run),
        )
        for night, width in zip(table.nights, found, strict=True)
    )
    about = Caption(
        "noise",
        "How far launches of one case are apart",
        "Half the 95 % interval of the throughput, relative to it: the median over all cases of a "
        "run. Low is quiet.",
    )
    breaks = tuple(
        TrendEvent(datetime.fromtimestamp(header.time, UTC), told) for header, told in changed
    )
    quantity = Quantity("half of the interval", share, "lower")
    return markup(trend.trend(Trend(about, quantity, points, breaks=breaks)))
