"""Steps → candidates: one per machine and change of a stack, whatever moved there. Pure.

A step tells only about where a series moved: the night before or after scatters, too. So every
change of the case's stack within a night of it comes into question, and changes that share a step
are one candidate, between the stack before the first of them and the one after the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from servebench.changes import ChangeRecord, StackState
from servebench.detect.model import Candidate, Candidates, Dismissal, Step
from servebench.detect.steps import Found, steps
from servebench.site.history import Table
from servebench.site.story import differences
from servebench.toolchain import artefact

SLACK: Final = 1
"""Nights that a step may be away from the change of the stack that caused it."""


@dataclass(slots=True)
class _Cluster:
    """Changes of one stack that share steps: places of the first nights with them."""

    nights: set[int]
    steps: list[Step] = field(default_factory=list)


def detect(
    tables: Iterable[Table],
    records: Sequence[ChangeRecord] = (),
    dismissed: Mapping[str, Dismissal] | None = None,
) -> Candidates:
    """Find what moved and was not judged yet.

    Args:
        tables: Of the history; those of benchmarks inside the process are left out.
        records: Changes that were confirmed.
        dismissed: Candidates that were not, by id.
    """
    found: list[Candidate] = []
    unexplained: list[Step] = []
    judged = 0
    for table in tables:
        if table.kind != "load":
            continue
        candidates, others = of_table(table)
        unexplained += others
        for candidate in candidates:
            earlier = [
                dismissal
                for dismissal in (dismissed or {}).values()
                if dismissal.id == candidate.id
                or (dismissal.machine == candidate.machine and _same(candidate, dismissal))
            ]
            if _recorded(candidate, records) or any(one.final for one in earlier):
                judged += 1
            else:
                tries = max((one.tries for one in earlier), default=0)
                found.append(candidate.model_copy(update={"tries": tries}))
    return Candidates(
        candidates=tuple(sorted(found, key=lambda one: (-one.steps[0].strength, one.id))),
        unexplained=tuple(unexplained),
        known=judged,
    )


def _recorded(candidate: Candidate, records: Iterable[ChangeRecord]) -> bool:
    return any(
        record.id == candidate.id
        or (record.series.machine == candidate.machine and _same(candidate, record))
        for record in records
    )


def _same(candidate: Candidate, judged: ChangeRecord | Dismissal) -> bool:
    """Whether something that was judged lies between the same runs, at least in part.

    With every night the step may be seen a night earlier or later, and must not be a new one. Names
    of runs sort by time.
    """
    stack = judged.base.stack if isinstance(judged, ChangeRecord) else judged.stack
    if stack != candidate.base.stack or judged.before_run is None or judged.after_run is None:
        return False
    return judged.before_run < candidate.after_run and candidate.before_run < judged.after_run


def of_table(table: Table) -> tuple[tuple[Candidate, ...], tuple[Step, ...]]:
    """The candidates of a machine, and steps where no stack changed."""
    changed = _changes(table)
    clusters: dict[str, list[_Cluster]] = {}
    unexplained: list[Step] = []
    for found in steps(table):
        stack = _stack_of(table, found)
        near = {
            night
            for night in changed.get(stack, ())
            # Nights between the two levels may have been disturbed: it was in any of them.
            if found.before - SLACK < night <= found.night + SLACK
        }
        if near:
            _add(clusters.setdefault(stack, []), near, found.step)
        else:
            unexplained.append(found.step)
    candidates = tuple(
        _candidate(table, stack, cluster)
        for stack, many in sorted(clusters.items())
        for cluster in many
    )
    return candidates, tuple(unexplained)


def _changes(table: Table) -> dict[str, list[int]]:
    """Per stack, the nights before which its lock changed."""
    found: dict[str, list[int]] = {}
    digests: dict[str, str] = {}
    for place, night in enumerate(table.nights):
        for stack, digest in night.stacks.items():
            if digests.setdefault(stack, digest) != digest:
                found.setdefault(stack, []).append(place)
            digests[stack] = digest
    return found


def _stack_of(table: Table, found: Found) -> str:
    header = table.nights[found.night]
    return header.stack_of[header.cases.index(table.cases[found.case])]


def _add(clusters: list[_Cluster], nights: set[int], step: Step) -> None:
    """Put a step to the changes that it may come from, and join what it connects."""
    touching = [cluster for cluster in clusters if cluster.nights & nights]
    joined = _Cluster(set(nights), [step])
    for cluster in touching:
        clusters.remove(cluster)
        joined.nights |= cluster.nights
        joined.steps += cluster.steps
    clusters.append(joined)


def _candidate(table: Table, stack: str, cluster: _Cluster) -> Candidate:
    head = table.nights[max(cluster.nights)]
    base = next(
        night for night in reversed(table.nights[: min(cluster.nights)]) if stack in night.stacks
    )
    digests = base.stacks[stack], head.stacks[stack]
    when = datetime.fromtimestamp(head.time, UTC)
    strongest = sorted(cluster.steps, key=lambda step: -step.strength)
    return Candidate(
        id=f"{when:%Y%m%d}-{stack}-{artefact.digest(table.machine, *digests)[:6]}",
        machine=table.machine,
        when=when,
        before_run=base.run,
        after_run=head.run,
        base=StackState(stack=stack, digest=digests[0]),
        head=StackState(stack=stack, digest=digests[1]),
        base_commit=base.commit,
        head_commit=head.commit,
        packages=differences(stack, base.packages.get(stack, {}), head.packages.get(stack, {})),
        steps=tuple(strongest),
    )
