"""Instruction counts of both sides: what the screening starts from, and an explanation afterwards.

Counts repeat where clocks scatter, so a change of the instructions is known before the first duet.
It is a reason to spend duets on a case, never a verdict: what executes more need not be slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from servebench.compare.instruments import Instruments
from servebench.compare.model import Instructions
from servebench.compare.player import Part
from servebench.compare.progress import Reporter
from servebench.compare.statistics import Direction
from servebench.metrics import METRICS

LONGEST: Final = 0.05
"""Endpoints that compute for longer, s, are not counted: Valgrind is some fifty times slower."""

START_SECONDS: Final = 15.0
"""For both sides of one environment at the same time, before the first figure: imports."""

EACH_SECONDS: Final = 3.0
"""For each endpoint more."""

PATIENCE: Final = 3.0
"""So many times the expected seconds are waited for."""


class Counts:
    """Counts cases, each piece of code once: cases that differ in the server only share theirs."""

    def __init__(self, instruments: Instruments, parts: Callable[[str], tuple[Part, Part]]) -> None:
        """Prepare; nothing is counted yet.

        Args:
            instruments: What to count with.
            parts: Base and head of a case, by its id.
        """
        self._instruments, self._parts = instruments, parts
        self._found: dict[Hashable, Instructions | str] = {}

    def of(self, case: str) -> Instructions | None:
        """What was counted of a case; None if it was not, or cannot be."""
        found = self._found.get(self._code(case))
        return found if isinstance(found, Instructions) else None

    def moved(self, case: str) -> Direction:
        """Whether head executes more (1) or fewer (-1) instructions, beyond what matters of CPU."""
        found = self.of(case)
        if found is None:
            return 0
        change = math.log(found.head / found.base)
        if abs(change) <= math.log1p(METRICS["server_cpu_per_request"].floor):
            return 0
        return 1 if change > 0 else -1

    def seconds(self, cases: Iterable[str]) -> float:
        """Seconds that counting these cases would take, as far as they are not counted yet."""
        return sum(_seconds(group) for group in self._groups(cases))

    def count(self, cases: Iterable[str], left: Callable[[], float], reporter: Reporter) -> None:
        """Count environment by environment, as long as there is time.

        Args:
            cases: What to count.
            left: Seconds that are left.
            reporter: Told what could not be counted.

        Raises:
            InterruptedRun: What was complete until then is kept.
        """
        for group in self._groups(cases):
            if _seconds(group) > left():
                continue
            pairs = [self._parts(case) for case in group]
            limit = min(left(), PATIENCE * _seconds(group))
            found = self._instruments.instructions(pairs, limit)
            for case, one in zip(group, found, strict=True):
                self._found[self._code(case)] = one
            for reason in dict.fromkeys(one for one in found if isinstance(one, str)):
                unknown = [c for c, one in zip(group, found, strict=True) if one == reason]
                reporter.note(f"{', '.join(unknown)}: instructions not counted: {reason}")

    def _groups(self, cases: Iterable[str]) -> list[Sequence[str]]:
        """What is to be counted together: one case per piece of code, by environment."""
        groups: dict[Hashable, dict[Hashable, str]] = {}
        for name in cases:
            case, code = self._parts(name)[1].case, self._code(name)
            if case.endpoint.takes <= LONGEST and code not in self._found:
                kind = case.stack, case.python, tuple(sorted(case.env.items()))
                groups.setdefault(kind, {}).setdefault(code, name)
        return [tuple(group.values()) for group in groups.values()]

    def _code(self, name: str) -> Hashable:
        case = self._parts(name)[1].case
        variables = tuple(sorted(case.env.items()))
        return case.python, case.stack, variables, case.experiment, case.endpoint.name


def _seconds(group: Sequence[str]) -> float:
    return START_SECONDS + EACH_SECONDS * len(group)
