"""One comparison from its first duet to its verdicts and its record, in bounded time.

First the instructions of all cases are counted, since counts repeat where clocks scatter.
Each count is reported at once and has a verdict of its own. Then `duet_loop` runs rounds of duets
over the cases that `rule` says are open: first where counts moved, then those without.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from duetbench.app import case_names, tools
from duetbench.app import plan as planning
from duetbench.app.setting import Contrast
from duetbench.core import __version__, units
from duetbench.core.comparison import (
    SIDES,
    CaseComparison,
    Comparison,
    Coverage,
    Duet,
    Instructions,
)
from duetbench.core.errors import CountError, RecordError, UsageError
from duetbench.core.metrics import MATERIAL, METRICS, Concern
from duetbench.core.model import EffectKind, ResultStatus
from duetbench.core.text import short
from duetbench.core.units import utc_now
from duetbench.counts import counting
from duetbench.counts.counted import CASE_SECONDS, FLOOR, Counts, differ
from duetbench.effects.difference import Seen
from duetbench.host import result_files
from duetbench.host.console import duration
from duetbench.host.signals import InterruptedRun
from duetbench.judge import rule
from duetbench.judge.duet_loop import Instruments, Loop, Reporter
from duetbench.judge.pairs import Pair, Sides, require_code
from duetbench.judge.samples import Mode
from duetbench.load import growth

DEFAULT_SEED: Final = 1

COUNTING: Final = 1 / 3
"""Share of the budget in which instruction counts may begin: they are an answer, too."""

MOST_COUNTING: Final = 0.7
"""Largest share of the time that is left for counts and for what prepares both sides of them."""

SAFE: Final = 0.75
"""Share of the time that is left in which the first duets of a new case must fit."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Which cases are compared, for how long, and what matters.

    Attributes:
        select: Globs over the ids of cases; none: all.
        seconds: Time budget; None: until all is decided.
        everything: Cases that the change cannot affect, too.
        start: Compare how servers start, without load.
        only: Load no server: `effects` observes what a request does, `counts` counts instructions
            as well.
        material: Smallest sizes that somebody acts on, instead of the repository's.
        seed: Of the order of the duets.
    """

    select: tuple[str, ...] = ()
    seconds: float | None = None
    everything: bool = False
    start: bool = False
    only: Literal["", "effects", "counts"] = ""
    material: Mapping[Concern, float] = field(default_factory=dict)
    seed: int = DEFAULT_SEED

    def require_sense(self, contrast: Contrast) -> None:
        """Refuse what contradicts itself; raises UsageError, or CountError without Valgrind."""
        _ = contrast.settings  # which refuses wrong words
        if self.start and self.only:
            raise UsageError("--start and --only were given: choose one")
        if self.only:
            require_code("--only", contrast)
        if self.only == "counts" and (lacking := counting.missing()):
            raise CountError(lacking)


@dataclass(frozen=True, slots=True)
class Question:
    """Two sides, with the cases to compare, and the time for it."""

    sides: Sides
    extent: Extent = field(default_factory=Extent)
    limits: Mapping[EffectKind, float] = field(default_factory=dict)  # of a request of head
    reproduce: tuple[str, ...] = ()  # commands for a terminal
    to_repeat: tuple[str, ...] = ()  # what they lack
    coverage: Coverage | None = None  # how much of the changed code the requests enter
    seen: Seen = field(default_factory=Seen)  # what one request does
    spent: float = 0.0  # seconds of the budget that observing has taken


class InterruptedComparison(InterruptedRun):
    """The comparison was interrupted; the partial result is attached, and already saved."""

    def __init__(self, signum: int, comparison: Comparison) -> None:
        super().__init__(signum)
        self.comparison = comparison


def compare(
    question: Question,
    reporter: Reporter,
    instruments: Instruments,
    folder: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Compare head with base now, and save the result in `folder`, or else among the repository's.

    Returns:
        The complete comparison, already saved.

    Raises:
        InterruptedComparison: The comparison was interrupted; the partial one is already saved.
        RecordError: The complete comparison could not be saved.
    """
    session = _Session(question, reporter, instruments, clock)
    try:
        session.run()
        duets = session.pairs
        failed = any(one.void for one in duets) and not any(one.usable for one in duets)
        for reason in dict.fromkeys(question.seen.reasons.values()) if not failed else ():
            session.note(f"what one request does was not observed: {short(reason)}")
    except InterruptedRun as interruption:
        session.note(f"interrupted by {interruption} at {utc_now()}")
        partial = session.comparison("partial")
        try:
            result_files.save_comparison(partial, folder)
        except RecordError as error:  # a full disk must not hide the results
            reporter.note(f"not saved: {error}")
        raise InterruptedComparison(interruption.signal, partial) from interruption
    finally:
        reporter.end()
    complete = session.comparison("complete")
    result_files.save_comparison(complete, folder)
    return complete


