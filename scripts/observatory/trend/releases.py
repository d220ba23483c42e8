"""Judges the effect of each release that was measured against an anchor, and its size. Pure.

A point is a ratio to the anchor with its standard error. The errors of two points of one anchor and
machine are independent, so that of a release over another one is their sum in quadrature.

A release has an effect on many cases, machines and metrics. All of them are true, and no reader
can choose. So one of them is quoted, wherever the release is named with a size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

from duetbench.core.comparison import INSTRUCTIONS, row
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.judge import statistics
from duetbench.judge.statistics import RATE, Sample, direction
from observatory.store.change import Change
from observatory.store.points import NORMAL, AnchoredPoint, Points, interval
from observatory.trend.levels import Rise, rises
from observatory.trend.table import Table

START: Final = "start_cpu"  # sums up a start without load, which alone has it
MEMORY: Final = "pss_steady"
MAIN: Final = (CPU, START)
"""Metrics that sum up a release: CPU per request, or CPU to start."""

CERTAIN: Final = 8.0
"""Twice the log likelihood ratio of a release on its own level to that on the next, from which a
step begins there: 55 to 1."""

_RANKS: Final = (CPU, "throughput", START, MEMORY)
"""Metrics that are quoted: what requests cost first."""

Key = tuple[str, str]
"""A package and its version."""


@dataclass(frozen=True, slots=True)
class ReleaseEffect:
    """Effect of a release on one metric of a case, over another release.

    Attributes:
        previous: The version that it is compared with; None: it is not known.
        when: Day of the release; without one, of the first night after it (`dated` is False).
        machine: Id.
        verdict: Of its interval against a tenth of the limit, corrected for all figures of its
            family; unknown: it is not judged.
        detectable: The smallest change that 4 of 5 measurements would detect.
        together: Releases that were measured with it, and only together: `starlette 0.52.1`.
    """

    package: str
    version: str
    previous: str | None
    when: datetime
    machine: str
    case: str
    metric: str
    ratio: Interval
    verdict: Verdict = Verdict.UNKNOWN
    dated: bool = True
    detectable: float | None = None
    together: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.package, self.version

    @property
    def moved(self) -> bool:
        return self.verdict in {Verdict.BETTER, Verdict.WORSE}

    @property
    def size(self) -> float:
        return abs(math.log(self.ratio.estimate))

    @property
    def reaches_limit(self) -> bool:
        """Whether the change is large enough to act on."""
        return self.size >= math.log1p(row(self.metric).limit)

    @property
    def rank(self) -> tuple[bool, int]:
        """Sorts the metrics of a release: what reaches its limit first, and of these, requests."""
        place = _RANKS.index(self.metric) if self.metric in _RANKS else len(_RANKS)
        return not self.reaches_limit, place

    @property
    def width(self) -> float:
        low, high = self.ratio.ends or (0.0, math.inf)
        return math.log(high / low) if low else math.inf


@dataclass(frozen=True, slots=True)
class Result:
    """All effects of a release over another one."""

    base: Points
    head: Points
    effects: list[ReleaseEffect] = field(default_factory=list)

    @property
    def main(self) -> tuple[ReleaseEffect, ...]:
        """Effects that sum it up: one metric of each judged case."""
        return tuple(effect for effect in self.effects if effect.metric in MAIN)

    @property
    def moved(self) -> tuple[ReleaseEffect, ...]:
        """Main effects that moved: servers first, the largest first."""
        moved = (effect for effect in self.main if effect.moved)
        return tuple(sorted(moved, key=lambda effect: (effect.metric != CPU, -effect.size)))

    @property
    def detectable(self) -> float | None:
        """The smallest change that every main effect could have detected; None: there is none."""
        return max((effect.detectable or 0.0 for effect in self.main), default=None)


def levels(table: Table) -> dict[tuple[str, str, str], Rise]:
    """Find the releases from which on a case is at another level: by version, case and metric.

    One release scatters by more than a small change; all of them on both sides of it do not. A step
    counts if neither of its neighbours can be on the other level.
    """
    steps = {}
    for case, metric in product(table.cases, MAIN):
        series = table.series(case, metric).items()
        known = [(table.files[place].version, point) for place, point in series if scatters(point)]
        logs = [point.log for _, point in known]
        for rise in rises(logs, [point.se for _, point in known], row(metric).floor):
            if _begins(logs, rise):
                steps[known[rise.right.start][0], case, metric] = rise
    return steps


class Neighbours(NamedTuple):
    """One metric of a case, measured with two releases."""

    table: Table
    result: Result
    case: str
    before: AnchoredPoint
    after: AnchoredPoint

    @property
    def sample(self) -> Sample:
        """The log ratio: errors in quadrature, degrees of freedom of Welch and Satterthwaite."""
        parts = [(point.se**2, max(1, point.duets - 1)) for point in (self.before, self.after)]
        variance = sum(part for part, _ in parts)
        spread = sum(part**2 / free for part, free in parts)
        freedom = int(variance**2 / spread) if spread else min(free for _, free in parts)
        n = freedom + 1
        return Sample(n, self.after.log - self.before.log, math.sqrt(variance * n), freedom)

    def add(self, ratio: Interval, **judgement: Any) -> None:
        """Add the effect of head's release, with its verdict and what would be detectable."""
        table, (base, head) = self.table, (self.result.base, self.result.head)
        effect = ReleaseEffect(
            table.package, head.version, base.version, head.when, table.machine.id, self.case,
            self.after.metric, ratio, **judgement,
        )  # fmt: skip
        self.result.effects.append(effect)


