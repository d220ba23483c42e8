"""Judges candidates one after another by duets of their stacks: each is confirmed or dismissed.

Each result is saved with its evidence at once.
"""

import glob
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from duetbench.app.setting import Contrast
from duetbench.core.change import Cause, Share
from duetbench.core.comparison import INSTRUCTIONS, Comparison, Release
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.core.model import Verdict
from duetbench.host import files
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge import preparation
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.preparation import Extent, resolve_stack
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change, StackState

MOST_CASES: Final = 8
"""Cases of a candidate that are measured: the strongest ones. One cause moves many, and measuring
all of them would not make it surer."""

LEAST_SECONDS: Final = 60.0  # a shorter comparison would decide nothing

IMPROVED: Final = "An improvement: there is nothing to do."

CONFIRMING: Final = 0.5
"""Share of a candidate's time for its comparison; the rest is for the search."""


def compare_stacks(
    project: Checkout, candidate: Change, seconds: float, reporter: Reporter
) -> Comparison:
    """Compare the stacks before and after on the cases that moved most, and explain what moved.

    Raises:
        UsageError: None of them is still declared.
        HistoryError: A lock cannot be found any more.
        SetupError: A stack cannot be installed.
        InterruptedRun: A signal stopped it.
    """
    stack = candidate.base.stack
    declared = {case.id for case in project.cases() if case.stack == stack}
    moved = dict.fromkeys(step.series.case for step in candidate.steps)
    select = tuple(glob.escape(case) for case in moved if case in declared)[:MOST_CASES]
    if not select:
        raise UsageError(f"none of its cases is still declared: {', '.join(moved)}")
    states = (candidate.base, candidate.before_run), (candidate.head, candidate.after_run)
    labels = (f"{stack} {f'as of {s.as_of}' if s.as_of else f'of {run}'}" for s, run in states)
    base, head = zip(labels, find_locks(project, candidate, reporter), strict=True)
    explain = partial(resolve_name("duetbench.judge.attribute:explain"), narrator=reporter)
    with measuring():
        return compare(
            project, Contrast(), Extent(select, seconds=seconds), reporter, explain=explain,
            prepare=lambda own, _, scope: preparation.of_locks(own, stack, base, head, scope),
        )  # fmt: skip


def find_locks(project: Checkout, change: Change, narrator: Narrator) -> tuple[str, str]:
    """Find the locks on both sides of a change as they were, or as the index has them for a date.

    Raises:
        HistoryError: One is not found, and has no date.
        SetupError: uv cannot resolve it.
    """
    before = _find_lock(project, change.base, change.base_commit, narrator)
    return before, _find_lock(project, change.head, change.head_commit, narrator)


def _find_lock(project: Checkout, state: StackState, commit: str | None, narrator: Narrator) -> str:
    text = project.lock_at(state.stack, commit) if commit else None
    if text and hashlib.sha256(text).hexdigest() == state.digest:
        return text.decode()
    if state.as_of is None:
        raise HistoryError(
            f"the lock of the stack {state.stack} at {commit or 'no commit'} is not found any "
            "more: fetch all of the history (git fetch --unshallow, or fetch-depth: 0)"
        )
    stack = resolve_stack(project, state.stack, narrator, date.fromisoformat(state.as_of))
    return stack.lock.read_text("utf-8")


