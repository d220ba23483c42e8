"""The branch on which nights renew the locks.

The history of `apps/stacks/` is the axis of all trends, so a commit of the locks contains nothing
else; its message lists the changed versions.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError, UsageError
from duetbench.host import git
from duetbench.host.git import GitError, HopelessError
from duetbench.store.comparison import PackageChange
from observatory.store.remotes import Patience, Remote, author

LOCKS: Final = "apps/stacks"
WORKFLOWS: Final = ".github/workflows"
BRANCH: Final = "duetbench/stack"
"""On which nights renew the locks."""


@dataclass(frozen=True, slots=True)
class StackBump:
    """The result of a bump."""

    moved: bool  # whether a lock differs from the commit before
    commit: str  # the one with the locks, 40 hex digits
    moves: tuple[PackageChange, ...] = ()


def message(moves: Sequence[PackageChange]) -> str:
    """Return the commit's message: a subject that names two releases, and a list of all."""
    if not moves:
        return "Stacks: other files of the same versions\n"
    stacks: dict[str, list[str]] = {}
    for move in moves:
        stacks.setdefault(f"- {move}", []).append(move.stack)
    lines = [f"{line} ({', '.join(names)})" for line, names in stacks.items()]
    first, *more = dict.fromkeys(f"{move.package} {move.head or 'gone'}" for move in moves)
    names = ", ".join((first, *more[:1])) + (f" and {len(more) - 1} more" if more[1:] else "")
    return "\n".join((f"Stacks: {names}", "", *lines)) + "\n"


def commit(root: Path, text: str) -> StackBump:
    """Commit the locks as they are, and nothing else; raises UsageError or HistoryError."""
    _head(root)
    if not git.ask(root, "status", "--porcelain", "--", LOCKS):
        return StackBump(moved=False, commit=_head(root))
    git.ask(root, "add", "--", LOCKS)
    words = ["commit", "--quiet", "--only", "--file=-", "--", LOCKS]
    git.ask(root, *words, stdin=text, env=author())
    return StackBump(moved=True, commit=_head(root))


def advance(
    root: Path,
    remote: Remote,
    renew: Callable[[Path], Sequence[PackageChange]],
    *,
    patience: Patience | None = None,
    say: Callable[[str], None] = lambda _: None,
    reached: Callable[[str], None] = lambda _: None,
) -> StackBump:
    """Bring the branch of the locks to this checkout's code and renewed locks, and push it.

    The default branch is never pushed to, so it can be protected. Each commit of the branch has one
    parent, the previous one, so the locks' history can be followed from its tip. If the code has
    changed since, a commit takes it over, except for two things: the locks are the branch's own,
    and so are the workflow files, which a workflow's own token may not change (nothing runs them
    there). So nothing else that somebody has pushed to the branch is measured, or runs on a
    measuring machine. All this happens in a separate worktree; the checkout stays as it is.

    Raises UsageError if the checkout is no git repository with a commit, SetupError if the locks
    cannot be renewed, and HistoryError if Git fails.
    """
    head = _head(root)

    def attempt() -> StackBump:
        with tempfile.TemporaryDirectory(prefix="duetbench-stack-") as folder:
            place = Path(folder) / "tree"
            push = ["push", "--quiet", remote.address, f"HEAD:refs/heads/{BRANCH}"]
            start, tip = _start(root, remote, head)
            git.ask(root, "worktree", "add", "--quiet", "--detach", str(place), start)
            try:
                if start != tip:
                    git.ask(place, *push, env=remote.environment)
                reached(start)
                moves = tuple(renew(place))
                bumped = replace(commit(place, message(moves)), moves=moves)
                if bumped.moved:
                    git.ask(place, *push, env=remote.environment)
                return bumped
            finally:
                git.ask(root, "worktree", "remove", "--force", str(place))

    try:
        return (patience or Patience()).keep_trying(attempt, say)
    except (GitError, HopelessError) as problem:
        raise HistoryError(f"the locks could not be pushed to {BRANCH}: {problem}") from problem


def _start(root: Path, remote: Remote, head: str) -> tuple[str, str | None]:
    """Return the branch's commit with this code, new if necessary, and the branch's tip."""
    branch = [remote.address, f"refs/heads/{BRANCH}"]
    if not git.ask(root, "ls-remote", *branch, env=remote.environment):
        return head, None
    git.ask(root, "fetch", "--quiet", "--no-tags", *branch, env=remote.environment)
    tip = git.ask(root, "rev-parse", "FETCH_HEAD")
    tree = _tree(root, head, tip)
    if tree == git.ask(root, "rev-parse", f"{tip}^{{tree}}"):
        return tip, tip
    text = f"Code of {head[:12]}\n"
    return git.ask(root, "commit-tree", tree, "-p", tip, stdin=text, env=author()), tip


def _head(root: Path) -> str:
    head = git.ask_or_none(root, "rev-parse", "--verify", "HEAD^{commit}")
    if head is None:
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: leave --push out"
        )
    return head


def _tree(root: Path, code: str, tip: str) -> str:
    """Write a tree with the files of the code, and the locks and workflow files of the tip."""
    with tempfile.TemporaryDirectory() as folder:
        index = partial(git.ask, root, env={"GIT_INDEX_FILE": str(Path(folder) / "index")})
        index("read-tree", code)
        known = set(index("ls-files", "--", LOCKS, WORKFLOWS).splitlines())
        replaced = [path for path in known if path.startswith(f"{WORKFLOWS}/")]
        # A stack that is no longer declared has no lock either.
        entries = [
            line
            for line in git.ask(root, "ls-tree", "-r", tip, "--", LOCKS, WORKFLOWS).splitlines()
            if (path := line.partition("\t")[2]) in known or path.startswith(f"{WORKFLOWS}/")
        ]
        lines = [f"0 {'0' * 40}\t{path}" for path in replaced] + entries
        index("update-index", "--index-info", stdin="".join(f"{line}\n" for line in lines))
        return index("write-tree")
