"""Memory that requests keep for good, with the line that allocated it, and that one needs at most.

Standard library only, for any CPython from 3.10 on.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

FRAMES = 16  # of the place of an allocation
LEAST, MOST = 10, 400  # requests that keep memory, of which four times as many are made

_FLOOR = 16.0  # bytes per request: a pointer in a list that grows
_TABLE = 2_048  # bytes by which a single table that grows is no accident
_LONGER = 6.0  # times the planned seconds that the fewest requests may take
_PATIENCE = 3.0  # times as long as expected it may take beside other work
_LOOKS = 5  # requests of each path in the close look
_WINDOW, _WINDOWS = 100, 6  # objects kept between two looks, and looks at what is tidied at times
_OFF = 0.05  # by which the number of kept blocks of a size may be off
_LATER = 300  # objects kept in the time in which 200, tidied now and then, are tidied
_CONSTANT = 0.75  # share of the objects kept before that a constant amount keeps later
_STRAYS, _SHARE = 1, 0.01  # objects by which their number for each request may be off
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
    seconds: float,
    line: Callable[..., str],
    is_own: Callable[[str], object],
) -> dict[str, Any] | None:
    """Measure what n, 2n and 4n requests keep; None if that takes far longer than `seconds`.

    Counts are multiples of `paths`. The course is "none", "constant" (each request keeps as much as
    before) or "fills". `line` finds the application's line in the frames of an allocation, the
    innermost first; `is_own` tells its files.
    """
    tracemalloc.start()
    each = seconds_of(request, 2 * paths)
    n = max(LEAST, min(MOST, int(seconds / 4 / each)))
    n = -(-n // paths) * paths
    if 4 * n * each > _LONGER * seconds:
        tracemalloc.stop()
        return None
    snapshots, entries = [], []
    caches = _caches()
    gc.collect()
    gc.freeze()  # collections from here on only look at what requests make
    ends = time.monotonic() + _PATIENCE * _LONGER * seconds
    for times in (n, n, 2 * n):
        for _ in range(times):
            request()
            if time.monotonic() > ends:
                tracemalloc.stop()
                return None
        gc.collect()
        entries.append([cache.cache_info().currsize for cache in caches])
        snapshots.append(tracemalloc.take_snapshot())
    tracemalloc.stop()
    early, late = (_changes(*snapshots[index : index + 2]) for index in (0, 1))
    lasting = {
        place: change
        for place, change in late.items()
        if _lasts(early.get(place), change, n, n // paths)
    }
    result: dict[str, Any] = {"requests": 2 * n, "bytes": 0.0, "course": "none", "place": ""}
    if sum(change.size_diff for change in lasting.values()) < _FLOOR * n:
        return result
    largest = max(lasting, key=lambda place: lasting[place].size_diff)
    tables = [place for place, change in lasting.items() if change.count_diff <= 1]
    counts = {p: c.count_diff / (2 * n) for p, c in lasting.items() if p not in tables}
    if largest in counts and not _stay(request, paths, seconds, counts[largest]):
        return result
    places, of_sizes = _weigh(request, paths, seconds, counts) if counts else ([], 0.0)
    places += tables
    result["bytes"] = max(sum(lasting[p].size_diff for p in places) / (2 * n), of_sizes)
    if not places or result["bytes"] < _FLOOR / 2:
        return {**result, "bytes": 0.0}
    most = max(places, key=lambda p: (bool(is_own(p[-1].filename)), lasting[p].size_diff))
    result["place"] = line(_look(request, _LOOKS * paths, most[-1]))
    result["course"] = "constant"
    for cache, before, after in zip(caches, *entries[1:], strict=True):
        if after - before >= n:
            name, size = getattr(cache, "__qualname__", ""), cache.cache_info().maxsize
            result |= {"course": "fills", "place": f"cache of {name}, {size} at most"}
    return result


def seconds_of(request: Callable[[], object], times: int) -> float:
    """Measure the seconds of a request: core time, or a third of the time that it waits."""
    wall, work = time.perf_counter(), time.process_time()
    for _ in range(times):
        request()
    took = time.process_time() - work, (time.perf_counter() - wall) / 3
    return max(*took, 1e-9) / times


def _stay(request: Callable[[], object], paths: int, seconds: float, objects: float) -> bool:
    """Whether many more requests keep at least half of as many objects each.

    Some is given back now and then: sqlite3 forgets closed cursors, 200 at a time, and those of
    earlier requests among them. So growth counts from the lowest point on, which may come later.
    """
    each = seconds_of(request, paths)
    affordable = max(_LOOKS, int(_LONGER * seconds / each))
    window = min(affordable, math.ceil(_WINDOW / objects))
    window = -(-window // paths) * paths
    gc.collect()
    blocks = [sys.getallocatedblocks()]
    for _ in range(max(1, affordable // window)):
        for _ in range(window):
            request()
        gc.collect()
        blocks.append(sys.getallocatedblocks())
        rises = [after - before for before, after in itertools.pairwise(blocks)]
        if len(rises) > 1 and max(rises[-2:]) < objects * window / 4:
            return False
        low = max(index for index, number in enumerate(blocks) if number == min(blocks))
        windows = len(blocks) - 1 - low
        if windows == _WINDOWS:
            break
    return windows > 0 and blocks[-1] - blocks[low] >= objects * window * windows / 2


def _weigh(
    request: Callable[[], object],
    paths: int,
    seconds: float,
    counts: dict[tracemalloc.Traceback, float],
) -> tuple[list[tracemalloc.Traceback], float]:
    """Find the places of what requests keep, and the bytes per request of the blocks alone.

    `counts` are the objects of each place per request; what is tidied now and then is left out.
    CPython keeps freed blocks: what is kept at one place may lie where others allocated it. So
    all blocks of a size count, if requests keep equally many of them, and if that is more.
    """
    affordable = int(_LONGER * seconds / seconds_of(request, paths))
    half = max(_LOOKS, min(affordable, int(_LATER / min(counts.values()))) // 2)
    rounds = -(-half // paths)
    snapshots, blocks = [], []
    gc.collect()
    tracemalloc.start()
    for _ in range(2):
        for _ in range(rounds * paths):
            request()
        gc.collect()
        snapshots.append(tracemalloc.take_snapshot())
        blocks.append(Counter(trace.size for trace in snapshots[-1].traces))
    tracemalloc.stop()
    made = 2 * rounds * paths
    kept = {stat.traceback: stat for stat in snapshots[1].statistics("traceback")}
    places = [
        place
        for place, count in counts.items()
        if place in kept and kept[place].count >= _CONSTANT * count * made
    ]
    sizes = {size: round(number / (2 * rounds)) for size, number in blocks[1].items()}
    of_sizes = sum(
        size * number / paths
        for size, number in sizes.items()
        if abs(blocks[1][size] - 2 * number * rounds) <= _OFF * 2 * number * rounds
        and min(blocks[0][size], blocks[1][size] - blocks[0][size]) >= number * rounds / 2
    )
    return places, of_sizes


def _look(
    request: Callable[[], object], times: int, place: tracemalloc.Frame
) -> list[tuple[str, int]]:
    """Find the frames of what some requests keep at a place, the innermost first.

    To record so many is slow: only what is kept gets this look.
    """
    tracemalloc.start(FRAMES)
    before = tracemalloc.take_snapshot()
    for _ in range(times):
        request()
    gc.collect()
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    here = {t: c for t, c in _changes(before, after).items() if t[-1] == place}
    most = max(here, key=lambda trace: here[trace].size_diff, default=[place])
    return [(frame.filename, frame.lineno) for frame in reversed(most)]


def _lasts(
    before: tracemalloc.StatisticDiff | None, after: tracemalloc.StatisticDiff, n: int, each: int
) -> bool:
    """Whether a place keeps as many objects for each request as before, or a table that grows.

    It compares n requests and the 2·n after them; of each path, there are `each` among the n. What
    fills, such as CPython's own cache of attributes, keeps another number each time.
    """
    if abs(after.count_diff) <= 1:
        return after.size_diff >= max(_TABLE, _FLOOR * n / 2)
    objects = round(after.count_diff / (2 * each))
    counts = (after.count_diff, 2 * each), (before.count_diff if before else 0, each)
    return objects > 0 and all(
        abs(count - objects * times) <= max(_STRAYS, _SHARE * count) for count, times in counts
    )


def _changes(
    before: tracemalloc.Snapshot, after: tracemalloc.Snapshot
) -> dict[tracemalloc.Traceback, tracemalloc.StatisticDiff]:
    """Compare two snapshots by the place of each allocation, without those made here."""
    changes = after.compare_to(before, "traceback")
    return {c.traceback: c for c in changes if c.traceback[-1].filename not in _OURS}


def _caches() -> list[Any]:
    """List the caches that have a limit."""
    found = (item for item in gc.get_objects() if type(item) is _CACHE)
    return [item for item in found if item.cache_info().maxsize is not None]
