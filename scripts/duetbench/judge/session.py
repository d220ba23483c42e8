"""One comparison from its first duet to its verdicts and its record, in bounded time.

Instruction counts of all cases and jobs inside the process, since they repeat where clocks scatter;
then rounds of duets over the cases that are open (`duet_loop`): `sequential_test` says which are.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from duetbench.core import __version__
from duetbench.core.errors import RecordError
from duetbench.core.metrics import CPU, MATERIAL, Concern
from duetbench.core.model import Missing
from duetbench.core.units import utc_now
from duetbench.host.signals import InterruptedRun
from duetbench.judge import counted, growth
from duetbench.judge.counted import EACH_SECONDS, Counts, Job, differ
from duetbench.judge.duet_loop import Instruments, Loop, Reporter
from duetbench.judge.events import events, together
from duetbench.judge.pairs import SIDES, Pair, Sides, explaining
from duetbench.judge.priors import Priors
from duetbench.judge.sequential_test import SequentialTest, judge, judge_beside
from duetbench.judge.statistics import Method
from duetbench.project import tools
from duetbench.store import kinds
from duetbench.store.comparison import (
    METHOD_VERSION,
    CaseComparison,
    Comparison,
    Duet,
    Event,
    weighed,
)

COUNTING: Final = 0.15
"""Share of the budget that instruction counts may take before the first duet."""

FIRST_LOOK: Final = 0.75
"""Share of the budget in which all chosen cases must reach their first look."""

Ending = Literal["complete", "partial"]


@dataclass(frozen=True, slots=True)
class Question:
    """Two sides, with the cases to compare, and the time for it."""

    sides: Sides
    jobs: tuple[Job, ...] = ()  # what is counted beside the cases
    seconds: float | None = None  # time for all of it; None: until all is decided
    seed: int = 1  # of the order of the duets
    material: Mapping[Concern, float] = field(default_factory=dict)  # instead of `metrics.MATERIAL`
    start: bool = False  # how the servers start, and not what requests cost: see `pairs.starting`
    reproduce: tuple[str, ...] = ()  # commands for a terminal
    notes: tuple[str, ...] = ()


class InterruptedComparison(InterruptedRun):
    """The comparison was asked to stop; it carries what was found until then, saved already."""

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
    """Compare head with base, from now on; its file is in `folder`, or beside the logs.

    Returns:
        The complete comparison, which has been saved.

    Raises:
        InterruptedComparison: The partial one has been saved, and is attached.
        RecordError: The comparison could not be saved at its end.
    """
    session = _Session(question, reporter, instruments, clock)
    try:
        session.run()
    except InterruptedRun as interruption:
        session.note(f"interrupted by {interruption} at {utc_now()}")
        partial = session.comparison("partial")
        try:
            kinds.save_comparison(partial, folder)
        except RecordError as error:  # a full disk hides nothing that was found
            reporter.note(f"not saved: {error}")
        raise InterruptedComparison(interruption.signal, partial) from interruption
    finally:
        reporter.end()
    complete = session.comparison("complete")
    kinds.save_comparison(complete, folder)
    return complete


def unmeasured(question: Question) -> Comparison:
    """The record of a comparison in which there is nothing to judge, and why."""
    return _record(question, "complete", utc_now(), notes=(question.sides.nothing,))


class _Session:
    """A comparison under way: the loop's rule, which measures a case until it is decided."""

    def __init__(
        self,
        question: Question,
        reporter: Reporter,
        instruments: Instruments,
        clock: Callable[[], float],
    ) -> None:
        self.question, self.reporter, self.instruments = question, reporter, instruments
        self.clock = clock
        self.method = Method(material={**MATERIAL, **question.material})
        self.started, self.began = utc_now(), clock()
        self.seconds = math.inf if question.seconds is None else question.seconds
        self.ends = self.began + self.seconds
        self.every = every = {pair.case.id: pair for pair in question.sides.pairs}
        self.jobs = {job.series: job for job in question.jobs}
        self.loop = Loop(instruments, reporter, question.seed, clock, turns=not question.start)
        self.first = self.method.admitted
        chosen = affordable(list(every.values()), self.loop.seconds.of, self.first, self.seconds)
        self.pairs = {name: pair for name, pair in every.items() if pair in chosen}
        machine = question.sides.head.testbed.machine.id
        self.priors = Priors.of_machine(machine, question.sides.repository / "results")
        duets = {name: pair.duets for name, pair in self.pairs.items()}
        self.test = SequentialTest(duets, self.method, self.priors.of)
        inside = {name: job.sides for name, job in self.jobs.items()}
        served = {name: pair.sides for name, pair in every.items()}
        self.counts = Counts(instruments.instructions, {**served, **inside})
        self.notes: list[str] = []

    def run(self) -> None:
        """Count, then play duets."""
        seconds = self.first * self.loop.seconds.of(*self.pairs.values())
        seconds += EACH_SECONDS * len(self.jobs)
        self.reporter.begin(len(self.pairs) + len(self.jobs), seconds, self.question.seconds)
        if not self.question.start:
            self._count()
        while self.loop.play(self, self.ends) and self._admit():
            pass
        if lost := len(self._waiting()):
            few = f"{lost} of {len(self.every)} cases: they were not measured"
            self.note(f"the budget is too small for {few}")

    def open(self) -> Sequence[Pair]:
        return [self.pairs[case] for case in self.test.open()]

    def missing(self, pair: Pair) -> int:
        return self.method.looks.missing(len(pair.duets.usable))

    def add(self, pair: Pair, duet: Duet) -> None:
        self.test.add(pair.case.id, duet)
        self._soak(pair)

    def _soak(self, pair: Pair) -> None:
        """Load alone, while there is time, what seems to keep memory for every request."""
        shortest, longest = growth.SECONDS
        left = self.ends - self.clock() - growth.AROUND
        later = left - self.loop.seconds.of(pair) >= shortest
        if later and len(pair.duets.all) < growth.LEAST and pair.case.id in self.test.open():
            return
        for name, part in zip(SIDES, pair.sides, strict=True):
            found = pair.duets.growth.get(name)
            seems = found is not None and found.course == "undecided" and found.curve is None
            left = self.ends - self.clock() - growth.AROUND
            if seems and left >= shortest:
                self.reporter.note(f"{pair.case.id}: {name} is loaded alone: does its memory grow?")
                pair.duets.soak(name, self.instruments.soak(part, name, min(longest, left)))
                self.test.take(pair.case.id, pair.duets)
                found = pair.duets.growth[name]
                self.reporter.note(f"{name} alone: {found.course}, {found.words} per request")

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)
        self.reporter.note(sentence)

    def comparison(self, status: Ending) -> Comparison:
        """The comparison with its verdicts; nothing is measured any more."""
        self.test.close()
        left_out = {pair.case.id: pair.duets for pair in self._waiting()}
        judgements = judge(SequentialTest(left_out)) | judge(self.test)
        asked = explaining(self.test.samples, self.priors.slopes)
        witnesses = judge_beside(self.test, asked)
        method: dict[str, Any] = {
            **self.method.record(),
            "priors": str(self.priors),
            "seed": self.question.seed,
        }
        if self.jobs:
            method["inprocess_floor"] = counted.FLOOR
        micro, absent = [], []
        for name, job in self.jobs.items():
            counts = self.counts.outcome(name)
            if isinstance(counts, str):
                absent.append(Missing(case=name, reason=counts))
            else:
                micro.append(job.judge(counts, method))
        cases = [
            CaseComparison(
                case=pair.case,
                because=pair.reason,
                commands=pair.head.testbed.commands(pair.case),
                judgements=tuple(weighed(one, method) for one in judgements[name]),
                witnesses=witnesses.get(name, ()),
                wake_up=asked[name].price if name in asked else None,
                duets=tuple(pair.duets.all),
                instructions=self.counts.of(name),
                growth=pair.duets.growth,
                absolute_base=pair.duets.means("base"),
                absolute_head=pair.duets.means("head"),
            )
            for name, pair in self.every.items()
        ]
        return _record(
            self.question,
            status,
            self.started,
            wall_seconds=self.clock() - self.began,
            cases=tuple(cases),
            joint=together(self.test.estimates(CPU), CPU, self.method.rate * self.method.joint),
            micro=tuple(micro),
            absent=tuple(absent),
            method=method,
            notes=tuple(self.notes),
        )

    def _count(self) -> None:
        """Count instructions first: they tell where to look, in a small share of the time."""
        ends = self.clock() + (COUNTING if self.pairs else 1.0) * self.seconds
        cases = [name for name, pair in self.pairs.items() if not pair.executes_alike]
        wanted = (*cases, *self.jobs)
        self.counts.count(wanted, lambda: ends - self.clock(), self.reporter.note)
        for case, pair in self.pairs.items():
            if differ(self.counts.of(case)):
                for metric in pair.duets.computed:
                    self.test.hint(case, metric)

    def _waiting(self) -> list[Pair]:
        """The cases that the budget has no room for so far."""
        return [pair for name, pair in self.every.items() if name not in self.pairs]

    def _admit(self) -> bool:
        """Give time that decided and void cases have left to others; False where none has room."""
        left, least = self.ends - self.clock(), self.method.admitted
        more = affordable(self._waiting(), self.loop.seconds.of, least, left / FIRST_LOOK)
        if not more or least * self.loop.seconds.of(*more) > left:
            return False
        for pair in more:
            self.pairs[pair.case.id] = pair
            self.test.take(pair.case.id, pair.duets)
        return True


