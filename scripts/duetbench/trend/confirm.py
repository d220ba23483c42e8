"""Candidates one after another, each judged by duets and kept with its evidence at once."""

import glob
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge import affected, revisions, session
from duetbench.judge import sides as sides_
from duetbench.judge.change_locks import find_locks
from duetbench.judge.counted import PROFILES, declared_jobs
from duetbench.judge.instruments import Real
from duetbench.judge.loop import Reporter
from duetbench.judge.session import Question, unmeasured
from duetbench.judge.sides import Scope
from duetbench.project.project import Project
from duetbench.store import change
from duetbench.store.change import Change, StackState
from duetbench.store.comparison import COMPARISONS, Comparison
from duetbench.store.files import write
from duetbench.store.points import INSTRUCTIONS
from duetbench.trend.conclude import conclude

MOST_CASES: Final = 8
"""Cases of a candidate that are measured, and as many jobs inside the process: the strongest
ones. One cause moves many, and playing all of them would not make it surer."""

NOTHING: Final = "none of the packages that moved is loaded by these cases"

Judge = Callable[[Change, float], Comparison]
"""Compares the two stacks of a candidate within so many seconds."""


@dataclass(frozen=True, slots=True)
class RealDuets:
    """Real servers, and real counts; `seed` orders the duets."""

    project: Project
    seed: int
    reporter: Reporter
    narrator: Narrator

    def __call__(self, candidate: Change, seconds: float) -> Comparison:
        """Compare; errors as of `strongest`, `find_locks` and `between`."""
        names = strongest(self.project, candidate)
        texts = find_locks(self.project, candidate, self.narrator)
        stack = candidate.base.stack
        base = _label(candidate.base, candidate.before_run), texts.base
        head = _label(candidate.head, candidate.after_run), texts.head
        return self.between(names, stack, base, head, seconds, texts.notes)

    def between(
        self,
        names: Sequence[str],
        stack: str,
        base: tuple[str, str],
        head: tuple[str, str],
        seconds: float,
        notes: tuple[str, ...] = (),
    ) -> Comparison:
        """Compare two states (label, text of the lock) of a stack on cases and jobs.

        Raises:
            UsageError: A job goes with no declared case any more.
            SetupError: A stack cannot be made.
            InterruptedComparison: It was stopped.
        """
        known = {case.id for case in self.project.cases(PROFILES[0])}
        served = [name for name in names if name in known]
        inside = [name for name in names if name not in known]
        carriers = declared_jobs(self.project) if inside else {}
        if lost := [name for name in inside if name not in carriers]:
            raise UsageError(
                f"{', '.join(lost)}: no case of this checkout is, or goes with, this one; asv "
                "measures other benchmarks inside the process"
            )
        # A job is counted in the environments of a case, whose server is not started.
        globs = tuple(map(glob.escape, (*served, *(carriers[name] for name in inside))))
        logs = paths.state_dir() / "logs"
        with revisions.copies() as copies:
            scope = Scope(PROFILES[0], globs, logs, self.narrator, copies)
            both = sides_.of_locks(self.project, stack, base, head, scope)
            touched = affected.find(both)
            pairs = tuple(pair for pair in touched.pairs if pair.case.id in served)
            jobs = tuple(job for job in touched.jobs if job.series in inside)
            nothing = "" if pairs or jobs else touched.nothing or NOTHING
            touched = replace(touched, pairs=pairs, jobs=jobs, nothing=nothing)
            question = Question(both.base, both.head, touched, seconds, self.seed, notes=notes)
            if nothing:
                return unmeasured(question)
            with measuring():
                return session.compare(question, self.reporter, Real(logs))


def _label(state: StackState, run: str | None) -> str:
    return f"{state.stack} {f'as of {state.as_of}' if state.as_of else f'of {run}'}"


def strongest(project: Project, candidate: Change) -> tuple[str, ...]:
    """Choose the strongest cases and jobs of the stack that are still declared.

    UsageError: none is.
    """
    stack = candidate.base.stack
    known = {case.id: case.stack for case in project.cases(PROFILES[0])}
    inside = {name: known[case] for name, case in declared_jobs(project).items()}
    moved = dict.fromkeys(step.series.case for step in candidate.steps)
    served = [name for name in moved if known.get(name) == stack]
    jobs = [name for name in moved if inside.get(name) == stack]
    names = (*served[:MOST_CASES], *jobs[:MOST_CASES])
    if not names:
        raise UsageError(
            f"{candidate.id}: none of its cases is declared any more: {', '.join(moved)}; "
            "there is nothing to confirm"
        )
    return names


LEAST_SECONDS: Final = 60.0
"""A comparison in less would decide nothing."""


@dataclass(frozen=True, slots=True)
class Conclusions:
    """Judged candidates; `left` were not judged, for the reason beside them."""

    judged: tuple[Change, ...]
    left: tuple[tuple[Change, str], ...]


def confirm(
    candidates: Sequence[Change],
    judge: Judge,
    seconds: float,
    results: Path,
    *,
    log: Callable[[str], None],
    explain: Callable[[Change], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Conclusions:
    """Judge candidates of this machine in so many seconds, and keep all in `results`.

    Those that have no time, as after a backfill of years, are the last ones: the weakest. What is
    confirmed is attributed, and what moved in instructions at once, as far as it can be.

    Raises:
        InterruptedRun: What was judged until then is kept.
        RecordError: A file cannot be written.
    """
    ends = clock() + seconds
    judged: list[Change] = []
    left: list[tuple[Change, str]] = []
    for place, candidate in enumerate(candidates):
        if explain and any(step.series.metric == INSTRUCTIONS for step in candidate.steps):
            explain(candidate)
        remaining = ends - clock()
        share = max(LEAST_SECONDS, remaining / (len(candidates) - place))
        if remaining < LEAST_SECONDS:
            left.append((candidate, "the time was up"))
            continue
        log(f"{candidate.id}: {share / 60:.0f} min for {len(candidate.steps)} series that moved")
        try:
            comparison = judge(candidate, share)
        except (HistoryError, SetupError, UsageError) as problem:
            # One stack that cannot be made any more must not keep the others waiting.
            left.append((candidate, str(problem)))
            continue
        concluded = conclude(candidate, comparison)
        write(results / COMPARISONS / f"{comparison.id}.json", comparison)
        change.save(results, concluded)
        judged.append(concluded)
        if explain and concluded.confirmed:
            explain(concluded)
    return Conclusions(tuple(judged), tuple(left))
