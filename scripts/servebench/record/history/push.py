"""Adding files to the history, whoever else does so at the same time.

One new file per run and shard, so that two pushes never want the same file: who was late puts the
same files on the new tip. A file that is there already with the same bytes is success, which also
answers whether a push that was cut off had arrived.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.core.errors import HistoryError, RecordError
from servebench.host.git import GitError, HopelessError, Patience, Remote
from servebench.record.history.branch import Branch
from servebench.record.history.kinds import File

_NAMED: Final = 20  # files that a commit's message names


@dataclass(frozen=True, slots=True)
class PushResult:
    """What a push did.

    Attributes:
        added: Paths that are new on the branch, or have new contents.
        there: Paths that had the same bytes there already, or ones that are as good.
        tries: How often it was tried.
        commit: The commit, if one was needed.
    """

    added: tuple[str, ...]
    there: tuple[str, ...]
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
    """Add files to the history.

    Raises:
        RecordError: A file is there with other bytes, and its kind is never rewritten.
        HistoryError: It could not be pushed; what was to be pushed is unharmed.
    """
    patience = patience or Patience()
    with tempfile.TemporaryDirectory(prefix="servebench-push-") as folder:
        try:
            attempt = _Attempt(Branch(Path(folder), remote), files, subject)
            return patience.keep_trying(attempt.attempt, told)
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


@dataclass(slots=True)
class _Attempt:
    """A push under way."""

    branch: Branch
    files: Sequence[File]
    subject: str
    tries: int = 0

    def attempt(self) -> PushResult:
        """Put the files on the tip as it is now."""
        self.tries += 1
        self.branch.fetch(contents=False)
        blobs = {file.path: self.branch.store(file.data) for file in self.files}
        known = {entry.path: entry.blob for entry in self.branch.entries(list(blobs))}
        settled = {file.path for file in self.files if file.settled}
        there = tuple(
            path
            for path, blob in blobs.items()
            if known.get(path) == blob or (path in settled and path in known)
        )
        self._refuse_rewriting(known, there)
        added = {path: blob for path, blob in blobs.items() if path not in there}
        if not added:
            return PushResult((), there, self.tries, None)
        commit = self.branch.commit(added, self._message(sorted(added)))
        self.branch.push(commit)
        return PushResult(tuple(added), there, self.tries, commit)

    def _refuse_rewriting(self, known: dict[str, str], there: Sequence[str]) -> None:
        others = [
            file.path
            for file in self.files
            if file.path in known and file.path not in there and not file.replaceable
        ]
        if others:
            raise RecordError(
                f"{', '.join(others)}: there with other bytes in the history, which is never "
                "rewritten; nothing was pushed. If the ones there are wrong, remove them by hand "
                "with a commit that says why; if two runs have one name, a clock has jumped: "
                "rename the later one"
            )

    def _message(self, paths: Sequence[str]) -> str:
        named = [f"- {path}" for path in paths[:_NAMED]]
        if len(paths) > _NAMED:
            named.append(f"- and {len(paths) - _NAMED} more")
        return "\n".join((self.subject, "", *named)) + "\n"
