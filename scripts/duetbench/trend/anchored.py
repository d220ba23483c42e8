"""Stacks held against one anchor by duets, until each ratio is known as well as it has to be.

Nothing is judged here: what comes out are points of trends. Duets of all stacks and cases are
played in random order, so that what drifts meanwhile falls on all of them alike. Each is written
down as soon as it is over; the same play, begun again after whatever ended it, goes on.
"""

import math
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from duetbench.core.model import Case
from duetbench.judge import durations
from duetbench.judge.durations import DuetSeconds
from duetbench.judge.inprocess import jobs
from duetbench.judge.instruments import Counts, Instruments, Reporter, recorded
from duetbench.judge.pairs import Pair
from duetbench.judge.samples import CaseDuets, figures
from duetbench.judge.sides import Side
from duetbench.measure.duet import SideCase, server_of
from duetbench.measure.runner import utc_now
from duetbench.store.comparison import Duet, Instructions, Missing
from duetbench.store.journal import Journal
from duetbench.store.points import INSTRUCTIONS, AnchoredPoint, CasePoints

RANGE: Final = 0.5
"""Standard error of a ratio of counts over the range of three rounds. A median of three has 0.67
standard deviations of a round, a range 1.69 on average; of both sides the larger range is known."""

COUNT_SECONDS: Final = 600.0
"""Limit; a group of cases takes some 20 s."""


@dataclass(frozen=True, slots=True)
class Precision:
    """When a case has been played often enough: at this standard error of its logarithm.

    That of few duets may be small by chance, so `least` are played; and no more than `most`. Of a
    slow case, whose `least` duets would take more than so many `seconds`, those that fit into them
    are enough, from `fewest` on.
    """

    se: float = 0.005
    least: int = 6
    most: int = 20
    fewest: int = 3
    seconds: float = math.inf

    def least_of(self, seconds: float) -> int:
        """Duets that there are to be at least where each takes so many seconds."""
        fitting = math.inf if seconds == 0 else self.seconds / seconds
        return self.least if fitting >= self.least else max(self.fewest, int(fitting))

    def wants(self, duets: CaseDuets) -> bool:
        """Whether another duet is needed."""
        if duets.void() or len(duets.all) >= self.most:
            return False
        taken = [duet.seconds for duet in duets.all]
        least = self.least_of(statistics.fmean(taken)) if taken else self.least
        if len(duets.usable) < least:
            return True
        if least < self.least:
            return False
        names = [name for name in duets.metrics if name in duets.leading][:1]
        return any(standard_error(duets, name) > self.se for name in names)


NIGHTLY: Final = Precision(least=5, seconds=40.0)
"""A night's: with its launches it takes 55 minutes on two cores. A closed loop is played 5 times
or more, in 4 s each; what waits for seconds, 3 times."""


def expected(cases: Sequence[Case], precision: Precision) -> dict[str, float]:
    """Seconds that each case's duets take at least."""
    servers = Counter(map(server_of, cases))
    found = {}
    for case in cases:
        launch, own = durations.expected(case)
        one = own + launch / servers[server_of(case)]
        found[case.id] = precision.least_of(one) * one
    return found


def standard_error(duets: CaseDuets, metric: str) -> float:
    """Of the mean of the log ratios of at least two duets."""
    logs = duets.logs(metric)
    return float(logs.std(ddof=1)) / math.sqrt(len(logs))


