"""The rule: what duets show of each case and metric, and which case needs another duet. Pure.

The sample is a duet, and its value the logarithm of the ratio of head to base: +1 % and -1 % are
equally far from none, and a mean is a geometric mean. Student's t tests whether a metric moved by
more than a tenth of its limit, and whether it moved by less than the limit. From the third duet on,
a metric is decided as soon as a test has p < 0.001 (Haybittle and Peto's bound). At the end, all
pairs of case and metric are tested at 5 %, corrected for their number by Benjamini & Hochberg.

docs/decides.md gives the reasons and the trials.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from duetbench.core.comparison import FAILURE, INSTRUCTIONS, Finding, Instructions
from duetbench.core.metrics import CPU, MATERIAL, METRICS, Concern
from duetbench.core.model import Verdict
from duetbench.judge.findings import of_effects, of_instructions, sort, within_limit
from duetbench.judge.pairs import SHARE, CaseDuets
from duetbench.judge.statistics import (
    RATE,
    RESOLUTION,
    Logs,
    Sample,
    adjust,
    direction,
    floor_of,
    moved_ps,
    probability,
)

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

State = Literal["moved", "same"] | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the duets of one case show of one metric.

    `moved` and `same` are the p values of both tests. `early` is the answer that was reached before
    the end, and `sample` then includes at least the duets until there.
    """

    sample: Sample
    moved: float
    same: float
    early: State


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
    moved = moved_ps(mean, error, freedom, floor_of(limit))
    same = probability(freedom, (np.abs(mean) - math.log1p(limit)) / error)
    stops = np.flatnonzero((np.minimum(moved, same) < EARLY) & (n >= FEWEST))
    last = len(logs) - 1
    early: State = None
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
    known = {metric: evidence(duets, metric, limits) for metric in duets.leading}
    moved = {metric for metric, of in known.items() if of and of.early == "moved"}
    return any(
        not (of and of.early)
        for metric, of in known.items()
        if metric in duets.metrics and not _follows(duets, metric, moved)
    )


def judge(
    cases: Sequence[CaseDuets], limits: Limits, *, loaded: bool = True
) -> tuple[Finding, ...]:
    """Judge all that was seen so far, at any time; `loaded`: whether duets were asked for."""
    samples = {of.case.id: of for of in cases if loaded}
    judged = [finding for findings in of_duets(samples, limits).values() for finding in findings]
    if as_one := together(samples, limits):
        judged.append(as_one)
    for of in cases:
        if of.effects:
            judged += of_effects(of.case, of.effects)
        if isinstance(of.counts, Instructions):
            counted = of_instructions(of.case.id, of.counts, limits["cpu"])
            if loaded and counted.moved:  # duets decide what that costs
                counted = counted.model_copy(update={"verdict": Verdict.DIFFERENT})
            judged.append(counted)
        elif of.counts is not None:
            unknown = {"verdict": Verdict.UNKNOWN, "why": of.counts}
            judged.append(Finding(case=of.case.id, subject=INSTRUCTIONS, **unknown))
    return sort(judged)


def of_duets(
    samples: Mapping[str, CaseDuets], limits: Limits = MATERIAL
) -> dict[str, tuple[Finding, ...]]:
    """Judge the metrics of all cases by the samples so far, leading metrics first.

    A case that failed twice on a side has one finding, of the failure. Nothing is said of a tail,
    nor of other metrics that prolong no comparison, if it is unknown.
    """
    all_ = [
        (key, metric, of)
        for key, duets in samples.items()
        if not duets.void
        for metric in duets.metrics
        if (of := evidence(duets, metric, limits))
    ]
    # The number of all corrects the p values of each.
    moved, same = adjust([of.moved for *_, of in all_]), adjust([of.same for *_, of in all_])
    known: dict[str, dict[str, tuple[Evidence, State]]] = {key: {} for key in samples}
    for (key, metric, of), moved_p, other in zip(all_, moved, same, strict=True):
        late: State = "moved" if moved_p <= RATE else "same" if other <= RATE else None
        known[key][metric] = of, of.early or late
    return {key: tuple(_of_case(key, samples[key], limits, of)) for key, of in known.items()}


