"""How estimates, changes and verdicts read: figures with units, intervals, per cent, and counts."""

import math
from collections.abc import Sequence
from typing import Final

from duetbench.core import units
from duetbench.core.metrics import INSTRUCTIONS, METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import Interval

GLOSSARY: Final = "docs/glossary.md"
"""What the words of reports mean."""

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


def interval(metric: str, figure: Interval | None) -> str:
    """The 95 % interval of a metric's figure, as `spread` writes it."""
    return spread(METRICS[metric].format, figure)


def spread(write: units.Formatter, figure: Interval | None) -> str:
    """The 95 % interval: `±1.2 %`, or `lo…hi` where it is wide; empty when there is none."""
    if figure is None or figure.ends is None:
        return ""
    if math.isclose(*figure.ends, rel_tol=_ROUNDING):
        return ""  # the same in every launch: a declared value, or a count of zero
    half = figure.spread
    if half is not None and half <= _SYMMETRIC:
        return f"±{units.significant(100 * half, 2)} %"
    low, high = map(write, figure.ends)
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


def ratio_interval(figure: Interval) -> str:
    """The interval of a ratio: `1.83…1.97`; empty when there is none."""
    return "…".join(map(ratio, figure.ends or ()))


def ratio_with_interval(figure: Interval) -> str:
    """A ratio as it is cited: `1.90 (1.83…1.97)`."""
    interval = ratio_interval(figure)
    return ratio(figure.estimate) + (f" ({interval})" if interval else "")


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


def verdict(metric: str, outcome: Verdict) -> str:
    """The verdict's word with its mark; memory gets larger and smaller, not slower and faster."""
    word = outcome.value
    if metric and METRICS[metric].unit == "B":
        word = {Verdict.SLOWER: "larger", Verdict.FASTER: "smaller"}.get(outcome, word)
    return f"{MARKS[outcome]} {word}"


def worded(metric: str, outcome: Verdict) -> str:
    """The verdict's word alone; of what is not in the registry, as it is recorded."""
    return verdict(metric, outcome).partition(" ")[2] if metric in METRICS else outcome.value


def percent(ratio: float | None) -> str:
    """A ratio as a signed change: `+1.23 %`; a dash when there is none."""
    return MISSING if ratio is None else f"{_signed(ratio)} %"


def ends(ratio: Interval | None) -> str:
    """A ratio's interval as the ends of a change: `+0.9…+1.5 %`; empty when there is none."""
    return f"{'…'.join(map(_signed, ratio.ends))} %" if ratio and ratio.ends else ""


def moved(metric: str, ratio: Interval) -> str:
    """By how much a case moved, in plain words: `needs 22.0 % more CPU per request (20.7…24.0 %)`.

    `metric` is of the registry, or the unit that asv gives to a benchmark inside the process.
    A size without an interval was counted and cannot scatter; the text says so.
    """
    rose = ratio.estimate >= 1
    if ratio.ends is None:
        within = "counted"
    elif ratio.excludes(1):
        near, far = sorted(ratio.ends, key=lambda end: abs(end - 1))
        within = f"{_plain(near)}…{_plain(far)} %"
    else:
        within = ends(ratio)  # whose signs say that it may be either
    size = f"{_plain(ratio.estimate)} %"
    if metric in METRICS:
        words = METRICS[metric].moved(size, rose=rose)
    else:
        less, noun = ("fewer", "instructions") if metric == INSTRUCTIONS else ("less", "time")
        words = f"takes {size} {'more' if rose else less} {noun} in process"
    return f"{words} ({within})"


def _plain(ratio: float) -> str:
    return _signed(ratio).lstrip("+−")


def size(change: float | None) -> str:
    """A relative size without sign: `0.62 %`; a dash when there is none."""
    return MISSING if change is None else f"{units.significant(100 * change, 2)} %"


def title(metric: str) -> str:
    """The metric's column heading."""
    return METRICS[metric].title


def quantity(number: int, singular: str, plural: str = "") -> str:
    """`1 case`, `2 cases`, `1,825 nights`."""
    return f"{units.count(number)} {singular if number == 1 else plural or f'{singular}s'}"


def some(names: Sequence[str], at_most: int) -> str:
    """Name the first few and count the others: `a, b and 3 more`."""
    first = ", ".join(names[:at_most])
    others = len(names) - at_most
    return f"{first} and {others} more" if others > 0 else first


def _signed(ratio: float) -> str:
    change = 100 * (ratio - 1)
    digits = 2 if round(abs(change), 2) < 10 else 1
    text = f"{change:+.{digits}f}"
    # Typographic minus, and no sign on what rounds to nothing.
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"
