"""The remote that keeps the history: its address and credentials, and how often to try it."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from duetbench.core.errors import HistoryError
from duetbench.host import git
from duetbench.host.git import GitError

T = TypeVar("T")

BRANCH: Final = "gh-pages"

_HOPELESS: Final = re.compile(
    r"authentication failed|could not read (username|password)|invalid username|permission .*denied"
    r"|error: 40[13]|terminal prompts disabled|protected branch|repository .*not found"
    r"|write access to repository not granted|GH013|repository rule violations|refusing to allow"
    r"|does not appear to be a git repository|no space left|quota exceeded"
    r"|file too large|exit code -25",  # SIGXFSZ
    re.IGNORECASE,
)
"""What git says of failures that a further try does not mend."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Place of the history: a URL or path, its branch, and the environment with credentials."""

    address: str
    branch: str = BRANCH
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to try a fetch or push, and the longest waits (s), which double from `first` on.

    Full jitter (waits drawn evenly from zero to the bound) separates pushers that were refused at
    the same time. Twelve at once all got through within twelve tries.
    """

    tries: int = 20
    first: float = 0.5
    longest: float = 8.0

    def keep_trying(self, attempt: Callable[[], T], report: Callable[[str], None]) -> T:
        """Try until it works or is hopeless; `report` gets a sentence before each wait."""

        def waiting(state: RetryCallState) -> None:
            problem = state.outcome.exception() if state.outcome else None
            report(f"try {state.attempt_number} of {self.tries}: {problem}")

        return Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(self.tries),
            wait=wait_random_exponential(multiplier=self.first, max=self.longest),
            before_sleep=waiting,
            reraise=True,
        )(attempt)


def _may_pass(problem: BaseException) -> bool:
    return isinstance(problem, GitError) and not _HOPELESS.search(problem.said)


def remote_of(root: Path, name: str, branch: str = BRANCH) -> Remote:
    """Find a remote (a name, URL or path) and its credentials; raises HistoryError."""
    try:
        address = git.ask(root, "remote", "get-url", "--", name)
    except GitError:
        if "/" not in name:
            raise HistoryError(
                f"{name!r}: expected a remote of {root}, a URL or a path, found none of these; "
                "name one with --remote"
            ) from None
        address = name
    if address.startswith(("./", "../")):
        address = str((root / address).resolve())
    # The header that actions/checkout configures for this address.
    persisted = git.ask_or_none(root, "config", "--get-urlmatch", "http.extraheader", address)
    return Remote(address, branch, git.credentials(address, os.environ, persisted))


def author() -> dict[str, str]:
    """The author for git's environment: from our own variables, or duetbench."""
    return {
        (name := f"GIT_{role}_{key}"): os.environ.get(name, value)
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "duetbench"), ("EMAIL", "duetbench@localhost"))
    }
