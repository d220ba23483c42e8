"""One comparison from its first duet to its verdicts, in bounded time.

Instruction counts of all cases, rounds of screening over those that are open, a confirmation of
what seems to have moved, sequential launches of what did, and in-process benchmarks: `decide` says
which cases need another duet, `durations` whether there is time for it. Every duet is saved as soon
as it is over.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from servebench.compare import builder, durations
from servebench.compare.builder import MOVED, Findings, Question
from servebench.compare.decide import Confirmation, Screening, Stage, judge
from servebench.compare.durations import Budget, DuetSeconds
from servebench.compare.instruments import Counts, FollowUp, Instruments, Real, Reporter, direction
from servebench.compare.processes import InprocessComparison, Processes, RealProcesses
from servebench.compare.samples import CaseDuets
from servebench.compare.statistics import Method
from servebench.core.errors import RecordError
from servebench.core.flags import DISTURBING
from servebench.core.model import LoadModel
from servebench.host import paths
from servebench.host.signals import InterruptedRun
from servebench.measure.duet import SideCase
from servebench.measure.runner import utc_now
from servebench.record import comparison_store
from servebench.record.comparison import Comparison, Duet, Judgement

NOISE_DUETS: Final = 5
"""Duets of base against itself: enough to tell a spread of 0.7 % from one of 2 %."""

NOISE_METRIC: Final = "server_cpu_per_request"


class InterruptedComparison(InterruptedRun):
    """The comparison was asked to stop; it carries what was found until then, saved already."""

    def __init__(self, signum: int, comparison: Comparison) -> None:
        super().__init__(signum)
        self.comparison = comparison


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a comparison is made with and saved to, by default real servers and processes."""

    instruments: Instruments | None = None
    processes: Processes | None = None
    folder: Path | None = None
    clock: Callable[[], float] = time.monotonic


def compare(
    question: Question, reporter: Reporter, equipment: Equipment | None = None
) -> Comparison:
    """Compare head with base, from now on.

    Returns:
        The complete comparison, which has been saved.

    Raises:
        InterruptedComparison: The partial one has been saved, and is attached.
        RecordError: The comparison could not be saved at its end.
        ValueError: There is nothing to judge.
    """
    if not question.affected.pairs and not question.affected.targets:
        raise ValueError("nothing to judge: see Affected.nothing")
    return _Session(question, reporter, equipment or Equipment()).run()


