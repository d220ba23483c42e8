"""Drawings: figures on one logarithmic axis, and bars in lists.

The interval plot is the customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479).
Its places are per cent of the cell's width, so one drawing fits every page. Pure.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from markupsafe import Markup

from duetbench.core.metrics import row
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from observatory.show.site.words import fill

TONES: Final = {Verdict.WORSE: "worse", Verdict.BETTER: "better", Verdict.SAME: "same"}
"""CSS classes of verdicts; all others have the class `open`."""

_TICKS: Final = 5
_MARGIN: Final = 2.0  # per cent of the width on either side: room for a mark


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps figures above zero to per cent of the width; those beyond it stay at its edge."""

    low: float
    high: float

    @classmethod
    def around(cls, figures: Iterable[Interval]) -> Self | None:
        """Return an axis that has room for figures and their intervals; None without one."""
        ends = [end for of in figures for end in (of.estimate, *(of.ends or ())) if end > 0]
        return cls(min(ends) / math.sqrt(2), max(ends) * math.sqrt(2)) if ends else None

    def at(self, figure: float) -> float:
        within = min(self.high, max(self.low, figure))
        share = math.log(within / self.low) / math.log(self.high / self.low)
        return round(_MARGIN + (100 - 2 * _MARGIN) * share, 2)

    def holds(self, figure: float) -> bool:
        return self.low <= figure <= self.high

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return about five ticks, at powers of two, with their labels."""
        low, high = math.log2(self.low), math.log2(self.high)
        step = math.ceil((high - low) / _TICKS)
        exponents = range(math.ceil(low / step) * step, math.floor(high) + 1, step)
        return [(self.at(2.0**exponent), f"{2.0**exponent:.3g}") for exponent in exponents]


def bar(metric: str, ratio: Interval, verdict: Verdict, reach: float = 1.0) -> Markup:
    """Draw a size, up to `reach`, to the left if it is better, and to the right if it is worse."""
    toward = -1 if row(metric).better == "higher" else 1

    def at(figure: float) -> float:
        return round(50 + 48 * min(1.0, max(-1.0, toward * (figure - 1) / reach)), 2)

    whisker = [*map(at, ratio.ends or ())]
    tone = TONES.get(verdict, "open")
    return fill("bar.html.j2", tone=tone, end=at(ratio.estimate), whisker=whisker)
