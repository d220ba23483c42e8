"""Interval plots (`forest.html.j2`): tables with a drawing in each row; and bars in lists.

The interval plot is the customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479).
Its places are per cent of the cell's width, so one drawing fits every page. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from duetbench.core.model import Verdict
from duetbench.core.units import Interval, signed
from duetbench.report import formats
from observatory.show.site.words import fill

TONES: Final = {Verdict.WORSE: "worse", Verdict.BETTER: "better", Verdict.SAME: "same"}
"""CSS classes of verdicts; all others have the class `open`."""

_LEAST_CHANGE: Final = 0.01  # either side of "no change": noise must not look large
_TICKS: Final = 5
_MARGIN: Final = 2.0  # per cent of the width on either side: room for a mark


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A row of an interval plot: what it draws, and the same in words.

    Attributes:
        kind: A CSS class.
        drawn: The figure on the scale; None: it is missing.
        expected: Ends of a band behind it.
        published: A figure of others.
    """

    label: str
    kind: str
    drawn: Interval | None
    verdict: str
    figure: str
    interval: str
    note: str = ""
    href: str = ""
    expected: tuple[float, float] | None = None
    published: float | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps ratios to per cent of the width; those beyond the axis stay at its edge."""

    low: float
    high: float
    logarithmic: bool = False

    def _place(self, ratio: float) -> float:
        """Return a place on the axis, which is zero for "no change"."""
        if not self.logarithmic:
            return ratio - 1
        return math.log2(ratio) if ratio > 0 else -math.inf

    def at(self, ratio: float) -> float:
        low, high = self._place(self.low), self._place(self.high)
        share = min(1.0, max(0.0, (self._place(ratio) - low) / (high - low)))
        return round(_MARGIN + (100 - 2 * _MARGIN) * share, 2)

    def holds(self, ratio: float) -> bool:
        return self.low <= ratio <= self.high

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return about five ticks with their labels: multiples of 1, 2 or 5 times a power of ten.

        On a logarithmic scale these are exponents of two.
        """
        low, high = self._place(self.low), self._place(self.high)
        power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
        steps = (power * by for by in (1, 2, 5, 10))
        step = next(step for step in steps if step >= (high - low) / _TICKS * 0.999)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        places = [index * step for index in range(first, last + 1)]
        if self.logarithmic:
            return [(self.at(2**place), f"{2**place:.3g}") for place in places]
        changes = ((place, signed(100 * place, ".6g")) for place in places)
        return [(self.at(1 + place), f"{change} %" if place else "0") for place, change in changes]


def around(ratios: Sequence[Interval]) -> Scale:
    """Return an axis of ratios, with "no change" in its middle."""
    half = max(_LEAST_CHANGE, 1.15 * formats.reach(ratios))
    return Scale(max(1 - half, 0.0), 1 + half)  # no ratio is below zero


def bar(ratio: Interval, verdict: Verdict, reach: float = 1.0) -> Markup:
    """Draw a size, up to `reach`, to the left if it is better, and to the right if it is worse."""
    toward = (1 if verdict is Verdict.WORSE else -1) * (1 if ratio.estimate > 1 else -1)
    figures = (1.0, ratio.estimate, *(ratio.ends or ()))
    scale = Scale(1 - reach, 1 + reach)
    zero, end, *whisker = [scale.at(1 + toward * (figure - 1)) for figure in figures]
    tone = TONES.get(verdict, "open")
    return fill("bar.html.j2", tone=tone, zero=zero, end=end, whisker=whisker)
