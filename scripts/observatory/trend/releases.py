"""Orders releases that were measured against an anchor, and judges the effect of each. Pure.

A point is a ratio to the anchor with its standard error. The errors of two points of one anchor and
machine are independent, so that of a release over another one is their sum in quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise, product
from typing import Final

from packaging.utils import canonicalize_name

from duetbench.core.metrics import CPU, INSTRUCTIONS, row
from duetbench.core.model import Machine, Verdict
from duetbench.core.units import Interval
from duetbench.judge import statistics
from duetbench.judge.statistics import RATE, Sample, direction
from observatory.store.change import order
from observatory.store.points import AnchoredPoint, Points, join
from observatory.trend.levels import Piece, fit, interval

START: Final = "start_cpu"  # sums up a start without load, which alone has it
MEMORY: Final = "pss_steady"
MAIN: Final = (CPU, START)
"""Metrics that sum up a release: CPU per request, or CPU to start."""
Pair = tuple[str, AnchoredPoint, AnchoredPoint]
"""A case, and one metric's points of it for two releases."""

CERTAIN: Final = 8.0
"""Twice the log likelihood ratio of a release on its own level to that on the next, from which a
step begins there: 55 to 1."""


@dataclass(frozen=True, eq=False)  # without slots, since it keeps its levels
class ReleaseAxis:
    """The releases of a package that were measured against one anchor on one machine, in order.

    `last`: the latest measurement of any of them.
    """

    package: str
    machine: Machine
    anchor: str
    releases: tuple[Points, ...]
    last: datetime

    @property
    def measured(self) -> tuple[Points, ...]:
        """Releases with points: the others could not be installed, or failed."""
        return tuple(release for release in self.releases if release.cases)

    @property
    def steps(self) -> tuple[tuple[Points, Points], ...]:
        """Each measured release but the first, after the measured one before it."""
        return tuple(pairwise(self.measured))

    @cached_property
    def levels(self) -> dict[tuple[str, str, str], ReleaseEffect]:
        """Find the releases from which on a case is at another level: by version, case and metric.

        One release scatters by more than a small change; all of them on both sides of it do not.
        A step counts if neither of its neighbours can be on the other level.
        """
        steps = {}
        cases = dict.fromkeys(case.case for release in self.measured for case in release.cases)
        for case, metric in product(cases, MAIN):
            points = ((r.version, r.point(case, metric)) for r in self.measured)
            known = [(version, point) for version, point in points if point and scatters(point)]
            logs, errors = [point.log for _, point in known], [point.se for _, point in known]
            for left, right in pairwise(fit(logs, errors)):
                height = right.log - left.log
                if abs(math.expm1(height)) > row(metric).floor and _begins(logs, left, right):
                    steps[known[right.start][0], case, metric] = ReleaseEffect(
                        case,
                        metric,
                        interval(height, math.hypot(left.se, right.se)),
                        verdict=direction(metric, height),
                        levels=(left.size, right.size),
                    )
        return steps


@dataclass(frozen=True, slots=True)
class ReleaseEffect:
    """Effect of a release on one metric of a case, over another release."""

    case: str
    metric: str
    ratio: Interval
    detectable: float | None = None  # smallest change that 4 of 5 measurements would detect
    # Its interval against a tenth of the limit, corrected for all figures of its family;
    # None: it is not judged.
    verdict: Verdict | None = None
    levels: tuple[int, int] | None = None  # releases before and from it on, if it is their mean

    @property
    def moved(self) -> bool:
        return self.verdict in {Verdict.BETTER, Verdict.WORSE}

    @property
    def size(self) -> float:
        return abs(math.log(self.ratio.estimate))


@dataclass(frozen=True, slots=True)
class Result:
    """All effects of a release over another one."""

    base: Points
    head: Points
    effects: tuple[ReleaseEffect, ...]

    @property
    def main(self) -> tuple[ReleaseEffect, ...]:
        """Effects that sum it up: one metric of each judged case."""
        return tuple(effect for effect in self.effects if effect.verdict and effect.metric in MAIN)

    @property
    def moved(self) -> tuple[ReleaseEffect, ...]:
        """Main effects that moved: servers first, the largest first."""
        moved = (effect for effect in self.main if effect.moved)
        return tuple(sorted(moved, key=lambda effect: (effect.metric != CPU, -effect.size)))

    @property
    def detectable(self) -> float | None:
        """The smallest change that every main effect could have detected; None: there is none."""
        return max((effect.detectable or 0.0 for effect in self.main), default=None)


