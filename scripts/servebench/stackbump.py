"""The stacks' locks as a commit of their own: what moved stands in its message.

The history of `apps/stacks/` is the axis on which everything is shown, so that nothing else may be
in these commits. A push that is refused because the branch has moved on is repeated on its new tip;
where somebody else has changed the same locks it ends with a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.errors import HistoryError, UsageError
from servebench.history.git import GitError, HopelessError, Remote, run
from servebench.history.patience import Patience
from servebench.stacklock import Move

LOCKS: Final = "apps/stacks"

_SUBJECT: Final = 68  # characters
_AUTHOR: Final = {"user.name": "servebench", "user.email": "servebench@localhost"}


@dataclass(frozen=True, slots=True)
class Bumped:
    """What a bump came to.

    Attributes:
        moved: Whether a lock differs from the commit before.
        commit: Of the checkout afterwards, 40 hex digits.
    """

    moved: bool
    commit: str


def message(moves: Sequence[Move]) -> str:
    """The commit's message: a subject that names releases, and a list of all of them."""
    stacks: dict[tuple[str, str | None, str | None], list[str]] = {}
    for move in moves:
        stacks.setdefault((move.package, move.before, move.after), []).append(move.stack)
    if not stacks:
        return "Stacks: other files of the same versions\n"
    subject = ""
    releases = list(stacks)
    for number, (package, _, after) in enumerate(releases):
        longer = f"{subject}, " if subject else "Stacks: "
        longer += f"{package} {after or 'gone'}"
        left = len(releases) - number
        if number and len(longer) + len(f" and {left} more") > _SUBJECT:
            subject += f" and {left} more"
            break
        subject = longer
    lines = [
        f"- {package} {before or '(new)'} → {after or '(gone)'} ({', '.join(names)})"
        for (package, before, after), names in stacks.items()
    ]
    return "\n".join((subject, "", *lines)) + "\n"


def commit(root: Path, text: str) -> Bumped:
    """Commit the locks as they are, and nothing else.

    Args:
        root: The checkout; what else is changed or staged in it stays as it is.
        text: The message.

    Raises:
        UsageError: It is no git repository with a commit.
        HistoryError: Git refuses.
    """
    _head(root)
    if not _git(root, "status", "--porcelain", "--", LOCKS):
        return Bumped(moved=False, commit=_head(root))
    _git(root, "add", "--", LOCKS)
    _git(root, *_who(root), "commit", "--quiet", "--only", "--file=-", "--", LOCKS, stdin=text)
    return Bumped(moved=True, commit=_head(root))


def push(
    root: Path,
    remote: Remote,
    *,
    patience: Patience | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> str:
    """Push the checkout's branch; on a branch that has moved on the commit is repeated.

    Returns:
        The commit that is there now, 40 hex digits.

    Raises:
        UsageError: The checkout is on no branch.
        HistoryError: It could not be pushed; the commit is there, and can be pushed again.
    """
    try:
        branch = _git(root, "symbolic-ref", "--short", "HEAD")
    except HistoryError as error:
        raise UsageError(
            f"--push: expected {root} on a branch, found a detached HEAD: switch to one"
        ) from error

    def attempt() -> str:
        try:
            _git(
                root, "push", "--quiet", remote.address, f"HEAD:refs/heads/{branch}",
                env=remote.environment,
            )  # fmt: skip
        except GitError:
            _follow(root, remote, branch)
            raise
        return _head(root)

    try:
        return (patience or Patience()).keep_trying(attempt, told)
    except (GitError, HopelessError) as problem:
        raise HistoryError(
            f"the locks' commit could not be pushed to {branch}: {problem}. It is in {root}: push "
            "it again"
        ) from problem


def _follow(root: Path, remote: Remote, branch: str) -> None:
    """Put our commit on what the branch is now."""
    _git(
        root, "fetch", "--quiet", "--no-tags", remote.address, f"refs/heads/{branch}",
        env=remote.environment,
    )  # fmt: skip
    try:
        _git(root, *_who(root), "rebase", "--quiet", "--autostash", "FETCH_HEAD")
    except GitError as problem:
        _git(root, "rebase", "--abort")
        raise HopelessError(
            f"{branch} has moved on and changed the same locks: bump again from its tip ({problem})"
        ) from problem


def _head(root: Path) -> str:
    try:
        return _git(root, "rev-parse", "--verify", "HEAD^{commit}")
    except HistoryError as problem:
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: leave --commit out"
        ) from problem


def _who(root: Path) -> list[str]:
    """Options that say who commits, where nobody has said so."""
    return [
        word
        for key, value in _AUTHOR.items()
        if not _configured(root, key)
        for word in ("-c", f"{key}={value}")
    ]


def _configured(root: Path, key: str) -> bool:
    try:
        return bool(_git(root, "config", key))
    except HistoryError:
        return False


def _git(root: Path, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    answer = run(["-C", str(root), *arguments], env or {}, stdin.encode())
    return answer.decode("utf-8", "replace").strip()
