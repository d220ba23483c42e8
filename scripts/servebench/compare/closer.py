"""A closer look at what moved: absolute figures from launches with nothing beside them, and counts.

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
from servebench.compare.model import Instructions, SideName
from servebench.compare.player import Part
from servebench.compare.progress import Reporter
from servebench.expected import expected
from servebench.model import Status

ORDER: Final[tuple[SideName, ...]] = ("base", "head", "head", "base")

COUNTED_LONGEST: Final = 0.05
"""Endpoints that compute for longer, s, are not counted: Valgrind is some fifty times slower."""

COUNTING_SECONDS: Final = 90.0
"""For the instruction counts of both sides: 27 s each on a busy machine, mostly for imports."""


@dataclass(slots=True)
class Seen:
    """What a closer look at a case showed.

    Attributes:
        base: Means of base's sequential launches; empty unless all launches were valid.
        head: The same of head.
        instructions: Per request, in process.
    """

    base: dict[str, float] = field(default_factory=dict)
    head: dict[str, float] = field(default_factory=dict)
    instructions: Instructions | None = None


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
        self._counts: dict[tuple[str, str, str], Instructions | str] = {}

    def seconds(self, cases: Iterable[str]) -> float:
        """Seconds that a closer look at cases would take."""
        cases = tuple(cases)
        launches = sum(self._launch_seconds(case) for case in cases)
        codes = {self._code(case) for case in cases if self._countable(case)}
        return launches + COUNTING_SECONDS * len(codes)

    def look(self, cases: Sequence[str], reporter: Reporter) -> None:
        """Look at cases, one after another: first all launches, then all counts.

        Raises:
            InterruptedRun: What was complete until then is kept.
        """
        for done, case in enumerate(cases):
            if self._launch_seconds(case) <= self._left():
                remaining = sum(map(self._launch_seconds, cases[done:]))
                reporter.playing(self._parts(case)[1].case, done, min(remaining, self._left()))
                self._launch(case)
        for case in cases:
            self._count(case, reporter)

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

    def _count(self, case: str, reporter: Reporter) -> None:
        """Count what the case's code executes; cases that differ in the server only share it."""
        code = self._code(case)
        if not self._countable(case):
            return
        if code not in self._counts:
            limit = min(COUNTING_SECONDS, self._left())
            if limit < COUNTING_SECONDS / 2:
                return
            found = self._instruments.instructions(*self._parts(case), limit)
            self._counts[code] = found
            if isinstance(found, str):
                reporter.note(f"{case}: instructions not counted: {found}")
        found = self._counts[code]
        if not isinstance(found, str):
            self.seen.setdefault(case, Seen()).instructions = found

    def _launch_seconds(self, case: str) -> float:
        _, head = self._parts(case)
        return len(ORDER) * expected(head.case, "quick").total

    def _countable(self, case: str) -> bool:
        return self._parts(case)[1].case.endpoint.takes <= COUNTED_LONGEST

    def _code(self, case: str) -> tuple[str, str, str]:
        _, head = self._parts(case)
        return (
            head.case.python,
            head.case.stack,
            f"{head.case.experiment}/{head.case.endpoint.name}",
        )


def _means(launches: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each metric that all launches have."""
    names = [name for name in launches[0] if all(name in one for one in launches)]
    return {name: statistics.fmean(one[name] for one in launches) for name in names}
