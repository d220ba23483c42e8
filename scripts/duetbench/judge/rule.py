"""The rule: what duets show of each case and metric, and which case needs another duet. Pure.

The sample is a duet, and its value the logarithm of the ratio of head to base: +1 % and -1 % are
equally far from none, and a mean is a geometric mean. Student's t tests whether a metric moved by
more than a tenth of its limit, and whether it moved by less than the limit. From the third duet on,
a metric is decided as soon as a test has p < 0.001 (Haybittle and Peto's bound). At the end, all
pairs of case and metric are tested at 5 %, corrected for their number by Benjamini & Hochberg.

docs/decides.md gives the reasons and the trials.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from scipy import special

from duetbench.core.metrics import CPU, MATERIAL, METRICS, PERCENTILES, Concern
from duetbench.core.model import Verdict
from duetbench.judge import statistics
from duetbench.judge.samples import SHARE, CaseDuets
from duetbench.judge.statistics import POWER, RATE, RESOLUTION, Logs, Sample
from duetbench.store.comparison import ACTED_ON, Event, Judgement

FEWEST: Final = 3
"""Duets of a case before which nothing is decided."""

MOST: Final = 60
"""Usable duets of a case after which it gets no more."""

PATIENCE: Final = 1.5
"""Duets of a case, in multiples of `MOST`, after which it gets no more: a disturbed machine may
never give enough usable ones."""

EARLY: Final = 0.001
"""p value at which a metric is decided before the end: over all looks it adds less than 1 % to the
rate of false verdicts."""

SHIPPED: Final[Mapping[str, float]] = {CPU: 0.02, "throughput": 0.02, "pss_steady": 0.003}
"""Usual standard deviation of the log ratio of a duet: as good as `WORTH` degrees of freedom."""

WORTH: Final = 2.0

Limits = Mapping[Concern, float]
"""Relative change on which somebody acts, by concern."""

_MEMORY: Final = "pss_steady"  # the metric under which a leak is reported


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the duets of one case show of one metric.

    `moved` and `same` are the p values of both tests. `early` is the answer that was reached before
    the end, and `sample` then includes at least the duets until there.
    """

    sample: Sample
    moved: float
    same: float
    early: Literal["moved", "same"] | None


def weigh(logs: Logs, metric: str, limit: float, *, shipped: bool = True) -> Evidence | None:
    """Test the log ratios of one metric after each duet; None before the third."""
    if len(logs) < FEWEST:
        return None
    known, worth = (SHIPPED[metric], WORTH) if shipped and metric in SHIPPED else (0.0, 0.0)
    n = np.arange(1, len(logs) + 1)
    mean = np.cumsum(logs) / n
    squares = np.maximum(np.cumsum(logs**2) - n * mean**2, 0.0)
    freedom = np.maximum(n - 1 + worth, 1)
    deviation = np.sqrt((squares + worth * known**2) / freedom)
    error = np.maximum(deviation, RESOLUTION) / np.sqrt(n)
    moved = statistics.moved_ps(mean, error, freedom, statistics.floor_of(limit))
    same = special.stdtr(freedom, (np.abs(mean) - math.log1p(limit)) / error)
    stops = np.flatnonzero((np.minimum(moved, same) < EARLY) & (n >= FEWEST))
    last = len(logs) - 1
    early: Literal["moved", "same"] | None = None
    if len(stops):
        early = "moved" if moved[stops[0]] < EARLY else "same"
        # What is decided stays decided: later duets only make its figure better.
        later = (moved if early == "moved" else same)[last]
        last = last if later <= RATE else int(stops[0])
    sample = Sample(int(n[last]), float(mean[last]), float(deviation[last]), float(freedom[last]))
    return Evidence(sample, float(moved[last]), float(same[last]), early)


def evidence(duets: CaseDuets, metric: str, limits: Limits) -> Evidence | None:
    """Weigh one metric of a case; None without enough duets."""
    if metric not in duets.metrics:
        return None
    limit = limits[METRICS[metric].concern]
    return weigh(duets.logs(metric), metric, limit, shipped=not duets.alone)


def wants(duets: CaseDuets, limits: Limits) -> bool:
    """Whether a case needs another duet: one of its leading metrics is not decided."""
    if duets.void or len(duets.usable) >= MOST or len(duets.all) >= PATIENCE * MOST:
        return False
    found = {metric: evidence(duets, metric, limits) for metric in duets.leading}
    moved = {metric for metric, of in found.items() if of and of.early == "moved"}
    return any(
        not (of and of.early)
        for metric, of in found.items()
        if metric in duets.metrics and not _follows(duets, metric, moved)
    )


def missing(duets: CaseDuets) -> int:
    """Count the duets until the next decision on a case that is not decided, if none fails."""
    return max(1, FEWEST - len(duets.all))


def judge(
    samples: Mapping[str, CaseDuets], limits: Limits = MATERIAL
) -> dict[str, tuple[Judgement, ...]]:
    """Judge all cases by the duets so far, leading metrics first.

    A case that failed twice on a side has one judgement, not comparable, without a ratio. A tail
    without an answer is inconclusive and says why, as no duets are run to decide it.
    """
    return _Verdicts(samples, limits).judgements()


def together(samples: Mapping[str, CaseDuets], limits: Limits = MATERIAL) -> Event | None:
    """Test whether CPU per request moved in all cases as one: each case is a sample."""
    found = {key: evidence(duets, CPU, limits) for key, duets in samples.items() if not duets.void}
    means = {key: of.sample.mean for key, of in found.items() if of}
    if len(means) < 2:
        return None
    sample = statistics.sample(np.array([*means.values()]))
    if statistics.moved_p(sample, statistics.floor_of(limits["cpu"])) > RATE:
        return None
    low, high = statistics.interval(sample, RATE)
    return Event(
        metric=CPU,
        verdict=statistics.direction(CPU, sample.mean),
        ratio=math.exp(sample.mean),
        low=math.exp(low),
        high=math.exp(high),
        cases=tuple(means),
    )


