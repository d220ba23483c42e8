"""The record of a comparison, built from what was measured until any moment.

Many cases that moved alike are one event: a release that makes every case of a server slower is one
piece of news, not forty rows. What the moved cases share is looked for among a few factors, and the
narrowest one that explains them is named: "granian" says more than "the machine".
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import geometric_mean
from typing import Final, Literal

import numpy as np

from duetbench.core import __version__
from duetbench.core.model import Case, Missing, Verdict
from duetbench.core.units import utc_now
from duetbench.judge import statistics
from duetbench.judge.affected import Affected
from duetbench.judge.decide import SequentialTest, seconds_to_decide
from duetbench.judge.pairs import Pair
from duetbench.judge.sides import Side
from duetbench.project import oha
from duetbench.store.comparison import (
    METHOD_VERSION,
    CaseComparison,
    Comparison,
    Event,
    Instructions,
    Judgement,
    MicroComparison,
)

FEWEST: Final = 3
"""Cases that make an event."""

WITHIN: Final = 0.8
"""Share of the judged cases with a factor's value that must have moved alike."""

EXPLAINED: Final = 0.9
"""Share of all cases that moved alike that the factor's value must hold."""

Factor = Literal["machine", "interpreter", "interface", "server", "stack", "experiment"]

FACTORS: Final[dict[Factor, Callable[[Case], str]]] = {
    "experiment": lambda case: case.experiment,
    "stack": lambda case: case.stack,
    "server": lambda case: case.server,
    "interface": lambda case: case.endpoint.interface,
    "interpreter": lambda case: case.python,
    "machine": lambda _: "all",
}
"""Properties that cases can share. Of two that hold the same cases, the earlier one is named."""


MOVED: Final = (Verdict.SLOWER, Verdict.FASTER)


@dataclass(frozen=True, slots=True)
class Question:
    """Two sides, the cases to compare, and the time for it."""

    base: Side
    head: Side
    affected: Affected
    seconds: float | None = None  # time for all of it; None: until all is decided
    seed: int = 1  # of the order of the duets
    cross: bool = False  # whether two interpreters are compared
    reproduce: tuple[str, ...] = ()  # commands for a terminal
    notes: tuple[str, ...] = ()
    follow_up: bool = True  # take absolute figures of what moved; no verdict depends on them


@dataclass(slots=True)
class Findings:
    """Measurements and judgements of a question so far.

    By case id: judgements, none while they are open, and means of sequential launches, of base and
    of head.
    """

    test: SequentialTest
    judgements: dict[str, tuple[Judgement, ...]] = field(default_factory=dict)
    means: Mapping[str, tuple[dict[str, float], dict[str, float]]] = field(default_factory=dict)
    instructions: Callable[[str], Instructions | None] = lambda _: None
    noise: list[float] = field(default_factory=list)  # log ratios of base against itself
    notes: list[str] = field(default_factory=list)
    micro: tuple[MicroComparison, ...] = ()
    absent: tuple[Missing, ...] = ()  # in-process benchmarks that were not counted
    method: Mapping[str, float | int | str] = field(default_factory=dict)
    started: str = field(default_factory=utc_now)


def build(
    question: Question, findings: Findings, status: Literal["complete", "partial"], seconds: float
) -> Comparison:
    """Write the record of what was found within so many seconds."""
    base, head, affected = question.base, question.head, question.affected
    cases = tuple(_case(question, findings, pair) for pair in affected.pairs)
    # Names sort by time.
    moment = datetime.fromisoformat(findings.started).astimezone(UTC)
    return Comparison(
        id=f"{moment:%Y%m%dT%H%M%SZ}-compare-{(head.record.commit or 'nocommit')[:8]}",
        status=status,
        started=findings.started,
        finished=utc_now() if status == "complete" else None,
        wall_seconds=seconds,
        budget_seconds=question.seconds,
        duetbench=__version__,
        oha=oha.version(head.testbed.oha),
        machine=head.testbed.machine,
        cross=question.cross,
        base=base.record,
        head=head.record,
        packages=affected.packages,
        planned=len(affected.pairs),
        untouched=affected.unaffected,
        missing=(*affected.missing, *findings.absent),
        cases=cases,
        micro=findings.micro,
        events=events(cases),
        noise=spread(findings.noise),
        method={"version": METHOD_VERSION, **findings.method},
        reproduce=question.reproduce,
        notes=(*question.notes, *affected.notes, *findings.notes),
    )


