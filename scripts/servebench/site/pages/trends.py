"""A case's series as trends: which metric comes first, what is drawn, and its noise. Pure."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from servebench.changes import ChangeRecord
from servebench.metrics import HEADLINES, METRICS
from servebench.series import table as history
from servebench.series.events import Events
from servebench.series.table import Point, Table
from servebench.site.charts.data import About
from servebench.site.charts.history import Trend
from servebench.site.pages import addresses, drawn

RECENT: Final = 400
"""So many nights are drawn in the page itself: a year, and some days before. Scripts show all."""

MARKS: Final = 60
"""So many marks stand for them: the page is made anew every night."""

_FEW: Final = 8  # differences that it takes to say how large they usually are
_SPREAD: Final = 1.96  # 95 % of a normal distribution
_MAD: Final = 1.4826  # from a median absolute deviation to a standard deviation


def metrics(table: Table, case: str) -> tuple[str, ...]:
    """Metrics of which the case has a figure, the one that is shown first first."""
    row = table.cases.index(case)
    there = ~np.isnan(table.mean[:, row]).all(axis=0)
    found = [table.metrics[column] for column in np.flatnonzero(there).tolist()]
    first = next((name for name in HEADLINES if name in found), None)
    return tuple(sorted(found, key=lambda name: name != first))


def title(metric: str) -> str:
    """A metric in words; of benchmarks inside the process, whose metrics are units, what it is."""
    if metric in METRICS:
        return METRICS[metric].title
    return "time" if metric == "seconds" else metric or "figure"


def format_name(metric: str) -> str:
    """What `formats.js` calls the format of a metric's figures; of benchmarks it is the unit."""
    return METRICS[metric].format.name if metric in METRICS else metric


def trend(
    root: str,
    table: Table,
    happened: Events,
    changes: Iterable[ChangeRecord],
    case: str,
    metric: str,
    anchor: str = "trend",
) -> Trend:
    """What is drawn of a series.

    Args:
        root: From the page to the site's root.
        table: Where the series stands.
        happened: To the table.
        changes: All records.
        case: Its id.
        metric: Its name.
        anchor: Of the figure.
    """
    points = history.points(table, case, metric, RECENT)
    first = points[0].time if points else 0
    breaks, bumps = happenings(table, happened, case, after=first)
    planned = int(np.count_nonzero(table.status[:, table.cases.index(case)]))
    caption = f"On {table.machine}."
    if planned > len(points):
        caption += f" The newest {len(points)} of {planned} nights."
    return Trend(
        about=About(anchor, title(metric), caption),
        quantity=drawn.quantity(metric, title(metric)),
        points=tuple(
            # A band is a confidence interval; the spread of asv's samples is none.
            drawn.point(root, one if table.track.confidence else replace(one, low=None, high=None))
            for one in points
        ),
        changes=tuple(
            drawn.change(record, root + addresses.change(record.id))
            for record in changes
            if concerns(record, table.machine, case, metric) and record.when.timestamp() >= first
        ),
        breaks=tuple(drawn.event(time, label) for time, label in breaks),
        bumps=tuple(drawn.event(time, label) for time, label in bumps),
        noise=noise(points, [time for time, _ in (*breaks, *bumps)]),
        most=MARKS,
    )


def happenings(
    table: Table, happened: Events, case: str, after: int = 0
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Breaks and stack bumps of a case: times (s since 1970) with what it was.

    Args:
        table: Where the case stands.
        happened: To the table.
        case: Its id.
        after: Nothing of this time, or before.
    """
    stack, nights = stack_of(table, case), table.nights
    return (
        [
            (nights[one.night].time, f"{one.what}: {one.before} → {one.after}")
            for one in happened.breaks.get(case, ())
            if nights[one.night].time > after
        ],
        [
            (
                nights[bump.night].time,
                f"{bump.stack}: {drawn.moved(bump.packages) or 'hashes only'}",
            )
            for bump in happened.bumps
            if bump.stack == stack and nights[bump.night].time > after
        ],
    )


def stack_of(table: Table, case: str) -> str:
    """The stack that a case was measured with last."""
    night = int(np.flatnonzero(table.status[:, table.cases.index(case)])[-1])
    header = table.nights[night]
    return header.stack_of[header.cases.index(case)]


def concerns(record: ChangeRecord, machine: str, case: str, metric: str | None = None) -> bool:
    """Whether a change moved this series; without a metric, any of the case."""
    return any(
        one.machine == machine and one.case == case and metric in {None, one.metric}
        for one in (record.series, *record.others)
    )


def noise(points: Sequence[Point], edges: Iterable[int]) -> float | None:
    """Half the width of the band in which figures of identical circumstances lie, relative to them.

    From the differences of neighbouring nights between which neither stack nor machine nor
    interpreter nor case changed (von Neumann, Annals of Mathematical Statistics 12 (1941) 367), by
    their median, so that a change of the series does not count as noise.

    Args:
        points: Oldest first.
        edges: Times at which something changed: it belongs to what follows.

    Returns:
        None where too few nights tell.
    """
    cuts = sorted(edges)
    good = [
        (bisect_right(cuts, one.time), one.mean)
        for one in points
        if one.status == "measured" and one.mean
    ]
    steps = [
        abs(math.log(after / before))
        for (stretch, before), (other, after) in pairwise(good)
        if stretch == other and before > 0 and after > 0
    ]
    if len(steps) < _FEW:
        return None
    return math.expm1(_SPREAD * _MAD * statistics.median(steps) / math.sqrt(2))
