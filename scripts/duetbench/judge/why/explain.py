"""Attributes changes and comparisons: chooses the case and prepares both sides."""

import glob
from dataclasses import replace

from duetbench.core.errors import CountError, UsageError
from duetbench.core.metrics import METRICS
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.judge import change_locks, revisions
from duetbench.judge import sides as sides_
from duetbench.judge.change_locks import Between
from duetbench.judge.counted import BothSides, carrier, unit_of
from duetbench.judge.pairs import Sides
from duetbench.judge.sides import Scope
from duetbench.judge.why.attribute import attribute
from duetbench.project.project import Project
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison
from duetbench.store.points import INSTRUCTIONS


def explain(project: Project, change: Change, narrator: Narrator) -> Attribution:
    """Attribute a change: count the instructions of the case that moved most, on both stacks.

    Raises:
        CountError: It is one of memory, or its instructions cannot be counted.
        UsageError: It is of no case that is declared.
        HistoryError, SetupError: As of `change_locks.find_locks`, or a stack cannot be made.
    """
    # Of a candidate one whose instructions moved.
    moved = (step.series for step in change.steps if step.series.metric == INSTRUCTIONS)
    series = next(moved, change.series)
    if not _executes(series.metric):
        raise CountError("it is memory that moved, of which instructions say nothing")
    job = unit_of(series.case)
    case, profile = carrier(project, series.case)
    logs, only = paths.state_dir() / "logs", (glob.escape(case.id),)
    with revisions.copies() as copies:
        scope = Scope(profile, only, logs, narrator, copies, loaded=False)
        (pair,) = _of_locks(project, change, scope).pairs
        attributed = attribute(replace(pair.base, job=job), replace(pair.head, job=job), narrator)
    same = {name: getattr(change, name) for name in ("id", "base", "head", "packages")}
    return attributed.model_copy(update={**same, "change": change.id})


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


def moved_most(comparison: Comparison, sides: Sides) -> BothSides | None:
    """The case that moved most surely, on both sides; None: none did otherwise than in memory."""
    judged = {
        case.case.id: max(map(change_locks.least, moved))
        for case in comparison.cases
        if (moved := [one for one in case.judgements if one.moved and _executes(one.metric)])
    }
    surest = max(judged, key=judged.__getitem__, default=None)
    return next((pair.sides for pair in sides.pairs if pair.case.id == surest), None)


def _executes(metric: str) -> bool:
    """Whether instructions may say something about a metric: not about memory."""
    return metric not in METRICS or METRICS[metric].unit != "B"


def _of_locks(project: Project, moved: Change | Between, scope: Scope) -> Sides:
    locks = change_locks.find_locks(project, moved, scope.narrator)
    stack = moved.base.stack
    before, after = (f"{stack} before", locks.base), (f"{stack} after", locks.head)
    return sides_.of_locks(project, stack, before, after, scope)