def axes(files: Iterable[Points]) -> tuple[ReleaseAxis, ...]:
    """Group the measured releases by package, the machine with the latest measurement first.

    `files`: oldest measurement first. The last measurement of a case counts.
    """
    groups: dict[tuple[str, str, str], dict[str, list[Points]]] = {}
    for file in files:
        if file.release is not None:
            key = (canonicalize_name(file.release.package), file.machine.id, file.anchor)
            groups.setdefault(key, {}).setdefault(file.version, []).append(file)
    found = []
    for (package, _, anchor), versions in groups.items():
        newest = max((group[-1] for group in versions.values()), key=lambda file: file.started)
        releases = tuple(join(versions[version]) for version in sorted(versions, key=order))
        found.append(ReleaseAxis(package, newest.machine, anchor, releases, newest.started))
    return tuple(sorted(found, key=lambda axis: (axis.package, -axis.last.timestamp())))


def judged(axes: Iterable[ReleaseAxis]) -> dict[ReleaseAxis, dict[str, Result]]:
    """Judge every release over the measured one before it, by axis and version.

    CPU of all releases is one family, and so is memory: of many releases without an effect, few get
    a verdict by chance. If a case is at another level from a release on, the effect is the
    difference of the levels. Counts have no verdict.
    """
    by_axis: dict[ReleaseAxis, dict[str, Result]] = {axis: {} for axis in axes}
    steps = [(axis, *step) for axis in by_axis for step in axis.steps]
    effects: list[list[ReleaseEffect]] = [[] for _ in steps]
    pairs = [
        (place, (case.case, before, after))
        for place, (_, base, head) in enumerate(steps)
        for case in head.cases
        for after in case.points
        if (before := base.point(case.case, after.metric))
    ]
    for family in (MAIN, (MEMORY,)):
        own = [p for p in pairs if p[1][2].metric in family and scatters(*p[1][1:])]
        for (place, _), effect in zip(own, judge([pair for _, pair in own]), strict=True):
            axis, _, head = steps[place]
            key = (head.version, effect.case, effect.metric)
            effects[place].append(axis.levels.get(key, effect))
    for place, (name, before, after) in pairs:
        if after.metric == INSTRUCTIONS:
            ratio = interval(after.log - before.log, math.hypot(before.se, after.se))
            effects[place].append(ReleaseEffect(name, INSTRUCTIONS, ratio))
    for (axis, base, head), of_step in zip(steps, effects, strict=True):
        by_axis[axis][head.version] = Result(base, head, tuple(of_step))
    return by_axis


def _begins(logs: Sequence[float], left: Piece, right: Piece) -> bool:
    """Whether a level begins with its first release: neither neighbour can be on the other."""
    last, first = logs[right.start - 1], logs[right.start]
    variance = max(piece.se**2 * piece.size for piece in (left, right))  # of one release
    ratios = (
        (last - right.log) ** 2 - (last - left.log) ** 2,
        (first - left.log) ** 2 - (first - right.log) ** 2,
    )
    return min(ratios) >= CERTAIN * variance


def judge(pairs: Sequence[Pair]) -> list[ReleaseEffect]:
    """Judge the figures of one family, whose points all have a scatter."""
    samples = [_sample(before, after) for _, before, after in pairs]
    rows = [row(after.metric) for *_, after in pairs]
    adjusted = statistics.adjust(
        [
            float(statistics.moved_ps(of.mean, of.error, of.freedom, scale.floor))
            for of, scale in zip(samples, rows, strict=True)
        ]
    )
    effects = []
    for (case, _, after), of, scale, p in zip(pairs, samples, rows, adjusted, strict=True):
        low, high = of.interval.ends or (0.0, math.inf)
        inside = max(high, 1 / low) <= 1 + scale.limit
        verdict = Verdict.SAME if inside else Verdict.UNKNOWN
        if p <= RATE:
            verdict = direction(after.metric, of.mean)
        detectable = of.detectable(scale.floor, RATE / len(pairs))
        effects.append(ReleaseEffect(case, after.metric, of.interval, detectable, verdict))
    return effects


def scatters(*points: AnchoredPoint) -> bool:
    """Whether all points have a scatter to judge them by: a count has none."""
    return all(point.duets > 1 and point.metric != INSTRUCTIONS for point in points)


def _sample(base: AnchoredPoint, head: AnchoredPoint) -> Sample:
    """The log ratio: errors in quadrature, degrees of freedom of Welch and Satterthwaite."""
    parts = [(point.se**2, max(1, point.duets - 1)) for point in (base, head)]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / free for part, free in parts)
    freedom = int(variance**2 / spread) if spread else min(free for _, free in parts)
    n = freedom + 1
    return Sample(n, head.log - base.log, math.sqrt(variance * n), freedom)
