"""Measures stacks against one anchor by duets, until each ratio is as precise as required.

Nothing is judged here: the result is points of trends. Duets of all stacks and cases run in random
order, so that drift during the measurement affects all of them alike. Each duet is appended to a
journal as soon as it is over. If a measurement is interrupted, the next start continues it.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from duetbench.app import plan as planning
from duetbench.app.setting import Contrast
from duetbench.app.testbed import SideCase
from duetbench.core import __version__
from duetbench.core.change import Release
from duetbench.core.comparison import Duet, Instructions
from duetbench.core.errors import HistoryError, SetupError
from duetbench.core.metrics import INSTRUCTIONS
from duetbench.core.model import Missing
from duetbench.core.text import short
from duetbench.counts.counted import Counts
from duetbench.host import cache, command, git, paths
from duetbench.host.files import Journal
from duetbench.host.machine import measuring
from duetbench.host.signals import InterruptedRun
from duetbench.judge.duet_loop import Instruments, Loop, MakeInstruments, Reporter, duet_seconds
from duetbench.judge.pairs import Pair, Side
from duetbench.judge.preparation import Scope
from duetbench.judge.samples import CaseDuets, Mode
from observatory.matrix.anchor import Anchor
from observatory.matrix.checkout import Checkout
from observatory.matrix.sides import prepare
from observatory.store.points import CANARY, AnchoredPoint, CasePoints, Origin, Points

DUET_PROTOCOL: Final = 2
"""Version of the protocol of duets. An anchor belongs to one version, as ratios to it may differ
between versions. 1: servers stop in their own time. 2: both are killed (2026-11)."""

FOLDER: Final = "backfill"  # folder of journals of unfinished measurements, below the state folder

REASON: Final = 1000  # characters of a reason for which a case has no point

RANGE: Final = 0.5
"""Standard error of a ratio of counts over the range of three rounds. A median of three has 0.67
standard deviations of a round, a range 1.69 on average; the larger range of both sides is used."""

COUNT_SECONDS: Final = 600.0  # limit; a group of cases takes some 20 s


@dataclass(frozen=True, slots=True)
class Precision:
    """How many duets of a case are enough: as many as reach this standard error of its logarithm.

    The standard error of few duets may be small by chance. So at least `least` are measured, and at
    most `most`. If `least` duets of a slow case take more than `seconds`, the number that
    fits into them is enough, but not fewer than `fewest`.
    """

    se: float = 0.005
    least: int = 6
    most: int = 20
    fewest: int = 3
    seconds: float = math.inf

    def least_of(self, seconds: float) -> int:
        """Return the fewest duets of a case if each takes `seconds`."""
        fitting = math.inf if seconds == 0 else self.seconds / seconds
        return self.least if fitting >= self.least else max(self.fewest, int(fitting))

    def _least(self, duets: CaseDuets) -> int:
        seconds = [duet.seconds for duet in duets.all] or [sum(duet_seconds(duets.case))]
        return self.least_of(statistics.fmean(seconds))

    def missing(self, duets: CaseDuets) -> int:
        """Return how many usable duets a case lacks at least."""
        return max(0, self._least(duets) - len(duets.usable))

    def wants(self, duets: CaseDuets) -> bool:
        """Whether another duet is needed."""
        if duets.void or len(duets.all) >= self.most:
            return False
        # Launches in turn scatter too widely to reach the standard error; starts take less time.
        few = self._least(duets) < self.least or any(d.alone and d.load_seconds for d in duets.all)
        if self.missing(duets) or few:
            return self.missing(duets) > 0
        names = [name for name in duets.metrics if name in duets.leading][:1]
        return any(standard_error(duets, name) > self.se for name in names)


NIGHTLY: Final = Precision(least=5, seconds=40.0)
"""A night's: with its launches it takes an hour on two cores. A closed loop gets 5 duets or
more, of 4 s each; a case that waits for seconds gets 3."""


def standard_error(duets: CaseDuets, metric: str) -> float:
    """Return the standard error of the mean of the log ratios of at least two duets."""
    logs = duets.logs(metric)
    return float(logs.std(ddof=1)) / math.sqrt(len(logs))


@dataclass(slots=True)
class Head:
    """A stack that is measured against the anchor, with the journal of its duets.

    `lost`: cases that cannot be measured, with the reason. `added` is called after every duet.
    """

    name: str
    side: Side
    journal: Journal
    pairs: Sequence[Pair]
    lost: tuple[Missing, ...] = ()
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    added: Callable[[], object] = bool
    by_case: dict[str, Pair] = field(init=False)
    counts: dict[str, Instructions | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.by_case = {pair.case.id: replace(pair, label=self.name) for pair in self.pairs}
        for kind, content in self.journal.lines:
            if kind == "duet":
                self._take(Duet.model_validate(content))
            elif kind == "count":
                case, count = content
                self.counts[case] = count and Instructions.model_validate(count)

    def add(self, duet: Duet) -> None:
        """Add a duet; it is in the journal when this returns."""
        self._take(duet)
        self.journal.add(["duet", duet.model_dump(mode="json")])
        self.added()

    def _take(self, duet: Duet) -> None:
        self.seconds += duet.seconds
        if duet.case in self.by_case:  # an old journal may have duets of cases no longer wanted
            self.by_case[duet.case].duets.add(duet)

    def count(
        self, instruments: Instruments, left: Callable[[], float], reporter: Reporter
    ) -> None:
        """Count instructions of all cases that have no count yet.

        The canary has none: counts of one state are equal. Nor have starts, as in a comparison.
        """
        sides = {case: p.sides for case, p in self.by_case.items() if not case.startswith(CANARY)}
        sides = {name: both for name, both in sides.items() if name not in self.counts}
        if not sides or any(pair.mode is Mode.START for pair in self.pairs):
            return
        reporter.say(f"{self.name}: counting instructions")
        counts = Counts(instruments.instructions, sides)
        counts.count(sides, lambda: min(COUNT_SECONDS, left()), reporter.note)
        for name in sides:
            count = self.counts[name] = counts.of(name)
            self.journal.add(["count", [name, count and count.model_dump(mode="json")]])

    def points(self) -> tuple[tuple[CasePoints, ...], tuple[Missing, ...]]:
        """Return points of its cases, and the cases without any."""
        lost = list(self.lost)
        places = [
            (case, pair.case, [*_points(pair.duets, lost), *self._count_of(case)])
            for case, pair in self.by_case.items()
        ]
        return tuple(
            CasePoints(case=name, stack=case.stack, python=case.python, points=tuple(points))
            for name, case, points in places
            if points
        ), tuple(lost)

    def _count_of(self, name: str) -> list[AnchoredPoint]:
        if (count := self.counts.get(name)) is None:
            return []
        point = AnchoredPoint(
            metric=INSTRUCTIONS,
            ratio=round(count.head / count.base, 7),
            se=round(count.spread * RANGE, 7),
            anchor=round(count.base),
            duets=1,
            excluded=0,
        )
        return [point]


def _points(duets: CaseDuets, lost: list[Missing]) -> list[AnchoredPoint]:
    """Return the points of a case's duets; add the reason to `lost` if there are none."""
    case = duets.case.id
    reason = duets.void
    if not reason and len(duets.usable) < 2:
        problem = duets.disturbances() or "the measurement ended"
        reason = f"{len(duets.usable)} usable duets: {problem}"
    if reason:
        lost.append(Missing(case=case, reason=reason))
        return []
    points = []
    for metric in duets.metrics:
        if not (figures := [d.base[metric] for d in duets.usable if metric in d.base]):
            continue  # a tail of all answers together is no figure of a launch
        mean = statistics.geometric_mean(figures)
        points.append(
            AnchoredPoint(
                metric=metric,
                ratio=round(math.exp(duets.logs(metric).mean()), 7),
                se=round(standard_error(duets, metric), 7),
                anchor=float(f"{mean:.5g}"),
                duets=len(duets.usable),
                excluded=duets.unused,
            )
        )
    return points


