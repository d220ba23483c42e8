"""One measurement per machine: two at once would each measure the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psutil
from filelock import FileLock, Timeout

from servebench import paths
from servebench.errors import BusyError

HOLDER: Final = "SERVEBENCH_MEASURING"
"""Variable in which a holder tells its number to the measuring programs that it starts."""


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


def held_for_us() -> bool:
    """Whether one of our ancestors holds the machine and has started us to measure."""
    holder = os.environ.get(HOLDER, "")
    return holder in {str(ancestor.pid) for ancestor in psutil.Process().parents()}
