"""Measures stacks against one anchor by duets, until each ratio is as precise as required.

All points of trends come from here: of a night's locks, of those of a date, and of single releases.
Each is measured with the anchor's applications and interpreters, so that only packages differ.
Nothing is judged here. Stacks are drawn at random, a few at a time, and their duets run in random
order: neither the time of the measurement nor the neighbours depend on the stack's date.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.testbed import SideCase
from duetbench.core import __version__
from duetbench.core.change import Release
from duetbench.core.comparison import Duet, Instructions
from duetbench.core.errors import HistoryError, SetupError
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.model import Missing
from duetbench.core.text import short
from duetbench.counts import counted
from duetbench.host import cache, command, git
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.host.signals import InterruptedRun
from duetbench.judge.duet_loop import Loop, Reporter, duet_seconds
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import CaseDuets, Mode, Pair, Side
from duetbench.judge.preparation import Scope
from observatory.matrix.anchor import Anchor
from observatory.matrix.checkout import Checkout
from observatory.matrix.sides import Anchored, of_anchor
from observatory.store.points import AnchoredPoint, CasePoints, Origin, Points

DUET_PROTOCOL: Final = 2
"""Version of the protocol of duets. An anchor belongs to one version, as ratios to it may differ
between versions. 1: servers stop in their own time. 2: both are killed (2026-11)."""

AT_ONCE: Final = 3
"""Stacks that are installed at the same time: each takes at most 0.15 GB for an interpreter."""

REASON: Final = 1000  # characters of a reason for which a case has no point

RANGE: Final = 0.5
"""Standard error of a ratio of counts over the range of three rounds. A median of three has 0.67
standard deviations of a round, a range 1.69 on average; the larger range of both sides is used."""

COUNT_SECONDS: Final = 600.0  # limit; a group of cases takes some 20 s


@dataclass(frozen=True, slots=True)
class Effort:
    """How many duets of a case are enough: as many as reach this standard error of its logarithm.

    The standard error of few duets may be small by chance. So at least `least` are measured, and at
    most `most`. If `least` duets of a slow case take more than `seconds`, the number that
    fits into them is enough, but not fewer than `fewest`. All takes at most `limit` seconds, in an
    order that follows from `seed`.
    """

    se: float = 0.005
    least: int = 6
    most: int = 20
    fewest: int = 3
    seconds: float = math.inf
    limit: float = math.inf
    seed: int = 1

    def least_of(self, seconds: float) -> int:
        """Return the fewest duets of a case if each takes `seconds`."""
        fitting = math.inf if seconds == 0 else self.seconds / seconds
        return self.least if fitting >= self.least else max(self.fewest, int(fitting))

    def missing(self, duets: CaseDuets) -> int:
        """Return how many usable duets a case lacks at least; 0: it needs no other."""
        if duets.void or len(duets.all) >= self.most:
            return 0
        seconds = [duet.seconds for duet in duets.all] or [sum(duet_seconds(duets.case))]
        least = self.least_of(statistics.fmean(seconds))
        # Launches in turn scatter too widely to reach the standard error; starts take less time.
        if len(duets.usable) < least or least < self.least or duets.mode is Mode.ALONE:
            return max(0, least - len(duets.usable))
        leading = [metric for metric in duets.metrics if metric in duets.leading][:1]
        return int(any(standard_error(duets, metric) > self.se for metric in leading))


NIGHTLY: Final = Effort(least=5, seconds=40.0)
"""A night's: with its launches it takes an hour on two cores. A closed loop gets 5 duets or
more, of 4 s each; a case that waits for seconds gets 3."""


def standard_error(duets: CaseDuets, metric: str) -> float:
    """Return the standard error of the mean of the log ratios of at least two duets."""
    logs = duets.logs(metric)
    return float(logs.std(ddof=1)) / math.sqrt(len(logs))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A stack to measure against the anchor.

    Attributes:
        label: What it is, in words.
        when: Its place in time.
        lock: Returns its lock of a stack, by the name; SetupError if there is none.
        commit: The commit that has its locks; None: that of the anchor.
        start: Whether its servers are only started, without load.
        known: Cases that are not wanted, as they have their points.
    """

    label: str
    when: datetime
    lock: Callable[[Subject, Narrator, str], Stack]
    origin: Origin = "backfill"
    release: Release | None = None
    commit: str | None = None
    start: bool = False
    known: Collection[str] = ()


