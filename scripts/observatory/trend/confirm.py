"""Judges candidates one after another by duets of their stacks: each is confirmed or dismissed.

Each result is saved with its evidence at once.
"""

import glob
import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from duetbench.app import locks, revisions
from duetbench.app.subject import Subject
from duetbench.core.change import SeriesName, StackState
from duetbench.core.comparison import SIDES, Comparison, Finding
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.core.metrics import CPU, INSTRUCTIONS, row
from duetbench.core.model import Verdict
from duetbench.effects import difference as effects
from duetbench.host import files
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge import affected, preparation, session
from duetbench.judge.duet_loop import Instruments, Reporter
from duetbench.judge.preparation import Scope
from duetbench.judge.session import Extent, Question, empty_comparison
from duetbench.judge.statistics import direction
from observatory.matrix.checkout import NIGHTLY, Checkout
from observatory.store.change import Change, Step, finding_on, inprocess, release_of

MOST_CASES: Final = 8
"""Cases of a candidate that are measured: the strongest ones. One cause moves many, and measuring
all of them would not make it surer."""

UNTOUCHED: Final = "none of the packages that moved belongs to these cases"

LEAST_SECONDS: Final = 60.0  # a shorter comparison would decide nothing

IMPROVED: Final = "An improvement: there is nothing to do."

Judge = Callable[[Change, float], Comparison]
"""Compares the two stacks of a candidate within the given seconds."""


def compare_stacks(
    project: Checkout,
    candidate: Change,
    seconds: float,
    *,
    seed: int,
    reporter: Reporter,
    make: Callable[[], Instruments],
) -> Comparison:
    """Compare the stacks before and after on the cases that moved most.

    Raises:
        UsageError: None of them is still declared.
        HistoryError: A lock cannot be found any more.
        SetupError: A stack cannot be installed.
        InterruptedRun: A signal stopped it.
    """
    project = replace(project, profile=NIGHTLY[0])
    served = _strongest(project, candidate)
    texts = find_locks(project, candidate, reporter)
    globs = tuple(map(glob.escape, served))
    with revisions.copies() as copies:
        both = preparation.of_locks(
            project,
            candidate.base.stack,
            (_label(candidate.base, candidate.before_run), texts.base),
            (_label(candidate.head, candidate.after_run), texts.head),
            Scope(globs, reporter, copies),
        )
        touched = affected.find(both)
        pairs = tuple(pair for pair in touched.pairs if pair.case.id in served)
        nothing = "" if pairs else touched.empty_reason or UNTOUCHED
        touched = replace(touched, pairs=pairs, empty_reason=nothing)
        question = Question(touched, Extent(seconds=seconds, seed=seed), notes=texts.notes)
        if nothing:
            return empty_comparison(question)
        with measuring():
            question = replace(question, seen=effects.observe(touched.to_observe))
            return session.compare(question, reporter, make())


@dataclass(frozen=True, slots=True)
class Locks:
    """The texts of one stack's lock before and after a change, with notes for readers."""

    base: str
    head: str
    notes: tuple[str, ...]


def find_locks(subject: Subject, change: Change, narrator: Narrator) -> Locks:
    """Find or resolve the locks on both sides of a change.

    Raises:
        HistoryError: Neither lock can be found.
        SetupError: uv finds no package set with the recorded versions.
    """
    states = {"base": change.base, "head": change.head}
    commits = {"base": change.base_commit, "head": change.head_commit}
    found = {side: _find_lock(subject, states[side], commits[side], narrator) for side in SIDES}
    if not any(found.values()):
        raise HistoryError(
            f"{change.id}: neither lock of the stack {change.base.stack} is found any more: fetch "
            "all of the history (git fetch --unshallow, or fetch-depth: 0), or compare again"
        )
    texts, notes = {}, []
    for side in SIDES:
        texts[side] = found[side] or next(filter(None, found.values()))
        if hashlib.sha256(texts[side].encode()).hexdigest() == states[side].digest:
            continue
        versions = {move.package: getattr(move, side) for move in change.packages}
        pins = [f"{package}=={version}" for package, version in versions.items() if version]
        name = change.base.stack
        with narrator.step(f"stack {name}", f"resolving {', '.join(pins)} again") as tick:
            texts[side] = locks.resolve(subject, name, None, tick, keep=texts[side], pins=pins)
        notes.append(
            f"The lock of {side} is not found any more; it was resolved again from the recorded "
            "versions"
        )
    return Locks(texts["base"], texts["head"], tuple(notes))


