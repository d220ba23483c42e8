"""Artefacts: folders in the cache that are complete or absent.

An artefact is built in a staging folder beside its place and renamed into it when it has been
checked, so readers never see half of it, however the build ended. Builds of the same artefact wait
for each other. The kernel releases the lock of a killed build, and the next one removes its rest.
Whoever makes one removes those beside it that nothing has used for a month.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import filelock

from duetbench.core.errors import SetupError

STAMP: Final = "made.json"
_STAGING: Final = ".making-"

MONTH: Final = 30 * 86_400
"""Seconds: longer than most reviews take, and a night's locks are used only once."""

Facts = Mapping[str, Any]
"""Facts about an artefact from its build, as JSON values."""

Say = Callable[[str], None]
"""Prints a sentence, as `Narrator.say` does."""


def digest(*parts: str) -> str:
    """Twelve hex digits that change with any of the parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def sha256(file: Path) -> str:
    """SHA-256 of a file, as 64 hex digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def facts(target: Path) -> dict[str, Any] | None:
    """Read the facts about an artefact; None if it is absent or incomplete."""
    try:
        stamp = json.loads((target / STAMP).read_text())
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) else None


def touch(target: Path) -> None:
    """Record that an artefact is used, by the time of its folder."""
    with suppress(OSError):  # another user's, which we only read
        os.utime(target)


def _lock(target: Path) -> filelock.BaseFileLock:
    return filelock.FileLock(target.parent / f".{target.name}.lock")


def make(
    target: Path,
    *,
    fault: Callable[[Path], str | None] = lambda target: (
        "it is not there" if facts(target) is None else None
    ),
    build: Callable[[Path], Facts],
    say: Say,
) -> bool:
    """Make sure that an artefact is there and right; return whether it was built now.

    `fault` says what is wrong with the artefact in its place, or None. It is called first, so it
    must be cheap. `build` fills the (existing, empty) staging folder and returns facts to record.
    Raises SetupError if the artefact is still faulty after the build.
    """
    if fault(target) is None:
        touch(target)
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(target)
    try:
        guard = lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"another set-up is making {target.name}: waiting for it")
        guard = lock.acquire()
    with guard:
        if fault(target) is None:
            return False  # another process has built it meanwhile
        for rest in target.parent.glob(f"{_STAGING}{target.name}-*"):  # from killed builds
            shutil.rmtree(rest, ignore_errors=True)
        staging = target.parent / f"{_STAGING}{target.name}-{os.getpid()}-{time.monotonic_ns()}"
        staging.mkdir(parents=True)
        try:
            stamp = build(staging)
            os.sync()  # after a power cut, an artefact with a stamp has all its contents
            (staging / STAMP).write_text(json.dumps(stamp, indent=1, sort_keys=True))
            old = _aside(target) if target.exists() else staging
            staging.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        problem = fault(target)
        if problem is not None:
            shutil.rmtree(target, ignore_errors=True)
            raise SetupError(f"{target.name} was built, but is not right: {problem}")
    _remove_unused(target.parent)
    return True


def _remove_unused(folder: Path) -> None:
    """Remove artefacts that nothing has used for a month."""
    for place in (stamp.parent for stamp in folder.glob(f"*/{STAMP}")):
        # Links lead to folders of others, which duetbench only uses.
        if place.is_symlink() or folder.is_symlink():
            continue
        if time.time() - place.stat().st_mtime > MONTH:
            remove(place)


def remove(target: Path) -> None:
    """Remove an artefact in one step, unless it is being built, or somebody else's.

    Its lock file stays, as another process may be waiting for it.
    """
    with suppress(filelock.Timeout, OSError), _lock(target).acquire(timeout=0):
        shutil.rmtree(_aside(target), ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.rename(target.parent / f"{_STAGING}{target.name}-old-{time.monotonic_ns()}")
