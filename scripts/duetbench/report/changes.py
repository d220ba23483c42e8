"""How reports show changes: ratios with their intervals, as shares or factors. Pure."""

import math
from collections.abc import Iterable
from typing import Final

from duetbench.core import units
from duetbench.core.comparison import row as row_of
from duetbench.core.units import Interval
from duetbench.report.formats import MISSING

_DOUBLED: Final = 2.0  # ratios from here on are written as factors
_COARSE: Final = 0.01 + 1e-9  # width of an interval that allows two digits of a factor
_WIDE: Final = 100.0  # ends of an interval that are so many times apart say nothing
_BEYOND: Final = 10.0  # what can be seen only beyond this factor has no useful size
_ROUNDING: Final = 1e-9  # of means over logarithms, relative


def change(ratio: Interval | float | None) -> str:
    """Format a ratio as a signed change, `+1.23 %`; from doubling on as a factor, `31.5×`.

    It has no more digits than its interval; a dash if there is none.
    """
    ratio = Interval(ratio) if isinstance(ratio, float) else ratio
    if ratio is None or ratio.estimate >= _DOUBLED:
        return MISSING if ratio is None else f"{_factor(ratio, ratio.estimate)}×"
    return f"{_signed(ratio.estimate, _decimals(ratio))} %"


def amount(metric: str, ratio: Interval, *, moved: bool) -> tuple[str, str]:
    """Write a change and its interval: `19 % less`, `17…21 %`; with signs unless it surely moved.

    Beside a mark, a sign would be read as one: ▲ −19 %.
    """
    if not moved or ratio.estimate >= _DOUBLED:
        return change(ratio), ends(ratio)
    word = row_of(metric).directions[ratio.estimate < 1]
    return f"{change(ratio).lstrip('+−')} {word}", within(ratio).replace(" times", "×")


def _decimals(ratio: Interval) -> int | None:
    """Return the decimals of a change in per cent, and of its ends; None: as without ends.

    The interval's width decides, so that columns align: from 0.1 to 1 % there is one decimal, two
    below. Wider ones have one for sizes below 10 %, and none above. More are shown only if a change
    that the interval proves would otherwise round to none.
    """
    if ratio.ends is None or (width := 100 * (ratio.ends[1] - ratio.ends[0])) <= 0:
        return None
    changes = [100 * (end - 1) for end in (ratio.estimate, *ratio.ends)]
    decimals = max(
        int(round(max(map(abs, changes)), 1) < 10), 1 - math.ceil(math.log10(width) - _ROUNDING)
    )
    while ratio.excludes(1) and decimals < 2 and not all(round(end, decimals) for end in changes):
        decimals += 1
    return min(2, decimals)


def _factor(ratio: Interval, end: float) -> str:
    """Format an end of a ratio as a factor; no end that excludes 1 rounds to it."""
    coarse = ratio.ends is not None and ratio.ends[1] - ratio.ends[0] > _COARSE
    text = units.significant(end, 3 - coarse)
    return units.significant(end) if text == "1.0" else text


def ends(ratio: Interval | None) -> str:
    """Format a ratio's interval as a change, `+0.9…+1.5 %`, or as factors; empty without one."""
    if ratio is None or ratio.ends is None:
        return ""
    low, high = ratio.ends
    if high > _WIDE * low:  # two loud samples bound nothing: their ends are no figures
        return f"wider than a factor of {_WIDE:g}"
    if ratio.estimate >= _DOUBLED:
        return f"{'…'.join(_factor(ratio, end) for end in ratio.ends)}×"
    return f"{'…'.join(_signed(end, _decimals(ratio)) for end in ratio.ends)} %"


def reach(ratios: Iterable[Interval]) -> float:
    """Return an axis' reach for changes: all estimates, and nine of ten intervals, are within it.

    The other intervals, and those that bound nothing, end in an arrow.
    """
    ratios = list(ratios)
    bounds = (r.ends for r in ratios if r.ends and r.ends[1] <= _WIDE * r.ends[0])
    widths = sorted(max(abs(end - 1) for end in ends) for ends in bounds)
    inner = widths[math.ceil(0.9 * len(widths)) - 1 :][:1]
    return max([0.0, *(abs(ratio.estimate - 1) for ratio in ratios), *inner])


def within(ratio: Interval) -> str:
    """Write a size's interval, the nearer end first: `18…22 %`, `2.0…2.7 times`; empty without."""
    if ratio.ends is None or ratio.estimate >= _DOUBLED or not ratio.excludes(1):
        return ends(ratio).replace("×", " times")  # signs show that either direction is possible
    near, far = sorted(ratio.ends, key=lambda end: abs(end - 1))
    return "…".join(_signed(end, _decimals(ratio)).lstrip("+−") for end in (near, far)) + " %"


def movement(metric: str, ratio: Interval) -> str:
    """Say how much a case moved: `needs 22 % more CPU`; from doubling on `31 times the CPU`."""
    size = change(ratio).lstrip("+−").replace("×", " times")
    return row_of(metric).effect(size, rose=ratio.estimate >= 1)


def size(change: float | None) -> str:
    """Format a relative size without sign: `0.62 %`, `2.4 times`; a dash if there is none."""
    if change is None:
        return MISSING
    factor = 1 + change
    if factor > _BEYOND:
        return f"over {_BEYOND:g} times"
    if factor >= _DOUBLED:
        return f"{units.significant(factor, 2)} times"
    return f"{units.significant(100 * change, 2)} %"


def _signed(ratio: float, decimals: int | None = None) -> str:
    change = 100 * (ratio - 1)
    digits = decimals if decimals is not None else 2 if round(abs(change), 2) < 10 else 1
    # No sign if it rounds to zero.
    return units.signed(change, f",.{digits}f") if round(change, digits) else f"{0:.{digits}f}"
