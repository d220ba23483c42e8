"""Compares as people ask for it: what differs, which cases can differ, and what that did to them.

Sides are prepared, and the change between them decides what is worth measuring. Then the
instructions of all cases are counted, since counts repeat where clocks scatter, and `duet_loop`
runs rounds of duets over the cases that `rule` says are open, in bounded time.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from duetbench.app import revisions, target, tools, workspace
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.testbed import SideCase
from duetbench.core import __version__, units
from duetbench.core.comparison import (
    ANSWER,
    Attribution,
    CaseComparison,
    Comparison,
    Coverage,
    Duet,
    Finding,
    Instructions,
)
from duetbench.core.errors import InterruptedRun, LaunchError, RecordError, SetupError
from duetbench.core.metrics import MATERIAL, METRICS
from duetbench.core.model import ResultStatus, Verdict
from duetbench.core.units import utc_now
from duetbench.counts.counted import CASE_SECONDS, NO_TIME, count_each
from duetbench.effects import difference as effects
from duetbench.effects.difference import Observations
from duetbench.host import files, paths
from duetbench.judge import affected, preparation, rule
from duetbench.judge.duet_loop import Loop, Reporter
from duetbench.judge.findings import sort
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import Pair, Sides, server_of
from duetbench.judge.preparation import Extent, Scope
from duetbench.judge.repetition import command

OBSERVING: Final = 1 / 4
"""Share of the budget in which requests are observed, if servers are loaded or counted as well."""

COUNTING: Final = 1 / 2
"""Share of the budget for instruction counts, with what prepares both sides: they are an answer."""

SAFE: Final = 0.75
"""Share of the time that is left in which the first duets of a new case must fit."""

_SHARE: Final = 1 / 8
"""Share of a budget that an answer of an idle server may take."""

_LEAST: Final = 5.0  # s that it may take of any budget


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
    announce: Callable[["Session"], object] = id,
    explain: Callable[[Comparison, Sides], Attribution | None] = lambda _comparison, _sides: None,
    prepare: Callable[[Any, Contrast, Scope], Sides] = preparation.prepare,
) -> Comparison:
    """Compare on this machine, which nothing else may use meanwhile; save the result.

    `prepare` makes the sides of the project. `words` are the options of a command that repeats it,
    and `notes` say what they lack.
    `announce` is called when requests were observed, and `explain`, which finds the functions
    behind a change, while the sides still exist.

    Raises:
        InterruptedComparison: It was interrupted; the partial result is saved.
        DuetbenchError: As `preparation.prepare` and `Session.measure`.
    """
    declared = target.configuration(project.repository)
    place = paths.project_state(project.repository)
    extent = replace(extent, material={**declared.limits, **extent.material})
    patience = math.inf if extent.seconds is None else max(_LEAST, _SHARE * extent.seconds)
    lacking = ""
    if not (extent.only or extent.start):
        try:
            tools.ensure_oha(declared.oha, reporter)
        except SetupError as error:
            extent, lacking = replace(extent, only="counts"), f"no server was loaded: {error}"
    with revisions.copies() as copies:
        scope = Scope(extent.select, reporter, copies, not extent.only, patience)
        both = prepare(project, contrast, scope)
        session = Session(both, extent, reporter, Real())
        if words:
            session.reproduce = command(both.base.record, both.head.record, words)
            session.to_repeat = notes
        session.lacking = lacking
        session.observe()
        announce(session)
        if session.sides.empty_reason:
            return session.comparison("complete")
        comparison = session.measure(place)
        if why := explain(comparison, session.sides):
            comparison = comparison.model_copy(update={"why": why})
            files.save_comparison(comparison, place)
        return comparison


class Session(Loop):
    """A comparison under way: it observes requests, counts, and measures until all is decided.

    Attributes:
        sides: With the cases to compare: all, until `observe` leaves those that can differ.
        seen: What one request does.
        coverage: How much of the changed code the requests enter.
        reproduce: The command for a terminal, and `to_repeat`, what it lacks.
        lacking: Why no server can be loaded, if so.
    """

    def __init__(
        self,
        sides: Sides,
        extent: Extent,
        reporter: Reporter,
        instruments: Real,
        *,
        seen: Observations | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instruments.duets, reporter, extent.seed, clock)
        self.sides, self.extent, self.instruments = sides, extent, instruments
        self.seen = seen or Observations()
        self.coverage: Coverage | None = None
        self.reproduce, self.to_repeat, self.lacking = "", tuple[str, ...](), ""
        self.limits = {**MATERIAL, **extent.material}
        self.budget = math.inf if extent.seconds is None else extent.seconds
        self.started, self.began = utc_now(), clock()
        self.notes = [*sides.notes]
        self.counts = dict[str, Instructions | str]()

    def observe(self) -> None:
        """Find the cases that the change can affect, and what one request of each does."""
        both, extent, reporter = self.sides, self.extent, self.reporter
        diff = affected.difference(both)
        self.sides = affected.find(both, diff, everything=extent.everything)
        with reporter.step("commands of --before", "once for each side"):
            prepare_all(side for pair in self.sides.pairs for side in pair.sides)
        self.began = self.clock()
        if extent.start:
            self.sides = replace(self.sides, pairs=starting(self.sides.pairs))
            return
        with reporter.step("requests", "observing what one does on both sides"):
            share = 1 if extent.only == "effects" else OBSERVING
            self.seen = effects.observe(self.sides.to_observe, seconds=share * self.budget)
        if extent.only != "effects":
            self.sides = affected.find(both, diff, self.seen.loaded, everything=extent.everything)
            self.coverage = affected.cover(self.sides, diff, self.seen.entered)

    def measure(self, folder: Path) -> Comparison:
        """Count and load what the extent asks for; save the result in a folder.

        Raises:
            InterruptedComparison: The comparison was interrupted; the partial one is already saved.
            RecordError: The complete comparison could not be saved.
        """
        try:
            if self.extent.only != "effects":
                self._count()
            if not self.extent.only:
                soonest = rule.FEWEST * min(map(self.seconds, self.sides.pairs), default=0.0)
                if soonest <= self.left:
                    self.run(self.ends)
            for reason in dict.fromkeys(self.seen.reasons.values()):
                self.note(f"what one request does was not observed: {reason}")
            if self.lacking:
                self.note(self.lacking)
        except InterruptedRun as interruption:
            self.note(f"interrupted by {interruption} at {utc_now()}")
            partial = self.comparison("partial")
            try:
                files.save_comparison(partial, folder)
            except RecordError as error:  # a full disk must not hide the results
                self.reporter.note(f"not saved: {error}")
            raise InterruptedComparison(interruption.signal, partial) from interruption
        finally:
            self.reporter.end()
        complete = self.comparison("partial" if self.lacking else "complete")
        files.save_comparison(complete, folder)
        return complete

    @property
    def ends(self) -> float:
        """When the budget is spent, by the session's clock."""
        return self.began + self.budget

    @property
    def left(self) -> float:
        return self.ends - self.clock()

    def _count(self) -> None:
        """Count instructions first: they are an answer."""
        only, pairs = self.extent.only, self.open()
        seconds = rule.FEWEST * self.seconds(*pairs)
        if only or not pairs:
            seconds = CASE_SECONDS * len(self.sides.pairs)
        self.reporter.begin(len(pairs), seconds, self.extent.seconds)
        sides = {pair.case.id: pair.sides for pair in self._counted()}
        self.counts |= self.seen.endless
        ends = self.began + (1 if only else COUNTING) * self.budget
        count, note = self.instruments.instructions, self.reporter.note
        count_each(count, sides, self.counts, lambda: ends - self.clock(), note, ends)

    def _counted(self) -> Sequence[Pair]:
        """List the pairs that are counted: not starts, nor sides that execute the same."""
        none = self.extent.start or self.extent.only == "effects"
        return [pair for pair in self.sides.pairs if not (none or pair.alike)]

    def open(self) -> Mapping[Pair, int]:
        """List the cases that need another duet and for which there is time, at least one.

        A case with fewer duets than any decision takes would be time lost for the others: those
        that were begun come first, and new ones must surely reach a decision.
        """
        missing = {
            pair: max(1, rule.FEWEST - len(pair.all))
            for pair in self.sides.pairs
            if rule.wants(pair, self.limits)
        }
        left, chosen = self.left, dict[Pair, int]()
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

    def note(self, sentence: str) -> None:
        """Tell and record something."""
        self.notes.append(sentence)
        self.reporter.note(sentence)

    def comparison(self, status: ResultStatus) -> Comparison:
        """Return the comparison, judged by all that is known so far."""
        sides, extent, pairs = self.sides, self.extent, self.sides.pairs
        for pair in pairs:
            pair.seen = self.seen.effects.get(pair.case.id)
        for pair in self._counted():
            pair.counts = None if pair.void else self.counts.get(pair.case.id, NO_TIME)
        return Comparison(
            id=files.result_id(self.started, "compare", sides.head.record.commit),
            status=status,
            started=self.started,
            wall_seconds=self.clock() - self.began,
            budget_seconds=extent.seconds,
            duetbench=__version__,
            machine=sides.head.testbed.machine,
            cross=sides.cross,
            start=extent.start,
            counts_only=bool(extent.only),
            base=sides.base.record,
            head=sides.head.record,
            packages=sides.packages,
            planned=len(pairs),
            untouched=sides.untouched,
            coverage=self.coverage,
            missing=sides.missing,
            cases=tuple(
                CaseComparison(
                    case=pair.case, because=pair.reason, duets=tuple(pair.all), effects=pair.effects
                )
                for pair in pairs
            ),
            findings=self._judge(),
            reproduce=self.reproduce,
            to_repeat=self.to_repeat if self.reproduce else (),
            nothing=sides.empty_reason,
            notes=tuple(self.notes),
        )

    def _judge(self) -> tuple[Finding, ...]:
        """Judge what is known; if nothing else is asked for, what was not observed is unknown."""
        known = rule.judge(self.sides.pairs, self.limits, loaded=not self.extent.only)
        unknown = [
            Finding(
                case=case,
                subject=ANSWER,
                verdict=Verdict.UNKNOWN,
                why=why,
                lack="time" if why == effects.NO_TIME else "",
            )
            for case, why in self.seen.reasons.items()
        ]
        return sort([*known, *unknown]) if self.extent.only == "effects" else known


def starting(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Choose the first case of each server, to compare starts."""
    first: dict[Hashable, Pair] = {}
    for pair in pairs:
        first.setdefault(tuple(server_of(side.case) for side in pair.sides), pair)
    return tuple(replace(pair, start=True) for pair in first.values())


def prepare_all(sides: Iterable[SideCase]) -> None:
    """Prepare sides until one fails, which its launches report."""
    with suppress(LaunchError):
        for number, side in enumerate(sides):
            workspace.prepare(side, side.testbed.logs / f"side-{number}.log")
