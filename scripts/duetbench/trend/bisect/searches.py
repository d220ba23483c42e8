"""Searches for the cause of a change, from wherever the change is known, on real stacks."""

import math
import time
from datetime import date
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.core.model import Case
from duetbench.host import machine
from duetbench.host.console import Narrator, duration
from duetbench.host.machine import measuring
from duetbench.judge import change_locks, revisions
from duetbench.judge.change_locks import find_locks
from duetbench.judge.counted import PROFILES, carrier
from duetbench.judge.loop import Reporter
from duetbench.project.project import Project
from duetbench.store.change import Cause, Change, SeriesName
from duetbench.store.comparison import Comparison
from duetbench.trend.bisect import cause
from duetbench.trend.bisect import decision as bisect
from duetbench.trend.bisect.cause import Outcome
from duetbench.trend.bisect.mixtures import Mixtures, SearchTask, moves

METRIC: Final = "server_cpu_per_request"
"""Metric of searches where nothing says which one moved."""


def of_record(project: Project, record: Change, narrator: Narrator) -> SearchTask:
    """A confirmed change; errors as of `change_locks.find_locks`."""
    locks = find_locks(project, record, narrator)
    stack, size = record.base.stack, math.log(record.ratio)
    return SearchTask(record.series, stack, locks.base, locks.head, size)


def of_comparison(
    project: Project, comparison: Comparison, select: str | None, narrator: Narrator
) -> SearchTask:
    """The case of a comparison that moved most surely, or the one selected.

    Raises:
        UsageError: No packages moved there, nothing moved, or no case is selected.
        HistoryError, SetupError: As of `change_locks.find_locks`.
    """
    if (here := machine.fingerprint().id) != comparison.machine.id:
        raise UsageError(f"{comparison.id} was made on {comparison.machine.id}, and this is {here}")
    judged = [
        (case.case, judgement)
        for case in comparison.cases
        for judgement in case.judgements
        if (judgement.moved or select) and judgement.ratio and judgement.low and judgement.high
        if select is None or fnmatchcase(case.case.id, select)
        if any(move.stack == case.case.stack for move in comparison.packages)
    ]
    if not judged:
        raise UsageError(
            f"{comparison.id}: expected a case that moved where packages did"
            + (f", and that {select!r} selects" if select else "")
        )

    case, moved = max(
        judged,
        key=lambda judgement: (judgement[1].moved, change_locks.least(judgement[1])),
    )
    locks = find_locks(project, change_locks.between(comparison, case.stack), narrator)
    series = SeriesName(machine=here, case=case.id, metric=moved.metric)
    return SearchTask(series, case.stack, locks.base, locks.head, math.log(moved.ratio or 1.0))


def of_dates(
    project: Project, select: str, days: tuple[date, date], narrator: Narrator
) -> SearchTask:
    """A case between the stacks as of two dates; errors as of `revisions.resolved` and `_one`."""
    case = _one(project, select)
    texts = [
        change_locks.resolved(project, case.stack, narrator, day).lock.read_text("utf-8")
        for day in days
    ]
    return _of_texts(case, *texts)


def of_locks(project: Project, select: str, base: str, head: str) -> SearchTask:
    """A case between the texts of two locks of its stack; errors as of `_one`."""
    return _of_texts(_one(project, select), base, head)


def _of_texts(case: Case, base: str, head: str) -> SearchTask:
    series = SeriesName(machine=machine.fingerprint().id, case=case.id, metric=METRIC)
    return SearchTask(series, case.stack, base, head)


def _one(project: Project, select: str) -> Case:
    """The case that a glob selects; UsageError: it selects none, or several."""
    cases = {
        case.id: case
        for profile in PROFILES
        for case in project.cases(profile)
        if fnmatchcase(case.id, select)
    }
    if len(cases) != 1:
        some = ", ".join(sorted(cases)[:3]) or "none"
        raise UsageError(f"--select {select!r}: expected one case, found {len(cases)}: {some}")
    return carrier(project, next(iter(cases)))[0]


def find(
    project: Project,
    task: SearchTask,
    reporter: Reporter,
    seconds: float,
    seed: int,
) -> Cause:
    """Search on this machine within so many seconds; what an interruption leaves is gone on with.

    Of a target, `project` is a copy that was prepared for it.

    Raises:
        UsageError: The case or benchmark is not declared any more.
        SetupError: The stacks cannot be made or played.
        InterruptedRun: It was stopped.
    """
    packages = moves(project, task)
    with measuring(), revisions.copies() as copies:
        ends = time.monotonic() + seconds
        mixtures = Mixtures(project, task, reporter, copies, ends, seed)
        row = mixtures.row
        if not row:
            came = any(move.base is None or move.head is None for move in packages)
            reason = cause.ONLY_CAME_OR_WENT if came else cause.NOT_LOADED
            names = frozenset(move.package for move in packages)
            return cause.cause_of(Outcome(suspects=names, reason=reason), packages)
        number = bisect.expected_duets(len(row), task.size or bisect.USUAL)
        reporter.start(
            f"{task.series.case}: {len(packages)} packages moved, {len(row)} of them can be the "
            f"cause: about {bisect.answers(len(row)) + 3} answers and {number} duets of "
            f"{duration(mixtures.seconds)}: {duration(number * mixtures.seconds)}"
            f"{', from where it was left' if mixtures.journal.begun else ''}",
            number * mixtures.seconds,
        )
        try:
            outcome = bisect.Search(row, mixtures, reporter.say, task.size).run()
        finally:
            reporter.end()
        if outcome.reason != cause.TIME_IS_UP:
            mixtures.journal.forget()
        return cause.cause_of(outcome, packages)
