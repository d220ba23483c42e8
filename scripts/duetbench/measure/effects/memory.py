"""Memory that requests keep for good, with the line that allocated it, and that one needs at most.

Standard library only, for any CPython from 3.10 on.
"""

from __future__ import annotations

import functools
import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

FRAMES = 16  # of the place of an allocation
LEAST, MOST = 12, 500  # requests that keep memory, of which four times as many are made

_FLOOR = 16.0  # bytes per request: a pointer in a list that grows
_ROOM = 4_096  # bytes that tables may gain in all
_PATIENCE = 6.0  # times as long as expected it may take beside other work
_LASTING = 0.7  # rate in the second half over that in the first, from which it lasts
_CACHE = type(functools.lru_cache(lambda: None))
_OURS = {tracemalloc.__file__, __file__}


def peaks(request: Callable[[], object], times: int) -> list[int]:
    """Measure the memory that each request has at most, beyond what was there, in bytes."""
    found = []
    tracemalloc.start()
    for _ in range(times):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        request()
        found.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return found


def kept(
    request: Callable[[], object],
    paths: int,
    each: float,
    seconds: float,
    place: Callable[..., str],
) -> dict[str, Any] | None:
    """Measure what n, 2n and 4n requests keep; None if that takes longer than `seconds`.

    A request takes `each` s, three times that while allocations are traced. Counts are multiples of
    `paths`. The course is "none", "constant" (each request keeps as much as before) or "fills".
    `place` finds the application's line in the frames of an allocation, the innermost first.
    """
    n = min(MOST, int(seconds / 4 / (3 * each + 1e-9)))
    if n < max(LEAST, paths):
        return None
    n = -(-n // paths) * paths
    ends = time.monotonic() + _PATIENCE * seconds
    tracemalloc.start(FRAMES)
    try:
        rates, snapshots, caches = [], [], []
        before = 0
        for times in (n, n, 2 * n):
            for _ in range(times):
                request()
                if time.monotonic() > ends:
                    return None
            gc.collect()
            rates.append((tracemalloc.get_traced_memory()[0] - before) / times)
            if rates[1:]:
                caches.append(_entries())
                snapshots.append(tracemalloc.take_snapshot())
            before = tracemalloc.get_traced_memory()[0]  # snapshots are traced, too
    finally:
        tracemalloc.stop()
    _, first, rate = rates
    result: dict[str, Any] = {"requests": 2 * n, "bytes": rate, "course": "none", "place": ""}
    if rate <= _FLOOR / 2 + _ROOM / (2 * n):
        return {**result, "bytes": 0.0}
    changes = snapshots[1].compare_to(snapshots[0], "traceback")
    statistics = [change for change in changes if change.traceback[-1].filename not in _OURS]
    most = max(statistics, key=lambda statistic: statistic.size_diff)
    result["objects"] = sum(s.count_diff for s in statistics) / (2 * n)
    result["place"] = place([(f.filename, f.lineno) for f in reversed(most.traceback)])
    if full := [name for name, size in caches[1].items() if size - caches[0].get(name, 0) >= n]:
        return {**result, "course": "fills", "place": full[0]}
    return {**result, "course": "constant" if rate >= _LASTING * first else "fills"}


def _entries() -> dict[str, int]:
    """Count the entries of each cache that has a limit."""
    found = (item for item in gc.get_objects() if type(item) is _CACHE)
    return {
        f"cache of {getattr(item, '__qualname__', '')}, {info.maxsize} at most": info.currsize
        for item in found
        if (info := item.cache_info()).maxsize is not None
    }
