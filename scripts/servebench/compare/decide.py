"""Which cases need another duet: the screening of all, and the confirmation of what it found.

    screening = Screening(cases)
    screening.hint(case, direction)   # where instructions moved
    while time and screening.open():   # in rounds: one duet of each open case
        screening.add(duet)
    screening.close()
    confirmation = Confirmation(screening)
    while time and confirmation.open():   # strongest first
        confirmation.add(duet)
    verdicts.judge(screening, confirmation)

Both only collect: every answer is computed from the duets so far, and each can be asked at any
time. `method.py` says how and why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from servebench.compare import statistics
from servebench.compare.evidence import Evidence, Looking, alone
from servebench.compare.judged import judged
from servebench.compare.method import Method
from servebench.compare.model import Duet
from servebench.compare.samples import CaseDuets, broken
from servebench.compare.statistics import Direction, Looks
from servebench.model import Case

Pair = tuple[str, str]
"""Case id and metric."""


class State(StrEnum):
    """Where a case and metric stand in a stage."""

    OPEN = "open"
    MOVED = "moved"  # a candidate; in the confirmation: confirmed
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A case and metric that the screening says moved.

    Attributes:
        case: The case's id.
        metric: Key of the metric registry.
        direction: Whether head's figure is larger (1) or smaller (-1).
        p: Adjusted for all judged pairs.
    """

    case: str
    metric: str
    direction: Direction
    p: float


class Screening:
    """Duets of all cases, until each is a candidate, settled, or out of time."""

    def __init__(self, cases: Sequence[Case], method: Method | None = None) -> None:
        self.method = method or Method()
        self.duets = {case.id: CaseDuets(case) for case in cases}
        self._looking = Looking(self.method.screening)
        self._final: frozenset[str] = frozenset()
        self._closed = False
        self._ps: dict[Pair, float] | None = None  # forgotten with every duet, as the next
        self._sames: dict[Pair, float] | None = None
        self._hints: dict[Pair, Direction] = {}

    def hint(self, case: str, direction: Direction) -> None:
        """Say beforehand that a case's instructions moved: what follows from that is confirmed.

        CPU per request follows, and, where nothing but computing limits it, the throughput. Whether
        they really moved is for the confirmation, whose duets know nothing of the hint.
        """
        for metric, sign in (("server_cpu_per_request", direction), ("throughput", -direction)):
            if metric in judged(self.duets[case].case).leading:
                self._hints[case, metric] = 1 if sign > 0 else -1

    def hinted(self, case: str, metric: str) -> bool:
        """Whether this is to be confirmed because instructions moved."""
        return (case, metric) in self._hints

    def add(self, duet: Duet) -> None:
        """Take another duet.

        Raises:
            ValueError: It belongs to another stage, or to no case of this screening.
        """
        _add(self.duets, duet, "screening")
        self._ps = self._sames = None

    def open(self) -> tuple[str, ...]:
        """Cases that need another duet; none once the screening is closed."""
        if self._closed:
            return ()
        moved = self._moved()
        return tuple(case for case in self.duets if self._wants(case, moved))

    def close(self) -> tuple[Candidate, ...]:
        """End the screening; cases that were still open get their last look with what they have.

        Returns:
            What is to be confirmed, strongest evidence first.
        """
        if not self._closed:
            self._final = frozenset(self.open())
            self._closed = True
            self._ps = self._sames = None
        return self.candidates()

    def candidates(self) -> tuple[Candidate, ...]:
        """What would be confirmed if the screening were closed after its latest looks."""
        found = []
        for pair, p in self.adjusted().items():
            seen = self.evidence(*pair).sample
            if p <= self.method.screening_rate and seen is not None:
                found.append(Candidate(*pair, 1 if seen.mean > 0 else -1, p))
            elif pair in self._hints:
                found.append(Candidate(*pair, self._hints[pair], p))
        return tuple(sorted(found, key=lambda candidate: candidate.p))

    def evidence(self, case: str, metric: str) -> Evidence:
        """The latest look at one case and metric."""
        return self._looking.latest(self.duets[case], metric, final=case in self._final)

    def state(self, case: str, metric: str) -> State:
        """Where one case and metric stand."""
        return self._state(case, metric, self._moved())

    def adjusted(self) -> Mapping[Pair, float]:
        """P value of each judged pair, adjusted for all of them. Broken cases are not judged."""
        if self._ps is None:
            self._ps = _adjusted(
                {
                    (case, metric): self.evidence(case, metric).moved
                    for case, duets in self.duets.items()
                    if not broken(duets.duets)
                    for metric in duets.metrics
                }
            )
        return self._ps

    def settling(self) -> Mapping[Pair, float]:
        """P value of "no change" of each judged pair, adjusted for all; 1 for what has moved."""
        if self._sames is None:
            moved = self._moved()
            self._sames = _adjusted(
                {
                    pair: 1.0 if pair in moved else self.evidence(*pair).same
                    for pair in self.adjusted()
                }
            )
        return self._sames

    @property
    def alone(self) -> float:
        """Error rate of one test, both sides together, if it were the only one that moved."""
        return alone(self.method.screening_rate, len(self.adjusted()))

    def _moved(self) -> frozenset[Pair]:
        rate = self.method.screening_rate
        return frozenset(
            pair for pair, p in self.adjusted().items() if p <= rate or pair in self._hints
        )

    def _state(self, case: str, metric: str, moved: frozenset[Pair]) -> State:
        if (case, metric) in moved:
            return State.MOVED
        same = self.settling().get((case, metric), 1.0) <= self.method.settling_rate
        return State.SAME if same else State.OPEN

    def _wants(self, case: str, moved: frozenset[Pair]) -> bool:
        duets = self.duets[case]
        if broken(duets.duets) or _exhausted(duets, self.method.screening, self.method):
            return False
        return any(self._state(case, metric, moved) is State.OPEN for metric in duets.leading)


