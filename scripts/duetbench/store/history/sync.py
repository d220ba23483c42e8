"""Adding files to the history, whoever else does so at the same time, and laying it out here.

One new file per run and shard, so that two pushes never want the same file: who was late puts the
same files on the new tip. A file that is there already with the same bytes is success, which also
answers whether a push that was cut off had arrived. A pull fetches the tip into a copy in the
cache, which the next pull only adds to; files are written beside their place and then moved, so
that an interrupted pull leaves whole files and the next one goes on.
"""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

from duetbench.core.errors import HistoryError, RecordError
from duetbench.host import cache as artefact
from duetbench.host import paths
from duetbench.host.git import GitError, HopelessError, Patience, Remote
from duetbench.store.files import swap
from duetbench.store.history.branch import Branch, Entry
from duetbench.store.history.kinds import File, kind_of

_NAMED: Final = 20  # files that a commit's message names


@dataclass(frozen=True, slots=True)
class PushResult:
    """What a push did."""

    added: tuple[str, ...]  # paths that are new on the branch, or have new contents
    there: tuple[str, ...]  # paths that had the same bytes there already, or ones that are as good
    tries: int
    commit: str | None


def push(
    files: Sequence[File],
    remote: Remote,
    *,
    subject: str,
    patience: Patience | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> PushResult:
    """Add files to the history; raises RecordError or HistoryError."""
    patience = patience or Patience()
    tries = 0
    with tempfile.TemporaryDirectory(prefix="duetbench-push-") as folder:
        branch = Branch(Path(folder), remote)

        def attempt() -> PushResult:
            nonlocal tries
            tries += 1
            return _on_the_tip(branch, files, subject, tries)

        try:
            return patience.keep_trying(attempt, told)
        except GitError as problem:
            raise HistoryError(
                f"the files could not be pushed to {remote.branch} in {patience.tries} tries; "
                f"the last one: {problem}. They are where they were: push them again later"
            ) from problem
        except HopelessError as problem:
            raise HistoryError(
                f"the files could not be pushed to {remote.branch}: {problem}. They are where they "
                "were: push them again afterwards"
            ) from problem


def _on_the_tip(branch: Branch, files: Sequence[File], subject: str, tries: int) -> PushResult:
    """Put the files on the tip as it is now."""
    branch.fetch(contents=False)
    blobs = {file.path: branch.store(file.data) for file in files}
    known = {entry.path: entry.blob for entry in branch.entries(list(blobs))}
    there, others = [], []
    for file in (file for file in files if file.path in known):
        if known[file.path] == blobs[file.path] or file.settled:
            there.append(file.path)
        elif not file.replaceable:
            others.append(file.path)
    if others:
        raise RecordError(
            f"{', '.join(others)}: there with other bytes in the history, which is never "
            "rewritten; nothing was pushed. If the ones there are wrong, remove them by hand "
            "with a commit that says why; if two runs have one name, a clock has jumped: "
            "rename the later one"
        )
    added = {path: blob for path, blob in blobs.items() if path not in there}
    if not added:
        return PushResult((), tuple(there), tries, None)
    named = [f"- {path}" for path in sorted(added)]
    if (more := len(named) - _NAMED) > 0:
        named[_NAMED:] = [f"- and {more} more"]
    commit = branch.commit(added, "\n".join((subject, "", *named)) + "\n")
    branch.push(commit)
    return PushResult(tuple(added), tuple(there), tries, commit)


_FOLDER: Final = "history"
_PARTIAL: Final = ".pulled"


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a pull did."""

    tip: str | None  # the history's commit; None: there is no history yet
    written: int
    replaced: tuple[str, ...]  # paths whose contents the history had newer
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

    RecordError: a run of the folder is in the history with other bytes; nothing was written.
    HistoryError: the history cannot be fetched or written.
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
        here = None
        with suppress(FileNotFoundError):
            data = (results / entry.path).read_bytes()
            named = b"blob %d\0" % len(data) + data
            here = hashlib.sha1(named, usedforsecurity=False).hexdigest()  # as git names it
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
        path = results / entry.path
        # One name for all, under our lock: a pull that was killed leaves one, which is replaced.
        swap(path, data, path.with_name(f".{path.name}{_PARTIAL}"))
    return PullResult(branch.tip, len(needed) - len(replaced), tuple(replaced), kept)
