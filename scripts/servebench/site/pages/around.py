"""The trend around a change, for its frozen page: it ends a fixed number of nights after it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from servebench.changes import ChangeRecord
from servebench.series import table as history
from servebench.series.columns import Kind
from servebench.series.events import Events
from servebench.series.table import Point, Table
from servebench.site.charts.data import About
from servebench.site.charts.history import Trend
from servebench.site.pages import drawn
from servebench.site.pages.site import Site

NIGHTS: Final = 45
"""So many before a change and after it."""

_KINDS: Final[tuple[Kind, ...]] = ("load", "inprocess")


@dataclass(frozen=True, slots=True)
class Around:
    """The nights around a change.

    Attributes:
        table: Where they stand.
        points: Of the change's series, oldest first.
    """

    table: Table
    points: tuple[Point, ...]


def around(site: Site, record: ChangeRecord) -> Around | None:
    """Cut them out; None if the series is not on this site."""
    name = record.series
    for kind in _KINDS:
        table = site.tables.get((name.machine, kind))
        if table is None or name.case not in table.cases or name.metric not in table.metrics:
            continue
        planned = np.flatnonzero(table.status[:, table.cases.index(name.case)]).tolist()
        when = record.when.timestamp()
        first = bisect_left([table.nights[night].time for night in planned], when)
        kept = planned[max(0, first - NIGHTS) : first + NIGHTS]
        points = history.points_of(table, kept, name.case, name.metric)
        return Around(table, points) if points else None
    return None


def trend(root: str, record: ChangeRecord, cut: Around, happened: Events, title: str) -> Trend:
    """What is drawn.

    Args:
        root: From the page to the site's root.
        record: The change.
        cut: The nights around it.
        happened: To their table.
        title: What is measured, in words.
    """
    name = record.series
    first, last = cut.points[0].time, cut.points[-1].time
    stacks = {record.base.stack, record.head.stack}

    def time(night: int) -> int:
        return cut.table.nights[night].time

    return Trend(
        about=About(
            "around",
            f"{title} before and after",
            f"Up to {NIGHTS} nights on either side, as they were measured, one by one.",
        ),
        quantity=drawn.quantity(name.metric, title),
        points=tuple(
            # As on the page of the case: the spread of asv's samples is no confidence interval.
            drawn.point(
                root, one if cut.table.track.confidence else replace(one, low=None, high=None)
            )
            for one in cut.points
        ),
        changes=(drawn.change(record),),
        breaks=tuple(
            drawn.event(time(one.night), f"{one.what}: {one.before} → {one.after}")
            for one in happened.breaks.get(name.case, ())
            if first < time(one.night) <= last
        ),
        bumps=tuple(
            drawn.event(
                time(bump.night), drawn.moved(bump.packages) or f"{bump.stack}: other hashes"
            )
            for bump in happened.bumps
            if bump.stack in stacks and first < time(bump.night) <= last
        ),
        most=2 * NIGHTS,
    )
