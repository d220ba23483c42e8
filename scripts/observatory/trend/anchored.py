"""Measures stacks against one anchor by duets, until each ratio is as precise as required.

All points of trends come from here: of a night's locks, of those of a date, and of single releases.
Each is measured with the anchor's applications and interpreters, so that only packages differ.
Nothing is judged here. Stacks are drawn at random, and their duets run in random order: the time of
a measurement does not depend on the stack's date.
"""

import math
import random
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from packaging.requirements import Requirement

from duetbench.app import revisions
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.testbed import SideCase
from duetbench.core import __version__
from duetbench.core.comparison import INSTRUCTIONS, Instructions, Missing, Release
from duetbench.core.errors import InterruptedRun, SetupError
from duetbench.core.text import short
from duetbench.counts import counted
from duetbench.host import cache, command
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge.duet_loop import Loop, Reporter, duet_seconds
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import CaseDuets, Mode, Pair, Side
from duetbench.judge.preparation import Scope, resolve_stack
from observatory.matrix.checkout import Anchor, Checkout
from observatory.matrix.sides import beside_anchor, of_anchor
from observatory.store.points import AnchoredPoint, CasePoints, Points

REASON: Final = 1000  # characters of a reason for which a case has no point

RANGE: Final = 0.5
"""Standard error of a ratio of counts over the range of three rounds. A median of three has 0.67
standard deviations of a round, a range 1.69 on average; the larger range of both sides is used."""

INTERRUPTED: Final = "it was interrupted"
"""The note of points whose cases are measured again."""

COUNT_SECONDS: Final = 600.0  # limit; a group of cases takes some 20 s


@dataclass(frozen=True, slots=True)
class Effort:
    """How many duets of a case are enough: as many as reach this standard error of its logarithm.

    The standard error of few duets may be small by chance. So at least `least` are measured, and at
    most `most`. If `least` duets of a slow case take more than `seconds`, the number that
    fits into them is enough, but not fewer than three: a closed loop takes some 4 s, a case that
    waits much longer. All takes at most `limit` seconds, in an order that follows from `seed`.
    """

    se: float = 0.005
    least: int = 5
    most: int = 20
    seconds: float = 40.0
    limit: float = math.inf
    seed: int = 1

    def least_of(self, seconds: float) -> int:
        """Return the fewest duets of a case if each takes `seconds`."""
        return int(min(self.least, max(3, self.seconds / max(seconds, 1e-9))))

    def missing(self, duets: CaseDuets) -> int:
        """Return how many usable duets a case lacks at least; 0: it needs no other."""
        if duets.void or len(duets.all) >= self.most:
            return 0
        seconds = [duet.seconds for duet in duets.all] or [sum(duet_seconds(duets.case))]
        least = self.least_of(statistics.fmean(seconds))
        # Launches in turn scatter too widely to reach the standard error.
        if len(duets.usable) < least or least < self.least or duets.mode is Mode.ALONE:
            return max(0, least - len(duets.usable))
        leading = [metric for metric in duets.metrics if metric in duets.leading][:1]
        return int(any(standard_error(duets, metric) > self.se for metric in leading))


def standard_error(duets: CaseDuets, metric: str) -> float:
    """Return the standard error of the mean of the log ratios of at least two duets."""
    logs = duets.logs(metric)
    return float(logs.std(ddof=1)) / math.sqrt(len(logs))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A set of packages to measure with the anchor's applications: of a night, date or release.

    Attributes:
        label: What it is, in words.
        when: Its place in time: the end of a date, or when a night begins.
        tonight: The checkout whose locks a night measures; None: it is of another time.
        commit: The commit that has its locks; None: that of the anchor.
        release: The one difference from the anchor's locks; None: the locks are as of `when`.
        known: Cases that are not wanted, as they have their points.
    """

    label: str
    when: datetime
    tonight: Checkout | None = None
    commit: str | None = None
    release: Release | None = None
    known: Collection[str] = ()

    def lock(self, anchor: Subject, narrator: Narrator, name: str) -> Stack:
        """Return its lock of one of the anchor's stacks; SetupError if there is none."""
        if self.tonight:
            return self.tonight.lock(name)
        if not self.release:
            return resolve_stack(anchor, name, narrator, self.when.date())
        pin = Requirement(f"{self.release.package}=={self.release.version}")
        if pin.name not in anchor.lock(name).packages:
            raise SetupError(f"the stack {name} has no {pin.name}")
        return resolve_stack(anchor, name, narrator, pins=[pin])


