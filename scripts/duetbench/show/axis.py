"""A comparison's rows with their intervals drawn in text, one line each on one axis. Pure.

Left of the middle is smaller, right of it larger; what of both is better says the verdict.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from duetbench.core.metrics import METRICS
from duetbench.show import formats
from duetbench.show.rows import INPROCESS_THRESHOLD, ViewRow

WIDEST: Final = 41
NARROWEST: Final = 15
"""Columns of the axis: an odd number, whose middle is no change."""

_NICE: Final = (1.0, 2.0, 5.0, 10.0)
_LEAST: Final = 0.01  # the axis goes so far to both sides, or further


def width(room: int, names: int) -> int:
    """Columns of the axis in so much room, beside names if that is enough; 0: there is none."""
    found = min(next((one for one in (room - names, room) if one >= NARROWEST), 0), WIDEST)
    return found - (found % 2 == 0) if found else 0


def reach(rows: Sequence[ViewRow]) -> float:
    """How far the axis goes to both sides, as a relative change: 0.05.

    It holds all estimates and nine of ten intervals; the others have an arrow at its end.
    """
    sizes = [abs(row.judged.ratio - 1) for row in rows if row.judged.ratio is not None]
    widths = sorted(
        max(abs(row.judged.low - 1), abs(row.judged.high - 1))
        for row in rows
        if row.judged.low is not None and row.judged.high is not None
    )
    sizes += widths[math.ceil(0.9 * len(widths)) - 1 :][:1]
    wanted = max(_LEAST, *sizes) if sizes else _LEAST
    unit = 10.0 ** math.floor(math.log10(wanted))
    return next((unit * nice for nice in _NICE if unit * nice >= wanted * (1 - 1e-9)), 10 * unit)


def scale(far: float, width: int) -> str:
    """The line above the axes: both ends, and the middle."""
    end = f"{100 * far:g} %"
    half = (width - 1) // 2
    return f"−{end}".ljust(half) + "0" + f"+{end}".rjust(half)


def interval(row: ViewRow, far: float, width: int) -> str:
    """The axis of a row: its estimate ●, its 95 % interval ├─┤, no change │, the floor ┊.

    What lies beyond no change never touches the middle, however near it is.
    """
    half = (width - 1) // 2
    cells = [" "] * width
    for side in (-1, 1):
        floor = round(half * _floor(row) / far)
        if 0 < floor <= half:
            cells[half + side * floor] = "┊"
    cells[half] = "│"
    one = row.judged
    if one.ratio is None:
        return "".join(cells)
    if one.low is not None and one.high is not None:
        low, high = (_column(end, far, half) for end in (one.low, one.high))
        first, last = max(low, -half), min(high, half)
        for at in range(first, last + 1):
            cells[half + at] = "┼" if at == 0 else "─"
        if first < last:
            for at, beyond, end, arrow in (
                (first, low < -half, "├", "◄"), (last, high > half, "┤", "►"),
            ):  # fmt: skip
                cells[half + at] = arrow if beyond else end
    middle = _column(one.ratio, far, half)
    cells[half + min(max(middle, -half), half)] = "●"
    return "".join(cells)


def floors(rows: Sequence[ViewRow]) -> Iterator[str]:
    """Each metric's relevance floor: `CPU/request 0.2 %`."""
    told = {row.label: _floor(row) for row in rows if row.judged.ratio is not None}
    yield from (f"{label} {100 * size:g} %" for label, size in told.items())


def _floor(row: ViewRow) -> float:
    return METRICS[row.metric].floor if row.metric else INPROCESS_THRESHOLD


def _column(ratio: float, far: float, half: int) -> int:
    """Columns from the middle; 0 is no change alone, or what nobody could tell from it."""
    change = ratio - 1
    if formats.percent(ratio) == formats.percent(1.0):
        return 0
    return int(math.copysign(max(1, round(half * abs(change) / far)), change))
