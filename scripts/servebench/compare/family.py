"""Which in-process benchmarks moved: judged together, from processes of both sides.

The method is that of the duets (`method`), with a process of each side in a duet's place and one
figure, the time of a call. All benchmarks of a comparison are one family: Benjamini-Hochberg over
those that are screened, and over those that are confirmed. It is a family of its own, so that a
comparison in which nothing changed has twice the chances for a false verdict that its duets alone
have: 2 * 0.5 % at most, by the arithmetic in `method`.

The relevance floor is 1 %, five times that of the duets, because the process is the sample: where
its memory comes to lie and how its hashes fall moves a figure by as much, on the same code. "No
change" is said of what is within 3 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from servebench.compare import inprocess, statistics
from servebench.compare.decide import State
from servebench.compare.evidence import Evidence, alone, weigh
from servebench.compare.inprocess import Target
from servebench.compare.method import Method
from servebench.compare.model import (
    SEARCHED,
    Judgement,
    MicroComparison,
    Missing,
    Stage,
    Verdict,
)
from servebench.compare.processes import Played
from servebench.compare.samples import FAILURES
from servebench.compare.statistics import Direction, Logs, Looks

FLOOR: Final = inprocess.FLOOR
TOLERANCE: Final = inprocess.TOLERANCE
UNIT: Final = "s"

NO_TIME: Final = "no time for a process of each side"
UNCONFIRMED: Final = f"{SEARCHED}; no time was left for fresh processes"
REFUTED: Final = f"{SEARCHED}; fresh processes did not confirm it"


class Family:
    """The benchmarks of one stage, until each is decided or out of time."""

    def __init__(self, targets: Mapping[Target, Direction], method: Method, stage: Stage) -> None:
        """Begin a stage.

        Args:
            targets: With the direction in which each is looked for a change; 0: either.
            method: Error rates and looks.
            stage: Screening or confirmation.
        """
        self.method, self.stage = method, stage
        self.looks: Looks = getattr(method, stage)
        self.played: dict[Target, list[Played]] = {target: [] for target in targets}
        self._directions = dict(targets)
        self._rate = method.screening_rate if stage == "screening" else method.confirmation_rate
        self._final: frozenset[Target] = frozenset()
        self._closed = False

    def add(self, target: Target, played: Played) -> None:
        """Take another process of each side."""
        self.played[target].append(played)

    def usable(self, target: Target) -> list[Played]:
        """Those with a figure of both sides."""
        return [one for one in self.played[target] if _usable(one)]

    def open(self) -> tuple[Target, ...]:
        """Benchmarks that need more processes; none once closed."""
        if self._closed:
            return ()
        return tuple(
            target
            for target, state in self.states().items()
            if state is State.OPEN and not self._exhausted(target)
        )

    def close(self) -> None:
        """End the stage; what was still open gets its last look with what it has."""
        if not self._closed:
            self._final = frozenset(self.open())
            self._closed = True

    def evidence(self, target: Target) -> Evidence:
        """The latest look at a benchmark."""
        usable = self.usable(target)
        due = self.looks.latest(len(usable), final=target in self._final)
        if due is None:
            return Evidence()
        count, share = due
        return weigh(
            _logs(usable[:count]), share, FLOOR, TOLERANCE, direction=self._directions[target]
        )

    def adjusted(self) -> dict[Target, float]:
        """P value of each benchmark that can be judged, adjusted for all of them."""
        ps = {
            target: self.evidence(target).moved
            for target, played in self.played.items()
            if not void(played)
        }
        return dict(zip(ps, statistics.adjusted(list(ps.values())), strict=True))

    @property
    def alone(self) -> float:
        """Error rate of one test, both sides together, if it were the only one that moved."""
        # A confirmation looks on one side only.
        sides = 2 if self.stage == "confirmation" else 1
        return sides * alone(self._rate, len(self.adjusted()))

    def states(self) -> dict[Target, State]:
        """Where each benchmark that can be judged stands."""
        found = {}
        ps = self.adjusted()
        sames = statistics.adjusted(
            [1.0 if p <= self._rate else self.evidence(target).same for target, p in ps.items()]
        )
        for (target, p), same in zip(ps.items(), sames, strict=True):
            if p <= self._rate:
                found[target] = State.MOVED
            elif same <= self.method.settling_rate:
                found[target] = State.SAME
            else:
                found[target] = State.OPEN
        return found

    def moved(self) -> dict[Target, Direction]:
        """What moved and where to, strongest evidence first."""
        found: dict[Target, Direction] = {}
        for target, p in sorted(self.adjusted().items(), key=lambda item: item[1]):
            sample = self.evidence(target).sample
            if p <= self._rate and sample is not None:
                found[target] = 1 if sample.mean > 0 else -1
        return found

    def _exhausted(self, target: Target) -> bool:
        most = math.ceil(self.looks.last * self.method.patience)
        return len(self.usable(target)) >= self.looks.last or len(self.played[target]) >= most


def void(played: Sequence[Played]) -> str:
    """Why a benchmark cannot be compared: absent on a side, another one, or failing repeatedly."""
    return missing(played) or broken(played)


def missing(played: Sequence[Played]) -> str:
    """Why a side does not have the benchmark, or not the same one; empty if both do."""
    for one in played:
        for side, reading in (("base", one.base), ("head", one.head)):
            if reading.absent:
                return f"nothing to measure on {side}: {reading.reason}"
        if _usable(one) and one.base.version != one.head.version:
            return f"another benchmark on head: version {one.base.version} → {one.head.version}"
    return ""


def broken(played: Sequence[Played]) -> str:
    """Why a benchmark has no ratio: the first failure of the side that failed again and again."""
    reasons = []
    for side in ("head", "base"):
        failures = [r for r in (getattr(one, side) for one in played) if r.failed]
        if len(failures) >= FAILURES:
            reasons.append(f"{side}: {failures[0].reason}")
    return "; ".join(reasons)


def judge(
    screening: Family, confirmation: Family | None
) -> tuple[tuple[MicroComparison, ...], tuple[Missing, ...]]:
    """Judge all benchmarks of a screening.

    Close both stages first, so that what ran out of time gets its last look.

    Returns:
        The comparisons, and the benchmarks that only one side has.
    """
    compared, absent = [], []
    for target, played in screening.played.items():
        fresh = confirmation.played.get(target, []) if confirmation is not None else []
        reason = missing((*played, *fresh))
        if reason:
            absent.append(Missing(case=f"{target.name} [{target.head.stack}, {target.python}]",
                                  reason=reason))  # fmt: skip
        else:
            compared.append(_compared(target, screening, confirmation))
    return tuple(compared), tuple(absent)


def _compared(target: Target, screening: Family, confirmation: Family | None) -> MicroComparison:
    first = screening.usable(target)
    fresh: list[Played] = []
    candidate = confirmation is not None and target in confirmation.played
    if confirmation is not None and candidate:
        fresh = confirmation.usable(target)
    everything = [*screening.played[target]]
    if confirmation is not None and candidate:
        everything += confirmation.played[target]
    reason = broken(everything)
    if reason:
        judged: dict[str, Any] = {"verdict": Verdict.NOT_COMPARABLE, "reason": reason}
    elif confirmation is not None and candidate and confirmation.evidence(target).sample:
        judged = _confirmed(target, confirmation)
    else:
        judged = _screened(target, screening)
    return MicroComparison(
        benchmark=target.name,
        python=target.python,
        stack=target.head.stack,
        unit=UNIT,
        judgement=Judgement(
            metric="",
            screened=len(first),
            confirmed=len(fresh),
            excluded=len(everything) - len(first) - len(fresh),
            **judged,
        ),
        base=tuple(_value(one, "base") for one in (*first, *fresh)),
        head=tuple(_value(one, "head") for one in (*first, *fresh)),
    )


def _screened(target: Target, screening: Family) -> dict[str, Any]:
    """What the screening alone can say: no change, or nothing yet."""
    evidence, state = screening.evidence(target), screening.states().get(target, State.OPEN)
    reason = UNCONFIRMED if state is State.MOVED else ""
    if evidence.sample is None and not screening.usable(target):
        reason = NO_TIME
    return {
        "verdict": Verdict.NO_CHANGE if state is State.SAME else Verdict.INCONCLUSIVE,
        "p": screening.adjusted().get(target) if evidence.sample else None,
        "reason": reason,
        **evidence.figures(
            FLOOR,
            screening.method.power,
            screening.alone,
            screening.looks if state is State.SAME else None,
            screening.method.confirming,
        ),
    }


def _confirmed(target: Target, confirmation: Family) -> dict[str, Any]:
    """What fresh processes say of a candidate; the figures are theirs alone."""
    evidence, state = confirmation.evidence(target), confirmation.states()[target]
    verdict, reason = Verdict.INCONCLUSIVE, REFUTED
    if state is State.MOVED and evidence.sample is not None:
        verdict = Verdict.SLOWER if evidence.sample.mean > 0 else Verdict.FASTER
        reason = ""
    elif state is State.SAME:
        verdict = Verdict.NO_CHANGE
    return {
        "verdict": verdict,
        "p": confirmation.adjusted()[target],
        "reason": reason,
        **evidence.figures(
            FLOOR,
            confirmation.method.power,
            confirmation.alone,
            confirmation.looks if state is State.SAME else None,
        ),
    }


def _usable(played: Played) -> bool:
    return played.base.value is not None and played.head.value is not None


def _value(played: Played, side: Literal["base", "head"]) -> float:
    value: float | None = getattr(played, side).value
    if value is None:
        raise ValueError("a process without a figure is no sample")
    return value


def _logs(usable: Sequence[Played]) -> Logs:
    return statistics.log_ratios(
        [_value(one, "base") for one in usable], [_value(one, "head") for one in usable]
    )
