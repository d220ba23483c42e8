"""What nights and what happened between them are drawn from: points, events, quantities. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial

from servebench.changes import ChangeRecord
from servebench.compare.model import PackageChange
from servebench.metrics import METRICS
from servebench.series.table import Point
from servebench.site.charts.data import Quantity, Value
from servebench.site.charts.history import Change, Event, TrendPoint
from servebench.site.pages import addresses, words


def quantity(metric: str, title: str) -> Quantity:
    """The quantity of a metric, or of the unit that asv gives to a benchmark."""
    if metric in METRICS:
        return Quantity.of(metric)
    return Quantity(title, partial(_figure, metric), "lower")


def point(root: str, night: Point) -> TrendPoint:
    """A night of a series; it leads to its run.

    Args:
        root: From the page to the site's root.
        night: The night.
    """
    return TrendPoint(_moment(night.time), night.run, value(night), _run(root, night.run))


@lru_cache(maxsize=4096)
def _run(root: str, run: str) -> str:
    """The same nights are on the pages of all cases."""
    return root + addresses.run(run)


@lru_cache(maxsize=4096)
def _moment(time: int) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def value(night: Point) -> Value:
    """A night's figure, or why there is none."""
    if night.mean is None:
        return Value(None, note=night.reason or night.status)
    low, high = night.low, night.high
    if low is None or high is None:
        low = high = None
    else:  # figure and ends were rounded apart from each other
        low, high = min(low, night.mean), max(high, night.mean)
    return Value(
        night.mean, low, high, valid=night.status == "measured", note=", ".join(night.flags)
    )


def change(record: ChangeRecord, href: str = "") -> Change:
    """A change point with the release that did it, if that is known."""
    culprit = record.culprit
    return Change(
        record.when,
        record.verdict,
        Value(record.ratio, record.low, record.high),
        "" if culprit is None else f"{culprit.package} {culprit.version}",
        href,
    )


def event(time: int, label: str) -> Event:
    """Something that happened before the night of this time, s since 1970."""
    return Event(datetime.fromtimestamp(time, UTC), label)


def moved(packages: Iterable[PackageChange]) -> str:
    """The packages that differ between two locks, in words; empty if nothing but hashes does."""
    return ", ".join(
        f"{one.package} {one.base or 'new'} → {one.head or 'gone'}" for one in packages
    )


def _figure(metric: str, number: float) -> str:
    return words.figure(number, metric)