class _UntilPrecise:
    """Runs duets of every case of all heads until its ratio is as precise as required."""

    def __init__(self, heads: Sequence[Head], precision: Precision) -> None:
        self.heads = {head.name: head for head in heads}
        self.precision = precision
        self.queue: set[Pair] = set()

    def open(self) -> Sequence[Pair]:
        pairs = (pair for head in self.heads.values() for pair in head.by_case.values())
        return [p for p in pairs if p not in self.queue and self.precision.wants(p.duets)]

    def take_turns(self, nights: int, night: int) -> None:
        """Keep one case in `nights`; the next night keeps the next ones."""
        self.queue = {p for n, p in enumerate(self.open()) if n % nights != night % nights}

    def missing(self, pair: Pair) -> int:
        return self.precision.missing(pair.duets)

    def add(self, pair: Pair, duet: Duet) -> None:
        self.heads[pair.label].add(duet)


def run_duets(
    heads: Sequence[Head],
    instruments: Instruments,
    reporter: Reporter,
    *,
    precision: Precision,
    seed: int,
    ends: float = math.inf,
) -> bool:
    """Run duets of heads and their bases; return whether all ended by `ends` (monotonic clock).

    If there is no time for the fewest duets of every case, cases take turns; `seed` counts nights.
    """
    cases = sum(len(head.by_case) for head in heads)
    loop, rule = Loop(instruments, reporter, seed), _UntilPrecise(heads, precision)
    loop.order = sum(len(head.journal.lines) for head in heads)
    missing = {pair: rule.missing(pair) for pair in rule.open()}
    reporter.start(f"cases against the anchor: {cases}", loop.remaining(missing))
    try:
        for head in heads:
            head.count(instruments, lambda: ends - time.monotonic(), reporter)
        needed = precision.fewest * loop.seconds(*rule.open())
        left = max(1.0, ends - time.monotonic())
        nights = min(math.ceil(needed / left), len(rule.open()))
        if nights > 1:
            rule.take_turns(nights, seed)
            note = f"no time for {precision.fewest} duets of each case: one in {nights} has a turn"
            for head in heads:
                head.notes.append(note)
            reporter.note(note)
        return loop.run(rule, ends) and not rule.queue
    finally:
        reporter.end()


