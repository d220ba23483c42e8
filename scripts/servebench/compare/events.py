"""Events: many cases that moved alike are one piece of news with one cause.

A release that makes every case of a server slower is one event, not forty rows. What the moved
cases share is looked for among a few factors, and the narrowest one that explains them is named:
"granian" says more than "the machine".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import geometric_mean
from typing import Final, Literal

from servebench.compare.model import CaseComparison, Event, Judgement, Verdict
from servebench.model import Case

FEWEST: Final = 3
"""Cases that make an event."""

WITHIN: Final = 0.8
"""Share of the judged cases with a factor's value that must have moved alike."""

EXPLAINED: Final = 0.9
"""Share of all cases that moved alike that the factor's value must hold."""

Factor = Literal["machine", "interpreter", "interface", "server", "stack", "experiment"]

FACTORS: Final[dict[Factor, Callable[[Case], str]]] = {
    "experiment": lambda case: case.experiment,
    "stack": lambda case: case.stack,
    "server": lambda case: case.server,
    "interface": lambda case: case.endpoint.interface,
    "interpreter": lambda case: case.python,
    "machine": lambda _: "all",
}
"""What cases can share. Of two that hold the same cases, the earlier one is named."""

_MOVED: Final = (Verdict.SLOWER, Verdict.FASTER)


def events(cases: Sequence[CaseComparison]) -> tuple[Event, ...]:
    """Find the events of a comparison: at most one per metric and direction, widest first."""
    metrics = dict.fromkeys(judged.metric for case in cases for judged in case.judgements)
    found = [
        event
        for metric in metrics
        for verdict in _MOVED
        if (event := _event(cases, metric, verdict)) is not None
    ]
    return tuple(sorted(found, key=lambda event: -len(event.cases)))


def _event(cases: Sequence[CaseComparison], metric: str, verdict: Verdict) -> Event | None:
    judged = list(_judged(cases, metric))
    moved = [case for case, judgement in judged if judgement.verdict is verdict]
    if len(moved) < FEWEST:
        return None
    toward = {judgement.ratio is not None and judgement.ratio > 1
              for _, judgement in judged if judgement.verdict is verdict}  # fmt: skip
    counting = [case for case, judgement in judged if not _undecided(judgement, toward)]
    best: tuple[int, Factor, str, list[CaseComparison]] | None = None
    for factor, value_of in FACTORS.items():
        for value in dict.fromkeys(value_of(case.case) for case in moved):
            held = [case for case in moved if value_of(case.case) == value]
            around = sum(value_of(case.case) == value for case in counting)
            if (
                len(held) >= FEWEST
                and len(held) >= WITHIN * around
                and len(held) >= EXPLAINED * len(moved)
                and (best is None or around < best[0])
            ):
                best = around, factor, value, held
    if best is None:
        return None
    _, factor, value, held = best
    names = tuple(case.case.id for case in held)
    ratio, low, high = _together(one for case, one in judged if case.case.id in names)
    return Event(
        factor=factor, value=value, metric=metric, verdict=verdict,
        ratio=ratio, low=low, high=high, cases=names,
    )  # fmt: skip


def _judged(
    cases: Sequence[CaseComparison], metric: str
) -> Iterator[tuple[CaseComparison, Judgement]]:
    for case in cases:
        for judgement in case.judgements:
            if judgement.metric == metric and judgement.verdict is not Verdict.NOT_COMPARABLE:
                yield case, judgement


def _undecided(judgement: Judgement, toward: set[bool]) -> bool:
    """Whether a case is for lack of time neither for nor against: open, and it points there too."""
    if judgement.verdict is not Verdict.INCONCLUSIVE:
        return False
    low, high = judgement.low, judgement.high
    if low is None or high is None:
        return True
    return (low > 1 and True in toward) or (high < 1 and False in toward)


def _together(judged: Iterable[Judgement]) -> tuple[float, float, float]:
    """Geometric means over cases: of the ratio, and of either end of its interval.

    An interval of the mean alone, as if the cases were independent and their duets of a fixed
    number, would be too narrow: each case ends early where it looks large, those that moved were
    chosen for it, and both push all cases the same way. Of twenty cases slower by 1 % such an
    interval held the truth in three of four tries only.
    """
    ends = [
        (one.ratio, one.low, one.high)
        for one in judged
        if one.ratio is not None and one.low is not None and one.high is not None
    ]
    ratio, low, high = (geometric_mean(values) for values in zip(*ends, strict=True))
    return ratio, low, high
