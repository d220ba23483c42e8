"""What duets between stacks say of a candidate: a change record, or a dismissal. Pure.

`blamed`, `named` and `follows` are about what a search for the cause adds to a record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from servebench.compare import inprocess
from servebench.core.metrics import METRICS
from servebench.record.candidate import Candidate, Dismissal, Step
from servebench.record.change import ChangeRecord, Release, SeriesName
from servebench.record.comparison import Comparison, Judgement, PackageChange, Verdict

IMPROVED = "An improvement: there is nothing to do."

_MOVED = frozenset({Verdict.SLOWER, Verdict.FASTER})


@dataclass(frozen=True, slots=True)
class _Finding:
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
        if (judgement := judgement_on(comparison, step.series)) is not None
    }
    confirmed = _confirmed(candidate.steps, found)
    if not confirmed:
        return _dismissal(candidate, comparison, found)
    main = max(confirmed, key=lambda one: one.certain)
    others = [one.step.series for one in confirmed if one is not main]
    # What only a server loads moves nothing inside the process, which then was not played.
    kinds = {is_inprocess(one.step.series) for one in confirmed}
    unplayed = [
        step.series
        for step in candidate.steps
        if is_inprocess(step.series) in kinds and not played(comparison, step.series)
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


def _method(main: _Finding) -> str:
    before, after = main.step.nights
    within = is_inprocess(main.step.series)
    nights, played = ("commits", "pairs of processes") if within else ("nights", "duets")
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


def _confirmed(steps: Sequence[Step], found: Mapping[SeriesName, Judgement]) -> list[_Finding]:
    confirmed = []
    for step in steps:
        judgement = found.get(step.series)
        if judgement is None or judgement.verdict not in _MOVED:
            continue
        ratio, low, high = judgement.ratio, judgement.low, judgement.high
        if ratio is None or low is None or high is None:
            continue
        if (ratio > 1) == (step.ratio > 1):
            confirmed.append(_Finding(step, judgement, ratio, low, high))
    return confirmed


def _dismissal(
    candidate: Candidate, comparison: Comparison, found: Mapping[SeriesName, Judgement]
) -> Dismissal:
    judged = [found[step.series] for step in candidate.steps if step.series in found]
    unloaded = untouched(comparison)
    same = unloaded or (judged and all(one.verdict is Verdict.NO_CHANGE for one in judged))
    if unloaded:
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
    judged = judgement_on(comparison, series)
    return None if judged is None else judged.ratio


def _worse(metric: str, ratio: float) -> float:
    """How much worse a figure became, as a logarithm, beyond what the metric tolerates."""
    row = METRICS.get(metric)
    if row is None:  # a time inside the process
        return math.log(ratio) - math.log1p(inprocess.TOLERANCE)
    moved = math.log(ratio) if row.better == "lower" else -math.log(ratio)
    return moved - math.log1p(row.tolerance)


def judgement_on(comparison: Comparison, series: SeriesName) -> Judgement | None:
    """The judgement on a series; None if there is none."""
    if is_inprocess(series):
        return next((one.judgement for one in comparison.micro if one.series == series.case), None)
    return next(
        (
            judgement
            for case in comparison.cases
            if case.case.id == series.case
            for judgement in case.judgements
            if judgement.metric == series.metric
        ),
        None,
    )


def played(comparison: Comparison, series: SeriesName) -> bool:
    """Whether it was measured, at least in another metric."""
    if is_inprocess(series):
        return judgement_on(comparison, series) is not None
    return any(case.case.id == series.case for case in comparison.cases)


def untouched(comparison: Comparison) -> bool:
    """Whether nothing was measured because the two sides cannot differ there."""
    return not (comparison.planned or comparison.micro or comparison.missing)


def is_inprocess(series: SeriesName) -> bool:
    """Whether it is of a benchmark inside the process, and not of server runs."""
    return series.metric == inprocess.SECONDS


ONLY_CAME_OR_WENT: Final = "packages only came or went, which cannot be tried apart"
NOT_DECIDED: Final = "the duets did not decide"
ALONE_NOT_DECIDED: Final = "alone the duets did not decide"
NOT_ALONE: Final = "{} alone does not show the change"

_NOTE: Final = re.compile(r"The cause is among ([^:]+): ([^:]+)\.")


@dataclass(frozen=True, slots=True)
class Suspects:
    """The packages among which the cause is; `reason`: why there may be more than one."""

    packages: tuple[PackageChange, ...]
    reason: str = ""


def blamed(record: ChangeRecord, suspects: Suspects) -> ChangeRecord:
    """The record with its culprit, or with what is known of it, in place of an earlier search's."""
    before = _NOTE.sub("", record.note).strip()
    if not suspects.reason and (found := culprit(suspects.packages)) is not None:
        return record.model_copy(update={"culprit": found, "note": before})
    names = ", ".join(move.package for move in suspects.packages)
    note = f"The cause is among {names}: {suspects.reason}."
    return record.model_copy(update={"note": " ".join(filter(None, (before, note)))})


def named(record: ChangeRecord) -> frozenset[str]:
    """The packages among which a search left the cause; empty: it left one, or there was none."""
    said = _NOTE.search(record.note)
    return frozenset(said[1].split(", ")) if said and record.culprit is None else frozenset()


def follows(found: ChangeRecord, concluded: ChangeRecord) -> bool:
    """Whether a record is what was concluded, but for what a search for its cause may add.

    Which of the packages it names, nobody can check from here; that it is one of them, and that the
    words are ours, can be.
    """
    if found == concluded:
        return True
    if concluded.culprit is not None:
        return False
    names = {move.package for move in concluded.packages}
    releases = [culprit((move,)) for move in concluded.packages]
    bare = found.model_copy(update={"culprit": None, "note": concluded.note})
    if bare != concluded:
        return False
    if found.culprit is not None:
        return found.culprit in releases and found.note == concluded.note
    added = found.note.removeprefix(concluded.note).lstrip()
    said = _NOTE.fullmatch(added) if found.note.startswith(concluded.note) else None
    return (
        said is not None
        and set(said[1].split(", ")) <= names
        and said[2] in _reasons(sorted(names))
    )


def _reasons(names: Sequence[str]) -> set[str]:
    return {ONLY_CAME_OR_WENT, NOT_DECIDED, ALONE_NOT_DECIDED} | {
        NOT_ALONE.format(name) for name in names
    }
