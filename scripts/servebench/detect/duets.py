"""The duet between the two stacks of a candidate, on the machine on which the series moved."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servebench.compare import affected, revisions, session
from servebench.compare import sides as sides_
from servebench.compare.builder import Question, unmeasured
from servebench.compare.progress import Reporter
from servebench.compare.sides import Scope
from servebench.core.errors import UsageError
from servebench.detect import declared
from servebench.detect import locks as locks_
from servebench.host import paths
from servebench.host.machine_lock import measuring
from servebench.host.progress import Narrator
from servebench.record.candidate import Candidate
from servebench.record.comparison import Comparison

MOST_CASES: Final = 8
"""Cases of a candidate that are played, and as many benchmarks inside the process: the strongest
ones. One cause moves many, and playing all of them would not make it surer."""

NOTHING: Final = "none of the packages that moved is loaded by these cases"

Judge = Callable[[Candidate, float], Comparison]
"""Compares the two stacks of a candidate within so many seconds."""


@dataclass(frozen=True, slots=True)
class RealDuets:
    """Real servers, and real processes without one; `seed` orders the duets."""

    root: Path
    seed: int
    reporter: Reporter
    narrator: Narrator

    def __call__(self, candidate: Candidate, seconds: float) -> Comparison:
        """Compare.

        Raises:
            UsageError: None of its cases is declared any more.
            HistoryError: The locks cannot be found.
            SetupError: A stack cannot be made.
            InterruptedComparison: It was stopped.
        """
        names = cases(self.root, candidate)
        locks = locks_.find(self.root, candidate, self.narrator)
        stack = candidate.base.stack
        return self.between(
            names,
            stack,
            (f"{stack} of {candidate.before_run}", locks.base),
            (f"{stack} of {candidate.after_run}", locks.head),
            seconds,
            locks.notes,
        )

    def between(
        self,
        names: Sequence[str],
        stack: str,
        base: tuple[str, str],
        head: tuple[str, str],
        seconds: float,
        notes: tuple[str, ...] = (),
    ) -> Comparison:
        """Compare two states of a stack on some cases.

        Args:
            names: The cases' ids, and names of benchmarks inside the process as in the history.
            stack: Which stack.
            base: What to call the one state, and the text of its lock; `head` likewise.
            head: See `base`.
            seconds: For all of it.
            notes: What a reader should know.

        Raises:
            UsageError: A benchmark is played by no declared case any more.
            SetupError: A stack cannot be made.
            InterruptedComparison: It was stopped.
        """
        known = {case.id for case in declared.cases(self.root)}
        served = [name for name in names if name in known]
        inside = [name for name in names if name not in known]
        carriers = declared.benchmarks(self.root) if inside else {}
        if lost := [name for name in inside if name not in carriers]:
            raise UsageError(
                f"{', '.join(lost)}: no case of this checkout has this endpoint with this stack "
                "and interpreter any more; there is nothing to compare"
            )
        with revisions.copies(self.narrator) as copies:
            scope = Scope(
                declared.PROFILE,
                # A benchmark runs in the environments of a case, whose server is not started.
                tuple(
                    glob.escape(name) for name in (*served, *(carriers[name] for name in inside))
                ),
                paths.state_dir() / "logs",
                self.narrator,
                copies,
            )
            both = sides_.of_locks(self.root, stack, base, head, scope)
            affected_ = affected.find(both)
            found = replace(
                affected_,
                pairs=tuple(pair for pair in affected_.pairs if pair.head.id in served),
                targets=tuple(target for target in affected_.targets if target.series in inside),
            )
            if not found.pairs and not found.targets:
                found = replace(found, nothing=found.nothing or NOTHING)
            question = Question(both.base, both.head, found, seconds, self.seed, notes=notes)
            if not found.pairs and not found.targets:
                return unmeasured(question)
            with measuring():
                return session.compare(question, self.reporter)


def cases(root: Path, candidate: Candidate) -> tuple[str, ...]:
    """What is played: the strongest cases, and benchmarks, that are still declared.

    Raises:
        UsageError: None is.
    """
    known = {case.id for case in declared.cases(root)}
    inside = declared.benchmarks(root)
    moved = dict.fromkeys(step.series.case for step in candidate.steps)
    served = [name for name in moved if name in known]
    benchmarks = [name for name in moved if name in inside]
    found = (*served[:MOST_CASES], *benchmarks[:MOST_CASES])
    if not found:
        raise UsageError(
            f"{candidate.id}: none of its cases is declared any more: {', '.join(moved)}; "
            "there is nothing to confirm"
        )
    return found
