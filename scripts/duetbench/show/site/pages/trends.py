"""A case's series as trends, and the trend around a change; which metric comes first. Pure."""

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import numpy as np

from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.show.change import describe
from duetbench.show.site.charts.data import Caption, Quantity, Value
from duetbench.show.site.charts.trend import Trend, TrendEvent, TrendPoint
from duetbench.show.site.pages import addresses, words
from duetbench.show.site.pages.site import Site
from duetbench.store.change import Change
from duetbench.trend import table as history
from duetbench.trend.columns import TRACKS
from duetbench.trend.events import Bump, Events
from duetbench.trend.table import Point, Table

RECENT: Final = 400
"""So many nights are drawn in the page itself: a year, and some days before. Scripts show all."""
AROUND: Final = 45
"""So many nights before a change and after it are on its page, which is frozen then."""


Around = tuple[Table, tuple[Point, ...]]
"""The nights around a change: their table, and the points of its series, oldest first."""


def metrics(table: Table, case: str) -> tuple[str, ...]:
    """Metrics of which the case has a figure, the one that is shown first first."""
    row = table.cases.index(case)
    there = ~np.isnan(table.mean[:, row]).all(axis=0)
    found = [table.metrics[column] for column in np.flatnonzero(there).tolist()]
    first = next((name for name in HEADLINES if name in found), None)
    return tuple(sorted(found, key=lambda name: name != first))


def title(metric: str, table: Table | None = None) -> str:
    """A metric in words; of benchmarks inside the process, whose metrics are units, what it is.

    With its table it says, too, whether the figures are ratios.
    """
    other = {"seconds": "time", "instructions": "instructions/request"}
    known = METRICS[metric].title if metric in METRICS else other.get(metric, metric or "figure")
    return f"{known}, times the anchor's" if table is not None and table.track.ratio else known


def label(table: Table) -> str:
    """What a table is beside others of its case."""
    anchor = table.nights[-1].profile
    return f"{table.machine}, against the anchor {anchor}" if table.track.ratio else table.machine


def unit(table: Table, metric: str) -> str:
    """What `words.figure` and the scripts write a series' figures by."""
    return words.RATIO if table.track.ratio else metric


def format_name(written: str) -> str:
    """What `formats.js` calls the format of a metric's figures; of others it is the unit."""
    return METRICS[written].format.name if written in METRICS else written


def trend(
    root: str,
    table: Table,
    happened: Events,
    changes: Iterable[Change],
    case: str,
    metric: str,
    anchor: str = "trend",
) -> Trend:
    """What is drawn of a series."""
    points = history.points(table, case, metric, RECENT)
    first = points[0].time if points else 0
    planned = int(np.count_nonzero(table.status[:, table.cases.index(case)]))
    caption = f"On {table.machine}."
    if table.track.ratio:
        caption = (
            f"Each point is the ratio of a stack to the anchor {table.nights[-1].profile}, from "
            f"duets on {table.machine}, at the time of the stack."
        )
    if planned > len(points):
        caption += f" The newest {len(points)} of {planned} nights."
    return Trend(
        about=Caption(anchor, title(metric, table), caption),
        quantity=quantity(table, metric, title(metric, table)),
        points=_points(root, table, points),
        changes=tuple(
            _change(record, root + addresses.change(record.id))
            for record in changes
            if record.when.timestamp() >= first
            and any(
                (one.machine, one.case, one.metric) == (table.machine, case, metric)
                for one in (record.series, *record.others)
            )
        ),
        breaks=_breaks(table, happened, case, first),
        bumps=tuple(
            TrendEvent(
                _moment(time),
                f"{bump.stack}: {words.moved(bump.packages) or 'hashes only'}",
                href=moved_alone(root, bump),
            )
            for time, bump in _bumps(table, happened, {stack_of(table, case)}, first)
        ),
        cut=not table.track.ratio,
    )


