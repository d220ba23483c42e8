"""Branches of ours on the remote: the renewed locks, and proposals as pull requests.

The history of `apps/stacks/` is the axis on which everything is shown, so that nothing else may be
in a commit of the locks; what moved stands in its message. Nights make them on a branch of its own
(`advance`). Whatever else is on a proposal's branch is overwritten. The checkout stays as it is.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from duetbench.core.errors import HistoryError, UsageError
from duetbench.host import git
from duetbench.host.git import GitError, HopelessError, Patience, Remote
from duetbench.project.locks import Move, listed, title
from duetbench.store.history.branch import identity

if TYPE_CHECKING:
    from duetbench.github.repository import Repository

LOCKS: Final = "apps/stacks"
WORKFLOWS: Final = ".github/workflows"
BRANCH: Final = "duetbench/stack"
"""On which nights renew the locks."""

_TAKEN: Final = "All but locks and workflows: "
_AUTHOR: Final = {"user.name": "duetbench", "user.email": "duetbench@localhost"}


@dataclass(frozen=True, slots=True)
class StackBump:
    """What a bump came to."""

    moved: bool  # whether a lock differs from the commit before
    commit: str  # the one with the locks, 40 hex digits
    moves: tuple[Move, ...] = ()


def message(moves: Sequence[Move]) -> str:
    """The commit's message: a subject that names releases, and a list of all of them."""
    stacks: dict[str, list[str]] = {}
    for move in moves:
        stacks.setdefault(listed([move]), []).append(move.stack)
    lines = [f"{line} ({', '.join(names)})" for line, names in stacks.items()]
    return "\n".join((title("Stacks", moves), *([""] if lines else []), *lines)) + "\n"


def commit(root: Path, text: str) -> StackBump:
    """Commit the locks as they are, and nothing else; raises UsageError or HistoryError."""
    _head(root)
    if not git.ask(root, "status", "--porcelain", "--", LOCKS):
        return StackBump(moved=False, commit=_head(root))
    git.ask(root, "add", "--", LOCKS)
    git.ask(root, *_who(root), "commit", "--quiet", "--only", "--file=-", "--", LOCKS, stdin=text)
    return StackBump(moved=True, commit=_head(root))


def advance(
    root: Path,
    remote: Remote,
    renew: Callable[[Path], Sequence[Move]],
    *,
    branch: str = BRANCH,
    patience: Patience | None = None,
    told: Callable[[str], None] = lambda _: None,
    reached: Callable[[str], None] = lambda _: None,
) -> StackBump:
    """Take the branch of the locks to this checkout's code and to renewed locks, and push it.

    The default branch is never pushed to, so that it can be protected. Each commit of the branch
    has one parent, the one before, so that the locks' history can be followed from its tip. Where
    the code has changed since, a commit takes it over, but for two things: the locks are the
    branch's own, and so are the workflow files, which a workflow's own token may not change (nobody
    runs them there). So whatever else somebody has pushed to the branch is not measured, nor run on
    a measuring machine. It all happens in a worktree of its own; the checkout stays as it is.

    Raises:
        UsageError: The checkout is no git repository with a commit.
        SetupError: The locks cannot be renewed.
        HistoryError: Git refuses.
    """
    head = _head(root)

    def attempt() -> StackBump:
        with tempfile.TemporaryDirectory(prefix="duetbench-stack-") as folder:
            place = Path(folder) / "tree"
            push = ["push", "--quiet", remote.address, f"HEAD:refs/heads/{branch}"]
            start, tip = _start(root, remote, branch, head)
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
        return (patience or Patience()).keep_trying(attempt, told)
    except (GitError, HopelessError) as problem:
        raise HistoryError(f"the locks could not be pushed to {branch}: {problem}") from problem