class _Session:
    """A comparison under way."""

    def __init__(self, question: Question, reporter: Reporter, equipment: Equipment) -> None:
        self.question, self.reporter, self.equipment = question, reporter, equipment
        self.clock, self.method = equipment.clock, Method()
        base, head, pairs = question.base, question.head, question.affected.pairs
        began, total = self.clock(), question.seconds
        self.instruments = equipment.instruments or Real(paths.state_dir() / "logs")
        self.random, orders = (
            random.Random(question.seed)  # noqa: S311 - an order that can be repeated
            for _ in range(2)
        )
        self.inprocess = InprocessComparison(
            question.affected.targets, equipment.processes or RealProcesses(base, head),
            self.method, orders, self.clock,
        )  # fmt: skip
        self.whole = Budget(total, began)
        if total is not None:
            kept = min(self.inprocess.seconds(), durations.INPROCESS * total)
            total -= kept if pairs else total
        self.budget = Budget(total, began)
        self.sides = {
            pair.head.id: (SideCase(pair.base, base.rig), SideCase(pair.head, head.rig))
            for pair in pairs
        }
        cases = [pair.head for pair in pairs]
        self.durations = DuetSeconds(cases)
        self.first = self.method.screening.counts[0]
        chosen = durations.affordable(cases, self.durations.of, self.first, total)
        self.duets = CaseDuets.of(chosen)
        self.screening = Screening(self.duets, self.method)
        left_out = [case for case in cases if case.id not in self.duets]
        self.left_out = Screening(CaseDuets.of(left_out), self.method)
        # Who starts first in a case's first duet is drawn, and swapped from then on.
        self.head_first = {case.id: self.random.random() < 0.5 for case in cases}
        self.counts = Counts(self.instruments, self.sides)
        self.follow_up = FollowUp(self.instruments, self.sides, self._time_left)
        self.noise_tried = self.order = 0
        self.found = Findings(
            self.screening,
            means=self.follow_up.means,
            instructions=self.counts.of,
            method={**self.method.record(), **self.inprocess.record(), "seed": question.seed},
        )

    def run(self) -> Comparison:
        """Screen, confirm, follow up; save what there is, whatever happens."""
        count, total = len(self.duets), len(self.sides)
        seconds = sum(self.first * self.durations.of(case) for case in self.duets)
        seconds += self.inprocess.seconds()
        self.reporter.begin(count + len(self.inprocess.targets), seconds, self.question.seconds)
        if count < total:
            few = f"{total - count} of {total} cases: they were not measured"
            self._note(f"the budget is too small for {few}")
        try:
            self._count()
            self._screen()
            self._confirm()
            self._follow_up()
            # In the time that was kept for them, or is left.
            self.inprocess.look(self.whole.ends, self.reporter)
        except InterruptedRun as interruption:
            self._note(f"interrupted by {interruption} at {utc_now()}")
            partial = self._judged("partial")
            self._save(partial)
            raise InterruptedComparison(interruption.signal, partial) from interruption
        finally:
            self.reporter.end()
        complete = self._judged("complete")
        comparison_store.save(complete, self.equipment.folder)
        comparison_store.forget(self.equipment.folder)
        return complete

    def _count(self) -> None:
        """Count instructions first: they tell where to look, in a small share of the time."""
        if not self.duets:
            return
        total = math.inf if self.budget.total is None else self.budget.total
        ends = self.clock() + durations.COUNTING * total
        self.counts.count(self.duets, lambda: ends - self.clock(), self.reporter)
        for case, duets in self.duets.items():
            if toward := direction(self.counts.of(case)):
                for metric, sign in duets.follows(toward).items():
                    self.screening.hint(case, metric, sign)

    def _screen(self) -> None:
        if self.duets:
            self.reporter.stage("screening", len(self.duets))
        fresh = self.method.confirmation.counts[0]
        while waiting := self.screening.open():
            moved = durations.seemingly_moved(self.screening)
            ends = self.budget.stage_ends(
                confirming=sum(fresh * self.durations.of(case) for case in moved),
                follow_up=self.follow_up.seconds(*moved),
            )
            if not self._round(self.screening, waiting, ends):
                return
            self._duet_of_base(ends)

    def _confirm(self) -> None:
        stage = self.found.confirmation = Confirmation(self.screening)
        if stage.samples:
            self.reporter.stage("confirmation", len(stage.samples))
        while waiting := stage.open():
            ends = self.budget.stage_ends(follow_up=self.follow_up.seconds(*stage.samples))
            # Half a confirmation of each would confirm none: first come, first finished.
            needs = self.durations.until_looks(stage, waiting)
            now = durations.prefix(waiting, needs, ends - self.clock())
            if not self._round(stage, now, ends):
                return

    def _follow_up(self) -> None:
        found = self._judge()
        moved = [case for case in found if any(one.verdict in MOVED for one in found[case])]
        if moved and self.question.follow_up:
            self.reporter.stage("closer look", len(moved))
            self.follow_up.launch(moved, self.reporter)

    def _round(self, stage: Stage[str], cases: Sequence[str], ends: float) -> bool:
        """Do one duet of each case for which there is time; tell whether there was for any."""
        before = self.order
        for case in self.random.sample(cases, len(cases)):
            if self.clock() + self.durations.of(case) <= ends:
                self._duet(stage, case, cases)
        return self.order > before

    def _duet(self, stage: Stage[str], case: str, waiting: Sequence[str]) -> None:
        (base, head), head_first = self.sides[case], self.head_first[case]
        self.head_first[case] = not head_first
        remaining = sum(self.durations.until_looks(stage, waiting).values())
        self.reporter.playing(head.case, self.order, min(remaining, self._time_left()))
        started = utc_now()
        (outcome,) = self.instruments.duets([(base, head)], head_first=head_first)
        duet = Duet(
            case=case,
            stage=stage.samples[case].stage,
            order=self.order,
            head_first=head_first,
            started=started,
            seconds=outcome.seconds,
            load_seconds=outcome.load_seconds,
            flags_base=outcome.flags["base"],
            flags_head=outcome.flags["head"],
            base=outcome.metrics["base"],
            head=outcome.metrics["head"],
        )
        self.order += 1
        self.durations.observe(case, duet.seconds)
        stage.add(case, duet)
        self.reporter.played(duet)
        self._save(self._comparison("partial"))

    def _duet_of_base(self, ends: float) -> None:
        """Hold base against itself, one duet a round, where that costs little."""
        # A case that computes all the time: its noise is what is reported.
        computing = (
            base
            for base, head in self.sides.values()
            if head.case.load.model is LoadModel.CLOSED and head.case.endpoint.floor == 0
        )
        base = next(computing, next(iter(self.sides.values()))[0])
        seconds = self.durations.of(base.case.id)
        total = self.budget.total
        dear = total is not None and NOISE_DUETS * seconds > durations.NOISE * total
        enough = self.noise_tried == NOISE_DUETS or not self.screening.open()
        if dear or enough or self.clock() + seconds > ends:
            return
        self.noise_tried += 1
        head_first = self.noise_tried % 2 == 0
        (outcome,) = self.instruments.duets([(base, base)], head_first=head_first)
        if not any(flag.name in DISTURBING for flags in outcome.flags.values() for flag in flags):
            figures = [outcome.metrics[side].get(NOISE_METRIC, 0.0) for side in ("base", "head")]
            if min(figures) > 0:
                self.found.noise.append(math.log(figures[1] / figures[0]))

    def _judge(self) -> dict[str, tuple[Judgement, ...]]:
        """Close what is open, and judge it."""
        confirmation = self.found.confirmation or Confirmation(self.screening)
        self.found.confirmation = confirmation
        confirmation.close()
        return judge(self.screening, confirmation)

    def _judged(self, status: Literal["complete", "partial"]) -> Comparison:
        """The comparison with its verdicts; nothing is measured any more."""
        self.found.judgements = judge(self.left_out) | self._judge()
        self.found.micro, self.found.absent = self.inprocess.judged()
        self.found.notes += self.inprocess.notes
        return self._comparison(status)

    def _comparison(self, status: Literal["complete", "partial"]) -> Comparison:
        return builder.build(self.question, self.found, status, self.clock() - self.budget.began)

    def _time_left(self) -> float:
        return self.budget.ends - self.clock()

    def _note(self, sentence: str) -> None:
        self.found.notes.append(sentence)
        self.reporter.note(sentence)

    def _save(self, comparison: Comparison) -> None:
        """A full disk must not end the comparison: what was measured is still in memory."""
        try:
            comparison_store.save(comparison, self.equipment.folder)
        except RecordError as error:
            self.reporter.note(f"not saved yet, going on: {error}")
