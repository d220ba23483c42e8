"""One pull request for a change of ours: opened once, and renewed as long as it is open.

The branch is ours alone; what else is on it is overwritten. The checkout stays as it is.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from servebench.automation.github.repository import Repository
from servebench.core.errors import HistoryError
from servebench.host import git
from servebench.host.git import Patience, Remote

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
class ProposalOutcome:
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
) -> ProposalOutcome:
    """Push changed files to the branch, and have one open pull request for it.

    Raises:
        HistoryError: Git refuses.
        ServiceError: GitHub does.
    """
    reference = f"refs/heads/{proposal.branch}"
    tree, commit = _tree(root, files), ""
    if git.ask(root, "ls-remote", remote.address, reference, env=remote.environment):
        argv = ["fetch", "--quiet", "--no-tags", "--depth=1", remote.address, reference]
        git.ask(root, *argv, env=remote.environment)
        commit = git.ask(root, "rev-parse", "FETCH_HEAD")
    moved = not commit or git.ask(root, "rev-parse", f"{commit}^{{tree}}") != tree
    if moved:
        said = f"{proposal.title}\n\n{proposal.body}\n"
        author = {name: value for name, value in _AUTHOR.items() if name not in os.environ}
        commit = git.ask(root, "commit-tree", "-p", "HEAD", "-F", "-", tree, stdin=said, env=author)
        argv = ["push", "--quiet", remote.address, f"+{commit}:{reference}"]
        Patience().keep_trying(lambda: git.ask(root, *argv, env=remote.environment), lambda _: None)
    found = repository.open_pulls(proposal.branch)
    if not found:
        pull = repository.open_pull(
            proposal.title, proposal.body, proposal.branch, proposal.base
        )  # fmt: skip
        return ProposalOutcome("opened", pull.html_url, commit)
    if not moved:
        return ProposalOutcome("unchanged", found[0].html_url, commit)
    changes = {"title": proposal.title, "body": proposal.body}
    return ProposalOutcome(
        "renewed", repository.edit_pull(found[0].number, changes).html_url, commit
    )


def default_branch(root: Path, remote: Remote) -> str:
    """The branch that a remote's HEAD is; raises HistoryError."""
    argv = ["ls-remote", "--symref", remote.address, "HEAD"]
    listed = git.ask(root, *argv, env=remote.environment)
    found = re.match(r"ref: refs/heads/(\S+)\tHEAD", listed)
    if found is None:
        raise HistoryError("the remote names no default branch: expected one; name it with --base")
    return found[1]


def _tree(root: Path, files: Sequence[str]) -> str:
    """The tree of HEAD with the files as they are in the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.ask(root, "read-tree", "HEAD", env=index)
        git.ask(root, "add", "--", *files, env=index)
        return git.ask(root, "write-tree", env=index)
