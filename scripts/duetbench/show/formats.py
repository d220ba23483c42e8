"""How estimates, changes and verdicts read: figures with units, intervals, per cent, and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.store.comparison import Verdict

if TYPE_CHECKING:  # figures are computed with numpy; words about them need none
    from duetbench.trend.summary import Estimate

GLOSSARY: Final = "docs/glossary.md"
"""What the words of reports mean; the site has it at `glossary/`."""

MISSING: Final = "—"
MARKS: Final = {
    Verdict.SLOWER: "▼",
    Verdict.FASTER: "▲",
    Verdict.NO_CHANGE: "=",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_COMPARABLE: "✕",
}
"""A mark beside each word: neither colour nor sign alone ever says what is better."""

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
    low, high = (METRICS[metric].format(end) for end in (estimate.low, estimate.high))
    # `1.2…3.4 ms` rather than `1.2 ms…3.4 ms`.
    number, _, unit = low.partition(" ")
    if unit and high.endswith(f" {unit}"):
        return f"{number}…{high}"
    if low.endswith("/s") and high.endswith("/s"):
        return f"{low.removesuffix('/s')}…{high}"
    return f"{low}…{high}"


def ratio(value: float | None) -> str:
    """A ratio with at least three significant digits; a dash when there is none."""
    return MISSING if value is None else units.significant(value, 3)


def ratio_interval(estimate: Estimate) -> str:
    """The interval of a ratio: `1.83…1.97`; empty when there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{ratio(estimate.low)}…{ratio(estimate.high)}"


def ratio_with_interval(estimate: Estimate) -> str:
    """A ratio as it is cited: `1.90 (1.83…1.97)`."""
    interval = ratio_interval(estimate)
    return ratio(estimate.mean) + (f" ({interval})" if interval else "")


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


def verdict(metric: str, found: Verdict) -> str:
    """The verdict's word with its mark; memory gets larger and smaller, not slower and faster."""
    word = found.value
    if metric and METRICS[metric].unit == "B":
        word = {Verdict.SLOWER: "larger", Verdict.FASTER: "smaller"}.get(found, word)
    return f"{MARKS[found]} {word}"


def worded(metric: str, found: Verdict) -> str:
    """The verdict's word alone; of what is not in the registry, as it is recorded."""
    return verdict(metric, found).partition(" ")[2] if metric in METRICS else found.value


def percent(ratio: float | None) -> str:
    """A ratio as a signed change: `+1.23 %`; a dash when there is none."""
    return MISSING if ratio is None else f"{_signed(ratio)} %"


def ends(low: float, high: float) -> str:
    """Two ratios as the ends of a change: `+0.9…+1.5 %`."""
    return f"{_signed(low)}…{_signed(high)} %"


def moved(metric: str, ratio: float, low: float | None, high: float | None) -> str:
    """By how much a case moved, in plain words: `needs 22.0 % more CPU per request (20.7…24.0 %)`.

    `metric` is of the registry, or the unit that asv gives to a benchmark inside the process.
    Without an interval the size is none that could scatter: it was counted, which is said.
    """
    rose = ratio >= 1
    if low is None or high is None:
        within = "counted"
    elif low <= 1 <= high:
        within = ends(low, high)  # whose signs say that it may be either
    else:
        near, far = sorted((low, high), key=lambda end: abs(end - 1))
        within = f"{_plain(near)}…{_plain(far)} %"
    size = f"{_plain(ratio)} %"
    if metric in METRICS:
        said = METRICS[metric].moved(size, rose=rose)
    else:
        said = f"takes {size} {'more' if rose else 'less'} time in process"
    return f"{said} ({within})"


def _plain(ratio: float) -> str:
    return _signed(ratio).lstrip("+−")


def size(change: float | None) -> str:
    """A relative size without sign: `0.62 %`; a dash when there is none."""
    return MISSING if change is None else f"{units.significant(100 * change, 2)} %"


def title(metric: str) -> str:
    """The metric's column heading."""
    return METRICS[metric].title


def many(count: int, noun: str) -> str:
    """A count with its noun: `1 row`, `3 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some(names: Sequence[str], at_most: int) -> str:
    """Name the first few and count the others: `a, b and 3 more`."""
    named = ", ".join(names[:at_most])
    others = len(names) - at_most
    return f"{named} and {others} more" if others > 0 else named


def _signed(ratio: float) -> str:
    change = 100 * (ratio - 1)
    digits = 2 if round(abs(change), 2) < 10 else 1
    text = f"{change:+.{digits}f}"
    # Typographic minus, and no sign on what rounds to nothing.
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"