def affordable(
    pairs: Sequence[Pair], seconds: Callable[..., float], looks: int, total: float
) -> list[Pair]:
    """Choose the cases that can all reach their first look, spread over kinds; at least one.

    Half a look at every case would decide none. The others are reported as not measured.
    `seconds` are those of a round of cases.
    """
    ranks: dict[Hashable, Iterator[int]] = defaultdict(count)
    chosen: list[Pair] = []
    # Each kind's first comes before any kind's second.
    for pair in sorted(pairs, key=lambda pair: next(ranks[_kind(pair)])):
        if not chosen or looks * seconds(*chosen, pair) <= FIRST_LOOK * total:
            chosen.append(pair)
    return chosen


def _kind(pair: Pair) -> Hashable:
    case = pair.case
    return case.experiment, case.python, case.server, case.endpoint.interface


def _record(
    question: Question,
    status: Ending,
    started: str,
    *,
    cases: tuple[CaseComparison, ...] = (),
    joint: Event | None = None,
    absent: tuple[Missing, ...] = (),
    method: Mapping[str, float | int | str] | None = None,
    notes: tuple[str, ...] = (),
    **measured: Any,
) -> Comparison:
    """Write the record of what was found; `absent` are benchmarks that were not counted."""
    sides = question.sides
    base, head = sides.base, sides.head
    # Names sort by time.
    moment = datetime.fromisoformat(started).astimezone(UTC)
    return Comparison(
        id=f"{moment:%Y%m%dT%H%M%SZ}-compare-{(head.record.commit or 'nocommit')[:8]}",
        status=status,
        started=started,
        finished=utc_now() if status == "complete" else None,
        budget_seconds=question.seconds,
        duetbench=__version__,
        oha=tools.oha_version(head.testbed.oha),
        machine=head.testbed.machine,
        cross=sides.cross,
        start=question.start,
        base=base.record,
        head=head.record,
        packages=sides.packages,
        planned=len(sides.pairs),
        untouched=sides.untouched,
        missing=(*sides.missing, *absent),
        cases=cases,
        events=(*([joint] if joint else []), *events(cases)),
        method={"version": METHOD_VERSION, **(method or {})},
        reproduce=question.reproduce,
        notes=(*question.notes, *sides.notes, *notes),
        **measured,
    )
