"""The attribution of a change between two states of a stack: which function did it.

Instructions are counted, so that no quiet machine is needed, and none of the time for duets.
"""

import glob
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from duetbench.core.errors import CountError, HistoryError, SetupError, UsageError
from duetbench.core.metrics import METRICS
from duetbench.host import paths
from duetbench.host.progress import Narrator
from duetbench.judge import duets, inprocess, pairs, revisions
from duetbench.judge import sides as sides_
from duetbench.judge.builder import MOVED
from duetbench.judge.sides import Scope, Sides
from duetbench.judge.why.attribute import Live, attribute
from duetbench.measure.duet import SideCase
from duetbench.store import attribution
from duetbench.store.attribution import Attribution
from duetbench.store.change import Candidate, ChangeRecord, SeriesName
from duetbench.store.comparison import Comparison, Judgement
from duetbench.store.points import INSTRUCTIONS
from duetbench.trend.bisect import searches

Explain = Callable[[Candidate | ChangeRecord], Attribution]
"""Attributes a change; raises what `keep` tells as notes."""


@dataclass(frozen=True, slots=True)
class Counting:
    """By counting the instructions of the case that moved most, on both stacks."""

    root: Path
    narrator: Narrator

    def __call__(self, change: Candidate | ChangeRecord) -> Attribution:
        """Attribute.

        Raises:
            CountError: Its instructions cannot be counted.
            UsageError, HistoryError, SetupError: As of `sides_of`.
        """
        logs = paths.state_dir() / "logs"
        with revisions.copies(self.narrator) as copies:
            both = sides_of(self.root, change, Scope("quick", (), logs, self.narrator, copies))
            base, head = (SideCase(one.cases[0], one.rig) for one in (both.base, both.head))
            job = inprocess.job(_series(change).case)
            # Of what no duet has confirmed nobody knows that time moved.
            live: Live = "unmoved" if isinstance(change, ChangeRecord) else "no"
            made = attribute(base, head, self.narrator, job=job, live=live)
        return made.model_copy(
            update={
                "id": change.id, "change": change.id, "base": change.base, "head": change.head,
                "packages": change.packages,
            }
        )  # fmt: skip


def sides_of(root: Path, change: Candidate | ChangeRecord, scope: Scope) -> Sides:
    """Both stacks of a change, with the case that it was seen in unless others are selected.

    Raises:
        CountError: It is one of memory.
        UsageError: It is of no case that is declared.
        HistoryError, SetupError: As of `duets.find_locks`, or a stack cannot be made.
    """
    series = _series(change)
    if not scope.select and series.metric in METRICS and METRICS[series.metric].unit == "B":
        raise CountError("it is memory that moved, of which instructions say nothing")
    case, profile = duets.carrier(root, series.case)
    select = scope.select or (glob.escape(case.id),)
    return of_locks(root, change, replace(scope, profile=profile, select=select))


def moved_most(comparison: Comparison, sides: Sides) -> tuple[SideCase, SideCase] | None:
    """The case that moved most surely, on both sides; None: none did otherwise than in memory."""
    judged = {
        case.case.id: max(map(searches.least, moved))
        for case in comparison.cases
        if (moved := [one for one in case.judgements if one.verdict in MOVED and _counts(one)])
    }
    for pair in pairs.paired(sides.base.cases, sides.head.cases, cross=sides.cross)[0]:
        if judged and pair.head.id == max(judged, key=judged.__getitem__):
            return SideCase(pair.base, sides.base.rig), SideCase(pair.head, sides.head.rig)
    return None


def _counts(judgement: Judgement) -> bool:
    """Whether instructions may say something about it."""
    return judgement.metric in METRICS and METRICS[judgement.metric].unit != "B"


def of_locks(root: Path, moved: duets.Change, scope: Scope) -> Sides:
    """Both stacks of what moved, as in `duets.find_locks`, which says what is raised."""
    found = duets.find_locks(root, moved, scope.narrator)
    stack = moved.base.stack
    both = (f"{stack} before", found.base), (f"{stack} after", found.head)
    return sides_.of_locks(root, stack, *both, scope)


def _series(change: Candidate | ChangeRecord) -> SeriesName:
    if isinstance(change, ChangeRecord):
        return change.series
    moved = [step.series for step in change.steps]
    return next((one for one in moved if one.metric == INSTRUCTIONS), moved[0])


def keep(
    explain: Explain, change: Candidate | ChangeRecord, results: Path, told: Callable[[str], None]
) -> None:
    """Attribute a change that has no attribution yet, and keep it.

    A change is none the less one where this fails: the reason is told.
    """
    if (results / attribution.FOLDER / f"{change.id}.json").exists():
        return
    try:
        attribution.save(results, explain(change))
    except (CountError, HistoryError, SetupError, UsageError) as problem:
        told(f"note: {change.id}: its code was not looked at: {problem}")
