"""Pages → bytes; many of them by as many processes as there are cores.

A page is made from values alone, so that a copy of this process can make it: the work is handed
over by fork, which copies nothing, and only HTML comes back.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from servebench.site.pages.page import Page

MANY: Final = 40
"""From so many pages on, starting processes costs less than it saves."""

_CHUNK: Final = 4
_work: list[Page] = []
"""What forked processes make, by place; here only because they inherit it."""


def rendered(pages: Sequence[Page], processes: int | None = None) -> Iterator[bytes]:
    """Make pages, in their order.

    Args:
        pages: What to make.
        processes: How many make them; default: one per core that this process may use.
    """
    count = len(os.sched_getaffinity(0)) if processes is None else processes
    # A fork copies this thread only: whatever another one holds would stay locked for ever.
    alone = threading.active_count() == 1
    if count < 2 or len(pages) < MANY or not alone:
        yield from map(_bytes, pages)
        return
    _work[:] = pages
    try:
        # Not multiprocessing's pool, which ends its workers by a signal, in the middle of anything:
        # one that held the queue's lock leaves the others waiting for ever.
        context = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(count, context, initializer=_as_by_default)
        try:
            yield from pool.map(_at, range(len(pages)), chunksize=_CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)
    finally:
        _work.clear()


def _as_by_default() -> None:
    """Signals are the parent's to handle; a handler of its own has nothing to do in a copy."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _at(place: int) -> bytes:
    return _bytes(_work[place])


def _bytes(page: Page) -> bytes:
    return page.text().encode("utf-8", "replace")