def fetch(root: Path, anchor: Anchor) -> None:
    """Fetch the anchor's commit if this shallow clone lacks it; HistoryError if that fails."""
    if git.ask_or_none(root, "cat-file", "-e", f"{anchor.commit}^{{commit}}") is not None:
        return
    try:
        git.ask(root, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", anchor.commit)
    except HistoryError as error:
        raise HistoryError(
            f"the anchor {anchor.name} is the commit {anchor.commit[:12]}, which this clone and "
            f"origin lack ({error}): fetch all history (git fetch --unshallow), or declare "
            "another anchor: observatory anchor renew NAME --fresh"
        ) from error


def verify(anchor: Anchor, side: Side) -> None:
    """Compare what was installed with the anchor's declaration; SetupError if it differs."""
    if anchor.protocol != DUET_PROTOCOL:
        raise SetupError(
            f"the anchor {anchor.name} needs version {anchor.protocol} of the duets' protocol, "
            f"and this duetbench runs version {DUET_PROTOCOL}: declare another anchor: "
            "observatory anchor renew NAME --fresh"
        )
    installed = {stack.name: stack.digest for stack in side.record.stacks}
    installed |= {python.name: python.version for python in side.record.interpreters}
    declared = {**anchor.stacks, **anchor.interpreters}
    if wrong := [name for name, state in installed.items() if declared.get(name, state) != state]:
        raise SetupError(
            f"the anchor {anchor.name} cannot be reinstalled: at {anchor.commit[:8]} {wrong[0]} "
            "differs from its declaration; declare another anchor: "
            "observatory anchor renew NAME --fresh"
        )


def points_of(
    anchor: Anchor,
    head: Head,
    origin: Origin,
    began: datetime,
    when: datetime,
    release: Release | None = None,
) -> Points:
    """Return the file of a head's points."""
    cases, lost = head.points()
    # Reasons quote servers and installers, with folders of this machine.
    lost = tuple(
        Missing(case=case.case, reason=short(command.scrub(case.reason), REASON)) for case in lost
    )
    name = f"{began:%Y%m%dT%H%M%SZ}-{origin}-{cache.digest(anchor.name, head.name)[:6]}"
    side = head.side.record
    return Points(
        id=name,
        anchor=anchor.name,
        origin=origin,
        label=head.name,
        when=when,
        release=release,
        started=began,
        seconds=head.seconds,
        duetbench=__version__,
        commit=side.commit,
        machine=head.side.testbed.machine,
        interpreters=side.interpreters,
        stacks=side.stacks,
        cases=cases,
        missing=lost,
        notes=tuple(head.notes),
    )


def measure(
    project: Checkout,
    anchor: Anchor,
    scope: Scope,
    reporter: Reporter,
    make: MakeInstruments,
    *,
    precision: Precision,
    seed: int,
    limit: float | None,
    commit: str | None = None,
    keep: Callable[[Points], object] = bool,
) -> tuple[Points, InterruptedRun | None]:
    """Measure the checkout against an anchor; with its `commit`, without uncommitted changes.

    The points are of all duets before an interruption, which is returned as well. `keep` gets the
    points so far after every duet.

    Raises:
        HistoryError: The anchor's commit cannot be fetched.
        UsageError, SetupError: A side cannot be prepared, or differs from the anchor.
    """
    fetch(project.root, anchor)
    both = prepare(project, Contrast((anchor.commit, commit)), scope)
    verify(anchor, both.base)
    journal = Journal(paths.state_dir() / FOLDER / "checkout.jsonl")
    journal.forget()
    label, began, interruption = both.head.record.label, datetime.now(UTC), None
    turns = planning.without_duets([pair.case.id for pair in both.pairs if pair.mode is Mode.ALONE])
    notes = [*both.notes, *([turns] if turns else [])]
    head = Head(label, both.head, journal, both.pairs, both.missing, notes=notes)
    for case in both.base.cases:
        if case.id == anchor.canary:  # the anchor is measured against itself, too
            again = case.model_copy(update={"id": f"{CANARY}{case.id}"})
            sides = SideCase(case, both.base.testbed), SideCase(again, both.base.testbed)
            head.by_case[again.id] = Pair(*sides, label=label)
    head.added = lambda: keep(points_of(anchor, head, "night", began, began))
    ends = math.inf if limit is None else time.monotonic() + limit
    try:
        with measuring():
            real = make()
            if not run_duets([head], real, reporter, precision=precision, seed=seed, ends=ends):
                head.notes.append("the time was up before all cases were precise enough")
    except InterruptedRun as problem:
        head.notes.append("it was interrupted")
        interruption = problem
    return points_of(anchor, head, "night", began, began), interruption
