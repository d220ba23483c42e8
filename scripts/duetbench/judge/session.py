"""One comparison from its first duet to its verdicts, in bounded time.

Instruction counts of all cases and jobs inside the process, rounds of duets over the cases that
are open (`loop`), and sequential launches of what moved: `decide` says which cases need another
duet, `durations` whether there is time for it. All duets of a launch are saved as soon as it is
over.
"""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from duetbench.core.errors import RecordError
from duetbench.core.model import LoadModel, Missing
from duetbench.core.units import utc_now
from duetbench.host import paths
from duetbench.host.signals import InterruptedRun
from duetbench.judge import builder, durations, inprocess
from duetbench.judge.builder import MOVED, Findings, Question
from duetbench.judge.decide import SequentialTest, State, judge
from duetbench.judge.durations import Budget
from duetbench.judge.instruments import (
    EACH_SECONDS,
    Counts,
    FollowUp,
    Instruments,
    Real,
    Reporter,
    differ,
)
from duetbench.judge.loop import Loop
from duetbench.judge.samples import CaseDuets, Match
from duetbench.judge.statistics import Method
from duetbench.measure.testbed import SideCase
from duetbench.store import comparisons
from duetbench.store.comparison import Comparison, Duet

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
    """Instruments, folder and clock of a comparison; by default real servers."""

    instruments: Instruments | None = None
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
    if not question.affected.pairs and not question.affected.jobs:
        raise ValueError("nothing to judge: see Affected.nothing")
    return _Session(question, reporter, equipment or Equipment()).run()


class _UntilDecided:
    """Plays every case until the test has decided about it."""

    def __init__(self, test: SequentialTest, matches: Mapping[str, Match]) -> None:
        self.test, self.matches = test, matches

    def open(self) -> Sequence[Match]:
        return [self.matches[case] for case in self.test.open()]

    def missing(self, match: Match) -> int:
        return self.test.method.looks.missing(len(match.duets.usable))

    def add(self, match: Match, duet: Duet) -> None:
        self.test.add(match.case.id, duet)


