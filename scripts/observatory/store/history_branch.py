"""The results of all nights, on their own branch, by plain git: clone, add, push.

Each run and shard has a new file, so no two pushes change the same file; the later one starts again
on the new tip. A file that is already there with the same bytes is success, which also covers a
push that was cut off after it arrived. Measurements are never rewritten.

Each push also moves a mark, a ref that is no branch. If the branch no longer contains the marked
commit, somebody has rewritten it: every pull and push says so, and the mark keeps what is missing.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from duetbench.core.errors import HistoryError, RecordError
from duetbench.host.git import GitError, HopelessError, run
from observatory.store.kinds import File, kind_of
from observatory.store.remotes import Patience, Remote, author

RESULTS: Final = "results"  # the only folder of the branch
_MARKS: Final = "refs/duetbench/"  # below it: a mark with the name of each branch


@dataclass(frozen=True, slots=True)
class PushResult:
    """Result of a push; `faults` are sentences on what is wrong with the history."""

    added: tuple[str, ...]  # paths that are new on the branch, or have new content
    there: tuple[str, ...]  # paths that were already there, with the same or equivalent content
    tries: int
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PullResult:
    """Result of a pull; `faults` are sentences on what is wrong with the history."""

    tip: str | None  # the history's commit; None: there is no history yet
    written: int
    replaced: tuple[str, ...]  # paths with newer content in the history
    unchanged: int
    faults: tuple[str, ...] = ()


def push(
    files: Sequence[File],
    remote: Remote,
    *,
    subject: str,
    patience: Patience | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> PushResult:
    """Add files to the history; raises HistoryError.

    A file that has other bytes there is a fault, and the others are added.
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
    except (GitError, HopelessError) as problem:
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
    past = _clone(remote, work)
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
    faults = list(filter(None, [past.lost]))
    if conflicts:
        faults.append(
            f"{', '.join(conflicts)}: the history has other bytes under this name, and is never "
            "rewritten; that was not pushed. If the ones there are wrong, remove them by hand "
            "with a commit that says why; if two runs have one name, a clock has jumped: "
            "rename the later one"
        )
    if not added:
        return PushResult((), tuple(there), tries, tuple(faults))
    git = ["-C", str(work)]
    run([*git, "add", "--force", "--", RESULTS])
    run([*git, "commit", "--quiet", f"--message={subject}"], author())
    words, name = ["push", "--quiet", "--atomic"], f"{_MARKS}{remote.branch}"
    # This clone does not have the marked commit: the server moves the mark if it is still there.
    mark = [f"--force-with-lease={name}:{past.mark}", "origin", f"HEAD:{name}"]
    mark = ["origin"] if past.lost else mark
    run([*git, *words, *mark, f"HEAD:{remote.branch}"], remote.environment)
    return PushResult(tuple(added), tuple(there), tries, tuple(faults))


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
    """Write the history to a results folder; other files in it stay.

    RecordError: the history has a run of the folder with other bytes; nothing was written.
    HistoryError: the history cannot be fetched or written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="duetbench-pull-") as folder:
            work = Path(folder) / "work"
            past = (patience or Patience()).keep_trying(lambda: _clone(remote, work), log)
            return _lay_out(work, results, past)
    except (GitError, HopelessError) as problem:
        raise HistoryError(f"the history could not be fetched: {problem}") from problem
    except OSError as problem:
        raise HistoryError(
            f"{problem.filename or results}: cannot be written ({problem.strerror}); fix that and "
            "pull again: what was written is whole"
        ) from problem


@dataclass(frozen=True, slots=True)
class _Past:
    """The commits of the branch and of its mark, if there are any; `lost`: it was rewritten."""

    tip: str | None
    mark: str = ""
    lost: str = ""


def _clone(remote: Remote, work: Path) -> _Past:
    """Clone the branch's tip without its past, or begin the branch.

    A link in the branch becomes a file with the link's target.
    """
    shutil.rmtree(work, ignore_errors=True)
    branch, mark = f"refs/heads/{remote.branch}", f"{_MARKS}{remote.branch}"
    listed = run(["ls-remote", "--", remote.address, branch, mark], remote.environment)
    refs = {name: commit for commit, name in map(str.split, listed.decode().splitlines())}
    tip, marked = refs.get(branch), refs.get(mark, "")
    past = _Past(tip, marked, _lost(remote, tip, marked))
    if tip is None:
        run(["init", "--quiet", f"--initial-branch={remote.branch}", str(work)])
        run(["-C", str(work), "remote", "add", "origin", remote.address])
        return past
    options = ["--depth=1", "--no-tags", "--config=core.symlinks=false"]
    words = ["clone", "--quiet", *options, f"--branch={remote.branch}", "--"]
    run([*words, remote.address, str(work)], remote.environment)
    return replace(past, tip=run(["-C", str(work), "rev-parse", "HEAD"]).decode().strip())


def _lost(remote: Remote, tip: str | None, mark: str) -> str:
    """Return a sentence if the branch does not contain the marked commit."""
    if mark in {"", tip}:
        return ""
    name = f"{_MARKS}{remote.branch}"
    if tip is not None:
        with tempfile.TemporaryDirectory(prefix="duetbench-past-") as folder:
            git = ["-C", folder]
            run(["init", "--quiet", "--bare", folder])
            run([*git, "remote", "add", "origin", remote.address])
            words = ["fetch", "--quiet", "--no-tags", "--filter=tree:0", "origin"]
            run([*git, *words, f"refs/heads/{remote.branch}", name], remote.environment)
            if not run([*git, "rev-list", "--max-count=1", mark, f"^{tip}"]):
                return ""
    return (
        f"the branch {remote.branch} was rewritten: it lacks {mark[:12]}, which it had, and what "
        f"was measured until then. The remote keeps that as {name}: `observatory history pull "
        f"--help` says how to bring it back. If this was meant: git push REMOTE :{name}"
    )


def _lay_out(work: Path, results: Path, past: _Past) -> PullResult:
    needed: dict[str, bytes] = {}
    replaced: list[str] = []
    refused: list[str] = []
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
        elif kind.settled or here.read_bytes() == data:
            unchanged += 1
        elif kind.replaceable:
            needed[path] = data
            replaced.append(path)
        else:
            refused.append(path)
    if refused:
        raise RecordError(
            f"{', '.join(refused[:5])}: the history has other bytes under this name than "
            f"{results}, and neither is ever rewritten; nothing was written. Move the wrong ones "
            "away, and pull again"
        )
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
    written, faults = len(needed) - len(replaced), (past.lost,) if past.lost else ()
    return PullResult(past.tip, written, tuple(replaced), unchanged, faults)
