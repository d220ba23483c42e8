"""Finds the locks on both sides of a change, which the checkout need not have any more.

The cache keeps locks by their digests, which records contain: a text is right if its digest is. A
lock that cannot be found is resolved from that of its date, or else from the other side's, with the
versions that were recorded.
"""

import hashlib
import math
from dataclasses import dataclass
from datetime import date

from duetbench.app import locks
from duetbench.app.subject import Subject
from duetbench.core.change import StackState
from duetbench.core.comparison import SIDES, Comparison, Finding, PackageChange
from duetbench.core.errors import HistoryError
from duetbench.host.console import Narrator


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
    sides = comparison.base, comparison.head
    before, after = (
        StackState(stack=stack, digest=record.digest)
        for side in sides
        for record in side.stacks
        if record.name == stack
    )
    packages = tuple(move for move in comparison.packages if move.stack == stack)
    return Between(comparison.id, before, after, packages, *(side.commit for side in sides))


@dataclass(frozen=True, slots=True)
class Locks:
    """The texts of one stack's lock before and after a change, with notes for readers."""

    base: str
    head: str
    notes: tuple[str, ...]


def find_locks(subject: Subject, change: Between, narrator: Narrator) -> Locks:
    """Find or resolve the locks on both sides of a change.

    Raises:
        HistoryError: Neither lock can be found.
        SetupError: uv finds no package set with the recorded versions.
    """
    states = {"base": change.base, "head": change.head}
    commits = {"base": change.base_commit, "head": change.head_commit}
    found = {side: _find_lock(subject, states[side], commits[side], narrator) for side in SIDES}
    if not any(found.values()):
        raise HistoryError(
            f"{change.id}: neither lock of the stack {change.base.stack} is found any more: fetch "
            "all of the history (git fetch --unshallow, or fetch-depth: 0), or compare again"
        )
    texts, notes = {}, []
    for side in SIDES:
        texts[side] = found[side] or next(filter(None, found.values()))
        if hashlib.sha256(texts[side].encode()).hexdigest() == states[side].digest:
            continue
        versions = {move.package: getattr(move, side) for move in change.packages}
        pins = [f"{package}=={version}" for package, version in versions.items() if version]
        name = change.base.stack
        with narrator.step(f"stack {name}", f"resolving {', '.join(pins)} again") as tick:
            texts[side] = locks.resolve(subject, name, None, tick, keep=texts[side], pins=pins)
        notes.append(
            f"The lock of {side} is not found any more; it was resolved again from the recorded "
            "versions"
        )
    return Locks(texts["base"], texts["head"], tuple(notes))


def _find_lock(
    subject: Subject, state: StackState, commit: str | None, narrator: Narrator
) -> str | None:
    """Return a lock as it was, or as the index has it for its date now; None if not possible."""
    text = subject.find_lock(state.stack, state.digest, commit)
    if text is None and state.as_of:
        day = date.fromisoformat(state.as_of)
        return locks.resolve_stack(subject, state.stack, narrator, day).lock.read_text("utf-8")
    return text
