"""Finds cases that moved together, for one cause that is reported once and tested once.

A release of a package moves several endpoints, and both interpreters. `together` tests all cases of
a comparison as one, and so sees changes that no single case shows. `events` groups cases that each
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
"""Fewest cases of an event."""

WITHIN: Final = 0.8
"""Least share of the judged cases with a factor's value that must have moved alike."""

EXPLAINED: Final = 0.9
"""Least share of all cases that moved alike that must have the factor's value."""

SHARED: Final = 0.5
"""Correlation of cases measured on one launch: up to 52 % of a duet's variance was the launch's
(docs/decides.md)."""

FACTORS: Final[Mapping[Factor, Callable[[Case], str]]] = {
    "experiment": lambda case: case.experiment,
    "stack": lambda case: case.stack,
    "server": lambda case: case.server,
    "interface": lambda case: case.endpoint.interface,
    "interpreter": lambda case: case.python,
    "machine": lambda _: "all",
}
"""Properties that cases can share. If two cover the same cases, the earlier one is named."""


def together(cases: Sequence[Estimate], metric: str, rate: float) -> Event | None:
    """Test all cases of a comparison as one, at its end; None: they did not move together.

    The size is the mean over servers, weighted by their precision (DerSimonian & Laird, Controlled
    Clinical Trials 7 (1986) 177). If servers differ by more than their errors, its interval is
    wider accordingly. `rate` is the two-sided error rate.
    """
    if len(cases) < 2:
        return None
    servers: defaultdict[Hashable, list[Estimate]] = defaultdict(list)
    for estimate in cases:
        servers[server_of(estimate.case)].append(estimate)
    means = np.array([figures.fmean(e.log for e in group) for group in servers.values()])
    variances = np.array([_joint([e.sample.error for e in group]) for group in servers.values()])
    weights = 1 / variances
    middle = float(weights @ means / weights.sum())
    excess = float(weights @ (means - middle) ** 2) - (len(means) - 1)
    if excess > 0 and len(means) > 1:
        variances += excess / float(weights.sum() - (weights**2).sum() / weights.sum())
        weights = 1 / variances
        middle = float(weights @ means / weights.sum())
    n = sum(estimate.sample.n - 1 for estimate in cases) + 1
    pooled = Sample(n, middle, math.sqrt(n / float(weights.sum())))
    against = sum(estimate.same or estimate.log * middle <= 0 for estimate in cases)
    if statistics.moved_p(pooled, METRICS[metric].floor) > rate:
        return None
    if against > (1 - WITHIN) * len(cases):
        return None
    low, high = statistics.interval(pooled, min(rate, CONFIDENCE_RATE))
    worse = (middle > 0) == (METRICS[metric].better == "lower")
    return Event(
        factor="change", value="all", metric=metric,
        verdict=Verdict.SLOWER if worse else Verdict.FASTER, ratio=math.exp(middle),
        low=math.exp(low), high=math.exp(high), cases=tuple(estimate.case.id for estimate in cases),
    )  # fmt: skip


def _joint(errors: Sequence[float]) -> float:
    """Compute the variance of the mean of cases that share launches."""
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
    candidates = [_event(pairs, verdict) for pairs in judged.values() for verdict in moved]
    return tuple(sorted(filter(None, candidates), key=lambda event: -len(event.cases)))


def _event(judged: Sequence[tuple[Case, Judgement]], verdict: Verdict) -> Event | None:
    """Find the event of a metric and direction; None if there is none."""
    moved = [(case, judgement) for case, judgement in judged if judgement.verdict is verdict]
    toward = {judgement.ratio is not None and judgement.ratio > 1 for _, judgement in moved}
    counting = [case for case, judgement in judged if not _undecided(judgement, toward)]
    factors: list[tuple[int, Factor, str, list[tuple[Case, Judgement]]]] = []
    for factor, value_of in FACTORS.items():
        for value in dict.fromkeys(value_of(case) for case, _ in moved):
            members = [(case, judgement) for case, judgement in moved if value_of(case) == value]
            around = sum(value_of(case) == value for case in counting)
            if len(members) >= max(FEWEST, WITHIN * around, EXPLAINED * len(moved)):
                factors.append((around, factor, value, members))
    if not factors:
        return None
    _, factor, value, members = min(factors, key=lambda item: item[0])
    # Geometric means, also of both ends. An interval of the mean alone would be too narrow: each
    # case ends early if it looks large, and the cases were selected because they moved. Of twenty
    # cases slower by 1 %, such an interval held the truth in only three of four trials.
    ends = [(j.ratio, j.low, j.high) for _, j in members if j.ratio and j.low and j.high]
    ratio, low, high = (figures.geometric_mean(values) for values in zip(*ends, strict=True))
    return Event(
        factor=factor, value=value, metric=members[0][1].metric, verdict=verdict,
        ratio=ratio, low=low, high=high, cases=tuple(case.id for case, _ in members),
    )  # fmt: skip


def _undecided(judgement: Judgement, toward: set[bool]) -> bool:
    """Whether an inconclusive case counts neither for nor against: it points the same way, too."""
    if judgement.low is None or judgement.high is None:
        return judgement.verdict is Verdict.INCONCLUSIVE
    points = (judgement.low > 1 and True in toward) or (judgement.high < 1 and False in toward)
    return judgement.verdict is Verdict.INCONCLUSIVE and points