def _find_lock(
    subject: Subject, state: StackState, commit: str | None, narrator: Narrator
) -> str | None:
    """Return a lock as it was, or as the index has it for its date now; None if not possible."""
    text = subject.find_lock(state.stack, state.digest, commit)
    if text is None and state.as_of:
        day = date.fromisoformat(state.as_of)
        return locks.resolve_stack(subject, state.stack, narrator, day).lock.read_text("utf-8")
    return text


def _label(state: StackState, run: str | None) -> str:
    return f"{state.stack} {f'as of {state.as_of}' if state.as_of else f'of {run}'}"


def _strongest(project: Checkout, candidate: Change) -> list[str]:
    """Choose cases of the stack that are still declared; raises UsageError if there are none."""
    stack = candidate.base.stack
    known = {case.id: case.stack for case in project.cases()}
    moved = dict.fromkeys(step.series.case for step in candidate.steps)
    served = [name for name in moved if known.get(name) == stack][:MOST_CASES]
    if not served:
        raise UsageError(
            f"{candidate.id}: none of its cases is still declared: {', '.join(moved)}; "
            "there is nothing to confirm"
        )
    return served


def confirm(
    candidates: Sequence[Change],
    judge: Judge,
    seconds: float,
    results: Path,
    *,
    log: Callable[[str], None],
    explain: Callable[[Change], Change] = lambda change: change,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[Change], dict[str, str]]:
    """Judge candidates within `seconds` and save them; return them, and why others are left.

    Without time for all, as after a backfill of years, the weakest are left. `explain` attributes
    what is confirmed, and steps of instructions before they are judged.

    Raises:
        InterruptedRun: What was judged until then is kept.
        RecordError: A file cannot be written.
    """
    ends = clock() + seconds
    judged: list[Change] = []
    left: dict[str, str] = {}
    for place, candidate in enumerate(candidates):
        if any(step.series.metric == INSTRUCTIONS for step in candidate.steps):
            candidate = explain(candidate)  # noqa: PLW2901 - the same, with its functions
        remaining = ends - clock()
        share = max(LEAST_SECONDS, remaining / (len(candidates) - place))
        if remaining < LEAST_SECONDS:
            left[candidate.id] = "the time was up"
            continue
        log(f"{candidate.id}: {share / 60:.0f} min for {len(candidate.steps)} series that moved")
        try:
            comparison = judge(candidate, share)
        except (HistoryError, SetupError, UsageError) as problem:
            # A stack that cannot be installed any more must not delay the others.
            left[candidate.id] = str(problem)
            continue
        concluded = conclude(candidate, comparison)
        files.save(results, comparison)
        files.save(results, concluded)
        if concluded.confirmed:
            concluded = explain(concluded)
            files.save(results, concluded)
        judged.append(concluded)
    return judged, left


