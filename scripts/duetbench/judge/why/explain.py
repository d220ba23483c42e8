"""Attributes changes and comparisons: chooses the case and prepares both sides."""

import glob
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from duetbench.core.errors import CountError, HistoryError, SetupError, UsageError
from duetbench.core.metrics import METRICS
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.judge import change_locks, pairs, revisions
from duetbench.judge import sides as sides_
from duetbench.judge.builder import MOVED
from duetbench.judge.change_locks import Between
from duetbench.judge.inprocess import unit_of
from duetbench.judge.sides import Scope, Sides
from duetbench.judge.why.attribute import attribute
from duetbench.measure.testbed import SideCase
from duetbench.project.project import Project
from duetbench.store import attribution
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change, SeriesName
from duetbench.store.comparison import Comparison, Judgement
from duetbench.store.points import INSTRUCTIONS


def explain(project: Project, change: Change, narrator: Narrator) -> Attribution:
    """Attribute a change: count the instructions of the case that moved most, on both stacks.

    Raises:
        CountError: Its instructions cannot be counted.
        UsageError, HistoryError, SetupError: As of `sides_of`.
    """
    logs = paths.state_dir() / "logs"
    with revisions.copies(narrator) as copies:
        sides = sides_of(project, change, Scope("quick", (), logs, narrator, copies, loaded=False))
        job = unit_of(_series(change).case)
        base, head = (
            SideCase(side.cases[0], side.testbed, job) for side in (sides.base, sides.head)
        )
        attributed = attribute(base, head, narrator)
    same = {name: getattr(change, name) for name in ("id", "base", "head", "packages")}
    return attributed.model_copy(update={**same, "change": change.id})


def keep(
    project: Project,
    change: Change,
    results: Path,
    narrator: Narrator,
    note: Callable[[str], None],
) -> None:
    """Attribute a change that has no attribution yet, and save it; a failure is only a note."""
    if (results / attribution.FOLDER / f"{change.id}.json").exists():
        return
    try:
        attribution.save(results, explain(project, change, narrator))
    except (CountError, HistoryError, SetupError, UsageError) as problem:
        note(f"note: {change.id}: its code was not looked at: {problem}")


def sides_of(project: Project, change: Change, scope: Scope) -> Sides:
    """Prepare both stacks of a change, with the case that it was seen in unless some are selected.

    Raises:
        CountError: It is one of memory.
        UsageError: It is of no case that is declared.
        HistoryError, SetupError: As of `change_locks.find_locks`, or a stack cannot be made.
    """
    series = _series(change)
    if not scope.select and not _executes(series.metric):
        raise CountError("it is memory that moved, of which instructions say nothing")
    case, profile = change_locks.carrier(project, series.case)
    select = scope.select or (glob.escape(case.id),)
    return _of_locks(project, change, replace(scope, profile=profile, select=select))


def sides_of_comparison(project: Project, comparison: Comparison, scope: Scope) -> Sides:
    """Prepare what was compared: revisions as they are, or else the stack whose packages moved.

    Raises:
        UsageError: Neither can be prepared again.
        HistoryError, SetupError: As of `change_locks.find_locks`, or a stack cannot be made.
    """
    base, head = comparison.base, comparison.head
    if base.kind == head.kind == "revision" and base.commit and head.commit and not head.dirty:
        return sides_.of_revisions(project, base.commit, head.commit, scope)
    stacks = dict.fromkeys(move.stack for move in comparison.packages)
    if len(stacks) != 1:
        raise UsageError(
            f"{comparison.id}: expected revisions, or packages of one stack that moved, found "
            f"{len(stacks)} stacks: give both sides themselves (--lock, --base-with, --head-with)"
        )
    return _of_locks(project, change_locks.between(comparison, next(iter(stacks))), scope)


def moved_most(comparison: Comparison, sides: Sides) -> tuple[SideCase, SideCase] | None:
    """The case that moved most surely, on both sides; None: none did otherwise than in memory."""
    judged = {
        case.case.id: max(map(change_locks.least, moved))
        for case in comparison.cases
        if (moved := [judgement for judgement in case.judgements if _moved(judgement)])
    }
    for pair in pairs.paired(sides.base.cases, sides.head.cases, cross=sides.cross)[0]:
        if judged and pair.head.id == max(judged, key=judged.__getitem__):
            return SideCase(pair.base, sides.base.testbed), SideCase(pair.head, sides.head.testbed)
    return None


def _moved(judgement: Judgement) -> bool:
    return judgement.verdict in MOVED and _executes(judgement.metric)


def _executes(metric: str) -> bool:
    """Whether instructions may say something about a metric: not about memory."""
    return metric not in METRICS or METRICS[metric].unit != "B"


def _of_locks(project: Project, moved: Change | Between, scope: Scope) -> Sides:
    locks = change_locks.find_locks(project, moved, scope.narrator)
    stack = moved.base.stack
    before, after = (f"{stack} before", locks.base), (f"{stack} after", locks.head)
    return sides_.of_locks(project, stack, before, after, scope)


def _series(change: Change) -> SeriesName:
    """The series whose case is attributed: of a candidate one whose instructions moved."""
    moved = (step.series for step in change.steps if step.series.metric == INSTRUCTIONS)
    return next(moved, change.series)
