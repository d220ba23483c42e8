"""Compares as people ask for it: what differs, which cases can differ, and what that did to them.

Sides are prepared, and the change between them decides what is worth measuring. Then the
instructions of all cases are counted, since counts repeat where clocks scatter, and `duet_loop`
runs rounds of duets over the cases that `rule` says are open, in bounded time.
"""

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from duetbench.app import case_names, revisions, target
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.testbed import server_of
from duetbench.app.workspace import prepare_all
from duetbench.core import __version__, units
from duetbench.core.comparison import (
    Attribution,
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
from duetbench.counts.counted import CASE_SECONDS, NO_TIME, count_each
from duetbench.effects import difference as effects
from duetbench.effects.difference import Seen
from duetbench.host import files, paths, result_files
from duetbench.host.signals import InterruptedRun
from duetbench.judge import affected, preparation, rule
from duetbench.judge.duet_loop import Instruments, Loop, Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import Pair, Sides, require_code
from duetbench.judge.preparation import Scope
from duetbench.judge.repetition import command

DEFAULT_SEED: Final = 1

COUNTING: Final = 1 / 3
"""Share of the budget in which instruction counts may begin: they are an answer, too."""

MOST_COUNTING: Final = 0.7
"""Largest share of the time that is left for counts and for what prepares both sides of them."""

SAFE: Final = 0.75
"""Share of the time that is left in which the first duets of a new case must fit."""

_SHARE: Final = 1 / 8
"""Share of a budget that an answer of an idle server may take."""

_LEAST: Final = 5.0  # s that it may take of any budget


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
    reproduce: str = ""  # the command for a terminal
    to_repeat: tuple[str, ...] = ()  # what it lacks
    coverage: Coverage | None = None  # how much of the changed code the requests enter
    seen: Seen = field(default_factory=Seen)  # what one request does
    spent: float = 0.0  # seconds of the budget that observing has taken

    def record(self, started: str, status: ResultStatus = "complete", **found: Any) -> Comparison:
        """Make the record of a comparison with what it has `found`."""
        sides, extent = self.sides, self.extent
        base, head = sides.base, sides.head
        return Comparison(
            id=files.result_id(started, "compare", head.record.commit),
            status=status,
            started=started,
            budget_seconds=extent.seconds,
            duetbench=__version__,
            machine=head.testbed.machine,
            cross=sides.cross,
            start=extent.start,
            base=base.record,
            head=head.record,
            packages=sides.packages,
            counts_only=bool(extent.only),
            planned=len(sides.pairs),
            untouched=sides.untouched,
            coverage=self.coverage,
            missing=sides.missing,
            reproduce=self.reproduce,
            to_repeat=self.to_repeat,
            **found,
        )

    def nothing(self) -> Comparison:
        """Record that there is nothing to judge, and why."""
        return self.record(utc_now(), nothing=self.sides.empty_reason, notes=self.sides.notes)


class InterruptedComparison(InterruptedRun):
    """The comparison was interrupted; the partial result is attached, and already saved."""

    def __init__(self, signum: int, comparison: Comparison) -> None:
        super().__init__(signum)
        self.comparison = comparison


def compare(
    project: Subject,
    contrast: Contrast,
    extent: Extent,
    reporter: Reporter,
    *,
    words: Sequence[str] | None = None,
    notes: tuple[str, ...] = (),
    announce: Callable[[Question], object] = id,
    explain: Callable[[Comparison, Sides], Attribution | None] = lambda _comparison, _sides: None,
    prepare: Callable[[Any, Contrast, Scope], Sides] = preparation.prepare,
) -> Comparison:
    """Compare on this machine, which nothing else may use meanwhile; save the result.

    `prepare` makes the sides of the project. `words` are the options of a command that repeats it,
    and `notes` say what they lack.
    `announce` is called when the sides are prepared, and `explain`, which finds the functions
    behind a change, while they still exist.

    Raises:
        InterruptedComparison: It was interrupted; the partial result is saved.
        DuetbenchError: As `preparation.prepare` and `measure`.
    """
    extent.require_sense(contrast)
    root = project.repository
    declared, place = target.configuration(root), paths.project_state(root)
    extent = replace(extent, material={**declared.material, **extent.material})
    patience = math.inf if extent.seconds is None else max(_LEAST, _SHARE * extent.seconds)
    with revisions.copies() as copies:
        scope = Scope(extent.select, reporter, copies, not extent.only, patience)
        both = prepare(project, contrast, scope)
        diff = affected.difference(both)
        sides = affected.find(both, diff, everything=extent.everything)
        with reporter.when_long("the commands of --before: still running, once for each side"):
            prepare_all(side for pair in sides.pairs for side in pair.sides)
        seen, coverage, began = Seen(), None, time.monotonic()
        if not extent.start:
            with reporter.when_long("what one request does: still observed"):
                seen = effects.observe(sides.to_observe, budget=extent.seconds)
        if extent.start:
            sides = replace(sides, pairs=starting(sides.pairs))
        elif extent.only != "effects":
            sides = affected.find(both, diff, seen.loaded, everything=extent.everything)
            coverage = affected.cover(sides, diff, seen.entered)
        again = command(both.base.record, both.head.record, words) if words else ""
        question = Question(
            sides,
            extent,
            declared.most,
            reproduce=again,
            to_repeat=notes if again else (),
            coverage=coverage,
            seen=seen,
            spent=time.monotonic() - began,
        )
        announce(question)
        if sides.empty_reason:
            return question.nothing()
        comparison = measure(question, reporter, Real(), place)
        if why := explain(comparison, both):
            comparison = comparison.model_copy(update={"why": why})
            result_files.save_comparison(comparison, place)
        return comparison


def starting(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Choose the first case of each server, to compare starts."""
    first: dict[Hashable, Pair] = {}
    for pair in pairs:
        first.setdefault(tuple(server_of(side.case) for side in pair.sides), pair)
    return tuple(replace(pair, start=True) for pair in first.values())


def measure(
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
        session.measure()
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


class _Session(Loop):
    """A comparison under way, which measures each case until it is decided."""

    def __init__(
        self,
        question: Question,
        reporter: Reporter,
        instruments: Instruments,
        clock: Callable[[], float],
    ) -> None:
        extent, seen, reach = question.extent, question.seen, question.coverage
        super().__init__(instruments, reporter, extent.seed, clock)
        self.question, self.extent, self.pairs = question, extent, question.sides.pairs
        self.limits = {**MATERIAL, **extent.material}
        self.started, self.began = utc_now(), clock()
        self.budget = math.inf if extent.seconds is None else extent.seconds
        self.ends = self.began + self.budget - question.spent
        self.notes = [*question.sides.notes]
        for pair in self.pairs:
            pair.seen = seen.effects.get(pair.case.id)
        # Single requests that run the same code execute the same instructions.
        same = reach is not None and reach.alone and not reach.entered and not extent.only
        counted = () if extent.start or same or extent.only == "effects" else self.pairs
        self.counted = {pair.case.id: pair for pair in counted if not pair.alike}
        self.counts: dict[str, Instructions | str] = {
            case: seen.reasons[case].removeprefix(f"{case_names.of(pair.case).what}: ")
            for case, pair in self.counted.items()
            if case in seen.endless
        }

    def measure(self) -> None:
        """Count instructions, then run duets."""
        if self.extent.only != "effects":
            self._count()
        if not self.extent.only:
            soonest = rule.FEWEST * min(map(self.seconds, self.pairs), default=0.0)
            if soonest <= self.ends - self.clock():
                self.run(self.ends)
            self._conclude()
        failed = any(p.void for p in self.pairs) and not any(p.usable for p in self.pairs)
        for reason in dict.fromkeys(self.question.seen.reasons.values()) if not failed else ():
            self.note(f"what one request does was not observed: {short(reason)}")

    def _count(self) -> None:
        """Count instructions first: they are an answer."""
        only, pairs, began = self.extent.only, self.open(), self.clock()
        seconds = rule.FEWEST * self.seconds(*pairs)
        if only or not pairs:
            seconds = CASE_SECONDS * len(self.pairs)
        self.reporter.begin(len(pairs), seconds, self.extent.seconds)
        share, most = (1.0, 1.0) if only else (COUNTING, MOST_COUNTING)

        def left() -> float:
            return began + share * self.budget - self.clock()

        sides = {case: pair.sides for case, pair in self.counted.items()}
        ends = began + most * (self.ends - began)
        count, note = self.instruments.instructions, self.reporter.note
        with self.reporter.when_long("instructions: still counted"):
            count_each(count, sides, self.counts, left, note, ends)

    def open(self) -> Mapping[Pair, int]:
        """List the cases that need another duet and for which there is time, at least one.

        A case with fewer duets than any decision takes would be time lost for the others: those
        that were begun come first, and new ones must surely reach a decision.
        """
        missing = {
            pair: max(1, rule.FEWEST - len(pair.all))
            for pair in self.pairs
            if rule.wants(pair, self.limits)
        }
        left, chosen = self.ends - self.clock(), dict[Pair, int]()
        for pair in sorted(missing, key=lambda pair: (not pair.all, missing[pair])):
            more = {**chosen, pair: missing[pair]}
            if not chosen or self.remaining(more) <= left * (1 if pair.all else SAFE):
                chosen = more
        return chosen

    def add(self, pair: Pair, duet: Duet) -> None:
        super().add(pair, duet)
        if known := rule.evidence(pair, pair.leading[0], self.limits):
            change = units.signed(math.expm1(known.sample.mean), ".0%")
            self.reporter.know(f"{METRICS[pair.leading[0]].noun} {change} so far")

    def _conclude(self) -> None:
        """Note what was unusual in the duets."""
        for pair in self.pairs:
            name, load = pair.case.id, pair.case.load
            if fewer := [duet for duet in pair.all if duet.connections]:
                wait, few = fewer[0].wait, fewer[0].connections
                takes = f"waits {units.seconds(wait)}" if wait else "takes long"
                of = f"of its {load.connections} connections"
                self.note(f"{name}: a request {takes}, so duets use {few} {of}, without a queue")
            if pair.overloaded:
                rate = units.rate(load.rate or 0.0)
                queue = "its times are those of a queue, and are not judged"
                self.note(f"{name}: neither side keeps up with {rate}, so {queue}")
        if lost := sum(not pair.all for pair in self.pairs):
            what = f"{lost} of {len(self.pairs)} cases" if len(self.pairs) > 1 else "anything"
            self.note(f"the budget is too small to measure {what}")

    def note(self, sentence: str) -> None:
        """Tell and record something."""
        self.notes.append(sentence)
        self.reporter.note(sentence)

    def comparison(self, status: ResultStatus) -> Comparison:
        """Return the comparison, judged by all that is known so far."""
        for case, pair in self.counted.items():
            pair.counts = None if pair.void else self.counts.get(case, NO_TIME)
        loaded = not self.extent.only
        return self.question.record(
            self.started,
            status,
            wall_seconds=self.clock() - self.began,
            cases=tuple(
                CaseComparison(
                    case=pair.case,
                    because=pair.reason,
                    duets=tuple(pair.all),
                    effects=pair.effects,
                )
                for pair in self.pairs
            ),
            findings=rule.judge(self.pairs, self.limits, self.question.limits, loaded=loaded),
            notes=tuple(self.notes),
        )
