"""The part of a comparison that needs no server: in-process benchmarks, screened and confirmed.

Rounds of one process per side and benchmark, in random order, base started first and head started
first in turn; then fresh processes for what seems to have moved.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from servebench.compare import family
from servebench.compare.budget import CONFIRMATION, INSIDE, spread
from servebench.compare.family import Family
from servebench.compare.inprocess import Target
from servebench.compare.method import Method
from servebench.compare.model import MicroComparison, Missing
from servebench.compare.processes import Played, Processes
from servebench.compare.progress import Reporter
from servebench.compare.statistics import Direction

PAIR_SECONDS: Final = 4.0
"""For a process of each side, before one was seen: imports, warm-up and samples, on a busy core."""


class Inside:
    """Compares benchmarks while there is time.

    Attributes:
        notes: What a reader should know.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        processes: Processes,
        method: Method,
        source: random.Random,
        clock: Callable[[], float],
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            targets: What can have changed.
            processes: What to measure with.
            method: How to decide.
            source: Of the order.
            clock: Seconds since some moment.
        """
        self.targets = tuple(targets)
        self.notes: list[str] = []
        self._processes, self._method, self._random = processes, method, source
        self._clock = clock
        self._seen: list[float] = []
        self._head_first: dict[Target, bool] = defaultdict(self._drawn)
        self._screening: Family | None = None
        self._confirmation: Family | None = None
        self._left_out: tuple[Target, ...] = ()

    def seconds(self, targets: int | None = None) -> float:
        """Seconds until so many benchmarks, by default all, have had their first look."""
        count = len(self.targets) if targets is None else targets
        return count * self._method.screening.counts[0] * self._pair_seconds()

    def record(self) -> dict[str, float | int | str]:
        """What the comparison's file says of the method, if there is anything to compare."""
        if not self.targets:
            return {}
        return {
            "inprocess_floor": family.FLOOR,
            "inprocess_tolerance": family.TOLERANCE,
            "inprocess_share": INSIDE,
        }

    def look(self, ends: float, reporter: Reporter) -> None:
        """Screen and confirm until a moment on the clock.

        Raises:
            InterruptedRun: What was played until then is kept.
        """
        chosen = self._affordable(ends - self._clock())
        self._left_out = tuple(target for target in self.targets if target not in chosen)
        if self._left_out:
            note = (
                f"in-process benchmarks: {len(chosen)} of {len(self.targets)} compared, for lack "
                f"of time; a first look at all of them takes about {self.seconds():.0f} s"
            )
            self.notes.append(note)
            reporter.note(note)
        if not chosen:
            return
        reporter.stage("in-process screening", len(chosen))
        self._screening = self._family(chosen)
        limit = ends - self._clock()
        while waiting := self._screening.open():
            first = self._method.confirmation.counts[0] * self._pair_seconds()
            kept = min(first * len(self._screening.moved()), CONFIRMATION * limit)
            if not self._round(self._screening, waiting, ends - kept):
                break
        self._screening.close()
        moved = self._screening.moved()
        if not moved:
            return
        reporter.stage("in-process confirmation", len(moved))
        self._confirmation = Family(moved, self._method, "confirmation")
        while waiting := self._confirmation.open():
            if not self._round(self._confirmation, waiting, ends):
                break

    def judged(self) -> tuple[tuple[MicroComparison, ...], tuple[Missing, ...]]:
        """The verdicts, and what only one side has; nothing is measured any more."""
        compared, missing = family.judge(self._family(self._left_out), None)
        if self._screening is None:
            return compared, missing
        self._screening.close()
        if self._confirmation is not None:
            self._confirmation.close()
        found = family.judge(self._screening, self._confirmation)
        return (*found[0], *compared), found[1]

    def _family(self, targets: Sequence[Target]) -> Family:
        either: Direction = 0
        return Family(dict.fromkeys(targets, either), self._method, "screening")

    def _affordable(self, seconds: float) -> tuple[Target, ...]:
        """Those that can all have their first look, spread over kinds; half a look is none."""
        count = int(seconds // self.seconds(1)) if seconds < self.seconds() else len(self.targets)
        taken = spread(self.targets, lambda t: (t.benchmark, t.head.python))[: max(0, count)]
        return tuple(target for target in self.targets if target in taken)

    def _round(self, stage: Family, targets: Sequence[Target], ends: float) -> bool:
        """Play each benchmark once, as far as there is time; tell whether there was for any."""
        played = False
        for target in self._random.sample(targets, len(targets)):
            if self._clock() + self._pair_seconds() <= ends:
                stage.add(target, self._play(target))
                played = True
        return played

    def _play(self, target: Target) -> Played:
        head_first = self._head_first[target]
        self._head_first[target] = not head_first
        played = self._processes.play(target, head_first=head_first)
        self._seen.append(played.seconds)
        return played

    def _pair_seconds(self) -> float:
        """What a process of each side takes, as far as is known."""
        return sum(self._seen) / len(self._seen) if self._seen else PAIR_SECONDS

    def _drawn(self) -> bool:
        return self._random.random() < 0.5
