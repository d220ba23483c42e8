"""`results/` → nights, changes, comparisons and records of nights.

A file that cannot be read, for whatever reason, is named among the problems, and the rest is read:
the history is never rewritten, so that a bad file stays.

A stack's files of points are joined, and stand against one anchor: what was measured against an
older one is divided by what a renewal's duets gave for the new anchor against the old.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from duetbench.core.errors import RecordError
from duetbench.core.model import Run
from duetbench.store import files, run_files
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison
from duetbench.store.night import NightRecord
from duetbench.store.packages import PackageRecord
from duetbench.store.points import CANARY, RENEWED, AnchoredPoint, CasePoints, Points
from duetbench.trend.table import Night, NightCase, builds, figures, fingerprint, of_run


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is made from; files oldest first."""

    nights: tuple[Night, ...] = ()  # runs, and stacks against their anchor, in no particular order
    runs: dict[str, Path] = field(default_factory=dict)  # by id, those that could be read
    changes: tuple[Change, ...] = ()  # that duets have confirmed
    dismissed: tuple[Change, ...] = ()  # candidates that none confirmed
    problems: tuple[str, ...] = ()  # what could not be read, in sentences
    night_records: tuple[NightRecord, ...] = ()
    # All, of single releases too; those of a time are among the nights, joined and chained.
    points: tuple[Points, ...] = ()
    packages: tuple[PackageRecord, ...] = ()
    notes: tuple[str, ...] = ()  # what else a reader should know, in sentences
    comparisons: tuple[Comparison, ...] = ()
    attributions: tuple[Attribution, ...] = ()


def read(results: Path) -> Sources:
    """Read all of `results/`."""
    results = results.absolute()
    problems: list[str] = []

    places: dict[str, Path] = {}

    def once(path: Path, name: str) -> None:
        # Pages, and what a series consists of, go by the id, whatever folder a file is in.
        if (other := places.setdefault(name, path)) != path:
            raise RecordError(f"{path}: its id is that of {other}: rename the one that is wrong")

    def run(path: Path) -> tuple[Path, Night]:
        night = of_run(files.read(Run, path, check_name=True))
        once(path, night.run)
        return path, night

    def ratios_of(path: Path) -> Points:
        measured = files.read(Points, path, check_name=True)
        once(path, measured.id)
        return measured

    runs = files.attempted(run_files.runs(results), run, problems)
    changes = files.read_all(Change, results, problems)
    compared = files.read_all(Comparison, results, problems)
    records = files.read_all(NightRecord, results, problems)
    anchored = files.attempted(files.paths(Points, results), ratios_of, problems)
    attributions = files.read_all(Attribution, results, problems)
    about = files.read_all(PackageRecord, results, problems)
    anchored.sort(key=lambda one: (one.started, one.id))
    ratios, unchained = of_points(anchored)
    return Sources(
        nights=(*(one for _, one in runs), *ratios),
        runs={path.stem: path for path, _ in runs},
        changes=tuple(one for one in changes if one.confirmed),
        dismissed=tuple(one for one in changes if not one.confirmed),
        # People read them on the site, where the folders of the machine that built it mean nothing.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        night_records=tuple(sorted(records, key=lambda one: (one.created, one.id))),
        points=tuple(anchored),
        packages=tuple(about),
        notes=unchained,
        comparisons=tuple(sorted(compared, key=lambda one: (one.started, one.id))),
        attributions=tuple(sorted(attributions, key=lambda one: (one.when, one.id))),
    )


def of_points(every: Iterable[Points]) -> tuple[tuple[Night, ...], tuple[str, ...]]:
    """The nights of all points that are of a time, and what is on no trend, in sentences."""
    stacks, notes = trended(every)
    places = {case.case: NightCase(case.python, case.stack) for one in stacks for case in one.cases}
    return tuple(_night(one, places) for one in stacks), notes


def coverage(every: Iterable[Points]) -> tuple[int, int]:
    """Of the anchor's intervals against itself: how many hold 1, and how many there are."""
    intervals = [
        point.interval
        for one in every
        for case in one.cases
        if case.case.startswith(CANARY)
        for point in case.points
        if point.duets > 1
    ]
    return sum(not interval.excludes(1.0) for interval in intervals), len(intervals)


