"""What duets between stacks say of a candidate: a change record, or a dismissal. Pure.

`blamed`, `named` and `follows` are about what a search for the cause adds to a record.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from duetbench.core.metrics import METRICS
from duetbench.judge import inprocess
from duetbench.store.change import (
    Candidate,
    Cause,
    ChangeRecord,
    Dismissal,
    Effect,
    Release,
    SeriesName,
    Share,
    Step,
)
from duetbench.store.comparison import Comparison, Judgement, PackageChange, Verdict
from duetbench.store.points import INSTRUCTIONS
from duetbench.trend.steps import CPU

IMPROVED = "An improvement: there is nothing to do."

_MOVED = frozenset({Verdict.SLOWER, Verdict.FASTER})


def conclude(candidate: Candidate, comparison: Comparison) -> ChangeRecord | Dismissal:
    """Judge a candidate.

    A step is confirmed if its case and metric moved in the duets in the same direction; a step of
    instructions, if CPU per request did, and it is told as a change of that. Steps of cases that
    were not played are named beside it, and not claimed, where others of their kind (server runs,
    or benchmarks inside the process) are confirmed; those that were played and did not move, not.
    """
    found = [(step, judgement_on(comparison, judged_as(step.series))) for step in candidate.steps]
    judged = [(step, one) for step, one in found if one is not None]
    confirmed = [
        (step, one)
        for step, one in judged
        if one.verdict in _MOVED and one.ratio and one.low and one.high
        if (one.ratio > 1) == (step.ratio > 1)
    ]
    given: dict[str, Any] = {
        name: getattr(candidate, name) for name in ("id", "when", "before_run", "after_run")
    }
    given["evidence"] = comparison.id
    if not confirmed:
        verdict, note = _dismissed([one for _, one in judged], untouched(comparison))
        return Dismissal(
            machine=candidate.machine,
            stack=candidate.base.stack,
            series=tuple(step.series for step in candidate.steps),
            verdict=verdict,
            tries=candidate.tries + 1,
            note=note,
            **given,
        )
    # That which moved most at the least: by the end of its interval that is next to no change.
    main, said = max(
        confirmed,
        key=lambda one: min(abs(math.log(end)) for end in (one[1].low, one[1].high) if end),
    )
    # What only a server loads moves nothing inside the process, which then was not played.
    kinds = {is_inprocess(step.series) for step, _ in confirmed}
    slower = said.verdict is Verdict.SLOWER
    return ChangeRecord(
        status="open" if slower else "closed",
        series=judged_as(main.series),
        others=tuple(
            one
            for one in dict.fromkeys(judged_as(step.series) for step, _ in confirmed)
            if one != judged_as(main.series)
        ),
        unplayed=tuple(
            step.series
            for step in candidate.steps
            if is_inprocess(step.series) in kinds and not played(comparison, step.series)
        ),
        base=candidate.base,
        head=candidate.head,
        packages=candidate.packages,
        culprit=culprit(candidate.packages),
        confirmed_on=None if comparison.machine.id == candidate.machine else comparison.machine.id,
        method=_method(main, said, comparison.machine.id),
        note="" if slower else IMPROVED,
        **said.model_dump(include={"ratio", "low", "high", "verdict"}),
        **given,
    )


def _dismissed(judged: Sequence[Judgement], unloaded: bool) -> tuple[Verdict, str]:
    """The verdict on what no duet confirmed, and why."""
    if unloaded:
        return Verdict.NO_CHANGE, "None of the packages that moved is loaded by these cases."
    if judged and all(one.verdict is Verdict.NO_CHANGE for one in judged):
        return Verdict.NO_CHANGE, "The duets between the two stacks saw no change."
    said = sorted({str(one.verdict) for one in judged}) or ["nothing of these series"]
    return Verdict.INCONCLUSIVE, f"The duets between the two stacks said: {', '.join(said)}."


def judged_as(series: SeriesName) -> SeriesName:
    """The series whose duets judge a step of another: instructions only say where to look."""
    return series.model_copy(update={"metric": CPU}) if series.metric == INSTRUCTIONS else series


def _method(main: Step, judged: Judgement, machine: str) -> str:
    within = is_inprocess(main.series)
    nights, played = ("commits", "pairs of processes") if within else ("nights", "duets")
    how = f"{nights} (asv's step detection)"
    if main.within is not None:
        what = " of instructions" if main.series.metric == INSTRUCTIONS else ""
        how = f"points{what} held against an anchor"
    where = "the same machine" if machine == main.series.machine else f"another machine, {machine}"
    return (
        f"A step between {main.nights[0]} and {main.nights[1]} {how}, "
        f"confirmed by {judged.duets} {played} between the two stacks on {where}."
    )


def culprit(packages: Sequence[PackageChange]) -> Release | None:
    """The release that caused a change, where only one package moved."""
    if len(packages) != 1 or (version := packages[0].head) is None:
        return None
    return Release(package=packages[0].package, version=version, previous=packages[0].base)


def closed(
    records: Sequence[ChangeRecord], evidence: Mapping[str, Comparison]
) -> tuple[ChangeRecord, ...]:
    """Close open records that a later confirmed change undid: their new states.

    A change is undone when both together leave the series no worse than before, within what the
    metric tolerates. `evidence` has comparisons by id: what a change did to other series too.
    """
    found = []
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
            found.append(record.model_copy(update={"status": "closed", "note": note}))
    return tuple(found)


def grown(
    records: Sequence[ChangeRecord],
    candidates: Iterable[Candidate],
    evidence: Mapping[str, Comparison],
) -> tuple[ChangeRecord, ...]:
    """Records between whose two stacks other series have stepped since, which no duet has played.

    As after a backfill of more cases. They are named beside the change, and not claimed.
    `candidates` are all that were found, those that were judged as well.
    """
    by_id = {record.id: record for record in records}
    found = []
    for candidate in candidates:
        record = by_id.get(candidate.id)
        comparison = evidence.get(record.evidence or "") if record else None
        if record is None or comparison is None:
            continue
        stepped = (step.series for step in candidate.steps)
        more = [one for one in stepped if not played(comparison, one)]
        unplayed = tuple(dict.fromkeys((*record.unplayed, *more)))
        if unplayed != record.unplayed:
            found.append(record.model_copy(update={"unplayed": unplayed}))
    return tuple(found)


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
    cases = [case for case in comparison.cases if case.case.id == series.case]
    judged = (one for case in cases for one in case.judgements if one.metric == series.metric)
    return next(judged, None)


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
NOT_AGAIN: Final = "played again, the whole change is not seen"
NOT_LOADED: Final = "the case loads none of them"
NOT_APART: Final = "no mixture that parts them can be installed"
NOT_PLAYED: Final = "they cannot be played apart"
TIME_IS_UP: Final = "the time was up"
NOT_ALONE: Final = "{} alone does not show the change"
REASONS: Final = (
    ONLY_CAME_OR_WENT, NOT_DECIDED, ALONE_NOT_DECIDED, NOT_AGAIN, NOT_LOADED, NOT_APART,
    NOT_PLAYED, TIME_IS_UP,
)  # fmt: skip

Names = frozenset[str]
"""Packages that have moved in a mixture."""


@dataclass(frozen=True, slots=True)
class Found:
    """Packages that cannot be told apart, and what they do alone.

    `dragged` moved with them, and does nothing by itself.
    """

    packages: Names
    dragged: Names
    effect: Effect


@dataclass(slots=True)
class Outcome:
    """What a search found, as `Cause` has it: packages instead of releases."""

    whole: Effect | None = None
    found: list[Found] = field(default_factory=list)
    rest: Effect | None = None
    suspects: Names = frozenset()
    reason: str = ""


_NOTE: Final = re.compile(r"The (?:rest of the )?cause is among ([^:]+): ([^:]+)\.")


def blamed(record: ChangeRecord, cause: Cause) -> ChangeRecord:
    """The record with its culprit, or with what is known of it, in place of an earlier search's."""
    note = _NOTE.sub("", record.note).strip()
    if cause.reason:
        which = "rest of the cause" if cause.shares else "cause"
        said = f"The {which} is among {', '.join(cause.suspects)}: {cause.reason}."
        note = " ".join(filter(None, (note, said)))
    found = cause.shares[0].releases[0] if cause.shares else None
    told = {"culprit": found, "shares": cause.shares, "narrowed": None, "note": note}
    return record.model_copy(update=told)


