"""How estimates read: a figure with its unit, and its interval in the shortest honest way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from servebench import units
from servebench.metrics import METRICS

if TYPE_CHECKING:  # figures are computed with numpy; words about them need none
    from servebench.summary import Estimate

MISSING: Final = "—"
_SYMMETRIC: Final = 0.25  # up to here both halves of an interval are nearly equal
_ROUNDING: Final = 1e-9  # of means over logarithms, relative


def figure(metric: str, value: float | None) -> str:
    """A metric's figure with its unit; a dash when there is none."""
    return MISSING if value is None else METRICS[metric].format(value)


def interval(metric: str, estimate: Estimate | None) -> str:
    """The 95 % interval: `±1.2 %`, or `lo…hi` where it is wide; empty when there is none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    if math.isclose(estimate.low, estimate.high, rel_tol=_ROUNDING):
        return ""  # the same in every launch: a declared value, or a count of zero
    spread = estimate.spread
    if spread is not None and spread <= _SYMMETRIC:
        return f"±{units.significant(100 * spread, 2)} %"
    return _span(METRICS[metric].format(estimate.low), METRICS[metric].format(estimate.high))


def ratio(value: float) -> str:
    """A ratio with at least three significant digits."""
    return units.significant(value, 3)


def ratio_interval(estimate: Estimate) -> str:
    """The interval of a ratio: `1.83…1.97`; empty when there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{ratio(estimate.low)}…{ratio(estimate.high)}"


def limits(least: float | None, most: float | None) -> str:
    """The range that a statement expects."""
    if least is not None and most is not None:
        return f"{least:g} to {most:g}"
    return f"≥ {least:g}" if least is not None else f"≤ {most:g}"


def duration(seconds: float) -> str:
    """A wall time as people say it: `48 s`, `12 min`, `1 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _span(low: str, high: str) -> str:
    """`1.2…3.4 ms` rather than `1.2 ms…3.4 ms`."""
    number, _, unit = low.partition(" ")
    if unit and high.endswith(f" {unit}"):
        return f"{number}…{high}"
    if low.endswith("/s") and high.endswith("/s"):
        return f"{low.removesuffix('/s')}…{high}"
    return f"{low}…{high}"