def unmeasured(question: Question) -> Comparison:
    """The record of a comparison in which there is nothing to judge, and why."""
    findings = Findings(SequentialTest({}), notes=[question.affected.nothing])
    return build(question, findings, "complete", 0.0)


def spread(logs: Sequence[float]) -> float | None:
    """Standard deviation of log ratios; None for fewer than three."""
    return None if len(logs) < 3 else statistics.sample(np.asarray(logs)).sd


def _case(question: Question, findings: Findings, pair: Pair) -> CaseComparison:
    case, samples = pair.head.id, findings.test.samples.get(pair.head.id)
    judgements = findings.judgements.get(case, ())
    undecided = samples and any(
        judgement.verdict is Verdict.INCONCLUSIVE for judgement in judgements
    )
    base, head = findings.means.get(case, ({}, {}))
    return CaseComparison(
        case=pair.head,
        because=pair.reason,
        commands=question.head.testbed.commands(pair.head),
        judgements=judgements,
        duets=tuple(samples.all) if samples else (),
        instructions=findings.instructions(case),
        absolute_base=base,
        absolute_head=head,
        seconds_to_decide=seconds_to_decide(case, findings.test) if undecided else None,
    )


def events(cases: Sequence[CaseComparison]) -> tuple[Event, ...]:
    """Find the events of a comparison: at most one per metric and direction, widest first."""
    judged: dict[str, list[tuple[Case, Judgement]]] = defaultdict(list)
    for case in cases:
        for judgement in case.judgements:
            if judgement.verdict is not Verdict.NOT_COMPARABLE:
                judged[judgement.metric].append((case.case, judgement))
    every = [_event(many, verdict) for many in judged.values() for verdict in MOVED]
    return tuple(sorted(filter(None, every), key=lambda event: -len(event.cases)))


def _event(judged: Sequence[tuple[Case, Judgement]], verdict: Verdict) -> Event | None:
    """The event of a metric and direction, if there is one."""
    moved = [(case, one) for case, one in judged if one.verdict is verdict]
    toward = {one.ratio is not None and one.ratio > 1 for _, one in moved}
    counting = [case for case, one in judged if not _undecided(one, toward)]
    explaining: list[tuple[int, Factor, str, list[tuple[Case, Judgement]]]] = []
    for factor, value_of in FACTORS.items():
        for value in dict.fromkeys(value_of(case) for case, _ in moved):
            held = [(case, one) for case, one in moved if value_of(case) == value]
            around = sum(value_of(case) == value for case in counting)
            if len(held) >= max(FEWEST, WITHIN * around, EXPLAINED * len(moved)):
                explaining.append((around, factor, value, held))
    if not explaining:
        return None
    _, factor, value, held = min(explaining, key=lambda one: one[0])
    ratio, low, high = _together(one for _, one in held)
    return Event(
        factor=factor, value=value, metric=held[0][1].metric, verdict=verdict,
        ratio=ratio, low=low, high=high, cases=tuple(case.id for case, _ in held),
    )  # fmt: skip


def _undecided(one: Judgement, toward: set[bool]) -> bool:
    """Whether a case is for lack of time neither for nor against: open, and it points there too."""
    if one.low is None or one.high is None:
        return one.verdict is Verdict.INCONCLUSIVE
    points = (one.low > 1 and True in toward) or (one.high < 1 and False in toward)
    return one.verdict is Verdict.INCONCLUSIVE and points


def _together(judged: Iterable[Judgement]) -> tuple[float, float, float]:
    """Geometric means over cases: of the ratio, and of either end of its interval.

    An interval of the mean alone, as if the cases were independent and their duets of a fixed
    number, would be too narrow: each case ends early where it looks large, those that moved were
    chosen for it, and both push all cases the same way. Of twenty cases slower by 1 % such an
    interval held the truth in three of four tries only.
    """
    ends = [
        (judgement.ratio, judgement.low, judgement.high)
        for judgement in judged
        if judgement.ratio and judgement.low and judgement.high
    ]
    ratio, low, high = (geometric_mean(values) for values in zip(*ends, strict=True))
    return ratio, low, high