def cause(outcome: Outcome, packages: Sequence[PackageChange]) -> Cause:
    """What a search found as releases, the largest share first.

    Packages that could not be told apart go by the shortest name, the one that the others extend:
    pydantic, and with it pydantic-core.
    """
    by_name = {move.package: move for move in packages}

    def share(found: Found) -> Share:
        names = sorted(found.packages, key=lambda name: (len(name), name))
        names += sorted(found.dragged)
        releases = [culprit((by_name[name],)) for name in names]
        return Share(releases=tuple(filter(None, releases)), **found.effect.model_dump())

    shares = sorted(map(share, outcome.found), key=lambda one: -abs(math.log(one.ratio)))
    return Cause(
        whole=outcome.whole,
        shares=tuple(shares),
        rest=outcome.rest,
        suspects=tuple(sorted(outcome.suspects)),
        reason=outcome.reason,
    )


def named(record: ChangeRecord) -> frozenset[str]:
    """The packages among which a search left the cause; empty: it left one, or there was none."""
    said = _NOTE.search(record.note)
    return frozenset(said[1].split(", ")) if said else frozenset()


def follows(found: ChangeRecord, concluded: ChangeRecord) -> bool:
    """Whether a record is what was concluded, but for what a search for its cause may add.

    Which of the packages it names, and what they do alone, nobody can check from here; that they
    are some of them, and that the words are ours, can be.
    """
    if found == concluded:
        return True
    added = {"culprit": None, "note": concluded.note, "shares": ()}
    if found.model_copy(update=added) != concluded:  # nor has that a culprit already
        return False
    releases = [culprit((move,)) for move in concluded.packages]
    shares = found.shares
    if found.culprit != (shares[0].releases[0] if shares else None):
        return False
    if any(one not in releases for share in shares for one in share.releases):
        return False
    if found.note == concluded.note:
        return bool(shares)
    names = {move.package for move in concluded.packages}
    note = found.note.removeprefix(concluded.note).lstrip()
    said = _NOTE.fullmatch(note) if found.note.startswith(concluded.note) else None
    reasons = {*REASONS, *map(NOT_ALONE.format, names)}
    return said is not None and set(said[1].split(", ")) <= names and said[2] in reasons