@dataclass(slots=True)
class Head:
    """A stack that is measured against the anchor.

    `lost`: cases that cannot be measured, with the reason. `counts`: instructions by case.
    """

    wanted: Wanted
    side: Side
    pairs: Sequence[Pair]
    lost: tuple[Missing, ...] = ()
    notes: list[str] = field(default_factory=list)
    counts: dict[str, Instructions | str] = field(init=False, default_factory=dict)

    def count(self, instruments: Real, left: Callable[[], float], reporter: Reporter) -> None:
        """Count instructions of all cases, except of starts, as in a comparison."""
        if self.pairs and not self.wanted.start:
            reporter.say(f"{self.wanted.label}: counting instructions")
            counted.count_each(
                instruments.instructions, {pair.case.id: pair.sides for pair in self.pairs},
                self.counts, lambda: min(COUNT_SECONDS, left()), reporter.note,
            )  # fmt: skip

    def points(self) -> tuple[tuple[CasePoints, ...], tuple[Missing, ...]]:
        """Return points of its cases, and the cases without any."""
        cases, lost = list[CasePoints](), {one.case: one.reason for one in self.lost}
        for pair in self.pairs:
            case, reason, points = pair.case, pair.void, list[AnchoredPoint]()
            if not reason and len(pair.usable) < 2:
                problem = pair.disturbances() or "the measurement ended"
                reason = f"{len(pair.usable)} usable duets: {problem}"
            if reason:
                lost[case.id] = reason
            else:
                points += _points(pair)
            if isinstance(count := self.counts.get(case.id), Instructions):
                points.append(_count(count))
            if points:
                place = {"case": case.id, "stack": case.stack, "python": case.python}
                cases.append(CasePoints(**place, points=tuple(points)))
        # Reasons quote servers and installers, with folders of this machine.
        missing = (
            Missing(case=case, reason=short(command.scrub(reason), REASON))
            for case, reason in lost.items()
        )
        return tuple(cases), tuple(missing)

    def file(self, anchor: Anchor, began: datetime) -> Points:
        """Return the file of its points."""
        cases, lost = self.points()
        wanted, side = self.wanted, self.side.record
        digest = cache.digest(anchor.name, wanted.label)[:6]
        return Points(
            id=f"{began:%Y%m%dT%H%M%SZ}-{wanted.origin}-{digest}",
            anchor=anchor.name,
            origin=wanted.origin,
            label=wanted.label,
            when=wanted.when,
            release=wanted.release,
            started=began,
            seconds=sum(duet.seconds for pair in self.pairs for duet in pair.all),
            duetbench=__version__,
            commit=wanted.commit or side.commit,
            machine=self.side.testbed.machine,
            interpreters=side.interpreters,
            stacks=side.stacks,
            cases=cases,
            missing=lost,
            notes=tuple(self.notes),
        )


def _points(pair: Pair) -> Iterator[AnchoredPoint]:
    for metric in pair.metrics:
        if figures := [d.base[metric] for d in pair.usable if metric in d.base]:
            yield AnchoredPoint(
                metric=metric,
                ratio=round(math.exp(pair.logs(metric).mean()), 7),
                se=round(standard_error(pair, metric), 7),
                anchor=float(f"{statistics.geometric_mean(figures):.5g}"),
                duets=len(pair.usable),
                excluded=len(pair.all) - len(pair.usable),
            )


def _count(count: Instructions) -> AnchoredPoint:
    return AnchoredPoint(
        metric=INSTRUCTIONS,
        ratio=round(count.head / count.base, 7),
        se=round(count.spread * RANGE, 7),
        anchor=round(count.base),
        duets=1,
        excluded=0,
    )


class _UntilPrecise(Loop):
    """Runs duets of every case of all heads until its ratio is as precise as required."""

    def __init__(
        self,
        heads: Sequence[Head],
        instruments: Real,
        reporter: Reporter,
        effort: Effort,
        added: Callable[[Head], object],
    ) -> None:
        super().__init__(instruments.duets, reporter, effort.seed)
        self.heads = {pair: head for head in heads for pair in head.pairs}
        self.effort = effort
        self.queue: set[Pair] = set()
        self.added = added

    def open(self) -> Mapping[Pair, int]:
        active = (pair for pair in self.heads if pair not in self.queue)
        return {pair: lack for pair in active if (lack := self.effort.missing(pair))}

    def take_turns(self, nights: int, night: int) -> None:
        """Keep one case in `nights`; the next night keeps the next ones."""
        self.queue = {p for n, p in enumerate(self.open()) if n % nights != night % nights}

    def add(self, pair: Pair, duet: Duet) -> None:
        super().add(pair, duet)
        self.added(self.heads[pair])


