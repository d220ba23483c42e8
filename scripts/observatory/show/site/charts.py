"""Interval plots: tables with a drawing in each row, and bars in lists.

The interval plot is the customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479).
Its places are per cent of the cell's width, so one drawing fits every page. Pure.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show.site.words import fill

TONES: Final = {Verdict.WORSE: "worse", Verdict.BETTER: "better", Verdict.SAME: "same"}
"""CSS classes of verdicts; all others have the class `open`."""

_LEAST_CHANGE: Final = 0.01  # either side of "no change": noise must not look large
_TICKS: Final = 5
_MARGIN: Final = 2.0  # per cent of the width on either side: room for a mark


@dataclass(frozen=True, slots=True)
class Caption:
    """The id of a chart on its page, its title, and how to read it."""

    id: str
    title: str
    caption: str = ""


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
    """Maps figures to per cent of the width; figures beyond the axis stay at its edge.

    `zero`: the figure of "no change".
    """

    low: float
    high: float
    zero: float = 0.0
    logarithmic: bool = False

    def _place(self, value: float) -> float:
        if not self.logarithmic:
            return value
        return math.log2(value) if value > 0 else -math.inf

    def at(self, value: float) -> float:
        low, high = self._place(self.low), self._place(self.high)
        share = min(1.0, max(0.0, (self._place(value) - low) / (high - low)))
        return round(_MARGIN + (100 - 2 * _MARGIN) * share, 2)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        """Return about five ticks: `zero` plus multiples of 1, 2 or 5 times a power of ten.

        On a logarithmic scale these are exponents of two.
        """
        low, high = (self._place(end) - self._place(self.zero) for end in (self.low, self.high))
        power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
        steps = (power * by for by in (1, 2, 5, 10))
        step = next(step for step in steps if step >= (high - low) / _TICKS * 0.999)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        places = [index * step for index in range(first, last + 1)]
        return [2**place if self.logarithmic else self.zero + place for place in places]


def around(ratios: Sequence[Interval]) -> Scale:
    """Return an axis of ratios, with "no change" in its middle."""
    half = max(_LEAST_CHANGE, 1.15 * formats.reach(ratios))
    return Scale(max(1 - half, 0.0), 1 + half, 1.0)  # no ratio is below zero


def interval_plot(
    about: Caption,
    groups: Mapping[str, Sequence[PlotRow]],
    scale: Scale,
    write: Callable[[float], str],
    *,
    title: str,
    samples: str,
) -> Markup:
    """Make a table of rows by their groups' titles, which may be empty.

    `write` labels the axis, `title` says what the figures are, `samples` what intervals are over.
    Around "no change", better is left.
    """
    parts = {"about": about, "groups": groups, "scale": scale, "write": write}
    return fill("forest.html.j2", **parts, title=title, samples=samples)


def bar(ratio: Interval, verdict: Verdict, reach: float = 1.0) -> Markup:
    """Draw a size, up to `reach`, to the left if it is better, and to the right if it is worse."""
    toward = (1 if verdict is Verdict.WORSE else -1) * (1 if ratio.estimate > 1 else -1)
    figures = (1.0, ratio.estimate, *(ratio.ends or ()))
    zero, end, *whisker = [Scale(-reach, reach).at(toward * (figure - 1)) for figure in figures]
    tone = TONES.get(verdict, "open")
    return fill("bar.html.j2", tone=tone, zero=zero, end=end, whisker=whisker)
