"""The results of all nights, on their own branch, by plain git: clone, add, push.

Each run and shard has a new file, so no two pushes change the same file; the later one starts again
on the new tip. A file that is already there with the same bytes is success, which also covers a
push that was cut off after it arrived. Measurements are never rewritten.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from duetbench.core.errors import HistoryError
from duetbench.host import git
from duetbench.host.git import GitError, run
from observatory.store.kinds import File, kind_of

T = TypeVar("T")
Say = Callable[[str], None]

BRANCH: Final = "gh-pages"
RESULTS: Final = "results"  # the only folder of the branch
_CLONE: Final = ".pull"  # folder of the results that a pull clones into


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

    tries: int = 12
    first: float = 0.5
    longest: float = 8.0

    def keep_trying(self, attempt: Callable[[], T], say: Say) -> T:
        """Try until git does not fail; a sentence before each wait."""
        return Retrying(
            retry=retry_if_exception_type(GitError),
            stop=stop_after_attempt(self.tries),
            wait=wait_random_exponential(multiplier=self.first, max=self.longest),
            before_sleep=lambda state: say(
                f"try {state.attempt_number} of {self.tries}: "
                f"{state.outcome.exception() if state.outcome else ''}"
            ),
            reraise=True,
        )(attempt)


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
    return Remote(address, environment=git.credentials(address, os.environ, persisted))


def author() -> dict[str, str]:
    """The author for git's environment: from our own variables, or duetbench."""
    return {
        (name := f"GIT_{role}_{key}"): os.environ.get(name, value)
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "duetbench"), ("EMAIL", "duetbench@localhost"))
    }


@dataclass(frozen=True, slots=True)
class PushResult:
    """Result of a push; `conflicts` are paths that have other bytes there, which stay."""

    added: tuple[str, ...]  # paths that are new on the branch, or have new content
    there: tuple[str, ...]  # paths that were already there, with the same content
    conflicts: tuple[str, ...]
    tries: int


@dataclass(frozen=True, slots=True)
class PullResult:
    """Result of a pull."""

    tip: str | None  # the history's commit; None: there is no history yet
    written: int = 0
    replaced: tuple[str, ...] = ()  # paths with newer content in the history
    unchanged: int = 0


def push(
    files: Sequence[File],
    remote: Remote,
    *,
    subject: str,
    patience: Patience | None = None,
    log: Say = lambda _: None,
) -> PushResult:
    """Add files to the history; raises HistoryError.

    A file that has other bytes there is left out.
    """
    tries = 0

    def attempt() -> PushResult:
        nonlocal tries
        tries += 1
        with tempfile.TemporaryDirectory(prefix="duetbench-push-") as folder:
            return _push_once(files, remote, Path(folder), subject, tries)

    try:
        return (patience or Patience()).keep_trying(attempt, log)
    except (HistoryError, OSError) as problem:
        raise HistoryError(
            f"the files could not be pushed to {remote.branch} in {tries} tries; the last one: "
            f"{problem}. The files are unchanged: push them again later"
        ) from problem


def _push_once(
    files: Sequence[File], remote: Remote, work: Path, subject: str, tries: int
) -> PushResult:
    _clone(remote, work)
    added, there, conflicts = list[str](), list[str](), list[str]()
    for file in files:
        path = work / RESULTS / file.path
        old = path.read_bytes() if path.is_file() else None
        if old == file.data:
            there.append(file.path)
        elif old is None or file.replaceable:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
            added.append(file.path)
        else:
            conflicts.append(file.path)
    if added:
        here = ["-C", str(work)]
        run([*here, "add", "--force", "--", RESULTS])
        run([*here, "commit", "--quiet", f"--message={subject}"], author())
        run([*here, "push", "--quiet", "origin", f"HEAD:{remote.branch}"], remote.environment)
    return PushResult(tuple(added), tuple(there), tuple(conflicts), tries)


def tracked_files(results: Path) -> tuple[Path, ...]:
    """Measurements in a results folder that its repository tracks; raises GitError."""
    if not results.is_dir():
        return ()
    names = run(["-C", str(results), "ls-files", "-z"]).decode("utf-8", "surrogateescape")
    return tuple(results / name for name in names.split("\0") if kind_of(name) is not None)


def pull(
    remote: Remote,
    results: Path,
    *,
    patience: Patience | None = None,
    log: Say = lambda _: None,
) -> PullResult:
    """Write the history to a results folder; other files in it stay, and so do measurements.

    Whatever ends it, each file is whole. HistoryError: the history cannot be fetched or written.
    """
    work = results / _CLONE
    try:
        results.mkdir(parents=True, exist_ok=True)
        tip = (patience or Patience()).keep_trying(lambda: _clone(remote, work), log)
        return _lay_out(work, results, tip)
    except HistoryError as problem:
        raise HistoryError(f"the history could not be fetched: {problem}") from problem
    except OSError as problem:
        raise HistoryError(
            f"{problem.filename or results}: cannot be written ({problem.strerror}); fix that and "
            "pull again: what was written is whole"
        ) from problem
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _clone(remote: Remote, work: Path) -> str | None:
    """Clone the branch's tip without its past, and return its commit; None: begin the branch.

    A link in the branch becomes a file with the link's target.
    """
    shutil.rmtree(work, ignore_errors=True)
    words = ["ls-remote", "--", remote.address, f"refs/heads/{remote.branch}"]
    if not run(words, remote.environment):
        run(["init", "--quiet", f"--initial-branch={remote.branch}", str(work)])
        run(["-C", str(work), "remote", "add", "origin", remote.address])
        return None
    options = ["--depth=1", "--no-tags", "--config=core.symlinks=false"]
    words = ["clone", "--quiet", *options, f"--branch={remote.branch}", "--"]
    run([*words, remote.address, str(work)], remote.environment)
    return run(["-C", str(work), "rev-parse", "HEAD"]).decode().strip()


def _lay_out(work: Path, results: Path, tip: str | None) -> PullResult:
    written = unchanged = 0
    replaced: list[str] = []
    entries = run(["-C", str(work), "ls-files", "--stage", "-z", "--", RESULTS])
    for line in entries.decode("utf-8", "surrogateescape").split("\0"):
        about, _, name = line.partition("\t")
        path = name.removeprefix(f"{RESULTS}/")
        kind = kind_of(path)
        if kind is None or not about.startswith("100644 "):  # only plain files, no links
            continue
        here, there = results / path, work / name
        if not here.is_file():
            written += 1
        elif kind.replaceable and here.read_bytes() != there.read_bytes():
            replaced.append(path)
        else:
            unchanged += 1
            continue
        here.parent.mkdir(parents=True, exist_ok=True)
        there.replace(here)
    return PullResult(tip, written, tuple(replaced), unchanged)