def empty_comparison(question: Question) -> Comparison:
    """Record a comparison in which there is nothing to judge, and why."""
    nothing = {"status": "complete", "nothing": question.sides.empty_reason}
    return _begin(question).model_copy(update=nothing)


class _Session:
    """A comparison under way, and the loop's rule: it measures each case until it is decided."""

    def __init__(
        self,
        question: Question,
        reporter: Reporter,
        instruments: Instruments,
        clock: Callable[[], float],
    ) -> None:
        self.question, self.reporter, self.instruments = question, reporter, instruments
        self.clock, self.extent, self.pairs = clock, question.extent, question.sides.pairs
        self.limits = {**MATERIAL, **self.extent.material}
        self.record, self.began = _begin(question), clock()
        self.seconds = math.inf if self.extent.seconds is None else self.extent.seconds
        self.ends = self.began + self.seconds - question.spent
        self.loop = Loop(instruments, reporter, self.extent.seed, clock)
        reach = question.coverage
        # Single requests that run the same code execute the same instructions.
        same = reach is not None and reach.alone and not reach.entered and not self.extent.only
        counted = () if self.extent.start or same else self.pairs
        self.counted = {pair.case.id: pair for pair in counted if not pair.alike}
        served = {name: pair.sides for name, pair in self.counted.items()}
        endless = {
            case: why.removeprefix(f"{case_names.of(self.counted[case].case).what}: ")
            for case, why in question.seen.reasons.items()
            if case in question.seen.endless and case in self.counted
        }
        self.counts = Counts(instruments.instructions, served, endless)
        self.count_seconds = 0.0
        self.first_answer_seconds: float | None = None
        self.notes: list[str] = []
        for pair in self.pairs:
            pair.seen = question.seen.effects.get(pair.case.id)

    def run(self) -> None:
        """Count instructions, then run duets."""
        only, pairs = self.extent.only, self.open()
        if only == "effects":
            return
        seconds = rule.FEWEST * self.loop.seconds(*pairs)
        if only or not pairs:
            seconds = CASE_SECONDS * len(self.pairs)
        self.reporter.begin(len(pairs), seconds, self.extent.seconds)
        self._count()
        if only:
            return
        turns = [pair.case.id for pair in pairs if pair.mode is Mode.ALONE and not pair.unequal]
        if turns:
            self.note(planning.without_duets(turns))
        # Where counts moved, a single duet shows what they are of the whole request.
        least = 1 if any(differ(self._counts(pair)) for pair in self.pairs) else rule.FEWEST
        soonest = least * min(map(self.loop.seconds, self.pairs), default=0.0)
        if soonest <= self.ends - self.clock():
            self.loop.run(self, self.ends)
        if self.open() and not any(map(self._needs_no_time, self.pairs)):
            # Twice what was calculated: a duet may be slower.
            duets = 2 * rule.FEWEST * self.loop.seconds(*self.pairs) / SAFE
            self.first_answer_seconds = duets + max(
                self.count_seconds, CASE_SECONDS * bool(self.counted)
            )
        if lost := sum(not pair.all for pair in self.pairs):
            what = f"{lost} of {len(self.pairs)} cases" if len(self.pairs) > 1 else "anything"
            self.note(f"the budget is too small to measure {what}")

    def _count(self) -> None:
        """Count instructions first: they are an answer, and show where to spend duets."""
        began = self.clock()
        share, most = (1.0, 1.0) if self.extent.only else (COUNTING, MOST_COUNTING)

        def left() -> float:
            return began + share * self.seconds - self.clock()

        with self.reporter.when_long("instructions: still counted"):
            ends = began + most * (self.ends - began)
            self.counts.count(self.counted, left, self.reporter.note, self._tell, ends)
        self.count_seconds = self.clock() - began

    def _tell(self, case: str) -> None:
        """Report a new count."""
        if counts := self.counts.of(case):
            title = case_names.of(self.counted[case].case).what
            change = units.signed(100 * (counts.head / counts.base - 1), ".2f")
            took = duration(self.clock() - self.began)
            self.reporter.note(f"{title}: instructions {change} %, counted in {took}")

    def _counts(self, pair: Pair) -> Instructions | None:
        return self.counts.of(pair.case.id) if pair.case.id in self.counted else None

    def _needs_no_time(self, pair: Pair) -> bool:
        """Whether more time is not what a case lacks: it is judged, or it failed."""
        return len(pair.usable) >= rule.FEWEST or any(d.failed for d in pair.all)

    def open(self) -> Sequence[Pair]:
        """List the cases that need another duet and for which there is time, at least one.

        A case with fewer duets than any decision takes would be time lost for the others: those
        that were begun come first, and new ones must surely reach a decision.
        """
        waiting = [pair for pair in self.pairs if rule.wants(pair, self.limits)]
        waiting.sort(key=lambda p: (not p.all, self.missing(p), -self._size(p)))
        left, chosen = self.ends - self.clock(), dict[Pair, int]()
        for pair in waiting:
            more = {**chosen, pair: self.missing(pair)}
            if not chosen or self.loop.remaining(more) <= left * (1 if pair.all else SAFE):
                chosen = more
        return [*chosen]

    def _size(self, pair: Pair) -> float:
        """How far the instructions of a case moved, as a logarithm; without counts, just enough."""
        counts = self._counts(pair)
        return abs(math.log(counts.head / counts.base)) if counts else math.log1p(FLOOR)

    def missing(self, pair: Pair) -> int:
        return max(1, rule.FEWEST - len(pair.all))

    def add(self, pair: Pair, duet: Duet) -> None:
        name, load = pair.case.id, pair.case.load
        if duet.connections and not any(earlier.connections for earlier in pair.all):
            why = "its requests take so long that"
            more = "the last answers would take longer than the load"
            if duet.wait:
                why = f"a request waits {units.seconds(duet.wait)}, so"
                more = "a queue would hide the wait"
            few = f"{duet.connections} of its {load.connections} connections"
            self.note(f"{name}: {why} duets use {few}: with more, {more}")
        pair.add(duet)
        metric = pair.leading[0]
        if known := rule.evidence(pair, metric, self.limits):
            change = units.signed(math.expm1(known.sample.mean), ".0%")
            self.reporter.know(f"{METRICS[metric].noun} {change} so far")
        if pair.overloaded:
            rate = units.rate(load.rate or 0.0)
            queue = "its times are those of a queue, and are not judged"
            self.note(f"{name}: neither side keeps up with {rate}, so {queue}")
        growths = pair.growth.values()
        if any(memory.course == "undecided" and not memory.curve for memory in growths):
            self._soak(pair)

    def _soak(self, pair: Pair) -> None:
        """Load each side alone, once, as one seems to keep memory for every request.

        A leak of one side is news only where the other was loaded alike.
        """
        shortest, longest = growth.SECONDS
        left = self.ends - self.clock()
        seconds = left / len(SIDES) - growth.AROUND
        later = left - growth.AROUND * len(SIDES) - self.loop.seconds(pair) >= 2 * shortest
        begun = len(pair.all) < growth.LEAST and rule.wants(pair, self.limits)
        if seconds < shortest or (begun and later):
            return
        what = case_names.of(pair.case).what
        for name, side in zip(SIDES, pair.sides, strict=True):
            self.reporter.note(f"{what}: {name} is loaded alone: does its memory grow?")
            pair.soak(name, self.instruments.soak(side, name, min(longest, seconds)))
            memory = pair.growth[name]
            self.reporter.note(f"{name} alone: {memory.course}, {memory.words} per request")

    def note(self, sentence: str) -> None:
        """Tell and record something, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            self.reporter.note(sentence)

    def comparison(self, status: ResultStatus) -> Comparison:
        """Return the comparison, judged by all that is known so far."""
        if self.extent.only != "effects":
            for name, pair in self.counted.items():
                pair.counts = None if pair.void else self.counts.outcome(name)
        cases = tuple(
            CaseComparison(
                case=pair.case,
                because=pair.reason,
                duets=tuple(pair.all),
                instructions=self._counts(pair),
                effects=pair.effects,
            )
            for pair in self.pairs
        )
        known, limits = self.pairs, self.question.limits
        update = {
            "status": status,
            "wall_seconds": self.clock() - self.began,
            "cases": cases,
            "findings": rule.judge(known, self.limits, limits, loaded=not self.extent.only),
            "notes": (*self.record.notes, *self.notes),
            "first_answer_seconds": self.first_answer_seconds,
        }
        return self.record.model_copy(update=update)


def _begin(question: Question) -> Comparison:
    """Begin the record of a comparison."""
    sides, extent, now = question.sides, question.extent, datetime.now(UTC)
    base, head = sides.base, sides.head
    return Comparison(
        # Names sort by time.
        id=f"{now:%Y%m%dT%H%M%SZ}-compare-{(head.record.commit or 'nocommit')[:8]}",
        status="partial",
        started=utc_now(),
        budget_seconds=extent.seconds,
        duetbench=__version__,
        oha=tools.oha_version(head.testbed.oha),
        machine=head.testbed.machine,
        cross=sides.cross,
        start=extent.start,
        base=base.record,
        head=head.record,
        packages=sides.packages,
        counts_only=bool(extent.only),
        planned=len(sides.pairs),
        untouched=sides.untouched,
        coverage=question.coverage,
        missing=sides.missing,
        reproduce=question.reproduce,
        to_repeat=question.to_repeat,
        notes=sides.notes,
    )
