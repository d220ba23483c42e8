"""Locks that differ from the checkout's: newly resolved ones, or those on both sides of a change.

A stack is resolved as of a date, or with other versions of some packages. The cache keeps its lock
by its digest, which records contain: a text is right if its digest is. A lock that was resolved as
of a date is resolved again. A lock that cannot be found is resolved from the other side's, with the
versions that were recorded.
"""

import math
from dataclasses import dataclass
from datetime import date

from duetbench.core.errors import HistoryError
from duetbench.host.console import Narrator
from duetbench.project import locks
from duetbench.project.subject import Subject
from duetbench.store.change import StackState
from duetbench.store.comparison import (
    SIDES,
    Comparison,
    Finding,
    PackageChange,
    SideName,
    SideRecord,
)


@dataclass(frozen=True, slots=True)
class Between:
    """Two compared states of a stack, under an id, with the packages that moved."""

    id: str
    base: StackState
    head: StackState
    packages: tuple[PackageChange, ...]
    base_commit: str | None
    head_commit: str | None


def least(finding: Finding) -> float:
    """Least size of a change, as the logarithm of a ratio; zero if there may be none."""
    low, high = (math.log(end or 1.0) for end in (finding.low, finding.high))
    return 0.0 if low * high < 0 else min(abs(low), abs(high))


def between(comparison: Comparison, stack: str) -> Between:
    """Return the two states of one stack that a comparison compared."""

    def state(side: SideRecord) -> StackState:
        digest = next(record.digest for record in side.stacks if record.name == stack)
        return StackState(stack=stack, digest=digest)

    base, head = comparison.base, comparison.head
    packages = tuple(move for move in comparison.packages if move.stack == stack)
    return Between(comparison.id, state(base), state(head), packages, base.commit, head.commit)


@dataclass(frozen=True, slots=True)
class Locks:
    """The texts of one stack's lock before and after a change, with notes for readers."""

    base: str
    head: str
    notes: tuple[str, ...] = ()


def find_locks(subject: Subject, change: Between, narrator: Narrator) -> Locks:
    """Find or resolve the locks on both sides of a change.

    Raises:
        HistoryError: Neither lock can be found.
        SetupError: uv finds no package set with the recorded versions.
    """
    notes: list[str] = []
    texts = {side: _find_lock(subject, change, side, narrator, notes) for side in SIDES}
    if not any(texts.values()):
        raise HistoryError(
            f"{change.id}: neither lock of the stack {change.base.stack} is found any more: "
            f"{subject.lost_locks}"
        )
    for side in [side for side, text in texts.items() if text is None]:
        other = next(filter(None, texts.values()))
        texts[side] = _rebuild(subject, change, side, other, narrator)
        notes.append(
            f"The lock of {side} is not found any more; it was resolved again from the recorded "
            "versions"
        )
    return Locks(texts["base"] or "", texts["head"] or "", tuple(notes))


def _find_lock(
    subject: Subject, change: Between, side: SideName, narrator: Narrator, notes: list[str]
) -> str | None:
    """Return a side's lock as it was, or resolved as of its date; None if not possible.

    If the index has changed since then, the lock of that date gets the recorded versions.
    """
    state = change.base if side == "base" else change.head
    commit = change.base_commit if side == "base" else change.head_commit
    text = subject.find_lock(state.stack, state.digest, commit)
    if text is not None or state.as_of is None:
        return text
    again = locks.resolve_stack(subject, state.stack, narrator, date.fromisoformat(state.as_of))
    text = again.lock.read_text("utf-8")
    if again.digest == state.digest:
        return text
    notes.append(
        f"The lock of {side} was resolved again as of {state.as_of}, with the recorded versions: "
        "it is not the file that was measured then"
    )
    return _rebuild(subject, change, side, text, narrator)


def _rebuild(
    subject: Subject, change: Between, side: SideName, keep: str, narrator: Narrator
) -> str:
    """Resolve a lock with a side's recorded versions, and otherwise as in the lock `keep`."""
    versions = {move.package: getattr(move, side) for move in change.packages}
    pins = [f"{package}=={version}" for package, version in versions.items() if version]
    name = change.base.stack
    with narrator.step(f"stack {name}", f"resolving {', '.join(pins)} again") as tick:
        return locks.resolve(subject, name, None, tick, keep=keep, pins=pins)