@dataclass(slots=True)
class Head:
    """A stack to be held against the anchor, with the journal of what was played of it.

    `lost`: cases that cannot be played, with the reason.
    """

    name: str
    base: Side
    side: Side
    journal: Journal
    pairs: Sequence[Pair]
    lost: tuple[Missing, ...] = ()
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    duets: dict[str, CaseDuets] = field(init=False)
    counted: dict[str, Instructions | str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.duets = CaseDuets.of(pair.head for pair in self.pairs)
        for kind, content in self.journal.lines:
            self._take(kind, content)

    def _take(self, kind: str, content: Any) -> None:
        """Take a line of the journal; what is not asked for any more is left out."""
        match kind:
            case "duet":
                duet = Duet.model_validate(content)
                self.seconds += duet.seconds
                if duet.case in self.duets:
                    self.duets[duet.case].add(duet)
            case "count":
                case_, found = content
                counted = found if isinstance(found, str) else Instructions.model_validate(found)
                self.counted[case_] = counted

    def points(self) -> tuple[tuple[CasePoints, ...], tuple[Missing, ...]]:
        """What is known of it, and of what cases nothing is."""
        lost = list(self.lost)
        found: list[tuple[str, Case, list[AnchoredPoint]]] = []
        for pair in self.pairs:
            case = pair.head
            points = [*_points(case.id, self.duets[case.id], lost), *self._counted(case.id)]
            found.append((case.id, case, points))
        found += [
            (job.series, job.pair.head, self._counted(job.series)) for job in jobs(self.pairs)
        ]
        return tuple(
            CasePoints(case=name, stack=case.stack, python=case.python, points=tuple(points))
            for name, case, points in found
            if points
        ), tuple(lost)

    def counted_sides(self) -> Mapping[str, tuple[SideCase, SideCase]]:
        """What is counted of both sides: by the case's id, or by the series of a job."""
        cases = {
            pair.head.id: (SideCase(pair.base, self.base.rig), SideCase(pair.head, self.side.rig))
            for pair in self.pairs
        }
        inside = {job.series: job.sides(self.base, self.side) for job in jobs(self.pairs)}
        return {**cases, **inside}

    def _counted(self, case: str) -> list[AnchoredPoint]:
        found = self.counted.get(case)
        if not isinstance(found, Instructions):
            return []
        ratio = found.head / found.base
        return [
            AnchoredPoint(
                metric=INSTRUCTIONS,
                ratio=round(ratio, 7),
                se=round(found.spread * RANGE, 7),
                anchor=round(found.base),
                duets=1,
            )
        ]


def _points(case: str, duets: CaseDuets, lost: list[Missing]) -> list[AnchoredPoint]:
    """The points of a case's duets; why there are none is added to what is `lost`."""
    duets.settle()
    reason = duets.void() or ("" if len(duets.usable) > 1 else _few(duets))
    if reason:
        lost.append(Missing(case=case, reason=reason))
        return []
    points = []
    for metric in duets.metrics:
        if drifted := duets.drifted(metric):
            lost.append(Missing(case=case, reason=f"{metric}: {drifted}"))
            continue
        base = [figures(duet, "base")[metric] for duet in duets.usable]
        points.append(
            AnchoredPoint(
                metric=metric, ratio=round(math.exp(duets.logs(metric).mean()), 7),
                se=round(standard_error(duets, metric), 7),
                anchor=float(f"{statistics.geometric_mean(base):.5g}"),
                duets=len(duets.usable), excluded=duets.excluded,
            )
        )  # fmt: skip
    return points


def _few(duets: CaseDuets) -> str:
    why = duets.disturbances()
    return f"{len(duets.usable)} usable duets{f': {why}' if why else ''}"


class Play:
    """Plays heads against their bases until `precision` is reached, or time is up."""

    def __init__(
        self,
        heads: Sequence[Head],
        instruments: Instruments,
        reporter: Reporter,
        *,
        precision: Precision,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.heads, self.instruments, self.reporter = heads, instruments, reporter
        self.precision, self.clock = precision, clock
        self.random = random.Random(seed)  # noqa: S311 - an order that can be repeated
        self._head_first: dict[Hashable, bool] = defaultdict(lambda: self.random.random() < 0.5)
        self._order = sum(len(head.journal.lines) for head in heads)
        self._durations = {}
        for head in heads:
            cases = [pair.head for pair in head.pairs]
            servers = {pair.head.id: (server_of(pair.base), server_of(pair.head))
                       for pair in head.pairs}  # fmt: skip
            self._durations[head.name] = (DuetSeconds(cases, servers), servers)

    def run(self, ends: float = math.inf) -> bool:
        """Play; whether all was done before `ends` on the clock."""
        total = sum(self._remaining(head) for head in self.heads)
        cases = sum(len(head.pairs) for head in self.heads)
        begun = any(head.journal.begun for head in self.heads)
        self.reporter.start(
            f"{cases} cases of {len(self.heads)} {'stack' if len(self.heads) == 1 else 'stacks'} "
            f"against the anchor{', from where it was left' if begun else ''}",
            total,
        )
        try:
            for head in self.heads:
                self._count(head, ends)
            while waiting := list(self._waiting()):
                self.random.shuffle(waiting)
                for head, pairs in waiting:
                    if self.clock() + self._seconds(head, pairs) > ends:
                        return False
                    self._play(head, pairs)
        finally:
            self.reporter.end()
        return True

    def _waiting(self) -> Iterator[tuple[Head, list[Pair]]]:
        """A server's cases that need another duet."""
        for head in self.heads:
            groups: dict[Hashable, list[Pair]] = defaultdict(list)
            for pair in head.pairs:
                if self.precision.wants(head.duets[pair.head.id]):
                    groups[self._durations[head.name][1][pair.head.id]].append(pair)
            yield from ((head, group) for group in groups.values())

    def _seconds(self, head: Head, pairs: list[Pair]) -> float:
        return self._durations[head.name][0].of(*(pair.head.id for pair in pairs))

    def _remaining(self, head: Head) -> float:
        """Seconds until all have the least number of duets."""
        seconds = self._durations[head.name][0].of
        lacking = {
            case: self.precision.least_of(seconds(case)) - len(duets.all)
            for case, duets in head.duets.items()
        }
        return sum(
            seconds(*(case for case in lacking if lacking[case] > n))
            for n in range(self.precision.least)
        )

    def _play(self, head: Head, pairs: list[Pair]) -> None:
        remaining = sum(map(self._remaining, self.heads))
        began = self.clock()
        first = self._turn((head.name, self._durations[head.name][1][pairs[0].head.id]))
        sides = [
            (SideCase(one.base, head.base.rig), SideCase(one.head, head.side.rig)) for one in pairs
        ]
        self.reporter.work(f"{head.name} {pairs[0].head.id}", self._order, remaining)
        started = utc_now()
        outcomes = self.instruments.duets(sides, head_first=first)
        for pair, outcome in zip(pairs, outcomes, strict=False):  # a failure ended the others
            duet = recorded(outcome, pair.head.id, self._order, started, head_first=first)
            self._order += 1
            self._durations[head.name][0].observe(duet.case, duet.seconds, len(outcomes))
            head.duets[duet.case].add(duet)
            head.journal.add(["duet", duet.model_dump(mode="json")])
            self.reporter.played(duet)
        head.seconds += self.clock() - began

    def _turn(self, key: Hashable) -> bool:
        first = self._head_first[key]
        self._head_first[key] = not first
        return first

    def _count(self, head: Head, ends: float) -> None:
        """Count instructions of what was not counted yet."""
        sides = {
            name: both for name, both in head.counted_sides().items() if name not in head.counted
        }
        if not sides:
            return
        self.reporter.say(f"{head.name}: counting instructions")
        counts = Counts(self.instruments, sides)
        counts.count(sides, lambda: min(COUNT_SECONDS, ends - self.clock()), self.reporter)
        for case in sides:
            found = counts.of(case)
            head.counted[case] = found or "not counted"
            kept: Any = found.model_dump(mode="json") if found else "not counted"
            head.journal.add(["count", [case, kept]])
