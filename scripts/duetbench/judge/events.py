"""Tests all cases of a comparison as one: a release often moves several of them a little."""

import math
import statistics as figures
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from duetbench.core.metrics import METRICS
from duetbench.judge import statistics
from duetbench.judge.statistics import CONFIDENCE_RATE, Estimate, Sample
from duetbench.measure.testbed import server_of
from duetbench.store.comparison import Event

WITHIN: Final = 0.8
"""Least share of the cases that must have moved in one direction."""

SHARED: Final = 0.5
"""Correlation of cases measured on one launch: up to 52 % of a duet's variance was the launch's
(docs/decides.md)."""


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
    return Event(
        metric=metric,
        verdict=statistics.direction(metric, middle),
        ratio=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high),
        cases=tuple(estimate.case.id for estimate in cases),
    )


def _joint(errors: Sequence[float]) -> float:
    """Compute the variance of the mean of cases that share launches."""
    total, own = sum(errors) ** 2, sum(error**2 for error in errors)
    return (own + SHARED * (total - own)) / len(errors) ** 2
