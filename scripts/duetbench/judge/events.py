"""What cases moved together: one cause, said once, and tested once.

A release of a package moves several endpoints, and both interpreters. `together` tests all cases of
a comparison as one, which sees what none of them shows alone. `events` groups cases of which each
moved, and names the narrowest factor that explains them.
"""

import math
import statistics as figures
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Verdict
from duetbench.judge import statistics
from duetbench.judge.statistics import CONFIDENCE_RATE, Estimate, Sample
from duetbench.measure.testbed import server_of
from duetbench.store.comparison import CaseComparison, Event, Factor, Judgement

FEWEST: Final = 3
"""Cases that make an event."""

WITHIN: Final = 0.8
"""Share of the judged cases with a factor's value that must have moved alike."""

EXPLAINED: Final = 0.9
"""Share of all cases that moved alike that the factor's value must hold."""

SHARED: Final = 0.5
"""Correlation of cases that are measured on one launch: up to 52 % of a duet's variance were found
to be the launch's (docs/decides.md)."""

FACTORS: Final[Mapping[Factor, Callable[[Case], str]]] = {
    "experiment": lambda case: case.experiment,
    "stack": lambda case: case.stack,
    "server": lambda case: case.server,
    "interface": lambda case: case.endpoint.interface,
    "interpreter": lambda case: case.python,
    "machine": lambda _: "all",
}
"""Properties that cases can share. Of two that hold the same cases, the earlier one is named."""


def together(cases: Sequence[Estimate], metric: str, rate: float) -> Event | None:
    """Test all cases of a comparison as one, at its end; None: they did not move together.

    The size is the mean over servers, weighted by what is known of each (DerSimonian & Laird,
    Controlled Clinical Trials 7 (1986) 177): where they differ more than their errors, its interval
    is as much wider. `rate` is the error rate of both sides.
    """
    if len(cases) < 2:
        return None
    servers: defaultdict[Hashable, list[Estimate]] = defaultdict(list)
    for one in cases:
        servers[server_of(one.case)].append(one)
    means = np.array([figures.fmean(one.log for one in many) for many in servers.values()])
    variances = np.array([_joint([one.sample.error for one in m]) for m in servers.values()])
    weights = 1 / variances
    middle = float(weights @ means / weights.sum())
    excess = float(weights @ (means - middle) ** 2) - (len(means) - 1)
    if excess > 0 and len(means) > 1:
        variances += excess / float(weights.sum() - (weights**2).sum() / weights.sum())
        weights = 1 / variances
        middle = float(weights @ means / weights.sum())
    n = sum(one.sample.n - 1 for one in cases) + 1
    pooled = Sample(n, middle, math.sqrt(n / float(weights.sum())))
    against = sum(one.same or one.log * middle <= 0 for one in cases)
    if statistics.moved_p(pooled, METRICS[metric].floor) > rate:
        return None
    if against > (1 - WITHIN) * len(cases):
        return None
    low, high = statistics.interval(pooled, min(rate, CONFIDENCE_RATE))
    worse = (middle > 0) == (METRICS[metric].better == "lower")
    return Event(
        factor="change", value="all", metric=metric,
        verdict=Verdict.SLOWER if worse else Verdict.FASTER, ratio=math.exp(middle),
        low=math.exp(low), high=math.exp(high), cases=tuple(one.case.id for one in cases),
    )  # fmt: skip


def _joint(errors: Sequence[float]) -> float:
    """Variance of the mean of cases that share their launches."""
    total, own = sum(errors) ** 2, sum(error**2 for error in errors)
    return (own + SHARED * (total - own)) / len(errors) ** 2


def events(cases: Sequence[CaseComparison]) -> tuple[Event, ...]:
    """Find the events of a comparison: at most one per metric and direction, widest first."""
    judged: dict[str, list[tuple[Case, Judgement]]] = defaultdict(list)
    for case in cases:
        for judgement in case.judgements:
            if judgement.verdict is not Verdict.NOT_COMPARABLE:
                judged[judgement.metric].append((case.case, judgement))
    moved = Verdict.SLOWER, Verdict.FASTER
    every = [_event(many, verdict) for many in judged.values() for verdict in moved]
    return tuple(sorted(filter(None, every), key=lambda event: -len(event.cases)))


def _event(judged: Sequence[tuple[Case, Judgement]], verdict: Verdict) -> Event | None:
    """The event of a metric and direction, if there is one."""
    moved = [(case, one) for case, one in judged if one.verdict is verdict]
    toward = {one.ratio is not None and one.ratio > 1 for _, one in moved}
    counting = [case for case, one in judged if not _undecided(one, toward)]
    explaining: list[tuple[int, Factor, str, list[tuple[Case, Judgement]]]] = []
    for factor, value_of in FACTORS.items():
        for value in dict.fromkeys(value_of(case) for case, _ in moved):
            held = [(case, one) for case, one in moved if value_of(case) == value]
            around = sum(value_of(case) == value for case in counting)
            if len(held) >= max(FEWEST, WITHIN * around, EXPLAINED * len(moved)):
                explaining.append((around, factor, value, held))
    if not explaining:
        return None
    _, factor, value, held = min(explaining, key=lambda one: one[0])
    # Geometric means, of either end too. An interval of the mean alone would be too narrow: each
    # case ends early where it looks large, and those that moved were chosen for it. Of twenty cases
    # slower by 1 % it held the truth in three of four tries only.
    ends = [(one.ratio, one.low, one.high) for _, one in held if one.ratio and one.low and one.high]
    ratio, low, high = (figures.geometric_mean(values) for values in zip(*ends, strict=True))
    return Event(
        factor=factor, value=value, metric=held[0][1].metric, verdict=verdict,
        ratio=ratio, low=low, high=high, cases=tuple(case.id for case, _ in held),
    )  # fmt: skip


def _undecided(one: Judgement, toward: set[bool]) -> bool:
    """Whether a case is for lack of time neither for nor against: open, and it points there too."""
    if one.low is None or one.high is None:
        return one.verdict is Verdict.INCONCLUSIVE
    points = (one.low > 1 and True in toward) or (one.high < 1 and False in toward)
    return one.verdict is Verdict.INCONCLUSIVE and points