def _start(root: Path, remote: Remote, branch: str, head: str) -> tuple[str, str | None]:
    """The commit of the branch that has this code, made if need be; and the branch's tip."""
    reference = f"refs/heads/{branch}"
    if not git.ask(root, "ls-remote", remote.address, reference, env=remote.environment):
        return head, None
    default, tip = (_fetched(root, remote, name) for name in ("HEAD", reference))
    told = git.ask(
        root, "log", "--first-parent", "--max-count=1", f"--grep=^{_TAKEN}", "--format=%b", tip
    )
    code = told.removeprefix(_TAKEN) or head
    # Of an older night that is run again the branch has newer code of the default branch already.
    if not (_follows(root, code, head) and _follows(root, default, code)):
        code = head
    # The files of the code, with the locks and workflow files of the branch's tip.
    with _index(root, code) as asked:
        here = set(asked("ls-files", "--", LOCKS, WORKFLOWS).splitlines())
        gone = [path for path in here if path.startswith(f"{WORKFLOWS}/")]
        # A stack that is no longer declared has no lock either.
        kept = [
            line
            for line in git.ask(root, "ls-tree", "-r", tip, "--", LOCKS, WORKFLOWS).splitlines()
            if (path := line.partition("\t")[2]) in here or path.startswith(f"{WORKFLOWS}/")
        ]
        lines = [f"0 {'0' * 40}\t{path}" for path in gone] + kept
        asked("update-index", "--index-info", stdin="".join(f"{line}\n" for line in lines))
        tree = asked("write-tree")
    if tree == git.ask(root, "rev-parse", f"{tip}^{{tree}}"):
        return tip, tip
    text = f"Code of {code[:12]}\n\n{_TAKEN}{code}\n"
    made = git.ask(root, *_who(root), "commit-tree", tree, "-p", tip, stdin=text)
    return made, tip


def _fetched(root: Path, remote: Remote, name: str, *options: str) -> str:
    argv = ["fetch", "--quiet", "--no-tags", *options, remote.address, name]
    git.ask(root, *argv, env=remote.environment)
    return git.ask(root, "rev-parse", "FETCH_HEAD")


def _follows(root: Path, commit: str, earlier: str) -> bool:
    try:
        git.ask(root, "merge-base", "--is-ancestor", earlier, commit)
    except HistoryError:
        return False
    return True


def _head(root: Path) -> str:
    try:
        return git.ask(root, "rev-parse", "--verify", "HEAD^{commit}")
    except HistoryError as problem:
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: leave --commit out"
        ) from problem


def _who(root: Path) -> list[str]:
    """Options that say who commits, where nobody has said so."""
    return [
        word
        for key, value in _AUTHOR.items()
        if not git.ask_or_none(root, "config", key)
        for word in ("-c", f"{key}={value}")
    ]


@dataclass(frozen=True, slots=True)
class ProposalOutcome:
    """What became of it."""

    # `renewed`: the pull request that was open has it now.
    outcome: Literal["opened", "renewed", "unchanged"]
    url: str
    commit: str  # of the branch, 40 hex digits


def propose(
    repository: Repository,
    root: Path,
    remote: Remote,
    files: Sequence[str],
    *,
    branch: str,
    base: str | None,
    title: str,
    body: str,
) -> ProposalOutcome:
    """Push changed files to a branch, and have one open pull request for it and for the base.

    The title is plain text, the body Markdown; the base is the remote's default branch if none is
    named. Raises HistoryError or ServiceError where git or GitHub refuses.
    """
    base = base or _default_branch(root, remote)
    reference = f"refs/heads/{branch}"
    with _index(root, "HEAD") as asked:
        asked("add", "--", *files)
        tree, commit = asked("write-tree"), ""
    if git.ask(root, "ls-remote", remote.address, reference, env=remote.environment):
        commit = _fetched(root, remote, reference, "--depth=1")
    moved = not commit or git.ask(root, "rev-parse", f"{commit}^{{tree}}") != tree
    if moved:
        said, who = f"{title}\n\n{body}\n", identity(os.environ)
        commit = git.ask(root, "commit-tree", "-p", "HEAD", "-F", "-", tree, stdin=said, env=who)
        argv = ["push", "--quiet", remote.address, f"+{commit}:{reference}"]
        Patience().keep_trying(lambda: git.ask(root, *argv, env=remote.environment), lambda _: None)
    found = repository.open_pulls(branch)
    if not found:
        pull = repository.open_pull(title, body, branch, base)
        return ProposalOutcome("opened", pull.html_url, commit)
    if not moved:
        return ProposalOutcome("unchanged", found[0].html_url, commit)
    pull = repository.edit_pull(found[0].number, {"title": title, "body": body})
    return ProposalOutcome("renewed", pull.html_url, commit)


def _default_branch(root: Path, remote: Remote) -> str:
    argv = ["ls-remote", "--symref", remote.address, "HEAD"]
    listed = git.ask(root, *argv, env=remote.environment)
    found = re.match(r"ref: refs/heads/(\S+)\tHEAD", listed)
    if found is None:
        raise HistoryError("the remote names no default branch: expected one; name it with --base")
    return found[1]


@contextmanager
def _index(root: Path, tree: str) -> Iterator[Callable[..., str]]:
    """Git with an index of its own, which begins as a tree."""
    with tempfile.TemporaryDirectory() as folder:
        asked = partial(git.ask, root, env={"GIT_INDEX_FILE": str(Path(folder) / "index")})
        asked("read-tree", tree)
        yield asked
