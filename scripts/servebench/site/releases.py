"""Releases of packages that were held against an anchor: in order, and what each of them did. Pure.

A point is a ratio to the anchor with its standard error. Two points of one anchor and machine have
nothing else in common, so their errors add in quadrature: that of a release over another one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from servebench.compare import statistics
from servebench.compare.samples import CallTime
from servebench.compare.statistics import CONFIDENCE_RATE, Method, Sample
from servebench.core.metrics import METRICS, Metric
from servebench.core.model import Machine
from servebench.record.change import ChangeRecord, Release
from servebench.record.comparison import Comparison, Verdict
from servebench.record.packages import PackageRecord, VersionLinks
from servebench.record.points import AnchoredPoint, CasePoints, Points
from servebench.series.columns import RunHeader

CPU: Final = "server_cpu_per_request"
MAIN: Final = (CPU, "seconds")
"""What a release is summed up by: CPU per request; inside the process, the time of a call."""
INSTRUCTIONS: Final = "instructions"
"""Counted, and a hint: never a verdict."""

_METHOD: Final = Method()
_NORMAL: Final = 1.96  # standard errors of a 95 % interval, where nobody knows over how many


@dataclass(frozen=True, slots=True)
class Measured:
    """A release that was held against the anchor, or was to be.

    Attributes:
        when: The day on which it came out.
        previous: The release that came before it, measured or not.
        stacks: Stack → package → version, as it was installed.
        points: By case, or by series of a benchmark inside the process.
        missing: Case → why it has no points.
    """

    version: str
    when: datetime
    previous: str | None
    stacks: Mapping[str, Mapping[str, str]]
    points: Mapping[str, CasePoints]
    missing: Mapping[str, str]

    def point(self, case: str, metric: str) -> AnchoredPoint | None:
        """One metric of a case; None: it has none."""
        known = self.points[case].points if case in self.points else ()
        return next((one for one in known if one.metric == metric), None)


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseAxis:
    """The releases of a package that were held against one anchor on one machine, in their order.

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
        return tuple(one for one in self.releases if one.points)

    def results(self) -> dict[str, Result]:
        """What each release but the first did, over the measured one before it, by version."""
        return {
            head.version: Result(base, head, over(base, head))
            for base, head in pairwise(self.measured)
        }


@dataclass(frozen=True, slots=True)
class ReleaseEffect:
    """What a release does to one metric of a case, over another release.

    Attributes:
        low: End of the 95 % interval.
        detectable: The smallest change that would have been called four times in five.
        verdict: With its interval beyond the relevance floor, after correction for all figures of
            its family; None: it is not judged.
    """

    case: str
    python: str
    metric: str
    ratio: float
    low: float
    high: float
    detectable: float | None = None
    verdict: Verdict | None = None

    @property
    def moved(self) -> bool:
        return self.verdict in {Verdict.FASTER, Verdict.SLOWER}

    @property
    def size(self) -> float:
        return abs(math.log(self.ratio))


@dataclass(frozen=True, slots=True)
class Result:
    """What a release does over another one."""

    base: Measured
    head: Measured
    effects: tuple[ReleaseEffect, ...]

    @property
    def main(self) -> tuple[ReleaseEffect, ...]:
        """What it is summed up by: of each case that is judged one metric."""
        return tuple(one for one in self.effects if one.verdict and one.metric in MAIN)

    @property
    def others(self) -> tuple[ReleaseEffect, ...]:
        """What else is judged."""
        return tuple(one for one in self.effects if one.verdict and one.metric not in MAIN)

    @property
    def moved(self) -> tuple[ReleaseEffect, ...]:
        """Where it did something to what it is summed up by, the most first."""
        found = (one for one in self.main if one.moved)
        return tuple(sorted(found, key=lambda one: one.size, reverse=True))

    @property
    def detectable(self) -> float | None:
        """The smallest change that would have been seen wherever it had been; None: nowhere."""
        return max((one.detectable or 0.0 for one in self.main), default=None)


