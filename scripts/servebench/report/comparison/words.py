"""How a comparison's figures read: changes in per cent, verdicts in words, and lists of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from servebench import units
from servebench.compare.model import COUNTED, SEARCHED, Judgement, Verdict
from servebench.metrics import METRICS
from servebench.report.formats import MISSING

MARKS: Final = {
    Verdict.SLOWER: "▼",
    Verdict.FASTER: "▲",
    Verdict.NO_CHANGE: "=",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_COMPARABLE: "✕",
}
"""A mark beside each word: neither colour nor sign alone ever says what is better."""

_UNCONFIRMED: Final = ", not confirmed"
_CANDIDATES: Final = {SEARCHED: "seen in the screening", COUNTED: "instructions moved"}


def verdict(metric: str, found: Verdict) -> str:
    """The verdict's word; memory gets larger and smaller, not slower and faster."""
    if METRICS[metric].unit == "B":
        word = {Verdict.SLOWER: "larger", Verdict.FASTER: "smaller"}.get(found, found.value)
    else:
        word = found.value
    return f"{MARKS[found]} {word}"


def said(metric: str, judged: Judgement) -> str:
    """The verdict with its mark; of what had no time to be confirmed, that it was seen."""
    why, _, rest = reason(judged).partition(f"{_UNCONFIRMED}: ")
    if rest:
        return f"{MARKS[judged.verdict]} {why}{_UNCONFIRMED}: {' '.join(rest.split()[:2])}"
    if not metric:
        return f"{MARKS[judged.verdict]} {judged.verdict.value}"
    return verdict(metric, judged.verdict)


def reason(judged: Judgement) -> str:
    """Why there is no verdict: of a candidate that had no time, that it was seen, but not twice."""
    why, _, rest = judged.reason.partition("; ")
    if why in _CANDIDATES and rest.startswith("no time ") and judged.ratio is not None:
        return f"{_CANDIDATES[why]}{_UNCONFIRMED}: {rest}"
    return judged.reason


def percent(ratio: float | None) -> str:
    """A ratio as a signed change: `+1.23 %`; a dash when there is none."""
    if ratio is None:
        return MISSING
    change = 100 * (ratio - 1)
    return f"{_signed(change)} %"


def ends(low: float, high: float) -> str:
    """Two ratios as the ends of a change: `+0.9…+1.5 %`."""
    return f"{_signed(100 * (low - 1))}…{_signed(100 * (high - 1))} %"


def interval(judged: Judgement) -> str:
    """The interval of a change: `+0.9…+1.5 %`; empty when there is none."""
    if judged.low is None or judged.high is None:
        return ""
    return ends(judged.low, judged.high)


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


def _signed(change: float) -> str:
    digits = 2 if abs(change) < 10 else 1
    text = f"{change:+.{digits}f}"
    # Typographic minus, and no sign on what rounds to nothing.
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"
