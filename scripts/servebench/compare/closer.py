"""A closer look at what moved: absolute figures from launches with nothing beside them.

The verdict is the duets' alone. A duet's own figures are those of two servers that share their
cores, so absolute figures and latencies come from sequential launches, in the order ABBA, which
cancels a steady drift of the machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from servebench.compare.instruments import Instruments
from servebench.compare.model import SideName
from servebench.compare.player import Part
from servebench.compare.progress import Reporter
from servebench.duration import expected
from servebench.model import Status

ORDER: Final[tuple[SideName, ...]] = ("base", "head", "head", "base")


@dataclass(slots=True)
class Seen:
    """What a closer look at a case showed.

    Attributes:
        base: Means of base's sequential launches; empty unless all launches were valid.
        head: The same of head.
    """

    base: dict[str, float] = field(default_factory=dict)
    head: dict[str, float] = field(default_factory=dict)


class CloserLook:
    """Looks closer at cases while there is time.

    Attributes:
        seen: What was seen so far, by the case's id.
    """

    def __init__(
        self,
        instruments: Instruments,
        parts: Callable[[str], tuple[Part, Part]],
        left: Callable[[], float],
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            instruments: What to measure with.
            parts: Base and head of a case, by its id.
            left: Seconds that are left.
        """
        self._instruments, self._parts, self._left = instruments, parts, left
        self.seen: dict[str, Seen] = {}

    def seconds(self, cases: Iterable[str]) -> float:
        """Seconds that a closer look at cases would take."""
        return sum(self._launch_seconds(case) for case in cases)

    def look(self, cases: Sequence[str], reporter: Reporter) -> None:
        """Look at cases, one after another, as long as there is time.

        Raises:
            InterruptedRun: What was complete until then is kept.
        """
        for done, case in enumerate(cases):
            if self._launch_seconds(case) <= self._left():
                remaining = sum(map(self._launch_seconds, cases[done:]))
                reporter.playing(self._parts(case)[1].case, done, min(remaining, self._left()))
                self._launch(case)

    def _launch(self, case: str) -> None:
        sides = dict(zip(("base", "head"), self._parts(case), strict=True))
        figures: dict[SideName, list[dict[str, float]]] = {"base": [], "head": []}
        for side in ORDER:
            outcome = self._instruments.launch(sides[side])
            if outcome.status is not Status.OK:
                return
            figures[side].append(outcome.metrics)
        seen = self.seen.setdefault(case, Seen())
        seen.base, seen.head = _means(figures["base"]), _means(figures["head"])

    def _launch_seconds(self, case: str) -> float:
        _, head = self._parts(case)
        return len(ORDER) * expected(head.case, "quick").total


def _means(launches: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each metric that all launches have."""
    names = [name for name in launches[0] if all(name in one for one in launches)]
    return {name: statistics.fmean(one[name] for one in launches) for name in names}
