"""The locks on both sides of a candidate, as they were measured.

Run files hold the digest of each lock, and git holds the locks: the text is right if its digest is.
Where a clone is shallow the one commit is fetched. A lock that cannot be found any more is resolved
from the other side's, with the versions that the run recorded.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.core.errors import HistoryError
from servebench.host.git import GitError, HopelessError, run
from servebench.host.progress import Narrator
from servebench.record.candidate import Candidate
from servebench.record.change import ChangeRecord, StackState
from servebench.toolchain import locks, stacks

_SEARCHED: Final = 2000  # commits of one lock: five years of nights


@dataclass(frozen=True, slots=True)
class Locks:
    """Texts of one stack's lock before and after a change, with notes for readers."""

    base: str
    head: str
    notes: tuple[str, ...] = ()


def find(root: Path, change: Candidate | ChangeRecord, narrator: Narrator) -> Locks:
    """Find or resolve the locks on both sides of a change.

    Raises:
        HistoryError: Neither can be found.
        SetupError: uv finds no set of the recorded versions.
    """
    base_commit, head_commit = (
        (change.base_commit, change.head_commit) if isinstance(change, Candidate) else (None, None)
    )
    base = text_of(root, change.base, base_commit)
    head = text_of(root, change.head, head_commit)
    if base is not None and head is not None:
        return Locks(base, head)
    if base is None and head is None:
        raise HistoryError(
            f"{change.id}: neither lock of the stack {change.base.stack} is in the git "
            "history any more: fetch all of it (git fetch --unshallow, or fetch-depth: 0)"
        )
    name = change.base.stack
    missing = "base" if base is None else "head"
    known = str(head if base is None else base)
    versions = {move.package: move.base if base is None else move.head for move in change.packages}
    pins = [f"{package}=={version}" for package, version in versions.items() if version]
    with narrator.step(f"stack {name}", f"resolving {', '.join(pins)} again") as tick:
        text = locks.resolve(name, None, tick, root=root, keep=known, pins=pins)
    note = (
        f"The lock of {missing} is not in the git history any more; it was resolved again from the "
        "recorded versions"
    )
    return Locks(text if base is None else known, known if base is None else text, (note,))


def text_of(root: Path, state: StackState, commit: str | None) -> str | None:
    """The text of a lock by its digest, of `commit` or any other; None if git does not have it."""
    path = stacks.lock_file(state.stack, root)
    name = path.relative_to(root).as_posix()
    if path.is_file() and _is(path.read_bytes(), state):
        return path.read_text("utf-8")
    if commit is not None and _git(root, "cat-file", "-e", f"{commit}:{name}") is None:
        # A shallow clone does not have it.
        _git(root, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", commit)
    log = _git(root, "log", "--all", f"--max-count={_SEARCHED}", "--format=%H", "--", name)
    for one in (*([commit] if commit else []), *(log or b"").decode().split()):
        found = _git(root, "cat-file", "blob", f"{one}:{name}")
        if found is not None and _is(found, state):
            return found.decode()
    return None


def _is(data: bytes, state: StackState) -> bool:
    return hashlib.sha256(data).hexdigest() == state.digest


def _git(root: Path, *arguments: str) -> bytes | None:
    """What git says; None if it fails."""
    try:
        return run(["-C", str(root), *arguments], {})
    except (GitError, HopelessError):
        return None
