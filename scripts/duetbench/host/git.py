"""Run git in a checkout or elsewhere, with a remote's credentials.

Credentials of the checkout or the workflow reach git by its environment, which no process list
shows.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError
from duetbench.host import paths

_TIMEOUT_S: Final = 600
_OF_HOOKS: Final = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)
"""Variables that git sets for its hooks; they would select another repository."""

_OBJECTS: Final = "GIT_OBJECT_DIRECTORY"
_MORE_OBJECTS: Final = "GIT_ALTERNATE_OBJECT_DIRECTORIES"

_SETTINGS: Final = {
    # No hook or monitor of a repository runs, and nobody's repository is tidied up.
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # Git gives up a dead connection: less than a kilobyte per second for a minute.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}


class GitError(HistoryError):
    """Git failed; `said` is all that it said, and its exit code."""

    def __init__(self, message: str, said: str = "") -> None:
        self.said = said
        super().__init__(message)


def ask(root: Path, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Git's answer in a checkout, without the trailing line end; errors as `run`."""
    answer = run(["-C", str(root), *arguments], env, stdin.encode())
    return answer.decode("utf-8", "replace").rstrip("\n")


def ask_or_none(root: Path, *arguments: str) -> str | None:
    """Git's answer in a checkout; None if it fails. HistoryError if there is no git."""
    try:
        return ask(root, *arguments)
    except GitError:
        return None


def revision(root: Path) -> tuple[str | None, bool]:
    """Commit of the checkout, and whether tracked files differ from it, results excluded."""
    status = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    try:
        return ask_or_none(root, "rev-parse", "HEAD"), bool(ask_or_none(root, *status))
    except HistoryError:
        return None, False


@cache
def _own_objects() -> Path:
    return paths.make_scratch()


def elsewhere(root: Path) -> Mapping[str, str]:
    """The environment in which git writes objects to a folder of this process.

    So a repository can be read-only. All later calls of this process find these objects.
    """
    objects = root / ask(root, "rev-parse", "--git-path", "objects")
    return {_OBJECTS: str(_own_objects()), _MORE_OBJECTS: str(objects.resolve())}


def run(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> bytes:
    """Run git with a larger environment; return its output. Raises HistoryError."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    if _own_objects.cache_info().currsize:
        inherited[_MORE_OBJECTS] = str(_own_objects())
    settings = [word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")]
    verb = next((a for a in arguments if a[:1] != "-" and a.replace("-", "").isalpha()), "")
    try:
        process = subprocess.run(
            ["git", *settings, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            env={**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})},
        )
    except FileNotFoundError as error:
        raise HistoryError("git is needed, but is not on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {verb} did not end within {_TIMEOUT_S} s") from error
    if process.returncode != 0:
        message = process.stderr.decode("utf-8", "replace")
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        # A server that refuses a push says why in lines of its own; git ends in hints.
        words = " / ".join(line for line in lines if not line.startswith("hint:"))[-900:]
        words = words or f"nothing (exit code {process.returncode})"
        if "dubious ownership" in message:
            mine = "it belongs to another user: if you trust it, tell git so, as its message says"
            raise HistoryError(f"git {verb} failed; it said: {words}; {mine}")
        said = f"{message}\nexit code {process.returncode}"
        raise GitError(f"git {verb} failed; it said: {words}", said)
    return process.stdout
