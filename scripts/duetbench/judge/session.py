"""One comparison from its first duet to its verdicts, in bounded time.

Instruction counts of all cases and jobs inside the process, rounds of duets over the cases that
are open, and sequential launches of what moved: `decide` says which cases need another duet,
`durations` whether there is time for it. Cases that one server can serve share a launch of each
side. All duets of a launch are saved as soon as it is over.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from duetbench.core.errors import RecordError
from duetbench.core.flags import DISTURBING
from duetbench.core.model import LoadModel
from duetbench.host import paths
from duetbench.host.signals import InterruptedRun
from duetbench.judge import builder, durations, inprocess
from duetbench.judge.builder import MOVED, Findings, Question
from duetbench.judge.decide import SequentialTest, State, judge
from duetbench.judge.durations import Budget, DuetSeconds
from duetbench.judge.instruments import (
    EACH_SECONDS,
    Counts,
    FollowUp,
    Instruments,
    Real,
    Reporter,
    differ,
    recorded,
)
from duetbench.judge.samples import CaseDuets
from duetbench.judge.statistics import Method
from duetbench.measure.duet import SideCase, server_of
from duetbench.measure.runner import utc_now
from duetbench.store import comparison_store
from duetbench.store.comparison import Comparison, Missing

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
    """What a comparison is made with and saved to, by default real servers."""

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


class _Session:
    """A comparison under way."""

    def __init__(self, question: Question, reporter: Reporter, equipment: Equipment) -> None:
        self.question, self.reporter, self.equipment = question, reporter, equipment
        self.clock, self.method = equipment.clock, Method()
        base, head, pairs = question.base, question.head, question.affected.pairs
        began, total = self.clock(), question.seconds
        self.instruments = equipment.instruments or Real(paths.state_dir() / "logs")
        self.random = random.Random(question.seed)  # noqa: S311 - an order that can be repeated
        self.jobs = {job.series: job for job in question.affected.jobs}
        self.budget = Budget(total, began)
        self.sides = {
            pair.head.id: (SideCase(pair.base, base.rig), SideCase(pair.head, head.rig))
            for pair in pairs
        }
        cases = [pair.head for pair in pairs]
        self.servers = {
            case: tuple(server_of(side.case) for side in both) for case, both in self.sides.items()
        }
        self.durations = DuetSeconds(cases, self.servers)
        self.first = self.method.looks.counts[0]
        chosen = durations.affordable(cases, self.durations.of, self.first, total)
        self.duets = CaseDuets.of(chosen)
        self.test = SequentialTest(self.duets, self.method)
        left_out = [case for case in cases if case.id not in self.duets]
        self.left_out = SequentialTest(CaseDuets.of(left_out), self.method)
        # Who starts first in a server's first duet is drawn, and swapped from then on.
        self.head_first: dict[Hashable, bool] = defaultdict(lambda: self.random.random() < 0.5)
        inside = {name: job.sides(base, head) for name, job in self.jobs.items()}
        self.counts = Counts(self.instruments, {**self.sides, **inside})
        self.follow_up = FollowUp(self.instruments, self.sides, self._time_left)
        self.noise_tried = self.order = 0
        self.noise_seconds = 0.0
        self.found = Findings(
            self.test,
            means=self.follow_up.means,
            instructions=self.counts.of,
            method={**self.method.record(), **self._inprocess(), "seed": question.seed},
        )

    def run(self) -> Comparison:
        """Count, hold duets, follow up; save what there is, whatever happens."""
        count, total = len(self.duets), len(self.sides)
        seconds = self.first * self.durations.of(*self.duets) + EACH_SECONDS * len(self.jobs)
        self.reporter.begin(count + len(self.jobs), seconds, self.question.seconds)
        if count < total:
            few = f"{total - count} of {total} cases: they were not measured"
            self._note(f"the budget is too small for {few}")
        try:
            self._count()
            self._hold_duets()
            self._follow_up()
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
        total = math.inf if self.budget.total is None else self.budget.total
        ends = self.clock() + (durations.COUNTING if self.duets else 1.0) * total
        wanted = (*self.duets, *self.jobs)
        self.counts.count(wanted, lambda: ends - self.clock(), self.reporter)
        for case, duets in self.duets.items():
            if differ(self.counts.of(case)):
                for metric in duets.computed:
                    self.test.hint(case, metric)

    def _hold_duets(self) -> None:
        if self.duets:
            self.reporter.stage("duets", len(self.duets))
        while waiting := self.test.open():
            moved = [
                case
                for case, duets in self.duets.items()
                if self.question.follow_up
                and any(self.test.state(case, metric) is State.MOVED for metric in duets.metrics)
            ]
            ends = self.budget.duets_end(self.follow_up.seconds(*moved))
            if not self._round(waiting, ends):
                return
            for _ in range(2):  # so that a budget of few rounds has them as well
                self._duet_of_base(ends)

    def _follow_up(self) -> None:
        self.test.close()
        found = judge(self.test)
        moved = [case for case in found if any(one.verdict in MOVED for one in found[case])]
        if moved and self.question.follow_up:
            self.reporter.stage("closer look", len(moved))
            self.follow_up.launch(moved, self.reporter)

    def _round(self, cases: Sequence[str], ends: float) -> bool:
        """Do one duet of each case for which there is time; tell whether there was for any."""
        before = self.order
        groups: dict[Hashable, list[str]] = defaultdict(list)
        for case in self.random.sample(cases, len(cases)):
            groups[self.servers[case]].append(case)
        for group in groups.values():
            while group and self.clock() + self.durations.of(*group) > ends:
                group.pop()
            if group:
                self._launch(group, cases)
        return self.order > before

    def _launch(self, group: Sequence[str], waiting: Sequence[str]) -> None:
        """Do a duet of each of these cases on one launch of each side."""
        server = self.servers[group[0]]
        head_first = self.head_first[server]
        self.head_first[server] = not head_first
        pairs = [self.sides[case] for case in group]
        remaining = min(self.durations.until_looks(self.test, waiting), self._time_left())
        self.reporter.playing(pairs[0][1].case, self.order, remaining)
        started = utc_now()
        outcomes = self.instruments.duets(pairs, head_first=head_first)
        for case, outcome in zip(group, outcomes, strict=False):  # a failure ended the others
            duet = recorded(outcome, case, self.order, started, head_first=head_first)
            self.order += 1
            self.durations.observe(case, duet.seconds, len(outcomes))
            self.test.add(case, duet)
            self.reporter.played(duet)
        self._save(self._comparison("partial"))

    def _duet_of_base(self, ends: float) -> None:
        """Hold base against itself, while that takes a small share of the time."""
        # A case that computes all the time: its noise is what is reported.
        computing = [
            case
            for case in self.duets
            if self.duets[case].case.load.model is LoadModel.CLOSED
            and self.duets[case].case.endpoint.floor == 0
        ]
        case = min(computing or self.duets, key=self.durations.of)
        base, seconds = self.sides[case][0], self.durations.of(case)
        share = math.inf if self.budget.total is None else durations.NOISE * self.budget.total
        dear = self.noise_seconds + seconds > share or self.clock() + seconds > ends
        if dear or self.noise_tried == NOISE_DUETS or not self.test.open():
            return
        self.noise_tried += 1
        began, head_first = self.clock(), self.noise_tried % 2 == 0
        (outcome,) = self.instruments.duets([(base, base)], head_first=head_first)
        self.noise_seconds += self.clock() - began
        if not any(flag.name in DISTURBING for flags in outcome.flags.values() for flag in flags):
            figures = [outcome.metrics[side].get(NOISE_METRIC, 0.0) for side in ("base", "head")]
            if min(figures) > 0:
                self.found.noise.append(math.log(figures[1] / figures[0]))

    def _judged(self, status: Literal["complete", "partial"]) -> Comparison:
        """The comparison with its verdicts; nothing is measured any more."""
        self.test.close()
        self.found.judgements = judge(self.left_out) | judge(self.test)
        outcomes = {name: self.counts.outcome(name) for name in self.jobs}
        self.found.micro = tuple(
            inprocess.judged(self.jobs[name], found)
            for name, found in outcomes.items()
            if not isinstance(found, str)
        )
        self.found.absent = tuple(
            Missing(case=name, reason=found)
            for name, found in outcomes.items()
            if isinstance(found, str)
        )
        return self._comparison(status)

    def _inprocess(self) -> dict[str, float]:
        """What the comparison's file says of how jobs are judged."""
        return {"inprocess_floor": inprocess.FLOOR} if self.jobs else {}

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