def _night(stack: Points, places: Mapping[str, NightCase]) -> Night:
    """The night of a file of points, at the time of the stack, not of the measurement.

    `places`: interpreter and stack of cases that it has no points of.
    """
    cases = {case.case: NightCase(case.python, case.stack) for case in stack.cases}
    for lost in stack.missing:
        if lost.case not in cases:
            place = places.get(lost.case, NightCase("", ""))
            cases[lost.case] = NightCase(
                place.python, place.stack, status="failed", reason=lost.reason
            )
    known = {
        case.case: {point.metric: point.interval for point in case.points} for case in stack.cases
    }
    return Night(
        run=stack.id,
        kind="anchored",
        profile=stack.anchor,
        # Of today, what was not out when it was measured is not in it.
        time=int(min(stack.when, stack.started).timestamp()),
        commit=stack.commit,
        machine=stack.machine.id,
        fingerprint=fingerprint(stack.machine),
        interpreters=builds(stack.interpreters),
        stacks={lock.name: lock.digest for lock in stack.stacks},
        packages={lock.name: lock.packages for lock in stack.stacks},
        cases=cases,
        figures=figures([known.get(case, {}) for case in cases]),
        as_of=f"{stack.when:%Y-%m-%d}" if stack.origin == "backfill" else None,
    )


def trended(every: Iterable[Points]) -> tuple[tuple[Points, ...], tuple[str, ...]]:
    """Select what is of a time, each stack as one; also sentences about what is on no trend.

    Of a time are nights, and what was measured later as of a date. All of a machine stands against
    the newest anchor that it was measured against, or that followed on that one. Of a case that
    nobody measured against both anchors the older points are left out.
    """
    ordered = sorted(every, key=lambda one: (one.started, one.id))
    renewals = [one for one in ordered if one.origin == "renewal"]
    timed = [one for one in ordered if one.release is None and one.origin != "renewal"]
    chained = [_chained(one, renewals) for one in timed]
    newest = {one.machine.id: one.anchor for one in chained}
    stacks: dict[tuple[str, str], list[Points]] = {}
    lost: Counter[tuple[str, str]] = Counter()
    for before, after in zip(timed, chained, strict=True):
        anchor = newest[before.machine.id]
        kept = after if after.anchor == anchor else after.model_copy(update={"cases": ()})
        lost[before.anchor, anchor] += _count(before) - _count(kept)
        if kept.cases or kept is before:
            name = (before.night or before.id) if before.origin == "night" else before.label
            stacks.setdefault((before.machine.id, name), []).append(kept)
    notes = (
        f"Against the anchor {old} {count} {'point was' if count == 1 else 'points were'} "
        f"measured of which nobody knows how they stand to the anchor {new}: no trend shows them"
        for (old, new), count in lost.items()
        if count
    )
    return tuple(map(_joined, stacks.values())), tuple(notes)


def _count(points: Points) -> int:
    return sum(len(case.points) for case in points.cases)


def _joined(pieces: Sequence[Points]) -> Points:
    """One stack's files, oldest first, as one: of each case what was measured last."""
    if len(pieces) == 1:
        return pieces[0]
    cases = {case.case: case for one in pieces for case in one.cases}
    missing = {lost.case: lost for one in pieces for lost in one.missing if lost.case not in cases}
    update = {
        "cases": tuple(cases.values()),
        "missing": tuple(missing.values()),
        "stacks": tuple({stack.name: stack for one in pieces for stack in one.stacks}.values()),
        "interpreters": tuple({py.name: py for one in pieces for py in one.interpreters}.values()),
    }
    return pieces[-1].model_copy(update=update)


def _chained(points: Points, renewals: Sequence[Points]) -> Points:
    """The points against the last anchor that follows on theirs; renewals with the oldest first."""
    follows = {renewal.anchor: renewal.label.removeprefix(RENEWED) for renewal in renewals}
    visited = {points.anchor}
    while (new := follows.get(points.anchor)) is not None and new not in visited:
        visited.add(new)
        between = [
            renewal
            for renewal in renewals
            if (renewal.anchor, renewal.label.removeprefix(RENEWED)) == (points.anchor, new)
        ]
        # What this machine did not measure itself: on another one.
        between.sort(key=lambda one: one.machine.id == points.machine.id)
        links = {
            (case.case, point.metric): point
            for renewal in between
            for case in renewal.cases
            for point in case.points
        }
        cases = (
            case.model_copy(update={"points": tuple(_divided(case, links))})
            for case in points.cases
        )
        kept = tuple(case for case in cases if case.points)
        points = points.model_copy(update={"anchor": new, "cases": kept})
    return points


def _divided(
    case: CasePoints, links: Mapping[tuple[str, str], AnchoredPoint]
) -> Iterator[AnchoredPoint]:
    """A case's points, each divided by its link; what has none is left out."""
    for point in case.points:
        if (link := links.get((case.case, point.metric))) is not None:
            yield point.model_copy(
                update={
                    "ratio": point.ratio / link.ratio,
                    "se": math.hypot(point.se, link.se),
                    "anchor": point.anchor * link.ratio,
                    # The interval is at least as wide as that of the less known one says.
                    "duets": min(point.duets, link.duets),
                }
            )
