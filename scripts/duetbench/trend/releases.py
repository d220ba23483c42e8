"""Orders releases that were measured against an anchor, and judges what each of them did. Pure.

A point is a ratio to the anchor with its standard error. Two points of one anchor and machine have
nothing else in common, so their errors add in quadrature: that of a release over another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from duetbench.core.metrics import CPU, INSTRUCTIONS, row
from duetbench.core.model import Machine, Verdict
from duetbench.core.units import Interval
from duetbench.judge import statistics
from duetbench.judge.statistics import CONFIDENCE_RATE, Method, Sample
from duetbench.store.change import Change, Narrowed, Release, SeriesName, Share, release_of
from duetbench.store.points import AnchoredPoint, CasePoints, Points

MAIN: Final = (CPU, "seconds")
"""Metrics that sum up a release: CPU per request; inside the process, the time of a call."""
Pair = tuple[CasePoints, AnchoredPoint, AnchoredPoint]
"""A case, and a point of it of one release and of another."""

_METHOD: Final = Method()
_NORMAL: Final = 1.96  # standard errors of a 95 % interval, where nobody knows over how many


@dataclass(frozen=True, slots=True)
class Measured:
    """A release that was measured against the anchor, or was to be."""

    version: str
    when: datetime  # the day on which it came out
    previous: str | None  # the release that came before it, measured or not
    stacks: Mapping[str, Mapping[str, str]]  # stack → package → version, as it was installed
    points: Mapping[str, CasePoints]  # by case, or by series of a benchmark inside the process
    missing: Mapping[str, str]  # case → why it has no points

    def follows(self, base: Measured) -> bool:
        """Whether no release lies between another one and this."""
        return self.previous is not None and order(self.previous) <= order(base.version)

    def point(self, case: str, metric: str) -> AnchoredPoint | None:
        """One metric of a case; None: it has none."""
        known = self.points[case].points if case in self.points else ()
        return next((one for one in known if one.metric == metric), None)


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseAxis:
    """The releases of a package that were measured against one anchor on one machine, in order.

    `last`: When one of them was measured last.
    """

    package: str
    machine: Machine
    anchor: str
    releases: tuple[Measured, ...]
    last: datetime

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Those that have points: others could not be installed, or have failed."""
        return tuple(release for release in self.releases if release.points)

    def results(self) -> dict[str, Result]:
        """Effect of each release but the first over the measured one before it, by version."""
        return {
            head.version: Result(base, head, over(base, head))
            for base, head in pairwise(self.measured)
        }


@dataclass(frozen=True, slots=True)
class ReleaseEffect:
    """Effect of a release on one metric of a case, over another release."""

    case: str
    python: str
    metric: str
    ratio: Interval
    detectable: float | None = None  # smallest change that would have been called 4 times in 5
    # With its interval beyond the relevance floor, after correction for all figures of its family;
    # None: it is not judged.
    verdict: Verdict | None = None

    @property
    def moved(self) -> bool:
        return self.verdict in {Verdict.FASTER, Verdict.SLOWER}

    @property
    def size(self) -> float:
        return abs(math.log(self.ratio.estimate))


@dataclass(frozen=True, slots=True)
class Result:
    """All effects of a release over another one."""

    base: Measured
    head: Measured
    effects: tuple[ReleaseEffect, ...]

    @property
    def main(self) -> tuple[ReleaseEffect, ...]:
        """Effects that sum it up: of each case that is judged one metric."""
        return tuple(effect for effect in self.effects if effect.verdict and effect.metric in MAIN)

    @property
    def others(self) -> tuple[ReleaseEffect, ...]:
        """All other effects that are judged."""
        return tuple(
            effect for effect in self.effects if effect.verdict and effect.metric not in MAIN
        )

    @property
    def moved(self) -> tuple[ReleaseEffect, ...]:
        """Main effects that moved: servers first, the largest first."""
        moved = (one for one in self.main if one.moved)
        return tuple(sorted(moved, key=lambda one: (one.metric != CPU, -one.size)))

    @property
    def detectable(self) -> float | None:
        """The smallest change that would have been seen wherever it had been; None: nowhere."""
        return max((one.detectable or 0.0 for one in self.main), default=None)


