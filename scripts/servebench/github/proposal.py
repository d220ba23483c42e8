"""A change of ours as one pull request: opened once, and renewed as long as it is open.

The branch is ours alone; what else is on it is overwritten. The checkout is left alone: its branch,
its index and its files stay as they are.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from servebench import git
from servebench.errors import HistoryError
from servebench.git import Patience, Remote
from servebench.github.repository import Repository

_AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "servebench"), ("EMAIL", "servebench@localhost"))
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed.

    Attributes:
        branch: The branch that it is on.
        base: The branch that it is for.
        title: Plain text, also the commit's first line.
        body: Markdown.
    """

    branch: str
    base: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """What became of it.

    Attributes:
        outcome: `renewed`: the pull request that was open has it now.
        url: Of the pull request.
        commit: Of the branch, 40 hex digits.
    """

    outcome: Literal["opened", "renewed", "unchanged"]
    url: str
    commit: str


def propose(
    repository: Repository, root: Path, remote: Remote, files: Sequence[str], proposal: Proposal
) -> Proposed:
    """Push changed files to the branch, and have one open pull request for it.

    Args:
        repository: On GitHub.
        root: The checkout; its HEAD is what is changed.
        remote: Where the branch goes.
        files: Below the checkout.
        proposal: What is said of it.

    Raises:
        HistoryError: Git refuses.
        ServiceError: GitHub does.
    """
    tree = _tree(root, files)
    there = _tip(root, remote, proposal.branch)
    pushed = there is None or git.ask(root, "rev-parse", f"{there}^{{tree}}") != tree
    commit = there or ""
    if pushed:
        message = f"{proposal.title}\n\n{proposal.body}\n"
        commit = git.ask(
            root, "commit-tree", "-p", "HEAD", "-F", "-", tree, stdin=message, env=_author()
        )
        _push(root, remote, f"+{commit}:refs/heads/{proposal.branch}")
    found = repository.open_pulls(proposal.branch)
    if not found:
        pull = repository.client.once(
            lambda: next(iter(repository.open_pulls(proposal.branch)), None),
            lambda: repository.open_pull(
                proposal.title, proposal.body, proposal.branch, proposal.base
            ),
        )
        return Proposed("opened", pull.html_url, commit)
    if not pushed:
        return Proposed("unchanged", found[0].html_url, commit)
    changes = {"title": proposal.title, "body": proposal.body}
    pull = repository.edit_pull(found[0].number, changes)
    return Proposed("renewed", pull.html_url, commit)


def default_branch(root: Path, remote: Remote) -> str:
    """The branch that a remote's HEAD is.

    Raises:
        HistoryError: It cannot be asked, or says none.
    """
    argv = ["ls-remote", "--symref", remote.address, "HEAD"]
    listed = git.ask(root, *argv, env=remote.environment)
    found = re.match(r"ref: refs/heads/(\S+)\tHEAD", listed)
    if found is None:
        raise HistoryError("the remote names no default branch: expected one; name it with --base")
    return found[1]


def _author() -> dict[str, str]:
    """Who commits, unless the environment says it."""
    return {name: value for name, value in _AUTHOR.items() if name not in os.environ}


def _tree(root: Path, files: Sequence[str]) -> str:
    """The tree of HEAD with the files as they are in the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.ask(root, "read-tree", "HEAD", env=index)
        git.ask(root, "add", "--", *files, env=index)
        return git.ask(root, "write-tree", env=index)


def _tip(root: Path, remote: Remote, branch: str) -> str | None:
    """What the branch is on the remote, fetched; None: it is not there."""
    listed = git.ask(
        root, "ls-remote", remote.address, f"refs/heads/{branch}", env=remote.environment
    )
    if not listed:
        return None
    git.ask(
        root, "fetch", "--quiet", "--no-tags", "--depth=1", remote.address, f"refs/heads/{branch}",
        env=remote.environment,
    )  # fmt: skip
    return git.ask(root, "rev-parse", "FETCH_HEAD")


def _push(root: Path, remote: Remote, refspec: str) -> None:
    def attempt() -> None:
        git.ask(root, "push", "--quiet", remote.address, refspec, env=remote.environment)

    Patience().keep_trying(attempt, lambda _: None)
