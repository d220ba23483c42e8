"""Laying the history out beside the results that are there.

The tip is fetched into a copy in the cache, which the next pull only adds to. Files are written
beside their place and then moved, so that an interrupted pull leaves whole files and the next one
goes on. They are copies, and are not flushed to the disk one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

from servebench.core.errors import HistoryError, RecordError
from servebench.host import cache as artefact
from servebench.host import paths
from servebench.host.git import GitError, HopelessError, Patience, Remote
from servebench.record.files import swap
from servebench.record.history.branch import Branch, Entry
from servebench.record.history.kinds import kind_of

_FOLDER: Final = "history"
_PARTIAL: Final = ".pulled"


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a pull did.

    Attributes:
        tip: The history's commit; None: there is no history yet.
        written: How many files are new.
        replaced: Paths whose contents the history had newer.
        kept: How many were there already.
    """

    tip: str | None
    written: int
    replaced: tuple[str, ...]
    kept: int


def pull(
    remote: Remote,
    results: Path,
    *,
    patience: Patience | None = None,
    told: Callable[[str], None] = lambda _: None,
    cache: Path | None = None,
) -> PullResult:
    """Lay the history out in a results folder; what else is in it stays.

    Raises:
        RecordError: A run of the folder is in the history with other bytes; nothing was written.
        HistoryError: The history cannot be fetched or written.
    """
    cache = cache or paths.cache_dir() / _FOLDER
    place = cache / f"{artefact.digest(remote.address, remote.branch)}.git"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{place.name}.lock"):
            branch = Branch(place, remote)
            (patience or Patience()).keep_trying(lambda: branch.fetch(contents=True), told)
            return _laid_out(branch, results)
    except (GitError, HopelessError) as problem:
        raise HistoryError(f"the history could not be fetched: {problem}") from problem
    except OSError as problem:
        raise HistoryError(
            f"{problem.filename or results}: cannot be written ({problem.strerror}); mend that and "
            "pull again: what was written is whole"
        ) from problem


def _laid_out(branch: Branch, results: Path) -> PullResult:
    needed: list[Entry] = []
    replaced: list[str] = []
    refused: list[str] = []
    kept = 0
    for entry in branch.entries():
        kind = kind_of(entry.path)
        if kind is None:
            continue
        here = _blob(results / entry.path)
        if here == entry.blob or (here is not None and kind.settled):
            kept += 1
        elif here is None:
            needed.append(entry)
        elif kind.replaceable:
            needed.append(entry)
            replaced.append(entry.path)
        else:
            refused.append(entry.path)
    if refused:
        raise RecordError(
            f"{', '.join(refused[:5])}: the history has other bytes under this name than "
            f"{results}, and neither is ever rewritten; nothing was written. Move the wrong ones "
            "away, and pull again"
        )
    for entry, data in branch.read(needed):
        _write(results / entry.path, data)
    return PullResult(branch.tip, len(needed) - len(replaced), tuple(replaced), kept)


def _blob(path: Path) -> str | None:
    """Git's name for a file's contents; None if there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _write(path: Path, data: bytes) -> None:
    # One name for all, under our lock: of a pull that was killed one file is left, and replaced.
    swap(path, data, path.with_name(f".{path.name}{_PARTIAL}"))