def confirm(
    project: Checkout,
    candidates: Sequence[Change],
    seconds: float,
    results: Path,
    reporter: Reporter,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[Change], dict[str, str]]:
    """Judge candidates within `seconds`, and search for their causes; save and return them.

    Also returns why others are left: without time for all, as after years were measured, the
    weakest.

    Raises:
        InterruptedRun: What was judged until then is kept.
        RecordError: A file cannot be written.
    """
    search, log = resolve_name("duetbench.judge.causes:search_locks"), reporter.say
    ends = clock() + seconds
    judged: list[Change] = []
    left: dict[str, str] = {}
    for place, candidate in enumerate(candidates):
        began, remaining = clock(), ends - clock()
        share = max(LEAST_SECONDS, remaining / (len(candidates) - place))
        if remaining < LEAST_SECONDS:
            left[candidate.id] = "the time was up"
            continue
        log(f"{candidate.id}: {share / 60:.0f} min for {len(candidate.steps)} series that moved")
        try:
            comparison = compare_stacks(project, candidate, CONFIRMING * share, reporter)
        except (HistoryError, SetupError, UsageError) as problem:
            # A stack that cannot be installed any more must not delay the others.
            left[candidate.id] = str(problem)
            continue
        concluded = conclude(candidate, comparison)
        files.save(results, comparison)
        files.save(results, concluded)
        if concluded.status == "open" and not concluded.releases:
            try:
                rest, series = max(0.0, began + share - clock()), concluded.series
                cause = search(
                    project, concluded.base.stack, find_locks(project, concluded, reporter),
                    glob.escape(series.case), rest, reporter, series.metric,
                )  # fmt: skip
                concluded = concluded.model_copy(update={"cause": cause})
            except (HistoryError, SetupError, UsageError) as problem:
                log(f"{candidate.id}: its cause was not searched for: {problem}")
            files.save(results, concluded)
        judged.append(concluded)
    return judged, left


def conclude(candidate: Change, comparison: Comparison) -> Change:
    """Judge a candidate.

    A step is confirmed if its case and metric moved in the duets in the same direction. A step of
    instructions needs CPU per request to move, and becomes a change of CPU per request. Steps of
    cases that were not measured are listed as unconfirmed. Steps that were measured and did not
    move are dropped.
    """
    judged = [
        (step, finding)
        for step in candidate.steps
        for series in [step.series.judged]
        if (finding := comparison.of(series.case, series.metric)) is not None
    ]
    confirmed = [
        (step, finding)
        for step, finding in judged
        if finding.moved and finding.ratio and finding.low and finding.high
        if (finding.ratio > 1) == (step.ratio > 1)
    ]
    if not confirmed:
        verdicts = sorted({finding.verdict for _, finding in judged})
        verdict = Verdict.SAME if verdicts == [Verdict.SAME] else Verdict.UNKNOWN
        summary = ", ".join(verdicts) or "no verdict on these series"
        note = f"Result of the duets of the two stacks: {summary}."
        tries = {"tries": candidate.tries + 1, "evidence": comparison.id}
        update = {"status": "dismissed", "verdict": verdict, "note": note, **tries}
        return candidate.model_copy(update=update)
    # The largest certain change: by the end of its interval that is nearer to no change.
    main, finding = max(
        confirmed,
        key=lambda pair: min(abs(math.log(end)) for end in (pair[1].low, pair[1].high) if end),
    )
    series, worse = main.series.judged, finding.verdict is Verdict.WORSE
    moved = dict.fromkeys(step.series.judged for step, _ in confirmed)
    shares = [
        Share(
            releases=(Release(package=only.package, version=only.head, previous=only.base),),
            findings=(finding,),
        )
        for only in candidate.packages
        if only.head and len(candidate.packages) == 1
    ]
    return candidate.model_copy(
        update={
            **{name: getattr(finding, name) for name in ("ratio", "low", "high", "verdict")},
            "status": "open" if worse else "closed",
            "series": series,
            "others": tuple(other for other in moved if other != series),
            "steps": (),
            "tries": 0,
            "cause": Cause(shares=shares),
            "evidence": comparison.id,
            "why": comparison.why,
            "method": (
                f"A step{' of instructions' * (main.series.metric == INSTRUCTIONS)} compared with "
                f"an anchor (points before it: {main.nights[0]}, after it: {main.nights[1]}), "
                f"confirmed by {finding.n} duets between the two stacks on the same machine."
            ),
            "note": "" if worse else IMPROVED,
        }
    )