def around(site: Site, record: Change) -> Around | None:
    """The nights around a change; None if its series is not on this site."""
    name = record.series
    there = filter(None, (site.tables.get((name.machine, kind)) for kind in TRACKS))
    # The series that it was found in, where several kinds have the case.
    for table in sorted(
        there, key=lambda one: all(night.run != record.after_run for night in one.nights)
    ):
        if name.case not in table.cases or name.metric not in table.metrics:
            continue
        planned = np.flatnonzero(table.status[:, table.cases.index(name.case)]).tolist()
        when = record.when.timestamp()
        first = bisect_left([table.nights[night].time for night in planned], when)
        kept = planned[max(0, first - AROUND) : first + AROUND]
        points = history.points_of(table, kept, name.case, name.metric)
        return (table, points) if points else None
    return None


def trend_around(root: str, record: Change, cut: Around, happened: Events, what: str) -> Trend:
    """What is drawn of the nights around a change; `what`: what is measured, in words."""
    name, (table, points) = record.series, cut
    first, last = points[0].time, points[-1].time
    stacks = {record.base.stack, record.head.stack}
    return Trend(
        about=Caption(
            "around",
            f"{what} before and after",
            f"Up to {AROUND} nights on either side, as they were measured, one by one.",
        ),
        quantity=quantity(table, name.metric, what),
        points=_points(root, table, points),
        changes=(_change(record),),
        breaks=_breaks(table, happened, name.case, first, last),
        bumps=tuple(
            TrendEvent(
                _moment(time),
                words.moved(bump.packages) or f"{bump.stack}: other hashes",
                href=moved_alone(root, bump),
            )
            for time, bump in _bumps(table, happened, stacks, first, last)
        ),
        cut=not table.track.ratio,
    )


def _breaks(
    table: Table, happened: Events, case: str, after: int, until: float = math.inf
) -> tuple[TrendEvent, ...]:
    times = ((table.nights[one.night].time, one) for one in happened.breaks.get(case, ()))
    return tuple(
        TrendEvent(_moment(time), f"{one.what}: {one.before} → {one.after}")
        for time, one in times
        if after < time <= until
    )


def _bumps(
    table: Table, happened: Events, stacks: Container[str], after: int, until: float = math.inf
) -> Iterator[tuple[int, Bump]]:
    for bump in happened.bumps:
        time = table.nights[bump.night].time
        if bump.stack in stacks and after < time <= until:
            yield time, bump


def moved_alone(root: str, bump: Bump) -> str:
    """The page of the one package that moved; empty: none, or several did."""
    alone = len(bump.packages) == 1
    return root + addresses.package(bump.packages[0].package) if alone else ""


def stack_of(table: Table, case: str) -> str:
    """The stack that a case was measured with last."""
    night = int(np.flatnonzero(table.status[:, table.cases.index(case)])[-1])
    header = table.nights[night]
    return header.stack_of[header.cases.index(case)]


def quantity(table: Table, metric: str, title: str) -> Quantity:
    """The quantity of a metric, of the unit that asv gives to a benchmark, or of a ratio."""
    written = unit(table, metric)
    if written in METRICS:
        return Quantity.of(metric)
    better = METRICS[metric].better if metric in METRICS else "lower"
    return Quantity(title, lambda number: words.figure(number, written), better)


@lru_cache(maxsize=4096)
def _run(root: str, run: str) -> str:
    return root + addresses.run(run)


@lru_cache(maxsize=4096)
def _moment(time: int) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def _points(root: str, table: Table, nights: Sequence[Point]) -> tuple[TrendPoint, ...]:
    # A band is a confidence interval; the spread of asv's samples is none.
    with_ends = table.track.confidence
    return tuple(
        TrendPoint(_moment(one.time), one.run, value(one, with_ends=with_ends), _run(root, one.run))
        for one in nights
    )


def value(night: Point, *, with_ends: bool) -> Value:
    """A night's figure as charts take it."""
    if night.mean is None:
        return Value(None, note=night.reason or night.status)
    low, high = night.low, night.high
    if not with_ends or low is None or high is None:
        low = high = None
    else:  # figure and ends were rounded apart from each other
        low, high = min(low, night.mean), max(high, night.mean)
    valid = night.status == "measured"
    return Value(night.mean, low, high, valid=valid, note=", ".join(night.flags))


def _change(record: Change, href: str = "") -> TrendEvent:
    ratio = Value.of(record.interval)
    return TrendEvent(record.when, describe(record).cause, record.verdict, ratio, href)
