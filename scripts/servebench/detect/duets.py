"""The duet between the two stacks of a candidate, on the machine on which the series moved."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servebench import paths
from servebench.compare import session, touched
from servebench.compare import sides as sides_
from servebench.compare.draft import Header, unmeasured
from servebench.compare.model import Comparison
from servebench.compare.progress import Reporter
from servebench.compare.sides import Wanted
from servebench.detect import locks as locks_
from servebench.detect.model import Candidate
from servebench.errors import UsageError
from servebench.exclusive import measuring
from servebench.experiments import expand, load_experiments
from servebench.toolchain.narrator import Narrator

PROFILE: Final = "nightly"
MOST_CASES: Final = 8
"""Cases of a candidate that are played: the strongest ones. One cause moves many, and playing all
of them would not make it surer."""

Judge = Callable[[Candidate, float], Comparison]
"""Compares the two stacks of a candidate within so many seconds."""


@dataclass(frozen=True, slots=True)
class RealDuets:
    """Real servers.

    Attributes:
        root: The checkout.
        seed: Of the order of the duets.
        reporter: Told of everything.
        narrator: Told what is being made.
    """

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
        locks = locks_.of_candidate(self.root, candidate, self.narrator)
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
            names: The cases' ids.
            stack: Which stack.
            base: What to call the one state, and the text of its lock.
            head: The same of the other.
            seconds: For all of it.
            notes: What a reader should know.

        Raises:
            SetupError: A stack cannot be made.
            InterruptedComparison: It was stopped.
        """
        wanted = Wanted(
            PROFILE,
            tuple(glob.escape(name) for name in names),
            paths.state_dir() / "logs",
            self.narrator,
        )
        both = sides_.of_locks(self.root, stack, base, head, wanted)
        found = replace(touched.find(both), targets=())
        header = Header(notes=notes)
        if not found.pairs:
            return unmeasured(both.base, both.head, found, header, seconds)
        with measuring():
            return session.compare(
                both.base, both.head, found, seconds, self.seed, self.reporter, header=header
            )


def cases(root: Path, candidate: Candidate) -> tuple[str, ...]:
    """The cases that are played: the strongest ones that are still declared.

    Raises:
        UsageError: None is.
    """
    declared = {
        case.id for experiment in load_experiments(root) for case in expand(experiment, PROFILE)
    }
    moved = dict.fromkeys(step.series.case for step in candidate.steps)
    found = tuple(case for case in moved if case in declared)[:MOST_CASES]
    if not found:
        raise UsageError(
            f"{candidate.id}: none of its cases is declared any more: {', '.join(moved)}; "
            "there is nothing to confirm"
        )
    return found