def conclude(candidate: Change, comparison: Comparison) -> Change:
    """Judge a candidate.

    A step is confirmed if its case and metric moved in the duets in the same direction. A step of
    instructions needs CPU per request to move, and becomes a change of CPU per request. Steps of
    cases that were not measured are listed as unconfirmed, if others of their kind (servers, or
    in-process benchmarks) are confirmed. Steps that were measured and did not move are dropped.
    """
    pairs = ((s, finding_on(comparison, judged_as(s.series))) for s in candidate.steps)
    judged = [(step, finding) for step, finding in pairs if finding is not None]
    confirmed = [
        (step, finding)
        for step, finding in judged
        if finding.moved and finding.ratio and finding.low and finding.high
        if (finding.ratio > 1) == (step.ratio > 1)
    ]
    if not confirmed:
        verdict, note = _dismissed([finding for _, finding in judged], untouched(comparison))
        update: dict[str, object] = {"status": "dismissed", "verdict": verdict, "note": note}
        update |= {"tries": candidate.tries + 1, "evidence": comparison.id}
        return candidate.model_copy(update=update)
    # The largest certain change: by the end of its interval that is nearer to no change.
    main, finding = max(
        confirmed,
        key=lambda pair: min(abs(math.log(end)) for end in (pair[1].low, pair[1].high) if end),
    )
    # Code that only a server loads moves no in-process benchmark, so these were not measured.
    kinds = {inprocess(step.series) for step, _ in confirmed}
    series, machine = judged_as(main.series), comparison.machine.id
    moved = dict.fromkeys(judged_as(step.series) for step, _ in confirmed)
    unplayed = (
        step.series
        for step in candidate.steps
        if inprocess(step.series) in kinds and not _measured(comparison, step.series)
    )
    worse = finding.verdict is Verdict.WORSE
    return candidate.model_copy(
        update={
            **{name: getattr(finding, name) for name in ("ratio", "low", "high", "verdict")},
            "status": "open" if worse else "closed",
            "series": series,
            "others": tuple(other for other in moved if other != series),
            "unplayed": tuple(unplayed),
            "steps": (),
            "tries": 0,
            "culprit": release_of(candidate.packages),
            "evidence": comparison.id,
            "confirmed_on": None if machine == candidate.series.machine else machine,
            "method": _method(main, finding, machine),
            "note": "" if worse else IMPROVED,
        }
    )


def _dismissed(judged: Sequence[Finding], unloaded: bool) -> tuple[Verdict, str]:
    if unloaded:
        return Verdict.SAME, f"N{UNTOUCHED[1:]}."
    if judged and all(finding.verdict is Verdict.SAME for finding in judged):
        return Verdict.SAME, "The duets of the two stacks showed no change."
    verdicts = ", ".join(sorted({str(finding.verdict) for finding in judged}))
    summary = verdicts or "no verdict on these series"
    return Verdict.UNKNOWN, f"Result of the duets of the two stacks: {summary}."


def judged_as(series: SeriesName) -> SeriesName:
    """Return the series that is judged when another one stepped.

    Instructions of a request only show where to look; those of an in-process job are judged.
    """
    if series.metric != INSTRUCTIONS or inprocess(series):
        return series
    return series.model_copy(update={"metric": CPU})


def _method(main: Step, judged: Finding, machine: str) -> str:
    what = " of instructions" if main.series.metric == INSTRUCTIONS else ""
    by = "counts of instructions" if inprocess(main.series) else f"{judged.n} duets"
    where = "the same machine" if machine == main.series.machine else f"another machine, {machine}"
    return (
        f"A step{what} compared with an anchor (points before it: {main.nights[0]}, after it: "
        f"{main.nights[1]}), confirmed by {by} between the two stacks on {where}."
    )


def close(records: Sequence[Change], evidence: Mapping[str, Comparison]) -> tuple[Change, ...]:
    """Close open changes that a later confirmed one undid; return their new states.

    A change is undone when both together leave the series no worse than before, within the metric's
    limit. `evidence` has comparisons by id, for effects of a change on other series.
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


def _ratio_of(
    record: Change, series: SeriesName, evidence: Mapping[str, Comparison]
) -> float | None:
    """Return the ratio by which a change moved a series; None if it is not known to have moved."""
    if record.series == series:
        return record.ratio
    comparison = evidence.get(record.evidence or "")
    if series not in record.others or comparison is None:
        return None
    judged = finding_on(comparison, series)
    return None if judged is None else judged.ratio


def _worse(metric: str, ratio: float) -> float:
    """Return how much a figure became worse, as a logarithm, beyond the limit."""
    name, log = CPU if metric == INSTRUCTIONS else metric, math.log(ratio)
    size = abs(log) if direction(name, log) is Verdict.WORSE else -abs(log)
    return size - math.log1p(row(name).limit)


def _measured(comparison: Comparison, series: SeriesName) -> bool:
    """Whether a comparison measured a series, at least in another metric."""
    if inprocess(series):
        return finding_on(comparison, series) is not None
    return any(case.case.id == series.case for case in comparison.cases)


def untouched(comparison: Comparison) -> bool:
    """Whether nothing was measured because the two sides cannot differ there."""
    return not (comparison.planned or comparison.findings or comparison.missing)
