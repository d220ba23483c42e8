"""Judges a candidate by duets between its stacks: it is a change, or dismissed. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence

from duetbench.core.metrics import row
from duetbench.core.model import Verdict
from duetbench.store.change import Change, Release, SeriesName, Step
from duetbench.store.comparison import Comparison, Judgement, PackageChange
from duetbench.store.points import INSTRUCTIONS
from duetbench.trend.steps import CPU

IMPROVED = "An improvement: there is nothing to do."

_MOVED = frozenset({Verdict.SLOWER, Verdict.FASTER})


def conclude(candidate: Change, comparison: Comparison) -> Change:
    """Judge a candidate.

    A step is confirmed if its case and metric moved in the duets in the same direction; a step of
    instructions, if CPU per request did, and it is told as a change of that. Steps of cases that
    were not played are named beside it, and not claimed, where others of their kind (server runs,
    or benchmarks inside the process) are confirmed; those that were played and did not move, not.
    """
    every = [(step, judgement_on(comparison, judged_as(step.series))) for step in candidate.steps]
    judged = [(step, one) for step, one in every if one is not None]
    confirmed = [
        (step, one)
        for step, one in judged
        if one.verdict in _MOVED and one.ratio and one.low and one.high
        if (one.ratio > 1) == (step.ratio > 1)
    ]
    if not confirmed:
        verdict, note = _dismissed([one for _, one in judged], untouched(comparison))
        update: dict[str, object] = {"status": "dismissed", "verdict": verdict, "note": note}
        update |= {"tries": candidate.tries + 1, "evidence": comparison.id}
        return candidate.model_copy(update=update)
    # That which moved most at the least: by the end of its interval that is next to no change.
    main, judgement = max(
        confirmed,
        key=lambda one: min(abs(math.log(end)) for end in (one[1].low, one[1].high) if end),
    )
    # What only a server loads moves nothing inside the process, which then was not played.
    kinds = {step.series.inprocess for step, _ in confirmed}
    series, machine = judged_as(main.series), comparison.machine.id
    moved = dict.fromkeys(judged_as(step.series) for step, _ in confirmed)
    unplayed = (
        step.series
        for step in candidate.steps
        if step.series.inprocess in kinds and not played(comparison, step.series)
    )
    slower = judgement.verdict is Verdict.SLOWER
    return candidate.model_copy(
        update={
            **{name: getattr(judgement, name) for name in ("ratio", "low", "high", "verdict")},
            "status": "open" if slower else "closed",
            "series": series,
            "others": tuple(one for one in moved if one != series),
            "unplayed": tuple(unplayed),
            "steps": (),
            "tries": 0,
            "culprit": culprit(candidate.packages),
            "evidence": comparison.id,
            "confirmed_on": None if machine == candidate.series.machine else machine,
            "method": _method(main, judgement, machine),
            "note": "" if slower else IMPROVED,
        }
    )


def _dismissed(judged: Sequence[Judgement], unloaded: bool) -> tuple[Verdict, str]:
    """The verdict on what no duet confirmed, and why."""
    if unloaded:
        return Verdict.NO_CHANGE, "None of the packages that moved is loaded by these cases."
    if judged and all(judgement.verdict is Verdict.NO_CHANGE for judgement in judged):
        return Verdict.NO_CHANGE, "The duets between the two stacks saw no change."
    verdicts = sorted({str(judgement.verdict) for judgement in judged}) or [
        "nothing of these series"
    ]
    return Verdict.INCONCLUSIVE, f"The duets between the two stacks said: {', '.join(verdicts)}."


def judged_as(series: SeriesName) -> SeriesName:
    """The series that is judged where another one stepped.

    Instructions of a request only say where to look; those of a job inside the process are judged.
    """
    if series.metric != INSTRUCTIONS or series.inprocess:
        return series
    return series.model_copy(update={"metric": CPU})


def _method(main: Step, judged: Judgement, machine: str) -> str:
    within = main.series.inprocess
    how = "nights (asv's step detection)"
    if main.within is not None:
        what = " of instructions" if main.series.metric == INSTRUCTIONS else ""
        how = f"points{what} held against an anchor"
    by = "counts of instructions" if within else f"{judged.duets} duets"
    where = "the same machine" if machine == main.series.machine else f"another machine, {machine}"
    return (
        f"A step between {main.nights[0]} and {main.nights[1]} {how}, "
        f"confirmed by {by} between the two stacks on {where}."
    )


def culprit(packages: Sequence[PackageChange]) -> Release | None:
    """The release that caused a change, where only one package moved."""
    if len(packages) != 1 or (version := packages[0].head) is None:
        return None
    return Release(package=packages[0].package, version=version, previous=packages[0].base)


def closed(records: Sequence[Change], evidence: Mapping[str, Comparison]) -> tuple[Change, ...]:
    """Close open changes that a later confirmed one undid: their new states.

    A change is undone when both together leave the series no worse than before, within what the
    metric tolerates. `evidence` has comparisons by id: what a change did to other series too.
    """
    new = []
    for record in records:
        undone = (
            later.id
            for later in records
            if record.status == "open" and later.when > record.when
            if record.measured_on == later.measured_on
            if (ratio := _ratio_of(later, record.series, evidence)) is not None
            if _worse(record.series.metric, record.ratio * ratio) <= 0
        )
        if by := next(undone, None):
            note = f"{record.note} Undone by the change {by}.".lstrip()
            new.append(record.model_copy(update={"status": "closed", "note": note}))
    return tuple(new)


def grown(
    records: Sequence[Change], candidates: Iterable[Change], evidence: Mapping[str, Comparison]
) -> tuple[Change, ...]:
    """Changes between whose two stacks other series have stepped since, which no duet has played.

    As after a backfill of more cases. They are named beside the change, and not claimed.
    `candidates` are all that were found, those that were judged as well.
    """
    by_id = {record.id: record for record in records}
    new = []
    for candidate in candidates:
        record = by_id.get(candidate.id)
        comparison = evidence.get(record.evidence or "") if record else None
        if record is None or comparison is None:
            continue
        stepped = (step.series for step in candidate.steps)
        more = [one for one in stepped if not played(comparison, one)]
        unplayed = tuple(dict.fromkeys((*record.unplayed, *more)))
        if unplayed != record.unplayed:
            new.append(record.model_copy(update={"unplayed": unplayed}))
    return tuple(new)


def _ratio_of(
    record: Change, series: SeriesName, evidence: Mapping[str, Comparison]
) -> float | None:
    """Ratio by which a change moved a series; None if it is not known to have moved it."""
    if record.series == series:
        return record.ratio
    comparison = evidence.get(record.evidence or "")
    if series not in record.others or comparison is None:
        return None
    judged = judgement_on(comparison, series)
    return None if judged is None else judged.ratio


def _worse(metric: str, ratio: float) -> float:
    """Amount by which a figure became worse, as a logarithm, beyond what the metric tolerates."""
    scale = row(CPU if metric == INSTRUCTIONS else metric)
    moved = math.log(ratio) if scale.better == "lower" else -math.log(ratio)
    return moved - math.log1p(scale.tolerance)


def judgement_on(comparison: Comparison, series: SeriesName) -> Judgement | None:
    """The judgement on a series; None if there is none."""
    if series.inprocess:
        return next((one.judgement for one in comparison.micro if one.series == series.case), None)
    cases = [case for case in comparison.cases if case.case.id == series.case]
    judged = (
        judgement
        for case in cases
        for judgement in case.judgements
        if judgement.metric == series.metric
    )
    return next(judged, None)


def played(comparison: Comparison, series: SeriesName) -> bool:
    """Whether it was measured, at least in another metric."""
    if series.inprocess:
        return judgement_on(comparison, series) is not None
    return any(case.case.id == series.case for case in comparison.cases)


def untouched(comparison: Comparison) -> bool:
    """Whether nothing was measured because the two sides cannot differ there."""
    return not (comparison.planned or comparison.micro or comparison.missing)
