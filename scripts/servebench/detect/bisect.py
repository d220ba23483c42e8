"""Which of several releases caused a change: found by duets between mixtures of both stacks.

The packages that moved are put in a row. A stack with the first half of them moved either shows the
change or does not, and the search goes on in the half that holds it: n packages take about log₂ n
comparisons. At the end the release that is left is tried alone, since two might do only together
what neither does by itself; then none is named.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from servebench.detect import conclude
from servebench.detect.conclude import Suspects
from servebench.detect.duets import Locks, RealDuets
from servebench.record.change import ChangeRecord, SeriesName
from servebench.record.comparison import Comparison, PackageChange
from servebench.toolchain import locks

HALF: Final = 0.5
"""A mixture shows a change if it shows at least half of it, on the logarithmic scale."""

Shows = Callable[[Sequence[PackageChange]], bool | None]
"""Whether the stack before, with these packages moved, shows the change; None: not decided."""


def search(packages: Sequence[PackageChange], shows: Shows) -> Suspects:
    """Narrow the packages that moved down; those that came or went follow from the others."""
    row = [move for move in packages if move.base is not None and move.head is not None]
    if not row:
        return Suspects(tuple(packages), conclude.ONLY_CAME_OR_WENT)
    least, most = 0, len(row)
    while most - least > 1:
        middle = (least + most) // 2
        seen = shows(row[:middle])
        if seen is None:
            return Suspects(tuple(row[least:most]), conclude.NOT_DECIDED)
        least, most = (least, middle) if seen else (middle, most)
    found = tuple(row[least:most])
    alone = shows(found) if len(row) > 1 else True
    if alone:
        return Suspects(found)
    if alone is None:
        return Suspects(found, conclude.ALONE_NOT_DECIDED)
    return Suspects(tuple(row), conclude.NOT_ALONE.format(found[0].package))


def shown(comparison: Comparison, series: SeriesName, whole: float) -> bool | None:
    """Whether a comparison shows at least half of a change.

    Its 95 % interval decides, which has to lie on one side of the half. That is less than a verdict
    asks for, and another question: not whether anything moved, but which of two sizes it has.
    `whole` is the log ratio of the change.
    """
    if conclude.untouched(comparison):
        return False  # none of what moved is loaded by the case
    judgement = conclude.judgement_on(comparison, series)
    if judgement is None or judgement.low is None or judgement.high is None:
        return None
    shares = sorted(math.log(end) / whole for end in (judgement.low, judgement.high))
    if shares[0] >= HALF:
        return True
    return False if shares[1] < HALF else None


@dataclass(frozen=True, slots=True)
class Mixtures:
    """Plays mixtures of two stacks against the one before, until `clock` says `ends`."""

    duets: RealDuets
    record: ChangeRecord
    locks: Locks
    ends: float
    clock: Callable[[], float] = time.monotonic

    def __call__(self, moved: Sequence[PackageChange]) -> bool | None:
        """Tell whether the stack with these packages moved shows the change.

        SetupError: there is no such stack.
        """
        left = self.ends - self.clock()
        if left <= 0:
            return None
        stack = self.record.base.stack
        pins = [f"{move.package}=={move.head}" for move in moved]
        with self.duets.narrator.step(f"stack {stack}", f"resolving {', '.join(pins)}") as tick:
            text = locks.resolve(
                stack, None, tick, root=self.duets.root, keep=self.locks.base, pins=pins
            )
        comparison = self.duets.between(
            [self.record.series.case],
            stack,
            (f"{stack} before", self.locks.base),
            (f"{stack} with {', '.join(pins)}", text),
            # Later steps need time, too; a search of n packages has at most log₂ n + 1 of them.
            left / (math.ceil(math.log2(max(2, len(self.record.packages)))) + 1),
        )
        return shown(comparison, self.record.series, math.log(self.record.ratio))
