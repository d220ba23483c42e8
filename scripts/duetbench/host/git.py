"""Git, run in a checkout or elsewhere, with a remote's credentials.

What the checkout or the workflow knows of credentials reaches git by its environment, which no
process list shows.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from duetbench.core.errors import HistoryError

T = TypeVar("T")

BRANCH: Final = "gh-pages"
TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable, not a secret

_TIMEOUT_S: Final = 600
_SERVER: Final = "https://github.com"
_ANOTHERS: Final = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)
"""What git sets for its hooks; it would take us to another repository."""

_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    # What git tidies up, it does before it ends: the folder may be gone afterwards.
    "gc.autoDetach": "false",
    "maintenance.autoDetach": "false",
    # A line that has died is noticed: less than a kilobyte per second for a minute.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}
_HOPELESS: Final = {
    r"authentication failed|could not read (username|password)|invalid username"
    r"|permission .{0,80}denied|error: 40[13]|terminal prompts disabled"
    r"|protected branch|write access to repository not granted"
    r"|GH013|repository rule violations|refusing to allow":
        "check the token's rights (contents: write), and the branch's protection and rulesets",
    r"repository .{0,200}not found|does not appear to be a git repository":
        "check the remote's address (--remote)",
    r"dubious ownership":
        "it belongs to another user: if you trust it, tell git so, as it says",
    r"no space left|disk quota exceeded|file too large":
        "make room, or raise the limit of file sizes (ulimit -f)",
}  # fmt: skip
"""What no further try mends (in any case of letters), and what to do."""


class GitError(HistoryError):
    """Git failed; trying again may help."""


class HopelessError(HistoryError):
    """Git failed, and will fail again until somebody does something."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the history is: a URL or path, its branch, and the environment with credentials."""

    address: str
    branch: str = BRANCH
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a fetch or push is tried, and the longest waits (s), doubled after each `first`.

    Full jitter (waits drawn evenly from nothing to the bound): of many pushers that were refused at
    the same time no two come back together. Twelve at once all got through within twelve tries.
    """

    tries: int = 20
    first: float = 0.5
    longest: float = 8.0

    def keep_trying(self, attempt: Callable[[], T], told: Callable[[str], None]) -> T:
        """Try until it works or is hopeless; `told` gets a sentence before each wait."""

        def waiting(state: RetryCallState) -> None:
            problem = state.outcome.exception() if state.outcome else None
            told(f"try {state.attempt_number} of {self.tries}: {problem}")

        return Retrying(
            retry=retry_if_exception_type(GitError),
            stop=stop_after_attempt(self.tries),
            wait=wait_random_exponential(multiplier=self.first, max=self.longest),
            before_sleep=waiting,
            reraise=True,
        )(attempt)


def remote_of(root: Path, name: str, branch: str = BRANCH) -> Remote:
    """Find a remote (of the checkout, a URL, or a path) and its credentials, or HopelessError."""
    try:
        address = ask(root, "remote", "get-url", "--", name)
    except GitError:
        if "/" not in name:
            raise HopelessError(
                f"{name!r}: expected a remote of {root}, a URL or a path, found none of them; "
                "name one with --remote"
            ) from None
        address = name
    if address.startswith(("./", "../")):
        address = str((root / address).resolve())
    # The header that the checkout sends to this address, as actions/checkout leaves it.
    persisted = ask_or_none(root, "config", "--get-urlmatch", "http.extraheader", address)
    return Remote(address, branch, credentials(address, os.environ, persisted))


def credentials(
    address: str, environment: Mapping[str, str], persisted: str | None = None
) -> dict[str, str]:
    """What git needs in its environment to be let in, or nothing.

    The workflow's token is for GitHub alone: it is sent to no other server. `persisted` is a header
    that the checkout's configuration sends to the remote.
    """
    server = environment.get("GITHUB_SERVER_URL", _SERVER).rstrip("/")
    token = environment.get(TOKEN, "").strip()
    header = persisted
    if token and address.startswith(f"{server}/"):
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        header = f"AUTHORIZATION: basic {basic}"
    if not header:
        return {}
    count = int(environment.get("GIT_CONFIG_COUNT", "0") or 0)
    return {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"http.{address}.extraheader",
        f"GIT_CONFIG_VALUE_{count}": header,
    }


def author() -> dict[str, str]:
    """Who commits, for git's environment: whom ours names, otherwise duetbench."""
    return {
        (name := f"GIT_{role}_{key}"): os.environ.get(name, value)
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "duetbench"), ("EMAIL", "duetbench@localhost"))
    }


def ask(root: Path, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """What git answers in a checkout, without the line's end; errors as `run`."""
    answer = run(["-C", str(root), *arguments], env, stdin.encode())
    return answer.decode("utf-8", "replace").rstrip("\n")


def ask_or_none(root: Path, *arguments: str) -> str | None:
    """What git answers in a checkout; None if it fails. HopelessError: there is no git."""
    try:
        return ask(root, *arguments)
    except GitError:
        return None


def run(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> bytes:
    """Run git with additions to our environment; what it writes, or GitError or HopelessError."""
    inherited = {name: value for name, value in os.environ.items() if name not in _ANOTHERS}
    settings = [word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")]
    verb = next((a for a in arguments if a[:1] != "-" and a.replace("-", "").isalpha()), "")
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            env={**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})},
        )
    except FileNotFoundError as error:
        raise HopelessError("git is needed, and is not on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {verb} did not end within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace")
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        # A refused push ends in hints; what was refused and why stands before them.
        telling = [line for line in lines if not line.startswith("hint:")]
        words = " / ".join(telling[-3:]) or f"nothing (exit code {done.returncode})"
        if done.returncode == -signal.SIGXFSZ:
            message = "file too large"
        for pattern, remedy in _HOPELESS.items():
            if re.search(pattern, message, re.IGNORECASE):
                raise HopelessError(f"git {verb} failed; it said: {words}; {remedy}")
        raise GitError(f"git {verb} failed; it said: {words}")
    return done.stdout
