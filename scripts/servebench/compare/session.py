"""One comparison from its first duet to its verdicts, in bounded time.

Instruction counts of all cases, rounds of screening over those that are open, a confirmation of
what seems to have moved, and a closer look (sequential launches) at what did: `decide` says which
cases need another duet, `budget` whether there is time for it. Every duet is saved as soon as it is
over.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from servebench import paths
from servebench.compare import budget, keeping, pace, verdicts
from servebench.compare.budget import Budget
from servebench.compare.closer import CloserLook
from servebench.compare.counts import Counts
from servebench.compare.decide import Confirmation, Screening
from servebench.compare.draft import Draft, Header, Judgements
from servebench.compare.inside import Inside
from servebench.compare.instruments import Instruments, Real
from servebench.compare.method import Method
from servebench.compare.model import Comparison, Duet, Judgement, Stage, Verdict
from servebench.compare.pace import Pace
from servebench.compare.pairing import Pair
from servebench.compare.player import Part
from servebench.compare.processes import Processes, RealProcesses
from servebench.compare.progress import Reporter
from servebench.compare.sides import Side
from servebench.compare.touched import Touched
from servebench.errors import RecordError
from servebench.flags import DISTURBING
from servebench.model import Case, LoadModel
from servebench.runner import utc_now
from servebench.signals import InterruptedRun

NOISE_DUETS: Final = 5
"""Duets of base against itself: enough to tell a spread of 0.7 % from one of 2 %."""

NOISE_METRIC: Final = "server_cpu_per_request"


class InterruptedComparison(InterruptedRun):
    """The comparison was asked to stop; it carries what was found until then, saved already."""

    def __init__(self, signum: int, comparison: Comparison) -> None:
        super().__init__(signum)
        self.comparison = comparison


def compare(
    base: Side,
    head: Side,
    touched: Touched,
    budget_seconds: float | None,
    seed: int,
    reporter: Reporter,
    *,
    header: Header | None = None,
    method: Method | None = None,
    instruments: Instruments | None = None,
    processes: Processes | None = None,
    folder: Path | None = None,
    closely: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Compare head with base.

    Args:
        base: The one side, ready to be launched.
        head: The other.
        touched: The cases and in-process benchmarks to judge; at least one.
        budget_seconds: Time for all of it, from now; None: until all is decided.
        seed: Of the order of the duets.
        reporter: Told of everything.
        header: What else the record says.
        method: How to decide.
        instruments: What to measure with; by default real servers.
        processes: What to run in-process benchmarks with; by default real processes.
        folder: Where the comparison is kept; see `keeping`.
        closely: Whether to take absolute figures of what moved; no verdict depends on them.
        clock: Seconds since some moment.

    Returns:
        The complete comparison, which has been saved.

    Raises:
        InterruptedComparison: The partial one has been saved, and is attached.
        RecordError: The comparison could not be saved at its end.
    """
    if not touched.pairs and not touched.targets:
        raise ValueError("nothing to judge: see Touched.nothing")
    method, began = method or Method(), clock()
    inside = Inside(
        touched.targets,
        processes or RealProcesses(base, head),
        method,
        random.Random(seed),  # noqa: S311 - an order that can be repeated
        clock,
    )
    kept = budget.inside(budget_seconds, inside.seconds(), alone=not touched.pairs)
    session = _Session(
        draft=Draft(
            base=base,
            head=head,
            touched=touched,
            header=header or Header(),
            budget_seconds=budget_seconds,
            method={**method.record(), **inside.record(), "seed": seed},
            started=utc_now(),
        ),
        method=method,
        budget=Budget(None if budget_seconds is None else budget_seconds - kept, began),
        seed=seed,
        reporter=reporter,
        instruments=instruments or Real(paths.state_dir() / "logs"),
        inside=inside,
        folder=folder,
        closely=closely,
        clock=clock,
    )
    return session.run()


