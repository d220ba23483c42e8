"""Pages → bytes; many of them by as many processes as there are cores.

A page is made from values alone, so that a copy of this process can make it, and only HTML comes
back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from servebench.site import copies
from servebench.site.pages.page import Page

MANY: Final = 40
"""From so many pages on, starting processes costs less than it saves."""

_CHUNK: Final = 2


def rendered(pages: Sequence[Page], processes: int | None = None) -> Iterator[bytes]:
    """Make pages, in their order.

    Args:
        pages: What to make.
        processes: How many make them; default: one per core that this process may use.
    """
    count = copies.cores() if processes is None else processes
    if count < 2 or len(pages) < MANY or not copies.possible():
        yield from map(_bytes, pages)
        return
    with copies.copies([partial(_bytes, page) for page in pages], count) as pool:
        yield from pool.map(copies.at, range(len(pages)), chunksize=_CHUNK)


def _bytes(page: Page) -> bytes:
    return page.text().encode("utf-8", "replace")