class Confirmation:
    """Fresh duets of the candidates, until each is confirmed, refuted, or out of time."""

    def __init__(self, screening: Screening) -> None:
        self.method = screening.method
        self.candidates = screening.close()
        cases = dict.fromkeys(candidate.case for candidate in self.candidates)
        self.duets = {case: CaseDuets(screening.duets[case].case) for case in cases}
        self._looking = Looking(self.method.confirmation)
        self._earlier = {case: tuple(screening.duets[case].duets) for case in cases}
        self._final: frozenset[str] = frozenset()
        self._closed = False

    def add(self, duet: Duet) -> None:
        """Take another duet.

        Raises:
            ValueError: It belongs to another stage, or to no candidate.
        """
        _add(self.duets, duet, "confirmation")

    def open(self) -> tuple[str, ...]:
        """Cases that need another duet, strongest evidence first; none once closed.

        Where time is short, finish the first of them: half a confirmation of each confirms none.
        """
        if self._closed:
            return ()
        states = self.states()
        return tuple(
            case
            for case, duets in self.duets.items()
            if not self.broken(case)
            and not _exhausted(duets, self.method.confirmation, self.method)
            and any(
                state is State.OPEN for (of, _metric), state in states.items() if of == case
            )
        )  # fmt: skip

    def close(self) -> None:
        """End the confirmation; cases that were still open get their last look."""
        if not self._closed:
            self._final = frozenset(self.open())
            self._closed = True

    def broken(self, case: str) -> str:
        """Why the case cannot be compared; its duets of both stages count."""
        return broken((*self._earlier[case], *self.duets[case].duets))

    def evidence(self, candidate: Candidate) -> Evidence:
        """The latest look at one candidate, in the direction of the screening."""
        duets = self.duets[candidate.case]
        if candidate.metric not in duets.metrics:
            return Evidence()
        return self._looking.latest(
            duets,
            candidate.metric,
            direction=candidate.direction,
            final=candidate.case in self._final,
        )

    def adjusted(self) -> Mapping[Pair, float]:
        """P value of each candidate, on one side, adjusted for all candidates."""
        return _adjusted({(c.case, c.metric): self.evidence(c).moved for c in self.candidates})

    def settling(self) -> Mapping[Pair, float]:
        """P value of "no change" of each candidate, adjusted for all; 1 for what is confirmed."""
        ps = self.adjusted()
        return _adjusted(
            {
                (c.case, c.metric): 1.0
                if ps[c.case, c.metric] <= self.method.confirmation_rate
                else self.evidence(c).same
                for c in self.candidates
            }
        )

    @property
    def alone(self) -> float:
        """Error rate of one test, as a two-sided one has it, if it were the only one that moved."""
        return 2 * alone(self.method.confirmation_rate, len(self.adjusted()))

    def states(self) -> Mapping[Pair, State]:
        """Where each candidate stands."""
        found: dict[Pair, State] = {}
        sames = self.settling()
        for pair, p in self.adjusted().items():
            if p <= self.method.confirmation_rate:
                found[pair] = State.MOVED
            elif sames[pair] <= self.method.settling_rate:
                found[pair] = State.SAME
            else:
                found[pair] = State.OPEN
        return found


def _add(cases: Mapping[str, CaseDuets], duet: Duet, stage: str) -> None:
    if duet.stage != stage:
        raise ValueError(f"{stage}: found a duet of the {duet.stage}; stages share no data")
    if duet.case not in cases:
        raise ValueError(f"{stage}: {duet.case} is not one of its cases")
    cases[duet.case].add(duet)


def _adjusted(ps: Mapping[Pair, float]) -> dict[Pair, float]:
    return dict(zip(ps, statistics.adjusted(list(ps.values())), strict=True))


def _exhausted(duets: CaseDuets, looks: Looks, method: Method) -> bool:
    """Whether the last look is over, or too many duets were not usable."""
    most = math.ceil(looks.last * method.patience)
    return len(duets.usable) >= looks.last or len(duets.duets) >= most
