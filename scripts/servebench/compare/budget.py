"""How the time of a comparison is shared out: arithmetic on seconds, nothing is measured here.

Later stages keep their share only as far as they have something to do. A comparison in which
nothing seems to have moved screens to its end; where much has moved, the confirmation gets its
full share before the screening may go on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from servebench.duration import COSTS, drain
from servebench.model import Case
from servebench.protocol import (
    DUET_SECONDS,
    DUET_WARM_UP,
    SLOW_SECONDS,
    UNIT_REQUESTS,
)
from servebench.servers import costs

_Item = TypeVar("_Item")

CONFIRMATION: Final = 0.35
"""Largest share of the budget that the screening leaves to the confirmation."""

CLOSER: Final = 0.20
"""Largest share that both leave to sequential launches."""

COUNTING: Final = 0.15
"""Share of the budget that instruction counts may take before the first duet."""

FIRST_LOOK: Final = 0.65
"""Share of the budget in which all chosen cases must reach their first look."""

INSIDE: Final = 0.20
"""Largest share that is kept for in-process benchmarks, where servers are compared as well; what
those leave of the budget is theirs besides."""

NOISE: Final = 0.10
"""Share of the budget that duets of base against itself may take."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The time of a comparison.

    Attributes:
        total: Seconds; None: as long as it takes.
        began: Moment at which they started to count, on the clock of all other moments.
    """

    total: float | None
    began: float

    @property
    def ends(self) -> float:
        """Moment at which everything has to be over."""
        return math.inf if self.total is None else self.began + self.total

    def screening_ends(self, *, confirming: float, closer: float) -> float:
        """Moment at which the screening has to be over.

        Args:
            confirming: Seconds that confirming what seems to have moved would take, as of now.
            closer: Seconds that a closer look at it would take.
        """
        if self.total is None:
            return math.inf
        kept = min(confirming, CONFIRMATION * self.total) + min(closer, CLOSER * self.total)
        return self.ends - kept

    def confirmation_ends(self, *, closer: float) -> float:
        """Moment at which the confirmation has to be over; `closer` as above."""
        return self.screening_ends(confirming=0, closer=closer)


def inside(total: float | None, wanted: float, *, alone: bool) -> float:
    """Seconds of the budget that are kept for in-process benchmarks.

    Args:
        total: The budget; None: nothing has to be kept.
        wanted: What they would take.
        alone: Nothing else is compared.
    """
    if total is None:
        return 0.0
    return total if alone else min(wanted, INSIDE * total)


def duet_seconds(case: Case, seconds: float = DUET_SECONDS) -> float:
    """Seconds that a duet of a case will take, before one has been seen.

    Args:
        case: With the load of a duet (`player.duet_load`).
        seconds: Least duration of a closed load, s.
    """
    single = max(case.endpoint.takes, case.endpoint.floor)
    start = costs(case.server).start(case.workers)
    verify = COSTS.probes + (UNIT_REQUESTS + 1) * single
    warm_up = 2 * single if single >= SLOW_SECONDS else DUET_WARM_UP + COSTS.window_gap
    load = max(seconds, case.load.duration) + COSTS.generator
    # Both sides share the cores, so each step of one also waits for the other's.
    return 2 * (start + verify + drain(case) + COSTS.stop) + warm_up + load


def affordable(
    cases: Sequence[Case],
    seconds: Callable[[Case], float],
    looks: int,
    total: float | None,
) -> tuple[Case, ...]:
    """Choose the cases that can all reach their first look; the others are not begun.

    Half a screening of every case would decide none. Those that are chosen are spread over
    experiments, interpreters and servers; the others are reported as not measured.

    Args:
        cases: All that are to be judged.
        seconds: What a duet of a case takes.
        looks: Duets of each case before its first look.
        total: The budget in seconds; None: all are chosen.

    Returns:
        Chosen cases in their given order; at least one.
    """
    if total is None:
        return tuple(cases)
    left = FIRST_LOOK * total
    chosen: set[str] = set()
    for case in spread(cases, lambda c: (c.experiment, c.python, c.server, c.endpoint.interface)):
        cost = looks * seconds(case)
        if cost <= left or not chosen:
            chosen.add(case.id)
            left -= cost
    return tuple(case for case in cases if case.id in chosen)


def spread(cases: Sequence[_Item], kind: Callable[[_Item], Hashable]) -> list[_Item]:
    """Order cases (or benchmarks) so that each kind's first comes before any kind's second."""
    seen: dict[Hashable, int] = defaultdict(int)
    ranked = []
    for case in cases:
        ranked.append((seen[kind(case)], case))
        seen[kind(case)] += 1
    return [case for _, case in sorted(ranked, key=lambda pair: pair[0])]


def prefix(cases: Sequence[str], needs: Mapping[str, float], left: float) -> tuple[str, ...]:
    """The first cases whose needs together fit into the seconds left; at least one."""
    chosen: list[str] = []
    for case in cases:
        if chosen and needs[case] > left:
            break
        chosen.append(case)
        left -= needs[case]
    return tuple(chosen)
