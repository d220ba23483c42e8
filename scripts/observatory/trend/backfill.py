"""Stacks of other times: those of a date, or the anchor's with one release."""

import functools
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from duetbench.app import stacks
from duetbench.core.comparison import Release
from duetbench.core.errors import SetupError
from duetbench.host import machine
from duetbench.host.command import Tick
from observatory.matrix.checkout import Anchor
from observatory.store import kinds
from observatory.store.points import Points
from observatory.trend.anchored import INTERRUPTED, Wanted


def of_day(day: date, release: Release | None = None) -> Wanted:
    """Return the stacks as of the end of a day, or the anchor's with one release of it."""
    label = f"{release.package} {release.version}" if release else f"as of {day}"
    return Wanted(label, datetime.combine(day, time(23, 59, 59), UTC), release=release)


def without_known(wanted: Sequence[Wanted], results: Path, anchor: Anchor) -> list[Wanted]:
    """Leave out the cases that have their points of a stack on this machine."""
    known: dict[str, set[str]] = {}
    origin = (machine.fingerprint().id, anchor.name, "backfill")
    for file in kinds.read_all(Points, results):
        of_these = (file.machine.id, file.anchor, file.origin) == origin
        if of_these and INTERRUPTED not in file.notes:
            known.setdefault(file.label, set()).update(case.case for case in file.cases)
    return [replace(stack, known=known.get(stack.label, ())) for stack in wanted]


def dates(first: date, last: date) -> tuple[date, ...]:
    """Return the dates a month apart from first to last.

    In a month without such a day, it is its last day.
    """
    months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    days = (
        date(year, month + 1, min(first.day, monthrange(year, month + 1)[1]))
        for year, month in (divmod(number, 12) for number in months)
    )
    return tuple(day for day in days if day <= last)


def releases(package: str, first: date, last: date, tick: Tick) -> tuple[Wanted, ...]:
    """Return the releases of a package in a span of days, in their order.

    The newest at the beginning comes first. A release that was never the newest, such as one of an
    older branch, is left out.
    """
    at = functools.cache(lambda day: newest(package, tick, day))

    def changes(low: date, high: date) -> Iterator[date]:
        """Yield days with another newest release than the day before, after `low` to `high`."""
        if at(low) != at(high):
            middle = low + (high - low) // 2
            yield from (*changes(low, middle), *changes(middle, high)) if middle > low else [high]

    wanted: list[Wanted] = []
    before: str | None = None
    for day in (first, *changes(first, last)):
        version, new = at(day), list[str]()
        # After a release is yanked, an older one is the newest, but it is not new.
        while version is not None and (before is None or Version(version) > Version(before)):
            new.append(version)
            version = newest(package, tick, day, version) if day != first else None
        for version in reversed(new):
            release = Release(package=package, version=version, previous=before)
            wanted.append(of_day(day, release))
            before = version
        before = at(day) or before
    return tuple(wanted)


def newest(package: str, tick: Tick, day: date, below: str | None = None) -> str | None:
    """Ask the index for a package's newest release at the end of a day, perhaps below a version."""
    tick(f"as of {day}")
    asked = f"{package}<{below}" if below else package
    try:
        text = stacks.compile_lock(["--no-deps"], asked, tick, lines=[asked], as_of=day)
    except SetupError as error:
        if "No solution found" in str(error):  # no release is old enough
            return None
        raise
    return stacks.versions(text).get(canonicalize_name(package))