def run_duets(
    heads: Sequence[Head],
    instruments: Real,
    reporter: Reporter,
    effort: Effort,
    added: Callable[[Head], object] = bool,
) -> bool:
    """Run duets of heads and their bases; return whether all ended within the limit.

    If there is no time for the fewest duets of every case, cases take turns; the seed counts
    nights. `added` is called after every duet.
    """
    ends = time.monotonic() + effort.limit
    loop = _UntilPrecise(heads, instruments, reporter, effort, added)
    cases = sum(len(head.pairs) for head in heads)
    reporter.start(f"cases against the anchor: {cases}", loop.remaining(loop.open()))
    try:
        for head in heads:
            head.count(instruments, lambda: ends - time.monotonic(), reporter)
        needed = effort.fewest * loop.seconds(*loop.open())
        left = max(1.0, ends - time.monotonic())
        nights = min(math.ceil(needed / left), len(loop.open()))
        if nights > 1:
            loop.take_turns(nights, effort.seed)
            note = f"no time for {effort.fewest} duets of each case: one in {nights} has a turn"
            for head in heads:
                head.notes.append(note)
            reporter.note(note)
        return loop.run(ends) and not loop.queue
    finally:
        reporter.end()


def fetch(root: Path, anchor: Anchor) -> None:
    """Fetch the anchor's commit if this shallow clone lacks it.

    Raises SetupError if it belongs to another protocol, HistoryError if it is nowhere.
    """
    if anchor.protocol != DUET_PROTOCOL:
        raise SetupError(
            f"the anchor {anchor.name} needs version {anchor.protocol} of the duets' protocol, "
            f"and this duetbench runs version {DUET_PROTOCOL}: declare another anchor: "
            "observatory anchor renew NAME"
        )
    if git.ask_or_none(root, "cat-file", "-e", f"{anchor.commit}^{{commit}}") is not None:
        return
    try:
        git.ask(root, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", anchor.commit)
    except HistoryError as error:
        raise HistoryError(
            f"the anchor {anchor.name} is the commit {anchor.commit[:12]}, which this clone and "
            f"origin lack ({error}): fetch all history (git fetch --unshallow), or declare "
            "another anchor: observatory anchor renew NAME"
        ) from error


def measure(
    project: Checkout,
    anchor: Anchor,
    wanted: Sequence[Wanted],
    scope: Scope,
    reporter: Reporter,
    instruments: Real,
    effort: Effort,
    keep: Callable[[Points], object] = bool,
) -> Iterator[Points]:
    """Measure stacks against an anchor; yield the points of each, unless all were known.

    `keep` gets the points so far after every duet, and at an interruption.

    Raises:
        HistoryError: The anchor's commit cannot be fetched.
        UsageError, SetupError: The anchor cannot be prepared.
        InterruptedRun: Points of the stacks under way are lost, but for what `keep` got.
    """
    fetch(project.root, anchor)
    base = of_anchor(project, anchor, scope)
    order = random.Random(effort.seed).sample(wanted, len(wanted))  # noqa: S311 - repeatable
    with measuring():
        for first in range(0, len(order), AT_ONCE):
            try:
                some = [_head(base, stack, reporter) for stack in order[first : first + AT_ONCE]]
                heads = [head for head in some if head.pairs or head.lost]
                yield from _measure(anchor, heads, instruments, reporter, effort, keep)
            finally:
                # Stacks may share an environment; when they are measured none needs it.
                for place in base.environments:
                    cache.remove(place)
                base.environments.clear()


def _head(base: Anchored, wanted: Wanted, reporter: Reporter) -> Head:
    """Prepare a stack for its duets."""
    side, lost = base.head(wanted.label, partial(wanted.lock, base.base.subject, reporter))
    pairs = [
        Pair(
            SideCase(case, base.base.testbed), SideCase(case, side.testbed),
            label=wanted.label, start=wanted.start,
        )
        for case in side.cases
        if case.id not in wanted.known
    ]  # fmt: skip
    return Head(wanted, side, pairs, lost)


def _measure(
    anchor: Anchor,
    heads: Sequence[Head],
    instruments: Real,
    reporter: Reporter,
    effort: Effort,
    keep: Callable[[Points], object],
) -> Iterator[Points]:
    began = datetime.now(UTC)

    def added(head: Head, note: str = "") -> Points:
        head.notes += [note] if note else []
        points = head.file(anchor, began)
        keep(points)
        return points

    try:
        whole = run_duets(heads, instruments, reporter, effort, added)
    except InterruptedRun:
        for head in heads:
            added(head, "it was interrupted")
        raise
    ended = "" if whole else "the time was up before all cases were precise enough"
    for head in heads:
        yield added(head, ended)