class _Session:
    """A comparison under way."""

    def __init__(self, question: Question, reporter: Reporter, equipment: Equipment) -> None:
        self.question, self.reporter, self.equipment = question, reporter, equipment
        self.clock, self.method = equipment.clock, Method()
        base, head = question.base, question.head
        self.budget = Budget(question.seconds, self.clock())
        self.jobs = {job.series: job for job in question.affected.jobs}
        every = [
            Match(
                SideCase(pair.base, base.testbed),
                SideCase(pair.head, head.testbed),
                CaseDuets(pair.head),
            )
            for pair in question.affected.pairs
        ]
        self.instruments = equipment.instruments or Real(paths.state_dir() / "logs")
        source = random.Random(question.seed)  # noqa: S311 - an order that can be repeated
        self.loop = Loop(self.instruments, reporter, source, self.clock)
        self.first = self.method.looks.counts[0]
        chosen = durations.affordable(every, self.loop.seconds.of, self.first, question.seconds)
        self.matches = {match.case.id: match for match in chosen}
        self.test = SequentialTest({c: m.duets for c, m in self.matches.items()}, self.method)
        self.left_out = SequentialTest(
            {match.case.id: match.duets for match in every if match not in chosen}, self.method
        )
        sides = {match.case.id: match.sides for match in every}
        inside = {name: job.sides(base, head) for name, job in self.jobs.items()}
        self.counts = Counts(self.instruments, {**sides, **inside})
        self.follow_up = FollowUp(self.instruments, sides, self._time_left)
        self.noise_tried, self.noise_seconds = 0, 0.0
        self.findings = Findings(
            self.test,
            means=self.follow_up.means,
            instructions=self.counts.of,
            method={**self.method.record(), **self._inprocess(), "seed": question.seed},
        )

    def run(self) -> Comparison:
        """Count, play duets, follow up; save what there is, whatever happens."""
        count, total = len(self.matches), len(self.question.affected.pairs)
        seconds = self.first * self.loop.seconds.of(*self.matches.values())
        seconds += EACH_SECONDS * len(self.jobs)
        self.reporter.begin(count + len(self.jobs), seconds, self.question.seconds)
        if count < total:
            few = f"{total - count} of {total} cases: they were not measured"
            self._note(f"the budget is too small for {few}")
        try:
            self._count()
            self._play()
            self._follow_up()
        except InterruptedRun as interruption:
            self._note(f"interrupted by {interruption} at {utc_now()}")
            partial = self._judged("partial")
            self._save(partial)
            raise InterruptedComparison(interruption.signal, partial) from interruption
        finally:
            self.reporter.end()
        complete = self._judged("complete")
        comparisons.save_comparison(complete, self.equipment.folder)
        comparisons.forget_comparisons(self.equipment.folder)
        return complete

    def _count(self) -> None:
        """Count instructions first: they tell where to look, in a small share of the time."""
        total = math.inf if self.budget.total is None else self.budget.total
        ends = self.clock() + (durations.COUNTING if self.matches else 1.0) * total
        wanted = (*self.matches, *self.jobs)
        self.counts.count(wanted, lambda: ends - self.clock(), self.reporter)
        for case, match in self.matches.items():
            if differ(self.counts.of(case)):
                for metric in match.duets.computed:
                    self.test.hint(case, metric)

    def _play(self) -> None:
        if self.matches:
            self.reporter.stage("duets", len(self.matches))
        self.loop.play(
            _UntilDecided(self.test, self.matches),
            self._duets_end,
            after_launch=lambda: self._save(self._comparison("partial")),
            after_round=self._measure_noise,
        )

    def _duets_end(self) -> float:
        """Moment at which the last duet has to be over: time is kept to follow up what moved."""
        moved = [
            case
            for case, match in self.matches.items()
            if any(self.test.state(case, metric) is State.MOVED for metric in match.duets.metrics)
        ]
        launches = self.follow_up.seconds(*moved) if self.question.follow_up else 0.0
        return self.budget.duets_end(launches)

    def _follow_up(self) -> None:
        self.test.close()
        judged = judge(self.test)
        moved = [case for case in judged if any(one.verdict in MOVED for one in judged[case])]
        if moved and self.question.follow_up:
            self.reporter.stage("closer look", len(moved))
            self.follow_up.launch(moved, self.reporter)

    def _measure_noise(self) -> None:
        """Play base against itself, twice a round, so that budgets of few rounds have it too."""
        for _ in range(2):
            self._duet_of_base()

    def _duet_of_base(self) -> None:
        """Play base against itself while that takes a small share of the time."""
        matches = self.matches.values()
        # A case that computes all the time: its noise is what is reported.
        computing = [
            match
            for match in matches
            if match.case.load.model is LoadModel.CLOSED and match.case.endpoint.floor == 0
        ]
        match = min(computing or matches, key=self.loop.seconds.of)
        seconds, ends = self.loop.seconds.of(match), self._duets_end()
        share = math.inf if self.budget.total is None else durations.NOISE * self.budget.total
        dear = self.noise_seconds + seconds > share or self.clock() + seconds > ends
        if dear or self.noise_tried == NOISE_DUETS or not self.test.open():
            return
        self.noise_tried += 1
        began, head_first = self.clock(), self.noise_tried % 2 == 0
        sides = (match.base, match.base)
        (duet,) = self.instruments.duets([sides], head_first=head_first, order=0)
        self.noise_seconds += self.clock() - began
        if not duet.disturbed:
            before, after = duet.base.get(NOISE_METRIC, 0.0), duet.head.get(NOISE_METRIC, 0.0)
            if min(before, after) > 0:
                self.findings.noise.append(math.log(after / before))

    def _judged(self, status: Literal["complete", "partial"]) -> Comparison:
        """The comparison with its verdicts; nothing is measured any more."""
        self.test.close()
        self.findings.judgements = judge(self.left_out) | judge(self.test)
        outcomes = {name: self.counts.outcome(name) for name in self.jobs}
        self.findings.micro = tuple(
            inprocess.judged(self.jobs[name], counts)
            for name, counts in outcomes.items()
            if not isinstance(counts, str)
        )
        self.findings.absent = tuple(
            Missing(case=name, reason=counts)
            for name, counts in outcomes.items()
            if isinstance(counts, str)
        )
        return self._comparison(status)

    def _inprocess(self) -> dict[str, float]:
        """Parameters by which jobs are judged, for the comparison's file."""
        return {"inprocess_floor": inprocess.FLOOR} if self.jobs else {}

    def _comparison(self, status: Literal["complete", "partial"]) -> Comparison:
        return builder.build(self.question, self.findings, status, self.clock() - self.budget.began)

    def _time_left(self) -> float:
        return self.budget.ends - self.clock()

    def _note(self, sentence: str) -> None:
        self.findings.notes.append(sentence)
        self.reporter.note(sentence)

    def _save(self, comparison: Comparison) -> None:
        """A full disk must not end the comparison: what was measured is still in memory."""
        try:
            comparisons.save_comparison(comparison, self.equipment.folder)
        except RecordError as error:
            self.reporter.note(f"not saved yet, going on: {error}")
