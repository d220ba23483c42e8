"""The branch on which nights renew the locks.

The history of `apps/stacks/` is the axis of all trends, so a commit of the locks contains nothing
else; its message lists the changed versions.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.core.comparison import PackageChange
from duetbench.core.errors import HistoryError, UsageError
from duetbench.host import git
from observatory.store.history_branch import Remote, author, keep_trying

LOCKS: Final = "apps/stacks"
WORKFLOWS: Final = ".github/workflows"
BRANCH: Final = "duetbench/stack"
"""On which nights renew the locks."""


def message(moves: Sequence[PackageChange]) -> str:
    """Return the commit's message: a subject that names two releases, and a list of all."""
    if not moves:
        return "Stacks: other files of the same versions\n"
    lines = [f"- {move} ({move.stack})" for move in moves]
    first, *more = dict.fromkeys(f"{move.package} {move.head or 'gone'}" for move in moves)
    names = ", ".join((first, *more[:1])) + (f" and {len(more) - 1} more" if more[1:] else "")
    return "\n".join((f"Stacks: {names}", "", *lines)) + "\n"


def commit(root: Path, text: str, *paths: str) -> str:
    """Commit what differs in some paths, or anywhere; return the newest commit, 40 hex digits.

    Raises HistoryError.
    """
    if git.ask(root, "status", "--porcelain", "--", *paths):
        git.ask(root, "add", "--all", "--", *paths or ".")
        git.ask(root, "commit", "--quiet", "--file=-", stdin=text, env=author())
    return git.ask(root, "rev-parse", "HEAD")


def advance(
    root: Path,
    remote: Remote,
    renew: Callable[[Path], Sequence[PackageChange]],
    *,
    say: Callable[[str], None] = lambda _: None,
    reached: Callable[[str], None] = lambda _: None,
) -> tuple[str, Sequence[PackageChange]]:
    """Bring the branch of the locks to this checkout's code and renewed locks, and push it.

    The default branch is never pushed to, so it can be protected. Each commit of the branch has one
    parent, the previous one, so the locks' history can be followed from its tip. If the code has
    changed since, a commit takes it over, except for two things: the locks are the branch's own,
    and so are the workflow files, which a workflow's own token may not change (nothing runs them
    there). So nothing else that somebody has pushed to the branch is measured, or runs on a
    measuring machine. All this happens in a separate worktree; the checkout stays as it is.

    `reached` gets the commit before its locks are renewed. Returns the one with the locks, and what
    moved. Raises UsageError if the checkout is no
    git repository with a commit, SetupError if the locks cannot be renewed, and HistoryError if Git
    fails.
    """
    head = git.ask_or_none(root, "rev-parse", "--verify", "HEAD^{commit}")
    if head is None:
        raise UsageError(f"expected a git repository with a commit in {root}, found none")
    branch, env = f"refs/heads/{BRANCH}", remote.environment

    def attempt() -> tuple[str, Sequence[PackageChange]]:
        with tempfile.TemporaryDirectory(prefix="duetbench-stack-") as folder:
            place, tip = Path(folder) / "tree", head
            if git.ask(root, "ls-remote", remote.address, branch, env=env):
                git.ask(root, "fetch", "--quiet", "--no-tags", remote.address, branch, env=env)
                tip = git.ask(root, "rev-parse", "FETCH_HEAD")
            push = partial(git.ask, place, "push", "--quiet", remote.address, f"HEAD:{branch}")
            git.ask(root, "worktree", "add", "--quiet", "--detach", str(place), tip)
            try:
                code = _take_over(place, head)
                push(env=env)
                reached(code)
                moves = renew(place)
                locked = commit(place, message(moves), LOCKS)
                push(env=env)
                return locked, moves
            finally:
                git.ask(root, "worktree", "remove", "--force", str(place))

    try:
        return keep_trying(attempt, say)
    except HistoryError as problem:
        raise HistoryError(f"the locks could not be pushed to {BRANCH}: {problem}") from problem


def _take_over(place: Path, code: str) -> str:
    """Commit the code, but for locks and workflow files; return the newest commit."""
    ours, theirs = (
        set(git.ask(place, "ls-tree", "-r", "--name-only", commit, "--", LOCKS).splitlines())
        for commit in ("HEAD", code)
    )
    restore = partial(git.ask, place, "restore", "--staged", "--worktree")
    restore(f"--source={code}", "--", ".", f":!{WORKFLOWS}")
    if kept := ours & theirs:  # a stack that is no longer declared has no lock either
        restore("--source=HEAD", "--", *kept)
    return commit(place, f"Code of {code[:12]}\n")
