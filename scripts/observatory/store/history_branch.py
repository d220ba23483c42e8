"""The results of all nights, on their own branch, by plain git: clone, add, push.

Each run and shard has a new file, so no two pushes change the same file; the later one starts again
on the new tip. A file that is already there with the same bytes is success, which also covers a
push that was cut off after it arrived. Measurements are never rewritten.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError
from duetbench.host.git import run
from observatory.store.kinds import File, kind_of
from observatory.store.remotes import Patience, Remote, author

RESULTS: Final = "results"  # the only folder of the branch


@dataclass(frozen=True, slots=True)
class PushResult:
    """Result of a push; `conflicts` are paths that have other bytes there, which stay."""

    added: tuple[str, ...]  # paths that are new on the branch, or have new content
    there: tuple[str, ...]  # paths that were already there, with the same or equivalent content
    tries: int
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PullResult:
    """Result of a pull."""

    tip: str | None  # the history's commit; None: there is no history yet
    written: int
    replaced: tuple[str, ...]  # paths with newer content in the history
    unchanged: int


def push(
    files: Sequence[File],
    remote: Remote,
    *,
    subject: str,
    patience: Patience | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> PushResult:
    """Add files to the history; raises HistoryError.

    A file that has other bytes there is left out.
    """
    patience = patience or Patience()
    tries = 0

    def attempt() -> PushResult:
        nonlocal tries
        tries += 1
        with tempfile.TemporaryDirectory(prefix="duetbench-push-") as folder:
            return _push_once(files, remote, Path(folder), subject, tries)

    try:
        return patience.keep_trying(attempt, log)
    except HistoryError as problem:
        raise HistoryError(
            f"the files could not be pushed to {remote.branch} in {tries} tries; the last one: "
            f"{problem}. The files are unchanged: push them again later"
        ) from problem
    except OSError as problem:
        raise HistoryError(
            f"{problem.filename}: cannot be written ({problem.strerror}); make room, and push again"
        ) from problem


def _push_once(
    files: Sequence[File], remote: Remote, work: Path, subject: str, tries: int
) -> PushResult:
    _clone(remote, work)
    added, there, conflicts = [], [], []
    for file in files:
        path = work / RESULTS / file.path
        old = path.read_bytes() if path.is_file() else None
        if old is None or (old != file.data and file.replaceable):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
            added.append(file.path)
        elif old == file.data or file.settled:
            there.append(file.path)
        else:
            conflicts.append(file.path)
    result = PushResult(tuple(added), tuple(there), tries, tuple(conflicts))
    if added:
        git = ["-C", str(work)]
        run([*git, "add", "--force", "--", RESULTS])
        run([*git, "commit", "--quiet", f"--message={subject}"], author())
        run([*git, "push", "--quiet", "origin", f"HEAD:{remote.branch}"], remote.environment)
    return result


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
    log: Callable[[str], None] = lambda _: None,
) -> PullResult:
    """Write the history to a results folder; other files in it stay, and so do measurements.

    HistoryError: the history cannot be fetched or written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="duetbench-pull-") as folder:
            work = Path(folder) / "work"
            tip = (patience or Patience()).keep_trying(lambda: _clone(remote, work), log)
            return _lay_out(work, results, tip)
    except HistoryError as problem:
        raise HistoryError(f"the history could not be fetched: {problem}") from problem
    except OSError as problem:
        raise HistoryError(
            f"{problem.filename or results}: cannot be written ({problem.strerror}); fix that and "
            "pull again: what was written is whole"
        ) from problem


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
    needed: dict[str, bytes] = {}
    replaced: list[str] = []
    unchanged = 0
    entries = run(["-C", str(work), "ls-files", "--stage", "-z", "--", RESULTS])
    for line in entries.decode("utf-8", "surrogateescape").split("\0"):
        about, _, name = line.partition("\t")
        path = name.removeprefix(f"{RESULTS}/")
        kind = kind_of(path)
        if kind is None or not about.startswith("100644 "):  # only plain files, no links
            continue
        here, data = results / path, (work / name).read_bytes()
        if not here.is_file():
            needed[path] = data
        elif kind.replaceable and here.read_bytes() != data:
            needed[path] = data
            replaced.append(path)
        else:
            unchanged += 1
    for path, data in needed.items():
        place = results / path
        # The name is fixed, so a later pull replaces the file of a killed one.
        beside = place.with_name(f".{place.name}.pulled")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(data)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
    return PullResult(tip, len(needed) - len(replaced), tuple(replaced), unchanged)
