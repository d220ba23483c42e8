"""The results of all nights, on their own branch, by plain git: clone, add, push.

Each run and shard has a new file, so no two pushes change the same file; the later one starts again
on the new tip. A file that is already there with the same bytes is success, which also covers a
push that was cut off after it arrived. Measurements are never rewritten.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from duetbench.core.errors import HistoryError
from duetbench.host import git
from duetbench.host.git import GitError, run
from observatory.store.kinds import FOLDERS, kind_of

T = TypeVar("T")
Say = Callable[[str], None]

BRANCH: Final = "gh-pages"
RESULTS: Final = "results"  # the only folder of the branch
TRIES: Final = 12
"""Full jitter (waits drawn evenly from zero to a bound that doubles) separates pushers that were
refused at the same time. Twelve at once all got through within twelve tries."""

_WAIT: Final = wait_random_exponential(multiplier=0.5, max=8.0)  # s


@dataclass(frozen=True, slots=True)
class Remote:
    """Place of the history: a URL or path, and the environment with credentials."""

    address: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class PushResult(NamedTuple):
    """Paths that were added or changed, those that were there, and those with other bytes there.

    What has other bytes there stays as it is.
    """

    added: list[str]
    there: list[str]
    conflicts: list[str]


def remote_of(root: Path, name: str) -> Remote:
    """Find a remote (a name, URL or path) and its credentials; raises HistoryError."""
    address = git.ask_or_none(root, "remote", "get-url", "--", name) or name
    if address == name and "/" not in name:
        raise HistoryError(
            f"{name!r}: expected a remote of {root}, a URL or a path, found none of these; "
            "name one with --remote"
        )
    if address.startswith(("./", "../")):
        address = str((root / address).resolve())
    # The header that actions/checkout configures for this address.
    persisted = git.ask_or_none(root, "config", "--get-urlmatch", "http.extraheader", address)
    return Remote(address, git.credentials(address, os.environ, persisted))


def author() -> dict[str, str]:
    """The author for git's environment: from our own variables, or duetbench."""
    return {
        (name := f"GIT_{role}_{key}"): os.environ.get(name, value)
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "duetbench"), ("EMAIL", "duetbench@localhost"))
    }


def keep_trying(attempt: Callable[[], T], say: Say) -> T:
    """Try until git does not fail, at most `TRIES` times; a sentence before each wait."""
    return Retrying(
        retry=retry_if_exception_type(GitError),
        stop=stop_after_attempt(TRIES),
        wait=_WAIT,
        before_sleep=lambda state: say(
            f"try {state.attempt_number}: {state.outcome.exception() if state.outcome else ''}"
        ),
        reraise=True,
    )(attempt)


def push(files: Mapping[str, bytes], remote: Remote, subject: str, say: Say) -> PushResult:
    """Add files to the history, by their paths below `results/`; raises HistoryError."""

    def attempt() -> PushResult:
        with tempfile.TemporaryDirectory(prefix="duetbench-push-") as folder:
            return _push_once(files, remote, Path(folder), subject)

    try:
        return keep_trying(attempt, say)
    except (HistoryError, OSError) as problem:
        raise HistoryError(
            f"the files could not be pushed to {BRANCH}: {problem}. The files are unchanged: push "
            "them again later"
        ) from problem


def _push_once(files: Mapping[str, bytes], remote: Remote, work: Path, subject: str) -> PushResult:
    _clone(remote, work)
    result = PushResult([], [], [])
    for name, data in files.items():
        path, kind = work / RESULTS / name, kind_of(name)
        old = path.read_bytes() if path.is_file() else None
        if old == data:
            result.there.append(name)
        elif old is None or (kind and kind.replaceable):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            result.added.append(name)
        else:
            result.conflicts.append(name)
    if result.added:
        here = ["-C", str(work)]
        run([*here, "add", "--force", "--", RESULTS])
        run([*here, "commit", "--quiet", f"--message={subject}"], author())
        run([*here, "push", "--quiet", "origin", f"HEAD:{BRANCH}"], remote.environment)
    return result


def pull(remote: Remote, results: Path, say: Say, *, alone: bool = False) -> tuple[str, int]:
    """Write the history to a results folder; return its commit, or nothing, and how many files.

    Other files in the folder stay, and so do measurements, unless they are committed there and the
    history is to be `alone`. Whatever ends it, each file is whole. HistoryError: the history cannot
    be fetched or written.
    """
    work = results / ".pull"
    try:
        results.mkdir(parents=True, exist_ok=True)
        if alone:
            git.ask(results, "rm", "-r", "--quiet", "--ignore-unmatch", "--", *FOLDERS)
        tip = keep_trying(lambda: _clone(remote, work), say)
        return tip, _lay_out(work / RESULTS, results)
    except (HistoryError, OSError) as problem:
        raise HistoryError(
            f"the history could not be fetched: {problem}; what was written is whole"
        ) from problem
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _clone(remote: Remote, work: Path) -> str:
    """Clone the branch's tip without its past, and return its commit; or begin the branch.

    A link in the branch becomes a file with the link's target.
    """
    shutil.rmtree(work, ignore_errors=True)
    words = ["ls-remote", "--", remote.address, f"refs/heads/{BRANCH}"]
    if not run(words, remote.environment):
        run(["init", "--quiet", f"--initial-branch={BRANCH}", str(work)])
        run(["-C", str(work), "remote", "add", "origin", remote.address])
        return ""
    options = ["--depth=1", "--no-tags", "--config=core.symlinks=false", f"--branch={BRANCH}"]
    run(["clone", "--quiet", *options, "--", remote.address, str(work)], remote.environment)
    return git.ask(work, "rev-parse", "HEAD")


def _lay_out(source: Path, results: Path) -> int:
    """Move what is new, or newer, of one results folder to another; return how many files."""
    moved = 0
    for there in source.rglob("*.json"):
        below = there.relative_to(source)
        here, kind = results / below, kind_of(below.as_posix())
        if kind is None or (here.is_file() and not kind.replaceable):
            continue
        if not here.is_file() or here.read_bytes() != there.read_bytes():
            here.parent.mkdir(parents=True, exist_ok=True)
            there.replace(here)
            moved += 1
    return moved