@dataclass(frozen=True, slots=True)
class ReleasedPackage:
    """What is known of a package under test.

    Attributes:
        name: As locks have it.
        locked: Stack → version, in the newest lock that was measured.
        changes: Whose locks differ in it, or that it is named as the cause of; newest first.
        comparisons: Stored ones whose sides differ in it, newest first.
        versions: Those with pages of their own: measured, or the cause of a change; the oldest
            first.
        about: Links of its versions, where its metadata were read.
    """

    name: str
    axes: tuple[ReleaseAxis, ...] = ()
    locked: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[ChangeRecord, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    versions: tuple[str, ...] = ()
    about: PackageRecord | None = None

    def links(self, version: str = "") -> VersionLinks:
        """Where a version leads, or the newest one that is known; and how tags are named."""
        known = self.about.versions if self.about else {}
        if not known:
            return VersionLinks()
        newest = sorted(known, key=order)
        found = known.get(version) or known[newest[-1]]
        tags = (known[one].tag for one in newest[::-1] if known[one].tag is not None)
        tag = found.tag if found.tag is not None else next(tags, None)
        return found.model_copy(update={"tag": tag})


def blamed(record: ChangeRecord) -> tuple[Release, ...]:
    """The releases that a change is put down to."""
    shared = (release for share in record.shares for release in share.releases)
    culprit = (record.culprit,) if record.culprit else ()
    return tuple(dict.fromkeys((*shared, *culprit)))


def packages(
    points: Sequence[Points],
    headers: Iterable[RunHeader],
    changes: Iterable[ChangeRecord],
    comparisons: Iterable[Comparison],
    about: Iterable[PackageRecord],
) -> dict[str, ReleasedPackage]:
    """All packages that locks have had, or that were measured or named, by name.

    `headers` with the oldest first, changes and comparisons with the newest.
    """
    measured = axes(points)
    named: dict[str, list[ChangeRecord]] = defaultdict(list)
    compared: dict[str, list[Comparison]] = defaultdict(list)
    versions: dict[str, set[str]] = defaultdict(set)
    stacks: dict[str, Mapping[str, str]] = {}
    names: set[str] = set(measured)
    for header in headers:
        stacks |= header.packages
        for lock in header.packages.values():
            names |= lock.keys()
    for record in changes:
        causes = blamed(record)
        for name in {*(one.package for one in record.packages), *(one.package for one in causes)}:
            named[name].append(record)
        for one in causes:
            versions[one.package].add(one.version)
    for comparison in comparisons:
        for name in {one.package for one in comparison.packages}:
            compared[name].append(comparison)
    for name, many in measured.items():
        versions[name] |= {one.version for axis in many for one in axis.releases}
    known = {one.id: one for one in about}
    return {
        name: ReleasedPackage(
            name,
            measured.get(name, ()),
            {stack: lock[name] for stack, lock in sorted(stacks.items()) if name in lock},
            tuple(named.get(name, ())),
            tuple(compared.get(name, ())),
            tuple(sorted(versions.get(name, ()), key=order)),
            known.get(name),
        )
        for name in sorted({*names, *named, *compared, *versions})
    }


def order(version: str) -> tuple[bool, Version, str]:
    """What sorts versions: 0.9 before 0.10; what is no version comes first."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version


def axes(every: Iterable[Points]) -> dict[str, tuple[ReleaseAxis, ...]]:
    """By package what was measured of its releases, on the machine that did so last first.

    `every`: Oldest measurement first. A case that was measured once more counts as it was then.
    """
    found: dict[tuple[str, str, str], dict[str, list[Points]]] = {}
    for one in every:
        if one.release is not None:
            key = (canonicalize_name(one.release.package), one.machine.id, one.anchor)
            found.setdefault(key, {}).setdefault(one.release.version, []).append(one)
    made: dict[str, list[ReleaseAxis]] = {}
    for (package, _, anchor), versions in found.items():
        ordered = sorted(versions, key=order)
        newest = max((many[-1] for many in versions.values()), key=lambda one: one.started)
        releases = tuple(_measured(version, versions[version]) for version in ordered)
        axis = ReleaseAxis(package, newest.machine, anchor, releases, newest.started)
        made.setdefault(package, []).append(axis)
    return {
        package: tuple(sorted(many, key=lambda one: one.last, reverse=True))
        for package, many in sorted(made.items())
    }


def _measured(version: str, files: Sequence[Points]) -> Measured:
    points = {case.case: case for one in files for case in one.cases}
    last = files[-1]
    return Measured(
        version=version,
        when=last.when,
        previous=last.release.previous if last.release else None,
        stacks={stack.name: stack.packages for one in files for stack in one.stacks},
        points=points,
        missing={
            lost.case: lost.reason
            for one in files
            for lost in one.missing
            if lost.case not in points
        },
    )


def over(base: Measured, head: Measured) -> tuple[ReleaseEffect, ...]:
    """What one release does over another, by case and metric, of what both have."""
    pairs = [
        (case, before, after)
        for name, case in head.points.items()
        for after in case.points
        if (before := base.point(name, after.metric)) is not None
    ]
    found: list[ReleaseEffect] = []
    for family in (True, False):
        judged = [
            pair for pair in pairs if (pair[2].metric in MAIN) is family and _judged(*pair[1:])
        ]
        ps = [
            statistics.moved_p(_sample(before, after), _scale(after.metric).floor)
            for _, before, after in judged
        ]
        called = statistics.adjusted(ps, [1.0] * len(ps))
        found += [_verdict(*pair, p, len(ps)) for pair, p in zip(judged, called, strict=True)]
    return (*found, *(_counted(*pair) for pair in pairs if not _judged(*pair[1:])))


def ratio(base: AnchoredPoint, head: AnchoredPoint) -> tuple[float, float, float]:
    """How many times another release's figure one is, with the 95 % interval."""
    found = _sample(base, head)
    low, high = statistics.interval(found, CONFIDENCE_RATE)
    return math.exp(found.mean), math.exp(low), math.exp(high)


def _verdict(
    case: CasePoints, before: AnchoredPoint, after: AnchoredPoint, p: float, family: int
) -> ReleaseEffect:
    """What is said of one figure; `p` is corrected for so many in its family."""
    scale, (mean, low, high) = _scale(after.metric), ratio(before, after)
    detectable = statistics.detectable(
        _sample(before, after), scale.floor, alpha=_METHOD.rate / family, power=_METHOD.power
    )
    inside = max(high, 1 / low) <= 1 + scale.tolerance
    verdict = Verdict.NO_CHANGE if inside else Verdict.INCONCLUSIVE
    if p <= _METHOD.rate:
        worse = (mean > 1) == (scale.better == "lower")
        verdict = Verdict.SLOWER if worse else Verdict.FASTER
    return ReleaseEffect(case.case, case.python, after.metric, mean, low, high, detectable, verdict)


def _counted(case: CasePoints, before: AnchoredPoint, after: AnchoredPoint) -> ReleaseEffect:
    """A figure without a verdict."""
    apart, error = after.log - before.log, math.hypot(before.se, after.se)
    low, mean, high = (math.exp(apart + side * _NORMAL * error) for side in (-1, 0, 1))
    return ReleaseEffect(case.case, case.python, after.metric, mean, low, high)


def _judged(before: AnchoredPoint, after: AnchoredPoint) -> bool:
    """A count has no scatter that could be judged."""
    return min(before.duets, after.duets) > 1 and after.metric != INSTRUCTIONS


def _scale(metric: str) -> Metric | CallTime:
    return METRICS.get(metric) or CallTime()


def _sample(base: AnchoredPoint, head: AnchoredPoint) -> Sample:
    """The log ratio: errors in quadrature, degrees of freedom of Welch and Satterthwaite."""
    parts = [(one.se**2, max(1, one.duets - 1)) for one in (base, head)]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / free for part, free in parts)
    freedom = int(variance**2 / spread) if spread else min(free for _, free in parts)
    n = freedom + 1
    return Sample(n, head.log - base.log, math.sqrt(variance * n))