@dataclass
class _Session:
    """A comparison under way."""

    draft: Draft
    method: Method
    budget: Budget
    seed: int
    reporter: Reporter
    instruments: Instruments
    inside: Inside
    folder: Path | None
    closely: bool
    clock: Callable[[], float]
    notes: list[str] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    noise_tried: int = 0
    order: int = 0
    confirmation: Confirmation | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - an order that can be repeated
        self.pairs = {pair.head.id: pair for pair in self.draft.touched.pairs}
        cases = [pair.head for pair in self.draft.touched.pairs]
        self.pace = Pace(cases)
        chosen = budget.affordable(
            cases, self._seconds, self.method.screening.counts[0], self.budget.total
        )
        self.screening = Screening(chosen, self.method)
        taken = {case.id for case in chosen}
        self.left_out = Screening([c for c in cases if c.id not in taken], self.method)
        # Who starts first in a case's first duet is drawn, and swapped from then on.
        self.head_first = {case.id: self.random.random() < 0.5 for case in cases}
        self.counts = Counts(self.instruments, self._parts)
        self.closer = CloserLook(self.instruments, self._parts, self._time_left)

    def run(self) -> Comparison:
        """Screen, confirm, look closer; save what there is, whatever happens."""
        first = self.method.screening.counts[0]
        seconds = sum(first * self.pace.seconds(case) for case in self.screening.duets)
        self.reporter.begin(
            len(self.screening.duets) + len(self.inside.targets),
            seconds + self.inside.seconds(),
            self.draft.budget_seconds,
        )
        if self.left_out.duets:
            self._note(
                f"the budget is too small for {len(self.left_out.duets)} of {len(self.pairs)} "
                "cases: they were not measured"
            )
        try:
            self._count()
            self._screen()
            self._confirm()
            self._look_closer()
            self._look_inside()
        except InterruptedRun as interruption:
            self._note(f"interrupted by {interruption} at {utc_now()}")
            partial = self._judged("partial")
            self._save(partial)
            raise InterruptedComparison(interruption.signal, partial) from interruption
        finally:
            self.reporter.end()
        complete = self._judged("complete")
        keeping.save(complete, self.folder)
        keeping.forget(self.folder)
        return complete

    def _count(self) -> None:
        """Count instructions first: they tell where to look, in a small share of the time."""
        cases = tuple(self.screening.duets)
        if not cases:
            return
        total, began = self.budget.total, self.clock()
        ends = math.inf if total is None else began + budget.COUNTING * total
        self.counts.count(cases, lambda: ends - self.clock(), self.reporter)
        for case in cases:
            if direction := self.counts.moved(case):
                self.screening.hint(case, direction)

    def _screen(self) -> None:
        if self.screening.duets:
            self.reporter.stage("screening", len(self.screening.duets))
        while waiting := self.screening.open():
            ends = self.budget.screening_ends(
                confirming=pace.confirming(self.pace, self.screening),
                closer=self.closer.seconds(pace.seemingly_moved(self.screening)),
            )
            if not self._round(waiting, "screening", ends):
                return
            self._play_noise(ends)

    def _confirm(self) -> None:
        self.screening.close()
        self.confirmation = Confirmation(self.screening)
        if self.confirmation.duets:
            self.reporter.stage("confirmation", len(self.confirmation.duets))
        while waiting := self.confirmation.open():
            ends = self.budget.confirmation_ends(
                closer=self.closer.seconds(self.confirmation.duets)
            )
            wanted = pace.needs(self.pace, self.confirmation, waiting)
            # Half a confirmation of each would confirm none: first come, first finished.
            now = budget.prefix(waiting, wanted, ends - self.clock())
            if not self._round(now, "confirmation", ends):
                return

    def _look_closer(self) -> None:
        if self.confirmation is not None:
            self.confirmation.close()
        found = verdicts.judge(self.screening, self.confirmation)
        reported = [case for case in found if _moved(found[case])]
        if reported and self.closely:
            self.reporter.stage("closer look", len(reported))
            self.closer.look(reported, self.reporter)

    def _look_inside(self) -> None:
        """Compare in-process benchmarks, in the time that was kept for them or is left."""
        ends, total = math.inf, self.draft.budget_seconds
        if total is not None:
            ends = self.budget.began + total
        self.inside.look(ends, self.reporter)

    def _round(self, cases: Sequence[str], stage: Stage, ends: float) -> bool:
        """Play one duet of each case for which there is time; tell whether there was for any."""
        played = False
        for case in self.random.sample(cases, len(cases)):
            if self.clock() + self.pace.seconds(case) <= ends:
                self._play(case, stage, cases)
                played = True
        return played

    def _play(self, case: str, stage: Stage, waiting: Sequence[str]) -> None:
        pair, head_first = self.pairs[case], self.head_first[case]
        self.head_first[case] = not head_first
        deciding = self.screening if stage == "screening" else self.confirmation
        if deciding is None:
            raise RuntimeError("a confirmation follows a screening")
        looks = getattr(self.method, stage)
        remaining = self.pace.until_looks(deciding.duets, waiting, looks)
        self.reporter.playing(pair.head, self.order, min(remaining, self._time_left()))
        started, base, head = utc_now(), *self._parts(case)
        outcome = self.instruments.duet(base, head, head_first=head_first)
        duet = Duet(
            case=case,
            stage=stage,
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
        self.pace.observe(case, duet.seconds)
        deciding.add(duet)
        self.reporter.played(duet)
        self._save(self._comparison("partial", {}))

    def _play_noise(self, ends: float) -> None:
        """Play base against itself, one duet a round, where that costs little."""
        pair = _representative(self.draft.touched.pairs)
        seconds = self.pace.seconds(pair.head.id)
        total = self.budget.total
        dear = total is not None and NOISE_DUETS * seconds > budget.NOISE * total
        enough = self.noise_tried == NOISE_DUETS or not self.screening.open()
        if dear or enough or self.clock() + seconds > ends:
            return
        self.noise_tried += 1
        part, _ = self._parts(pair.head.id)
        outcome = self.instruments.duet(part, part, head_first=self.noise_tried % 2 == 0)
        if not any(flag.name in DISTURBING for flags in outcome.flags.values() for flag in flags):
            figures = [outcome.metrics[side].get(NOISE_METRIC, 0.0) for side in ("base", "head")]
            if min(figures) > 0:
                self.noise.append(math.log(figures[1] / figures[0]))

    def _judged(self, status: Literal["complete", "partial"]) -> Comparison:
        """The comparison with its verdicts; nothing is measured any more."""
        self.screening.close()
        if self.confirmation is None:
            self.confirmation = Confirmation(self.screening)
        self.confirmation.close()
        found = verdicts.judge(self.screening, self.confirmation)
        return self._comparison(status, verdicts.judge(self.left_out) | found, judged=True)

    def _comparison(
        self,
        status: Literal["complete", "partial"],
        judgements: Judgements,
        *,
        judged: bool = False,
    ) -> Comparison:
        micro, absent = self.inside.judged() if judged else ((), ())
        return self.draft.comparison(
            status=status,
            screening=self.screening,
            confirmation=self.confirmation,
            judgements=judgements,
            seen=self.closer.seen,
            counted=self.counts.of,
            noise=self.noise,
            notes=(*self.notes, *self.inside.notes),
            wall_seconds=self.clock() - self.budget.began,
            micro=micro,
            absent=absent,
        )

    def _parts(self, case: str) -> tuple[Part, Part]:
        pair = self.pairs[case]
        return Part(pair.base, self.draft.base.rig), Part(pair.head, self.draft.head.rig)

    def _seconds(self, case: Case) -> float:
        return self.pace.seconds(case.id)

    def _time_left(self) -> float:
        return self.budget.ends - self.clock()

    def _note(self, sentence: str) -> None:
        self.notes.append(sentence)
        self.reporter.note(sentence)

    def _save(self, comparison: Comparison) -> None:
        """A full disk must not end the comparison: what was measured is still in memory."""
        try:
            keeping.save(comparison, self.folder)
        except RecordError as error:
            self.reporter.note(f"not saved yet, going on: {error}")


def _moved(judgements: Sequence[Judgement]) -> bool:
    return any(one.verdict in {Verdict.SLOWER, Verdict.FASTER} for one in judgements)


def _representative(pairs: Sequence[Pair]) -> Pair:
    """The first case that computes all the time, or the first: its noise is what is reported."""
    return next(
        (
            pair
            for pair in pairs
            if pair.head.load.model is LoadModel.CLOSED and pair.head.endpoint.floor == 0
        ),
        pairs[0],
    )
