"""Work for copies of this process, which are made by fork: they know all that it knows.

Nothing is handed over but the work's place in a list, and nothing comes back but its answer.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

_work: list[Callable[[], Any]] = []
"""What copies do; here only because they inherit it."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def possible() -> bool:
    """Whether this process may be copied.

    A fork copies one thread only: whatever another one holds would stay locked for ever.
    """
    return threading.active_count() == 1


@contextmanager
def copies(work: Sequence[Callable[[], Any]], number: int) -> Iterator[ProcessPoolExecutor]:
    """Copies of this process, made when the first `at` is submitted; they end with the block.

    Args:
        work: What `at` can be asked for.
        number: How many copies.
    """
    _work[:] = work
    # Not multiprocessing's pool, which ends its workers by a signal, in the middle of anything:
    # one that held the queue's lock leaves the others waiting for ever.
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(number, context, initializer=_as_by_default)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        _work.clear()


def at(place: int) -> Any:
    """Do the work at a place of the list, in a copy."""
    return _work[place]()


def _as_by_default() -> None:
    """Signals are the parent's to handle; a handler of its own has nothing to do in a copy."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