class Measurement(Loop):
    """Measures a set of packages beside the anchor until each case's ratio is precise.

    Attributes:
        lost: Cases that cannot be measured, with the reason.
        counts: Instructions by case.
        notes: Why cases have no points, or less precise ones.
    """

    def __init__(
        self,
        anchor: Anchor,
        wanted: Wanted,
        sides: tuple[Side, Side],
        lost: Sequence[Missing],
        instruments: Real,
        reporter: Reporter,
        effort: Effort,
    ) -> None:
        super().__init__(instruments.duets, reporter, effort.seed)
        self.anchor, self.wanted, self.effort = anchor, wanted, effort
        self.instruments, self.lost, (base, self.side) = instruments, lost, sides
        self.pairs = [
            Pair(SideCase(case, base.testbed), SideCase(case, self.side.testbed))
            for case in self.side.cases
            if case.id not in wanted.known
        ]
        self.began, self.notes = datetime.now(UTC), list[str]()
        self.counts = dict[str, Instructions | str]()

    def open(self) -> Mapping[Pair, int]:
        return {pair: lack for pair in self.pairs if (lack := self.effort.missing(pair))}

    def measure(self) -> Points:
        """Count instructions and run duets within the limit; return the points."""
        ends = time.monotonic() + self.effort.limit
        cases = f"{self.wanted.label}: cases against the anchor: {len(self.pairs)}"
        self.reporter.start(cases, self.remaining(self.open()))
        try:
            self.reporter.say("counting instructions")
            counted.count_each(
                self.instruments.instructions,
                {pair.case.id: pair.sides for pair in self.pairs},
                self.counts,
                lambda: min(COUNT_SECONDS, ends - time.monotonic()),
                self.reporter.note,
            )
            if not self.run(ends):
                self.notes.append("the time was up before all cases were precise enough")
        except InterruptedRun:
            self.notes.append(INTERRUPTED)
            raise
        finally:
            self.reporter.end()
        return self.points()

    def points(self) -> Points:
        """Return the points of its cases so far, and which have none."""
        cases, lost = list[CasePoints](), {absence.case: absence.reason for absence in self.lost}
        for pair in self.pairs:
            case, points = pair.case, list[AnchoredPoint]()
            if pair.void or len(pair.usable) < 2:
                problem = pair.disturbances() or "the measurement ended"
                lost[case.id] = pair.void or f"{len(pair.usable)} usable duets: {problem}"
            else:
                points += _points(pair)
            if isinstance(count := self.counts.get(case.id), Instructions):
                point = AnchoredPoint(
                    metric=INSTRUCTIONS,
                    ratio=round(count.head / count.base, 7),
                    se=round(count.spread * RANGE, 7),
                    anchor=round(count.base),
                    duets=1,
                    excluded=0,
                )
                points.append(point)
            if points:
                place = {"case": case.id, "stack": case.stack, "python": case.python}
                cases.append(CasePoints(**place, points=tuple(points)))
        wanted, side, began = self.wanted, self.side.record, self.began
        digest = cache.digest(self.anchor.name, wanted.label)[:6]
        origin = "night" if wanted.tonight else "backfill"
        return Points(
            id=f"{began:%Y%m%dT%H%M%SZ}-{origin}-{digest}",
            anchor=self.anchor.name,
            origin=origin,
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
            cases=tuple(cases),
            # Reasons quote servers and installers, with folders of this machine.
            missing=tuple(
                Missing(case=case, reason=short(command.scrub(reason), REASON))
                for case, reason in lost.items()
            ),
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


def measure(
    checkout: Checkout,
    wanted: Sequence[Wanted],
    select: Sequence[str],
    reporter: Reporter,
    effort: Effort,
) -> Iterator[Points]:
    """Measure the selected cases of some sets of packages; yield the points of each as it ends.

    A set whose cases are all known has none; one that is interrupted has those so far.

    Raises:
        UsageError, SetupError: There is no anchor, or it cannot be prepared.
        InterruptedRun: A signal stopped it.
    """
    anchor = checkout.anchor
    order = random.Random(effort.seed).sample(wanted, len(wanted))  # noqa: S311 - repeatable
    with revisions.copies() as copies, measuring():
        scope = Scope(tuple(select), reporter, copies)
        part, base, absent = of_anchor(checkout, anchor, scope)
        for point in order:
            lock = partial(point.lock, part.subject, reporter)
            with beside_anchor(part, base, point.label, lock, scope) as (side, lost):
                # Instruments of its own: what they copy of a set is removed with it.
                own, lacks = Real(), (*absent, *lost)
                measurement = Measurement(anchor, point, (base, side), lacks, own, reporter, effort)
                try:
                    if measurement.pairs or lacks:
                        yield measurement.measure()
                except InterruptedRun:
                    yield measurement.points()
                    raise
