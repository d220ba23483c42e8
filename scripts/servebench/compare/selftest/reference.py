"""Reference methods: usual ways to judge the same launches, to hold the instrument against them.

None of them is used for a verdict. They look at head's and base's figures as people usually do,
one after the other, without knowing which were measured side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Call = Literal["slower", "faster", "no change"]
"""What a rule says of head."""

Rule = Callable[[Sequence[float], Sequence[float]], Call]
"""From figures of base and of head, lower is better, to a call."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A usual way of judging.

    Attributes:
        name: As people call it.
        rule: Judges figures of which lower is better.
        launches: Of each side that it looks at; None: all that there are.
    """

    name: str
    rule: Rule
    launches: int | None = None


def single(base: Sequence[float], head: Sequence[float], threshold: float) -> Call:
    """One run of each, the change beyond a threshold: base's first launch and head's last.

    They are of different duets: as everywhere where one is measured after the other, what the
    machine did in between is in the figure.
    """
    return _beyond(base[0], head[-1], threshold)


def best_of(base: Sequence[float], head: Sequence[float], threshold: float) -> Call:
    """The best launch of each side, the change beyond a threshold."""
    return _beyond(min(base), min(head), threshold)


def asv_continuous(base: Sequence[float], head: Sequence[float], factor: float) -> Call:
    """Asv's rule: Mann-Whitney's U test at p < 0.002, and the medians apart by a factor.

    The test is asv's own code. With fewer than six samples a side it cannot see anything, and asv
    falls back on whether 99 % intervals overlap.
    """
    import numpy as np  # noqa: PLC0415 - with asv, a second to import
    from asv import _stats  # noqa: PLC0415
    from asv_runner import statistics  # noqa: PLC0415

    before, after = float(np.median(base)), float(np.median(head))
    found = [statistics.compute_stats(list(side), 1)[1] for side in (base, head)]
    if not _stats.is_different(list(base), list(head), *found):
        return "no change"
    if after > before * factor:
        return "slower"
    return "faster" if before > after * factor else "no change"


def _beyond(before: float, after: float, threshold: float) -> Call:
    if after > before * (1 + threshold):
        return "slower"
    return "faster" if after < before * (1 - threshold) else "no change"


REFERENCE: Final = (
    Reference("one launch each, 5 %", lambda base, head: single(base, head, 0.05), 1),
    Reference("one launch each, 2 %", lambda base, head: single(base, head, 0.02), 1),
    Reference("best of all launches, 5 %", lambda base, head: best_of(base, head, 0.05)),
    Reference("best of all launches, 1 %", lambda base, head: best_of(base, head, 0.01)),
    Reference("asv continuous, factor 1.1", lambda base, head: asv_continuous(base, head, 1.1)),
    Reference("asv continuous, factor 1.02", lambda base, head: asv_continuous(base, head, 1.02)),
)
"""To add one, add a row here."""