def record(limits: Limits) -> dict[str, float | int | str]:
    """Return the parameters of the rule for a comparison's file."""
    sizes = {f"{ACTED_ON}{concern}": size for concern, size in limits.items()}
    own = {"fewest": FEWEST, "most": MOST, "patience": PATIENCE, "early": EARLY, "rate": RATE}
    return {**own, "power": POWER, **sizes}


class _Verdicts:
    """The verdicts on all cases, whose number corrects the p values of each."""

    def __init__(self, samples: Mapping[str, CaseDuets], limits: Limits) -> None:
        self.samples, self.limits = samples, limits
        self.evidence = {
            (key, metric): of
            for key, duets in samples.items()
            if not duets.void
            for metric in duets.metrics
            if (of := evidence(duets, metric, limits))
        }
        of_pairs = self.evidence.values()
        moved = statistics.adjust([of.moved for of in of_pairs])
        same = statistics.adjust([of.same for of in of_pairs])
        self.moved = dict(zip(self.evidence, moved, strict=True))
        self.same = dict(zip(self.evidence, same, strict=True))

    def judgements(self) -> dict[str, tuple[Judgement, ...]]:
        return {key: tuple(self._of_case(key, duets)) for key, duets in self.samples.items()}

    def _of_case(self, key: str, duets: CaseDuets) -> Iterator[Judgement]:
        counts: dict[str, Any] = {"duets": len(duets.usable), "excluded": duets.excluded}
        void = Verdict.NOT_COMPARABLE
        if duets.void:
            yield Judgement(metric=duets.leading[0], verdict=void, reason=duets.void, **counts)
            return
        if leak := duets.leak:
            yield Judgement(metric=_MEMORY, verdict=void, reason=leak, **counts)
        moved = {metric for metric in duets.metrics if self._verdict(key, metric) == "moved"}
        for metric in (*duets.leading, *duets.tails):
            if not _follows(duets, metric, moved):
                yield from self._of_metric(key, duets, metric)

    def _of_metric(self, key: str, duets: CaseDuets, metric: str) -> Iterator[Judgement]:
        counts: dict[str, Any] = {"duets": duets.count(metric), "excluded": duets.excluded}
        leading, unknown = metric in duets.leading, Verdict.INCONCLUSIVE
        if metric in duets.lost:
            reason = f"{METRICS[metric].title}: {_lack(duets, metric)}"
            verdict = Verdict.NOT_COMPARABLE if leading else unknown
            yield Judgement(metric=metric, verdict=verdict, reason=reason, **counts)
        elif metric in duets.metrics and (leading or duets.usable):
            found = self.evidence.get((key, metric))
            verdict = unknown
            if found and (state := self._verdict(key, metric)):
                moved = statistics.direction(metric, found.sample.mean)
                verdict = moved if state == "moved" else Verdict.NO_CHANGE
            yield Judgement(
                metric=metric,
                verdict=verdict,
                reason=_reason(duets, metric),
                p=self.moved.get((key, metric)),
                alone=duets.alone,
                **(self._figures(metric, found.sample) if found else {}),
                **counts,
            )

    def _verdict(self, key: str, metric: str) -> Literal["moved", "same"] | None:
        found = self.evidence.get((key, metric))
        if found is None:
            return None
        if found.early == "moved" or self.moved[key, metric] <= RATE:
            return "moved"
        return "same" if found.early == "same" or self.same[key, metric] <= RATE else None

    def _figures(self, metric: str, sample: Sample) -> dict[str, float]:
        """Compute ratio, interval and detectable change."""
        floor = statistics.floor_of(self.limits[METRICS[metric].concern])
        low, high = statistics.interval(sample, RATE)
        ratio, low, high = (math.exp(log) for log in (sample.mean, low, high))
        detectable = statistics.detectable(sample, floor, alpha=RATE, power=POWER)
        return {"ratio": ratio, "low": low, "high": high, "detectable": detectable}


def _follows(duets: CaseDuets, metric: str, moved: set[str]) -> bool:
    """Whether a metric follows from response times that moved, as a load leaves cores idle.

    A server that idles longer between requests needs more of a core for each: only counts tell
    whether its code does.
    """
    times = any(METRICS[name].concern == "latency" for name in moved)
    return metric == CPU and duets.waits and times


def _lack(duets: CaseDuets, metric: str) -> str:
    """Say how many samples have a metric, and what it needs."""
    noun = duets.mode.noun
    answers = {name: least for name, _, least in PERCENTILES}.get(metric.rpartition("_")[2], 1)
    share = f"{duets.count(metric)} of {len(duets.usable)} {noun}s have it, {SHARE:.0%} must"
    return share + f"; it takes {answers:,} answers of each side in a {noun}" * (answers > 1)


def _reason(duets: CaseDuets, metric: str) -> str:
    """Say what a verdict does not explain itself: that no sample was usable, or not all were."""
    noun, total = duets.mode.noun, len(duets.all)
    if not duets.usable:
        unusable = f"none of {total} {noun}s was usable: {duets.disturbances()}"
        return unusable if total else f"no time for a {noun}"
    if duets.count(metric) < len(duets.usable):
        return f"from the {noun}s that have it: {_lack(duets, metric)}"
    return ""