def together(samples: Mapping[str, CaseDuets], limits: Limits = MATERIAL) -> Finding | None:
    """Test whether CPU per request moved in all cases as one: each case is a sample."""
    known = (evidence(duets, CPU, limits) for duets in samples.values() if not duets.void)
    logs, limit = np.array([of.sample.mean for of in known if of]), limits["cpu"]
    if len(logs) < 2:
        return None
    of = Sample(len(logs), float(logs.mean()), float(logs.std(ddof=1)), len(logs) - 1)
    if moved_ps(of.mean, of.error, of.freedom, floor_of(limit)) > RATE:
        return None
    figures = {"limit": limit, "n": len(logs), **_figures(of, logs, limit)}
    verdict = direction(CPU, of.mean)
    return within_limit(Finding(case="", subject=CPU, verdict=verdict, **figures))


def _of_case(
    key: str, duets: CaseDuets, limits: Limits, known: Mapping[str, tuple[Evidence, State]]
) -> Iterator[Finding]:
    if duets.void:
        # The change is not the reason if base fails as well.
        verdict = Verdict.WORSE if duets.failed == ("head",) else Verdict.UNKNOWN
        many = len(duets.usable)
        yield Finding(case=key, subject=FAILURE, verdict=verdict, why=duets.void, n=many)
        return
    moved = {metric for metric, (_, state) in known.items() if state == "moved"}
    for metric in (*duets.leading, *duets.tails):
        of, state = known.get(metric, (None, None))
        silent = state is None and (metric in duets.tails or duets.unsettled(metric))
        if silent or _follows(duets, metric, moved):
            continue
        limit, verdict = limits[METRICS[metric].concern], Verdict.UNKNOWN
        if of and state:
            verdict = direction(metric, of.sample.mean) if state == "moved" else Verdict.SAME
        base = duets.mean(metric)
        figures = _figures(of.sample, duets.logs(metric), limit) if of else {}
        yield within_limit(
            Finding(
                case=key,
                subject=metric,
                verdict=verdict,
                base=base,
                # Head's own figures scatter more than the ratio, and would often contradict it.
                head=base * figures["ratio"] if base and of else None,
                limit=limit,
                n=duets.count(metric),
                alone=duets.alone,
                why=_reason(duets, metric),
                lack="" if state else _lack(duets),
                **figures,
            )
        )


def _figures(sample: Sample, logs: Logs, limit: float) -> dict[str, Any]:
    """Compute ratio, interval and detectable change, and how many samples agree on the sign."""
    low, high = sample.interval.ends or (0.0, math.inf)
    return {
        "ratio": sample.interval.estimate,
        "low": low,
        "high": high,
        "detectable": sample.detectable(floor_of(limit)),
        "agreeing": int(np.sum(np.sign(logs) == np.sign(sample.mean))),
    }


def _follows(duets: CaseDuets, metric: str, moved: set[str]) -> bool:
    """Whether a metric follows from response times that moved, as a load leaves cores idle.

    A server that idles longer between requests needs more of a core for each: only counts tell
    whether its code does.
    """
    times = any(METRICS[name].concern == "latency" for name in moved)
    return metric == CPU and duets.waits and times


def _lack(duets: CaseDuets) -> Literal["time", "quiet", "samples"]:
    """Say what an unknown metric lacks."""
    if len(duets.usable) >= MOST:
        return "samples"
    few = duets.all and not duets.usable
    return "quiet" if few or len(duets.all) >= PATIENCE * MOST else "time"


def _reason(duets: CaseDuets, metric: str) -> str:
    """Say what a verdict does not explain itself: that no sample was usable, or not all were."""
    total, having = len(duets.all), duets.count(metric)
    if not duets.usable:
        unusable = f"none of {total} pairs was usable: {duets.disturbances()}"
        return unusable if total else "no time for a pair"
    if having < len(duets.usable):
        return f"{having} of {len(duets.usable)} pairs have it, {SHARE:.0%} must"
    if having < FEWEST:
        return f"only {having} pair{'s' * (having != 1)} usable: at least {FEWEST} decide"
    return ""
