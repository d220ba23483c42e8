"""Artefacts: folders in the cache that are whole or absent.

One is built in a staging folder beside its place and renamed into it when it has been proven, so
a reader never sees half of it, however its maker ended. Makers of the same artefact wait for each
other; the kernel releases the lock of a killed one, and the next sweeps up what it left.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import filelock

from duetbench.core.errors import SetupError

STAMP: Final = "made.json"
_STAGING: Final = ".making-"

Facts = Mapping[str, Any]
"""What a maker wants to remember of an artefact: JSON values."""

Say = Callable[[str], None]
"""Prints a sentence, as `Narrator.say` does."""


def digest(*parts: str) -> str:
    """Twelve hex digits that change when any of the parts does."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def sha256(file: Path) -> str:
    """SHA-256 of a file, as 64 hex digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def facts(target: Path) -> dict[str, Any] | None:
    """Read what is remembered of an artefact; None when it is not (wholly) there."""
    try:
        remembered = json.loads((target / STAMP).read_text())
    except (OSError, ValueError):
        return None
    return remembered if isinstance(remembered, dict) else None


def touch(target: Path) -> None:
    """Remember that an artefact is used: pruning goes by its folder's time."""
    with suppress(OSError):  # somebody else's, which we only read
        os.utime(target)


def alone(package: Path, place: Path) -> Path:
    """Make (once) below a place a folder for search paths that holds a link to a package alone."""
    folder = place / f"{package.name}-{digest(str(package))}"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / package.name
    if not link.is_symlink():
        # Somebody else may be faster, with the same link.
        with suppress(FileExistsError):
            link.symlink_to(package, target_is_directory=True)
    return folder


@contextmanager
def exclusive(target: Path, say: Say) -> Iterator[None]:
    """Hold the lock of an artefact; say so when somebody else holds it first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(target)
    try:
        held = lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"another set-up is making {target.name}: waiting for it")
        held = lock.acquire()
    with held:
        yield


def _lock(target: Path) -> filelock.BaseFileLock:
    return filelock.FileLock(target.parent / f".{target.name}.lock")


def _absent(target: Path) -> str | None:
    return "it is not there" if facts(target) is None else None


def make(
    target: Path,
    *,
    fault: Callable[[Path], str | None] = _absent,
    build: Callable[[Path], Facts],
    say: Say,
) -> bool:
    """Make sure that an artefact is there and right; whether it was made now.

    `fault` says what is wrong with the artefact in its place, or None; it is called first, so
    cheap. `build` fills the (existing, empty) staging folder and returns what to remember.
    SetupError: it is still faulty after it was built.
    """
    if fault(target) is None:
        touch(target)
        return False
    with exclusive(target, say):
        if fault(target) is None:
            return False  # whoever held the lock has made it
        for left in target.parent.glob(f"{_STAGING}{target.name}-*"):  # of killed makers
            shutil.rmtree(left, ignore_errors=True)
        staging = target.parent / f"{_STAGING}{target.name}-{os.getpid()}-{time.monotonic_ns()}"
        staging.mkdir(parents=True)
        try:
            started = time.monotonic()
            remembered = dict(build(staging))
            remembered["seconds"] = round(time.monotonic() - started, 1)
            with (staging / STAMP).open("w") as file:
                json.dump(remembered, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            old = _aside(target) if target.exists() else staging
            staging.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        still = fault(target)
        if still is not None:
            shutil.rmtree(target, ignore_errors=True)
            raise SetupError(f"{target.name} was made and is not right: {still}")
    return True


def remove(target: Path) -> bool:
    """Remove an artefact at one go; False if somebody is making it right now, and it stays.

    Its lock file stays: somebody may be waiting for it.
    """
    try:
        with _lock(target).acquire(timeout=0):
            shutil.rmtree(_aside(target), ignore_errors=True)
    except filelock.Timeout:
        return False
    return True


def _aside(target: Path) -> Path:
    return target.rename(target.parent / f"{_STAGING}{target.name}-old-{time.monotonic_ns()}")
