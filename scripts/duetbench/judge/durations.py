"""Time of a comparison: how it is shared out, and what duets take."""

import math
import statistics as figures
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeVar

from duetbench.core.model import Case
from duetbench.core.protocol import DUET_WARM_UP, SLOW_SECONDS, UNIT_REQUESTS
from duetbench.judge.samples import Match
from duetbench.measure.duet import duet_load
from duetbench.project.plan import PRIOR_LAUNCHES, Costs, drain
from duetbench.project.servers import costs

_Item = TypeVar("_Item")

FOLLOW_UP: Final = 0.10
"""Largest share of the budget that is kept for sequential launches of what moved."""

COUNTING: Final = 0.15
"""Share of the budget that instruction counts may take before the first duet."""

FIRST_LOOK: Final = 0.75
"""Share of the budget in which all chosen cases must reach their first look."""

NOISE: Final = 0.12
"""Share of the budget that duets of base against itself may take: several in five minutes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The time of a comparison, s (None: as long as it takes), from a moment on its clock."""

    total: float | None
    began: float

    @property
    def ends(self) -> float:
        return math.inf if self.total is None else self.began + self.total

    def duets_end(self, follow_up: float) -> float:
        """Moment at which the last duet has to be over, by the seconds that launches want."""
        return self.ends - min(follow_up, FOLLOW_UP * (self.total or 0))


class DuetSeconds:
    """Seconds that duets take, as expected, or as far from it as those so far.

    Duets on one launch share its start and end; what is expected of a case is corrected by how far
    off it was there, or in others.
    """

    def __init__(self) -> None:
        self._known: dict[Match, tuple[float, float]] = {}
        self._errors: dict[Match, list[float]] = defaultdict(list)

    def observe(self, match: Match, seconds: float, together: int) -> None:
        """Take the seconds of a duet, with its share of a launch on which were so many."""
        launch, own = self._expected(match)
        self._errors[match].append(seconds - own - launch / together)

    def of(self, *matches: Match) -> float:
        """Seconds of a duet of each of the cases, on as few launches as can be."""
        launches = {match.server: self._expected(match)[0] for match in matches}
        every = [error for errors in self._errors.values() for error in errors]
        others = sum(every) / (len(every) + PRIOR_LAUNCHES)
        own = (
            self._expected(match)[1]
            + (figures.fmean(self._errors[match]) if match in self._errors else others)
            for match in matches
        )
        return max(1.0, sum(launches.values()) + sum(own)) if matches else 0.0

    def _expected(self, match: Match) -> tuple[float, float]:
        if match not in self._known:
            self._known[match] = expected(match.case)
        return self._known[match]


def expected(case: Case) -> tuple[float, float]:
    """Seconds of a launch of both sides, and of a case's duet on it, before one has been seen."""
    case = case.model_copy(update={"load": duet_load(case)})
    single = max(case.endpoint.takes, case.endpoint.floor)
    slow = single >= SLOW_SECONDS
    verify = (2 if slow else UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if slow else DUET_WARM_UP + Costs.window_gap
    load = case.load.duration + Costs.generator
    # Both sides start at once, and are killed. Then they share the cores, so that each step of one
    # also waits for the other's; waiting does not.
    launch = costs(case.server).start(case.workers) + 2 * Costs.probes
    apart = verify + drain(case)
    return launch, apart * (1 if case.endpoint.floor else 2) + warm_up + load


def affordable(
    matches: Sequence[Match], seconds: Callable[..., float], looks: int, total: float | None
) -> tuple[Match, ...]:
    """Choose the cases that can all reach their first look, spread over kinds; at least one.

    Half a look at every case would decide none. The others are reported as not measured.
    `seconds` are those of a round of cases.
    """
    if total is None:
        return tuple(matches)
    chosen: list[Match] = []
    for match in spread(matches, _kind):
        if not chosen or looks * seconds(*chosen, match) <= FIRST_LOOK * total:
            chosen.append(match)
    return tuple(match for match in matches if match in chosen)


def _kind(match: Match) -> Hashable:
    case = match.case
    return case.experiment, case.python, case.server, case.endpoint.interface


def spread(items: Sequence[_Item], kind: Callable[[_Item], Hashable]) -> list[_Item]:
    """Order items so that each kind's first comes before any kind's second."""
    ranks_of: dict[Hashable, Iterator[int]] = defaultdict(count)
    ranks = [next(ranks_of[kind(item)]) for item in items]
    return [items[place] for place in sorted(range(len(items)), key=ranks.__getitem__)]
