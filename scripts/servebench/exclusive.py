"""One measurement per machine: two at once would each measure the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from servebench import paths
from servebench.errors import BusyError


@contextmanager
def measuring() -> Iterator[None]:
    """Hold the machine for a measurement of this user. A killed holder's lock is free at once.

    Raises:
        BusyError: Somebody holds it.
    """
    folder = paths.state_dir()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "measuring.lock").acquire(blocking=False):
            yield
    except Timeout as error:
        raise BusyError(
            "expected this machine for itself, but another servebench is measuring on it: each "
            "would be the other's noise. Wait for it, or stop it"
        ) from error
