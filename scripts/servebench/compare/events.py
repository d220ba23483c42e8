"""Events: many cases that moved alike are one piece of news with one cause.

A release that makes every case of a server slower is one event, not forty rows. What the moved
cases share is looked for among a few factors, and the narrowest one that explains them is named:
"granian" says more than "the machine".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import numpy as np

from servebench.compare.method import CONFIDENCE_RATE
from servebench.compare.model import CaseComparison, Event, Judgement, Verdict
from servebench.compare.samples import is_usable, logs
from servebench.compare.statistics import sample
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
    mean, low, high = _together(held, metric)
    return Event(
        factor=factor, value=value, metric=metric, verdict=verdict,
        ratio=math.exp(mean), low=math.exp(low), high=math.exp(high),
        cases=tuple(case.case.id for case in held),
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


def _together(cases: Sequence[CaseComparison], metric: str) -> tuple[float, float, float]:
    """Mean log ratio over cases, with the interval that the scatter within them leaves.

    Each case counts once, however many duets it had. The degrees of freedom are Welch's and
    Satterthwaite's, since cases scatter differently (Biometrics Bulletin 2 (1946) 110).
    """
    from scipy import special  # noqa: PLC0415 - only those who compare wait for its import

    samples = [
        sample(
            logs(
                [duet for duet in case.duets if duet.stage == "confirmation" and is_usable(duet)],
                metric,
            )
        )
        for case in cases
    ]
    parts = np.array([one.error**2 for one in samples]) / len(samples) ** 2
    freedom = parts.sum() ** 2 / (parts**2 / [one.n - 1 for one in samples]).sum()
    half = float(special.stdtrit(freedom, 1 - CONFIDENCE_RATE / 2) * math.sqrt(parts.sum()))
    mean = float(np.mean([one.mean for one in samples]))
    return mean, mean - half, mean + half