def order(version: str) -> tuple[bool, Version, str]:
    """Key that sorts versions: 0.9 before 0.10; what is no version comes first."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version


def axes(every: Iterable[Points]) -> dict[str, tuple[ReleaseAxis, ...]]:
    """By package what was measured of its releases, on the machine that did so last first.

    `every`: Oldest measurement first. A case that was measured once more counts as it was then.
    """
    files: dict[tuple[str, str, str], dict[str, list[Points]]] = {}
    for one in every:
        if one.release is not None:
            key = (canonicalize_name(one.release.package), one.machine.id, one.anchor)
            files.setdefault(key, {}).setdefault(one.release.version, []).append(one)
    axes_of: dict[str, list[ReleaseAxis]] = {}
    for (package, _, anchor), versions in files.items():
        ordered = sorted(versions, key=order)
        newest = max((many[-1] for many in versions.values()), key=lambda one: one.started)
        releases = tuple(_measured(version, versions[version]) for version in ordered)
        axis = ReleaseAxis(package, newest.machine, anchor, releases, newest.started)
        axes_of.setdefault(package, []).append(axis)
    return {
        package: tuple(sorted(many, key=lambda one: one.last, reverse=True))
        for package, many in sorted(axes_of.items())
    }


def _measured(version: str, files: Sequence[Points]) -> Measured:
    points = {case.case: case for file in files for case in file.cases}
    # Of the first of a span nobody asked what came before it.
    known = (file.release.previous for file in files[::-1] if file.release)
    return Measured(
        version=version,
        when=files[-1].when,
        previous=next(filter(None, known), None),
        stacks={stack.name: stack.packages for file in files for stack in file.stacks},
        points=points,
        missing={
            lost.case: lost.reason
            for file in files
            for lost in file.missing
            if lost.case not in points
        },
    )


def over(base: Measured, head: Measured) -> tuple[ReleaseEffect, ...]:
    """Compare one release with another, by case and metric, as far as both have them."""
    pairs = [
        (case, before, after)
        for name, case in head.points.items()
        for after in case.points
        if (before := base.point(name, after.metric)) is not None
    ]
    scattered = [pair for pair in pairs if scatters(*pair[1:])]
    main = [pair for pair in scattered if pair[2].metric in MAIN]
    others = [pair for pair in scattered if pair[2].metric not in MAIN]
    counted = (_counted(*pair) for pair in pairs if not scatters(*pair[1:]))
    return (*judged(main), *judged(others), *counted)


def judged(pairs: Sequence[Pair]) -> list[ReleaseEffect]:
    """Judge the figures of one family, whose points all have a scatter."""
    ps = [
        statistics.moved_p(_sample(before, after), row(after.metric).floor)
        for _, before, after in pairs
    ]
    called = statistics.adjusted(ps, [1.0] * len(ps))
    return [_verdict(*pair, p, len(ps)) for pair, p in zip(pairs, called, strict=True)]


def ratio(base: AnchoredPoint, head: AnchoredPoint) -> Interval:
    """Ratio of one release's figure to another's, with the 95 % interval."""
    sample = _sample(base, head)
    low, high = statistics.interval(sample, CONFIDENCE_RATE)
    return Interval(math.exp(sample.mean), math.exp(low), math.exp(high), sample.n)


def _verdict(
    case: CasePoints, before: AnchoredPoint, after: AnchoredPoint, p: float, family: int
) -> ReleaseEffect:
    """Judge one figure; `p` is corrected for so many in its family."""
    scale, effect = row(after.metric), ratio(before, after)
    detectable = statistics.detectable(
        _sample(before, after), scale.floor, alpha=_METHOD.rate / family, power=_METHOD.power
    )
    low, high = effect.ends or (0.0, math.inf)
    inside = max(high, 1 / low) <= 1 + scale.tolerance
    verdict = Verdict.NO_CHANGE if inside else Verdict.INCONCLUSIVE
    if p <= _METHOD.rate:
        worse = (effect.estimate > 1) == (scale.better == "lower")
        verdict = Verdict.SLOWER if worse else Verdict.FASTER
    return ReleaseEffect(case.case, case.python, after.metric, effect, detectable, verdict)


def _counted(case: CasePoints, before: AnchoredPoint, after: AnchoredPoint) -> ReleaseEffect:
    """A figure without a verdict."""
    apart, error = after.log - before.log, math.hypot(before.se, after.se)
    low, mean, high = (math.exp(apart + side * _NORMAL * error) for side in (-1, 0, 1))
    return ReleaseEffect(case.case, case.python, after.metric, Interval(mean, low, high))


def scatters(*points: AnchoredPoint) -> bool:
    """Whether all have a scatter by which they can be judged: a count has none."""
    return all(point.duets > 1 and point.metric != INSTRUCTIONS for point in points)


def _sample(base: AnchoredPoint, head: AnchoredPoint) -> Sample:
    """The log ratio: errors in quadrature, degrees of freedom of Welch and Satterthwaite."""
    parts = [(one.se**2, max(1, one.duets - 1)) for one in (base, head)]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / free for part, free in parts)
    freedom = int(variance**2 / spread) if spread else min(free for _, free in parts)
    n = freedom + 1
    return Sample(n, head.log - base.log, math.sqrt(variance * n))


def narrowed(
    records: Iterable[Change], axes: Mapping[str, Sequence[ReleaseAxis]]
) -> tuple[Change, ...]:
    """Records whose release is known more closely than when they were made: their new states.

    A search names a package and the versions that the two stacks have of it. Of stacks that are a
    month apart these may be many releases apart, and the later one then need not be the one that
    did it. `axes` has the measured releases of each package.
    """
    pairs = ((record, _narrowed(record, axes)) for record in records)
    return tuple(
        record.model_copy(update={"narrowed": one, "culprit": one.steps[0].releases[0]})
        for record, one in pairs
        if one is not None and one != record.narrowed
    )


def _narrowed(record: Change, axes: Mapping[str, Sequence[ReleaseAxis]]) -> Narrowed | None:
    """Narrow by its own machine, else another one, and the first series that moved and has it."""
    span = record.shares[0].releases[0] if record.shares else release_of(record.packages)
    if span is None or span.previous is None:
        return None
    every = sorted(
        axes.get(span.package, ()), key=lambda axis: axis.machine.id != record.measured_on
    )
    spans = (
        one
        for axis in every
        for series in record.moved
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
        and scatters(point)
    ]
    if len(known) < 3 or (known[0][0].version, known[-1][0].version) != (
        span.previous,
        span.version,
    ):
        return None

    def over_each(chain: Sequence[tuple[Measured, AnchoredPoint]]) -> list[ReleaseEffect]:
        return judged(
            [
                (head.points[series.case], before, after)
                for (_, before), (head, after) in pairwise(chain)
            ]
        )

    (whole,) = over_each([known[0], known[-1]])
    complete, steps = True, []
    for ((base, _), (head, point)), one in zip(pairwise(known), over_each(known), strict=True):
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
