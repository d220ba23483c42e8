"""Whole comparisons, with instruments that measure nothing and advance their own clock."""

import math
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from comparing import FIGURES, duet
from duetbench.app.testbed import SideCase
from duetbench.core.comparison import (
    CaseComparison,
    Comparison,
    Duet,
    Finding,
    Instructions,
    SideRecord,
)
from duetbench.core.errors import FlagName, InterruptedRun
from duetbench.core.metrics import CPU
from duetbench.core.model import Case, Flag, Launch
from duetbench.counts.counted import CASE_SECONDS
from duetbench.host.console import Console
from duetbench.judge.comparison import Session, starting
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real, by_turns
from duetbench.judge.pairs import Mode, Pair, Side, Sides
from duetbench.judge.preparation import Extent
from synthetic import make_testbed, ok

SECONDS, SPREAD = 7.0, 0.007  # of a duet


@dataclass
class FakeInstruments(Real):
    """Instruments with their own clock.

    Attributes:
        slower: Growth of head's core time, by case (0.03 is 3 %).
        logs: Log ratios of the core time that each case has in turn, instead of that.
        failing: Cases whose head fails in every duet, and `failure`, how.
        stop: Number of the duet in which SIGINT arrives.
        uncounted: Why instructions are not counted.
        rates: Requests that a side answers in a second if it is launched alone.
    """

    slower: Mapping[str, float] = field(default_factory=dict)
    logs: Sequence[float] = ()
    failing: frozenset[str] = frozenset()
    failure: str = "one after another"
    stop: int | None = None
    uncounted: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    now: float = 1000.0
    duet_log: list[tuple[str, bool]] = field(default_factory=list)
    together: list[tuple[str, ...]] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    source: random.Random = field(default_factory=lambda: random.Random(3))

    def duets(self, pairs: Sequence[Pair], *, head_first: bool, order: int) -> tuple[Duet, ...]:
        if pairs[0].mode is Mode.ALONE:
            take = partial(by_turns, *pairs[0].sides, self.launch)
            return (take(head_first=head_first, order=order),)
        self.together.append(tuple(pair.case.id for pair in pairs))
        duets = [self._duet(p.case.id, head_first, order + n) for n, p in enumerate(pairs)]
        failed = [bool(duet.failed) for duet in duets]
        duets = duets[: failed.index(True) + 1] if True in failed else duets
        return tuple(duets)

    def _duet(self, name: str, head_first: bool, order: int) -> Duet:
        place = sum(name == other for other, _ in self.duet_log)
        self.duet_log.append((name, head_first))
        if self.stop == len(self.duet_log):
            raise InterruptedRun(signal.SIGINT)
        self.now += SECONDS
        how: dict[str, Any] = {"order": order, "head_first": head_first, "seconds": SECONDS}
        if name in self.failing:
            flag = Flag(name=FlagName.IMPOSSIBLE, detail=self.failure)
            return duet(name, head_flags=(flag,), **how)
        ratios = {metric: self.source.lognormvariate(0, SPREAD) for metric in FIGURES}
        ratios[CPU] *= 1 + self.slower.get(name, 0.0)
        ratios["throughput"] /= 1 + self.slower.get(name, 0.0)
        if self.logs:
            ratios[CPU] = math.exp(self.logs[place % len(self.logs)])
        return duet(name, ratios, **how)

    def launch(self, part: SideCase) -> Launch:
        """Launch a side that answers so many requests a second, of 2 ms of CPU each."""
        self.now += 5
        name = part.testbed.subject.root.name
        self.launches.append(name)
        rate = self.rates.get(name, 1000.0) * self.source.lognormvariate(0, 0.01)
        cpu = 0.002 * self.source.lognormvariate(0, 0.01)
        figures = {"throughput": rate, "response_p50": 32 / rate, CPU: cpu, "pss_steady": 5e7}
        return ok(part.case.id, 0, figures).model_copy(update={"seconds": 5.0})

    def instructions(
        self, sides: tuple[SideCase, SideCase], limit: float, ends: float = 0.0
    ) -> Instructions | str:
        assert limit > 0
        assert ends > self.now
        case = sides[1].case.id
        self.counted.append(case)
        if self.uncounted:
            return self.uncounted
        if self.now + CASE_SECONDS > ends:
            return "no time left"
        self.now += 15
        grown = 1 + self.slower.get(case, 0.0)
        return Instructions(base=300_000, head=300_000 * grown, spread=1e-5)


class SilentReporter(Reporter):
    """A reporter that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.duets: list[Duet] = []
        self.notes: list[str] = []
        self.ended = 0

    def report(self, duet: Duet) -> None:
        self.duets.append(duet)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def end(self) -> None:
        self.ended += 1


def side(name: str, cases: tuple[Case, ...]) -> Side:
    record = SideRecord(
        label=name, kind="revision", commit="3f2a9c17" * 5, stacks=(), interpreters=()
    )
    folder = Path(name)
    return Side(record=record, testbed=make_testbed(folder), cases=cases)


def make_pairs(base: Side, head: Side, reason: str = "") -> tuple[Pair, ...]:
    """Pair the cases of both sides, which are the same."""
    return tuple(
        Pair(SideCase(case, base.testbed), SideCase(case, head.testbed), reason)
        for case in head.cases
    )


def note_sessions(
    patch: pytest.MonkeyPatch,
    finding: Finding | None = None,
    end: Callable[[Comparison], object] = id,
) -> list[Session]:
    """Let sessions measure nothing, and find this for each case; return a list that each enters.

    `end` is called at the end of each.
    """
    sessions: list[Session] = []

    def measure(session: Session, _: Path) -> Comparison:
        sessions.append(session)
        pairs = session.sides.pairs if finding else ()
        cases = tuple(CaseComparison(case=p.case, because=p.reason) for p in pairs)
        found = (finding.model_copy(update={"case": p.case.id}) for p in pairs if finding)
        update = {"cases": cases, "findings": tuple(found), "notes": ()}
        made = session.comparison("complete").model_copy(update=update)
        end(made)
        return made

    patch.setattr(Session, "measure", measure)
    return sessions


def compared_by(
    fake: FakeInstruments,
    cases: Sequence[Case],
    folder: Path,
    seconds: float | None,
    reporter: SilentReporter | None = None,
    only: Literal["", "effects", "counts"] = "",
    *,
    start: bool = False,
    pairs: tuple[Pair, ...] = (),
    **more: Any,
) -> Comparison:
    """Compare two packages, or what differs within the pairs, by requests or by starts."""
    base, head = (side(name, tuple(cases)) for name in ("base", "head"))
    cross = any(pair.base.case != pair.head.case for pair in pairs)
    pairs = pairs or make_pairs(base, head, "a package")
    pairs = starting(pairs) if start else pairs
    sides = Sides(base, head, folder, pairs, (), untouched=2, cross=cross)
    sentence, extent = reporter or SilentReporter(), Extent(seconds=seconds, only=only, start=start)
    session = Session(sides, extent, sentence, fake, clock=lambda: fake.now, **more)
    return session.measure(folder)