def judged(tables: Iterable[Table]) -> dict[Table, dict[str, Result]]:
    """Judge every release over the measured one before it, by table and version.

    CPU of all releases is one family, and so is memory: of many releases without an effect, few get
    a verdict by chance. If a case is at another level from a release on, the effect is the
    difference of the levels. Counts have no verdict.
    """
    results = {
        table: {head.version: Result(base, head) for base, head in pairwise(table.measured)}
        for table in tables
        if table.package
    }
    pairs = [
        Neighbours(table, result, case.case, before, after)
        for table, own in results.items()
        for result in own.values()
        for case in result.head.cases
        for after in case.points
        if (before := result.base.point(case.case, after.metric))
    ]
    steps = {table: levels(table) for table in results}
    for family in (MAIN, (MEMORY,)):
        own = [p for p in pairs if p.after.metric in family and scatters(p.before, p.after)]
        samples = [(pair.sample, row(pair.after.metric)) for pair in own]
        adjusted = statistics.adjust(
            [
                float(statistics.moved_ps(of.mean, of.error, of.freedom, scale.floor))
                for of, scale in samples
            ]
        )
        for pair, (of, scale), p in zip(own, samples, adjusted, strict=True):
            metric = pair.after.metric
            if step := steps[pair.table].get((pair.result.head.version, pair.case, metric)):
                pair.add(step.ratio, verdict=direction(metric, step.height))
                continue
            low, high = of.interval.ends or (0.0, math.inf)
            inside = max(high, 1 / low) <= 1 + scale.limit
            verdict = Verdict.SAME if inside else Verdict.UNKNOWN
            if p <= RATE:
                verdict = direction(metric, of.mean)
            detectable = of.detectable(scale.floor, RATE / len(own))
            pair.add(of.interval, verdict=verdict, detectable=detectable)
    for pair in pairs:
        if pair.after.metric == INSTRUCTIONS:
            half = NORMAL * math.hypot(pair.before.se, pair.after.se)
            pair.add(interval(pair.after.log - pair.before.log, half))
    return results


def _begins(logs: Sequence[float], rise: Rise) -> bool:
    """Whether a level begins with its first release: neither neighbour can be on the other."""
    left, right = rise
    last, first = logs[right.start - 1], logs[right.start]
    ratios = (
        (last - right.log) ** 2 - (last - left.log) ** 2,
        (first - left.log) ** 2 - (first - right.log) ** 2,
    )
    return min(ratios) >= CERTAIN * rise.single**2


def scatters(*points: AnchoredPoint) -> bool:
    """Whether all points have a scatter to judge them by: a count has none."""
    return all(point.duets > 1 and point.metric != INSTRUCTIONS for point in points)


def quotes(
    effects: Mapping[Table, Mapping[str, Result]], changes: Iterable[Change]
) -> dict[Key, ReleaseEffect]:
    """Decide the size of every release that moved something, the newest release first.

    It is measured alone. The largest effect on requests that reaches its limit counts, then that on
    starts, on memory. Of several machines, it is the one with the narrowest interval.
    """
    known: dict[Key, list[ReleaseEffect]] = {}
    days = {
        (table.package, release.version): release.when
        for table in effects
        for release in table.files
    }
    alone = (
        effect
        for by_version in effects.values()
        for result in by_version.values()
        for effect in result.effects
        # Pages of memory come and go.
        if effect.moved and (effect.metric != MEMORY or effect.reaches_limit)
    )
    for quote in (*alone, *_of_changes(changes, days)):
        known.setdefault(quote.key, []).append(quote)
    chosen = (_choose(candidates) for candidates in known.values())
    ordered = sorted(chosen, key=lambda quote: (quote.when, quote.size), reverse=True)
    return {quote.key: quote for quote in ordered}


def _choose(candidates: Sequence[ReleaseEffect]) -> ReleaseEffect:
    """Choose one of a release's measurements, by its narrowest interval on each case."""
    narrowest: dict[tuple[str, str], ReleaseEffect] = {}
    for quote in candidates:
        other = narrowest.setdefault((quote.case, quote.metric), quote)
        if (len(quote.together), quote.width) < (len(other.together), other.width):
            narrowest[quote.case, quote.metric] = quote
    return min(narrowest.values(), key=lambda quote: (*quote.rank, -quote.size))


def _of_changes(changes: Iterable[Change], days: Mapping[Key, datetime]) -> Iterator[ReleaseEffect]:
    """Quote what changes say of their releases."""
    for record in changes:
        on = record.series
        for share in record.cause.shares:
            for release in share.releases:
                key = (release.package, release.version)
                others = (other for other in share.releases if other != release)
                ratio = share.interval
                yield ReleaseEffect(
                    *key, release.previous, days.get(key, record.when), on.machine,
                    on.case, on.metric, ratio, direction(on.metric, math.log(ratio.estimate)),
                    dated=key in days,
                    together=tuple(f"{other.package} {other.version}" for other in others),
                )  # fmt: skip
