"""What a duet between two stacks says of a candidate: a change record, or a dismissal. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servebench.compare import inprocess
from servebench.core.metrics import METRICS
from servebench.detect import verdicts
from servebench.record.candidate import Candidate, Dismissal, Step
from servebench.record.change import ChangeRecord, Release, SeriesName
from servebench.record.comparison import Comparison, Judgement, PackageChange, Verdict

IMPROVED = "An improvement: there is nothing to do."

_MOVED = frozenset({Verdict.SLOWER, Verdict.FASTER})


@dataclass(frozen=True, slots=True)
class _Confirmed:
    """A step that the duets saw, too, with an interval."""

    step: Step
    judgement: Judgement
    ratio: float
    low: float
    high: float

    @property
    def certain(self) -> float:
        """How much it moved at the least: the end of the interval that is next to no change."""
        return min(abs(math.log(self.low)), abs(math.log(self.high)))


def conclude(candidate: Candidate, comparison: Comparison) -> ChangeRecord | Dismissal:
    """Judge a candidate.

    A step is confirmed if its case and metric moved in the duets in the same direction. Steps of
    cases that were not played are named beside it, and not claimed, where others of their kind
    (server runs, or benchmarks inside the process) are confirmed; those that were played and did
    not move, not.
    """
    found = {
        step.series: judgement
        for step in candidate.steps
        if (judgement := verdicts.of(comparison, step.series)) is not None
    }
    confirmed = _confirmed(candidate.steps, found)
    if not confirmed:
        return _dismissal(candidate, comparison, found)
    main = max(confirmed, key=lambda one: one.certain)
    others = [one.step.series for one in confirmed if one is not main]
    # What only a server loads moves nothing inside the process, which then was not played.
    kinds = {verdicts.inside(one.step.series) for one in confirmed}
    unplayed = [
        step.series
        for step in candidate.steps
        if verdicts.inside(step.series) in kinds and not verdicts.played(comparison, step.series)
    ]
    slower = main.judgement.verdict is Verdict.SLOWER
    return ChangeRecord(
        id=candidate.id,
        status="open" if slower else "closed",
        series=main.step.series,
        others=tuple(others),
        unplayed=tuple(unplayed),
        when=candidate.when,
        before_run=candidate.before_run,
        after_run=candidate.after_run,
        base=candidate.base,
        head=candidate.head,
        packages=candidate.packages,
        ratio=main.ratio,
        low=main.low,
        high=main.high,
        verdict=main.judgement.verdict,
        culprit=culprit(candidate.packages),
        evidence=comparison.id,
        method=_method(main),
        note="" if slower else IMPROVED,
    )


def _method(main: _Confirmed) -> str:
    before, after = main.step.nights
    inside = verdicts.inside(main.step.series)
    nights, played = ("commits", "pairs of processes") if inside else ("nights", "duets")
    return (
        f"A step between {before} and {after} {nights} (asv's step detection), confirmed by "
        f"{main.judgement.confirmed} {played} between the two stacks on the same machine."
    )


def culprit(packages: Sequence[PackageChange]) -> Release | None:
    """The release that caused a change, where only one package moved."""
    if len(packages) != 1 or packages[0].head is None:
        return None
    (only,) = packages
    return Release(package=only.package, version=str(only.head), previous=only.base)


def closed(
    records: Sequence[ChangeRecord], evidence: Mapping[str, Comparison]
) -> tuple[ChangeRecord, ...]:
    """Close open records that a later confirmed change undid: their new states.

    A change is undone when both together leave the series no worse than before, within what the
    metric tolerates. `evidence` has comparisons by id: what a change did to other series too.
    """
    found = []
    for record in records:
        if record.status != "open":
            continue
        for later in records:
            ratio = _ratio_of(later, record.series, evidence)
            if later.when <= record.when or ratio is None:
                continue
            if _worse(record.series.metric, record.ratio * ratio) <= 0:
                note = f"Undone by the change {later.id}."
                found.append(record.model_copy(update={"status": "closed", "note": note}))
                break
    return tuple(found)


def _confirmed(steps: Sequence[Step], found: Mapping[SeriesName, Judgement]) -> list[_Confirmed]:
    confirmed = []
    for step in steps:
        judgement = found.get(step.series)
        if judgement is None or judgement.verdict not in _MOVED:
            continue
        ratio, low, high = judgement.ratio, judgement.low, judgement.high
        if ratio is None or low is None or high is None:
            continue
        if (ratio > 1) == (step.ratio > 1):
            confirmed.append(_Confirmed(step, judgement, ratio, low, high))
    return confirmed


def _dismissal(
    candidate: Candidate, comparison: Comparison, found: Mapping[SeriesName, Judgement]
) -> Dismissal:
    judged = [found[step.series] for step in candidate.steps if step.series in found]
    untouched = verdicts.untouched(comparison)
    same = untouched or (judged and all(one.verdict is Verdict.NO_CHANGE for one in judged))
    if untouched:
        note = "None of the packages that moved is loaded by these cases."
    elif same:
        note = "The duets between the two stacks saw no change."
    else:
        said = sorted({str(one.verdict) for one in judged}) or ["nothing of these series"]
        note = f"The duets between the two stacks said: {', '.join(said)}."
    return Dismissal(
        id=candidate.id,
        machine=candidate.machine,
        when=candidate.when,
        before_run=candidate.before_run,
        after_run=candidate.after_run,
        stack=candidate.base.stack,
        series=tuple(step.series for step in candidate.steps),
        verdict=Verdict.NO_CHANGE if same else Verdict.INCONCLUSIVE,
        tries=candidate.tries + 1,
        evidence=comparison.id,
        note=note,
    )


def _ratio_of(
    record: ChangeRecord, series: SeriesName, evidence: Mapping[str, Comparison]
) -> float | None:
    """What a change did to a series; None if it is not known to have moved it."""
    if record.series == series:
        return record.ratio
    comparison = evidence.get(record.evidence or "")
    if series not in record.others or comparison is None:
        return None
    judged = verdicts.of(comparison, series)
    return None if judged is None else judged.ratio


def _worse(metric: str, ratio: float) -> float:
    """How much worse a figure became, as a logarithm, beyond what the metric tolerates."""
    row = METRICS.get(metric)
    if row is None:  # a time inside the process
        return math.log(ratio) - math.log1p(inprocess.TOLERANCE)
    moved = math.log(ratio) if row.better == "lower" else -math.log(ratio)
    return moved - math.log1p(row.tolerance)
