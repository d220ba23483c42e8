"""Anchored points as columns, so that trends and detection read them as they read runs.

A stack's files are joined, and stand against one anchor: what was measured against an older one is
divided by what a renewal's duets gave for the new anchor against the old. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from duetbench.store.points import CANARY, RENEWED, AnchoredPoint, CasePoints, Points
from duetbench.trend.columns import (
    MOST_LAUNCHES,
    TRENDS,
    CaseState,
    RunColumns,
    RunHeader,
    builds,
    empty,
    fingerprint,
)

METRICS: Final = (*TRENDS, "instructions", "seconds")
"""Metrics that a point may be of."""


def anchored(every: Iterable[Points]) -> tuple[tuple[RunColumns, ...], tuple[str, ...]]:
    """The columns of all that is of a time, and what is on no trend, in sentences."""
    points, notes = trended(every)
    places = {case.case: (case.python, case.stack) for point in points for case in point.cases}
    return tuple(of_points(point, places) for point in points), notes


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


def of_points(points: Points, places: Mapping[str, tuple[str, str]] | None = None) -> RunColumns:
    """The columns of a file of points: ratios, with their 95 % intervals.

    Its time is that of the stack, not of the measurement. `places`: interpreter and stack of cases
    that it has no points of.
    """
    lost = {one.case: one.reason for one in points.missing}
    of_case = {case.case: (case.python, case.stack) for case in points.cases}
    of_case = {**(places or {}), **of_case}
    names = tuple(dict.fromkeys((*(case.case for case in points.cases), *lost)))
    environments = [of_case.get(name, ("", "")) for name in names]
    header = RunHeader(
        run=points.id,
        kind="anchored",
        profile=points.anchor,
        # Of today, what was not out when it was measured is not in it.
        time=int(min(points.when, points.started).timestamp()),
        commit=points.commit,
        machine=points.machine.id,
        fingerprint=fingerprint(points.machine),
        interpreters=builds(points.interpreters),
        stacks={stack.name: stack.digest for stack in points.stacks},
        packages={stack.name: stack.packages for stack in points.stacks},
        cases=names,
        definitions=("",) * len(names),
        pythons=tuple(python for python, _ in environments),
        stack_of=tuple(stack for _, stack in environments),
        metrics=METRICS,
        odd={
            place: CaseState("failed", reason=lost[name])
            for place, name in enumerate(names)
            if place >= len(points.cases)
        },
        as_of=f"{points.when:%Y-%m-%d}" if points.origin == "backfill" else None,
    )
    mean, low, high, launches = empty(header)
    for row, case in enumerate(points.cases):
        for point in case.points:
            if point.metric in METRICS:
                column = METRICS.index(point.metric)
                mean[row, column] = point.ratio
                low[row, column], high[row, column] = point.interval.ends or (math.nan, math.nan)
                launches[row, column] = min(point.duets, MOST_LAUNCHES)
    return RunColumns(header, mean, low, high, launches)


def trended(every: Iterable[Points]) -> tuple[tuple[Points, ...], tuple[str, ...]]:
    """Select what is of a time, each stack as one; also sentences about what is on no trend.

    Of a time are nights, and what was measured later as of a date. All of a machine stands against
    the newest anchor that it was measured against, or that followed on that one. Of a case that
    nobody measured against both anchors the older points are left out.
    """
    ordered = sorted(every, key=lambda one: (one.started, one.id))
    chain = _Chain([one for one in ordered if one.origin == "renewal"])
    timed = [one for one in ordered if one.release is None and one.origin != "renewal"]
    chained = [chain.followed(one) for one in timed]
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
        f"Against the anchor {old} {points} {'point was' if points == 1 else 'points were'} "
        f"measured of which nobody knows how they stand to the anchor {new}: no trend shows them"
        for (old, new), points in lost.items()
        if points
    )
    return tuple(map(_joined, stacks.values())), tuple(notes)


def _count(points: Points) -> int:
    return sum(len(case.points) for case in points.cases)


def _joined(files: Sequence[Points]) -> Points:
    """One stack's files, oldest first, as one: of each case what was measured last."""
    if len(files) == 1:
        return files[0]
    cases = {case.case: case for file in files for case in file.cases}
    missing = {lost.case: lost for file in files for lost in file.missing if lost.case not in cases}
    update = {
        "cases": tuple(cases.values()),
        "missing": tuple(missing.values()),
        "stacks": tuple({stack.name: stack for file in files for stack in file.stacks}.values()),
        "interpreters": tuple({py.name: py for file in files for py in file.interpreters}.values()),
    }
    return files[-1].model_copy(update=update)


class _Chain:
    """Chain of anchors, by the renewals' files, oldest first."""

    def __init__(self, renewals: Sequence[Points]) -> None:
        self._renewals = renewals
        self._next = {renewal.anchor: renewal.label.removeprefix(RENEWED) for renewal in renewals}

    def followed(self, points: Points) -> Points:
        """The points against the last anchor that follows on theirs."""
        visited = {points.anchor}
        while (new := self._next.get(points.anchor)) is not None and new not in visited:
            visited.add(new)
            links = self._links(points)
            cases = (
                case.model_copy(update={"points": tuple(_divided(case, links))})
                for case in points.cases
            )
            kept = tuple(case for case in cases if case.points)
            points = points.model_copy(update={"anchor": new, "cases": kept})
        return points

    def _links(self, points: Points) -> dict[tuple[str, str], AnchoredPoint]:
        """By case and metric: what the next anchor is to that of the points, on their machine.

        Where this machine did not measure it: on another one.
        """
        new = self._next[points.anchor]
        between = [
            renewal
            for renewal in self._renewals
            if (renewal.anchor, renewal.label.removeprefix(RENEWED)) == (points.anchor, new)
        ]
        between.sort(key=lambda one: one.machine.id == points.machine.id)
        return {
            (case.case, point.metric): point
            for one in between
            for case in one.cases
            for point in case.points
        }


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
