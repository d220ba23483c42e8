"""Pages → bytes; many of them by as many processes as there are cores.

A page is made from values alone, so that a copy of this process can make it: the work is handed
over by fork, which copies nothing, and only HTML comes back.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
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
        with multiprocessing.get_context("fork").Pool(count) as pool:
            yield from pool.imap(_at, range(len(pages)), _CHUNK)
    finally:
        _work.clear()


def _at(place: int) -> bytes:
    return _bytes(_work[place])


def _bytes(page: Page) -> bytes:
    return page.text().encode("utf-8", "replace")
