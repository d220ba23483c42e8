"""With which locks asv's nights were measured: each commit's own, which git holds.

asv's files name the commit, and a commit is measured with the locks that it has itself
(`inprocess.environment`). So its locks are read from git, all of them by two processes. A commit
that git does not have here has none: nothing is said of steps beside it. The interpreters' versions
are among the figures, recorded by the suite `guard`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from servebench import stacks
from servebench.detect.steps import LONGEST
from servebench.errors import DeclarationError, HistoryError
from servebench.git import batch_contents, run
from servebench.site.history import Table
from servebench.site.nights import Header

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_STACK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PYTHON: Final = "inprocess/guard.Packages.track_version(package=python)/"
_VERSION: Final = "version"  # the unit of those figures

_Wanted = tuple[str, str]
"""A commit and a stack."""


@dataclass(frozen=True, slots=True)
class _Lock:
    """A lock: its SHA-256, and package → version."""

    digest: str
    packages: dict[str, str]


def with_locks(tables: Iterable[Table], root: Path) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Fill in the stacks and interpreters of asv's newest nights; other tables stay as they are.

    Args:
        tables: Of the history.
        root: The checkout, whose git holds the commits.

    Returns:
        The tables, and sentences about what cannot be searched.
    """
    every = tuple(tables)
    wanted = dict.fromkeys(
        (night.commit, stack)
        for table in every
        if table.kind == "inprocess"
        # One more than is looked through: its lock is the one before the first change.
        for night in table.nights[-LONGEST - 1 :]
        if night.commit is not None and _COMMIT.fullmatch(night.commit)
        for stack in sorted(set(night.stack_of))
        if _STACK.fullmatch(stack)
    )
    if not wanted:
        return every, ()
    try:
        locks, lost = _read(root, tuple(wanted))
    except HistoryError as problem:
        return every, (f"figures inside the process are not searched: {problem}",)
    told = tuple(_told(table, locks) if table.kind == "inprocess" else table for table in every)
    if not lost:
        return told, ()
    commits = len({commit for commit, _ in wanted})
    note = (
        f"figures inside the process are not searched around {lost} of {commits} commits, which "
        "git does not have here: fetch all of it (git fetch --unshallow, or fetch-depth: 0)"
    )
    return told, (note,)


def _told(table: Table, locks: Mapping[_Wanted, _Lock]) -> Table:
    versions = _versions(table)
    return replace(
        table,
        nights=tuple(
            _header(night, locks, versions[place]) for place, night in enumerate(table.nights)
        ),
    )


def _header(night: Header, locks: Mapping[_Wanted, _Lock], versions: Mapping[str, str]) -> Header:
    found = {
        stack: locks[night.commit, stack]
        for stack in dict.fromkeys(night.stack_of)
        if night.commit is not None and (night.commit, stack) in locks
    }
    return replace(
        night,
        stacks={stack: lock.digest for stack, lock in found.items()},
        packages={stack: lock.packages for stack, lock in found.items()},
        interpreters={name: versions.get(name, text) for name, text in night.interpreters.items()},
    )


def _versions(table: Table) -> list[dict[str, str]]:
    """By night: interpreter → version; that of the night before where the guard was not run."""
    found: list[dict[str, str]] = [{} for _ in table.nights]
    if _VERSION not in table.metrics:
        return found
    column = table.metrics.index(_VERSION)
    for row, case in enumerate(table.cases):
        figures = table.mean[:, row, column]
        seen = np.flatnonzero(np.isfinite(figures))
        if not case.startswith(_PYTHON) or not seen.size:
            continue
        python = case.removeprefix(_PYTHON).partition("/")[0].removeprefix("py")
        for place, versions in enumerate(found):
            latest = int(np.searchsorted(seen, place, "right")) - 1
            versions.setdefault(python, f"{figures[seen[max(0, latest)]]:.6f}")
    return found


def _read(root: Path, wanted: Sequence[_Wanted]) -> tuple[dict[_Wanted, _Lock], int]:
    """The locks that git has, and how many commits it does not have.

    Raises:
        HistoryError: git does not answer: there is no repository.
    """
    commits = tuple(dict.fromkeys(commit for commit, _ in wanted))
    paths = {
        stack: stacks.lock_file(stack, root).relative_to(root).as_posix() for _, stack in wanted
    }
    names = [*commits, *(f"{commit}:{paths[stack]}" for commit, stack in wanted)]
    objects = _objects(root, names)
    lost = sum(one is None for one in objects[: len(commits)])
    blobs = dict(zip(wanted, objects[len(commits) :], strict=True))
    locks = _locks(root, tuple(dict.fromkeys(one for one in blobs.values() if one is not None)))
    return {key: locks[one] for key, one in blobs.items() if one is not None and one in locks}, lost


def _objects(root: Path, names: Sequence[str]) -> list[str | None]:
    """The ids of objects; None for those that git does not have."""
    answer = _asked(root, "--batch-check", names).decode().splitlines()
    return [None if line.endswith(" missing") else line.partition(" ")[0] for line in answer]


def _locks(root: Path, blobs: Sequence[str]) -> dict[str, _Lock]:
    """Locks by the id of their blob; what is no lock is none."""
    found = {}
    for blob, content in zip(blobs, batch_contents(_asked(root, "--batch", blobs)), strict=True):
        if content is None:
            continue
        try:
            packages = stacks.parse(content.decode(), f"blob {blob}", root)
        except (DeclarationError, UnicodeDecodeError):
            continue
        found[blob] = _Lock(hashlib.sha256(content).hexdigest(), packages)
    return found


def _asked(root: Path, how: str, names: Sequence[str]) -> bytes:
    given = "".join(f"{name}\n" for name in names).encode()
    return run(["-C", str(root), "cat-file", how], {}, given)
