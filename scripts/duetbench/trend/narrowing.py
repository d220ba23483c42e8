"""Finds which of several releases did it, where each was measured against an anchor. Pure.

A search names a package and the versions that the two stacks have of it. Of stacks that are a month
apart these may be many releases apart, and the later one then need not be the one that did it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from duetbench.store.change import Change, Narrowed, Release, SeriesName, Share
from duetbench.store.points import AnchoredPoint
from duetbench.trend import conclude, releases
from duetbench.trend.releases import Measured, ReleaseAxis, ReleaseEffect, order

Axes = Mapping[str, Sequence[ReleaseAxis]]
"""Measured releases of each package."""


def narrowed(records: Iterable[Change], axes: Axes) -> tuple[Change, ...]:
    """Records whose release is known more closely than when they were made: their new states."""
    pairs = ((record, _of(record, axes)) for record in records)
    return tuple(
        record.model_copy(update={"narrowed": one, "culprit": one.steps[0].releases[0]})
        for record, one in pairs
        if one is not None and one != record.narrowed
    )


def unmeasured(versions: Sequence[str], axis: ReleaseAxis | None) -> tuple[str, ...]:
    """Choose what to measure next to find the releases that did something; empty: they are known.

    First the ends of `versions`, which are in their order, then the middle of what lies between two
    of which one did something over the other. What one of them does and the next one undoes is not
    found. Releases that could not be measured are passed over.
    """
    tried = {release.version for release in axis.releases} if axis else set()
    known = {one.version: one for one in axis.measured} if axis else {}
    ends = (
        next((one for one in row if one in known or one not in tried), None)
        for row in (versions, versions[::-1])
    )
    if wanted := [end for end in dict.fromkeys(ends) if end is not None and end not in known]:
        return tuple(wanted)
    row = [place for place, one in enumerate(versions) if one in known]
    middles = []
    for low, high in pairwise(row):
        between = [version for version in versions[low + 1 : high] if version not in tried]
        effects = releases.over(known[versions[low]], known[versions[high]])
        if between and any(effect.moved for effect in effects):
            middles.append(between[len(between) // 2])
    return tuple(middles)


def _of(record: Change, axes: Axes) -> Narrowed | None:
    """Narrow by its own machine, else another one, and the first series that moved and has it."""
    span = record.shares[0].releases[0] if record.shares else conclude.culprit(record.packages)
    if span is None or span.previous is None:
        return None
    every = sorted(
        axes.get(span.package, ()), key=lambda axis: axis.machine.id != record.measured_on
    )
    spans = (
        one
        for axis in every
        for series in (record.series, *record.others)
        if (one := _between(axis, span, series)) is not None
        # Of another metric more may be better.
        if series.metric != record.series.metric or (one.steps[0].ratio > 1) == (record.ratio > 1)
    )
    return next(spans, None)


def _between(axis: ReleaseAxis, span: Release, series: SeriesName) -> Narrowed | None:
    """The releases that moved a series; None: not all is known, or nothing moved as the whole."""
    first, last = order(span.previous or ""), order(span.version)
    known = [
        (one, point)
        for one in axis.releases
        if first <= order(one.version) <= last
        and (point := one.point(series.case, series.metric)) is not None
        and releases.scatters(point)
    ]
    if len(known) < 3 or (known[0][0].version, known[-1][0].version) != (
        span.previous,
        span.version,
    ):
        return None

    def judged(chain: Sequence[tuple[Measured, AnchoredPoint]]) -> list[ReleaseEffect]:
        return releases.judged(
            [
                (head.points[series.case], before, after)
                for (_, before), (head, after) in pairwise(chain)
            ]
        )

    (whole,) = judged([known[0], known[-1]])
    complete, steps = True, []
    for ((base, _), (head, point)), one in zip(pairwise(known), judged(known), strict=True):
        if one.moved:
            complete &= head.follows(base)
            release = Release(package=span.package, version=head.version, previous=base.version)
            steps.append(
                Share(
                    releases=(release,), duets=point.duets,
                    ratio=one.ratio.estimate, low=one.ratio.low, high=one.ratio.high,
                )
            )  # fmt: skip
    rose = whole.ratio.estimate > 1
    steps.sort(key=lambda step: ((step.ratio > 1) is not rose, -abs(math.log(step.ratio))))
    if not whole.moved or not steps or (steps[0].ratio > 1) is not rose:
        return None
    return Narrowed(
        series=series.model_copy(update={"machine": axis.machine.id}),
        steps=tuple(steps),
        complete=complete,
    )
