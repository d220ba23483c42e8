"""Memory that requests keep for good, with the line that allocated it.

Standard library only, for any CPython from 3.11 on.
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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from duetbench.app.inside.program import times_of

FRAMES = 16  # of the place of an allocation
LEAST, MOST = 10, 400  # requests that keep memory, of which four times as many are made

_FLOOR = 16.0  # bytes per request: a pointer in a list that grows
_TABLE = 2_048  # bytes by which a single table that grows is no accident
_LONGER = 6.0  # times the planned seconds that the fewest requests may take
_PATIENCE = 3.0  # times as long as expected it may take beside other work
_LOOKS = 5  # rounds in the close look
_WINDOW, _WINDOWS = 100, 6  # objects kept between two looks, and looks at what is tidied at times
_CACHED = 500  # rounds between two looks, if there is time, in which 3,000 entries fill a cache
_HELD = 1e6  # bytes at one place, which are more than what a library tidies now and then
_OFF = 0.07  # by which the number of kept blocks of a size may be off
_STEADY = 0.85  # least ratio of the blocks of the first half of the rounds to those of the second
_LATER = 300  # objects kept in the time in which 200, tidied now and then, are tidied
_CONSTANT = 0.75  # share of the objects kept before that a constant amount keeps later
_MANY, _GROWTH = 20, 8  # times as many rounds, in which a table grows by an eighth as much for each
_STRAYS, _SHARE = 1, 0.01  # objects by which their number for each request may be off
_CACHE = type(functools.lru_cache(lambda: None))
_OURS = {tracemalloc.__file__, __file__}


def kept(
    make: Callable[[], object], paths: int, seconds: float, file: Callable[[str], str]
) -> dict[str, Any] | None:
    """Measure what n, 2n and 4n rounds keep; None if that takes far longer than `seconds`.

    A round, which `make` makes, has one request to each path. The course is "none", "constant"
    (each request keeps as much as before) or "fills". `file` returns a file of the application by
    its path from the folder, and nothing for any other.
    """
    tracemalloc.start()
    each = seconds_of(make, 2)
    tracemalloc.stop()
    n = math.ceil(max(LEAST, min(MOST, seconds / 4 / each * paths)) / paths)
    if 4 * n * each > _LONGER * seconds:
        return None
    snapshots, entries = [], []
    caches = _caches()
    gc.collect()
    gc.freeze()  # collections from here on only look at what requests make
    ends = time.monotonic() + _PATIENCE * _LONGER * seconds
    for snapshot in _snapshots(make, (n, n, 2 * n), ends=ends):
        entries.append([cache.cache_info().currsize for cache in caches])
        snapshots.append(snapshot)
    if len(snapshots) < 3:
        return None
    early, late = (_changes(*pair) for pair in itertools.pairwise(snapshots))
    table = max(_TABLE, _FLOOR * n * paths / 2)
    lasting = {p: c for p, c in late.items() if _lasts(early.get(p), c, n, table)}
    nothing = {"requests": 2 * n * paths, "bytes": 0.0, "course": "none", "place": ""}
    if sum(change.size_diff for change in lasting.values()) < _FLOOR * n * paths:
        return nothing
    largest = max(lasting, key=lambda place: lasting[place].size_diff)
    tables = {p: c.size_diff / (2 * n) for p, c in lasting.items() if c.count_diff <= 1}
    counts = {p: c.count_diff / (2 * n) for p, c in lasting.items() if p not in tables}
    if largest in counts:
        if not (rounds := _stay(make, seconds, counts[largest])):
            if lasting[largest].size_diff >= _HELD:
                place = _line(make, largest[-1], file)
                nothing |= {"course": "fills", "place": place}
            return nothing
        nothing["requests"] = (2 * n + rounds) * paths
    places, of_sizes = _weigh(make, seconds, counts) if counts else ([], 0.0)
    if tables and _MANY * n * seconds_of(make, 1) <= _LONGER * seconds:
        places += _growing(make, _MANY * n, tables)
    size = max(sum(lasting[p].size_diff for p in places) / (2 * n), of_sizes) / paths
    if not places or size < _FLOOR / 2:
        return nothing
    filled = [c for c, *of in zip(caches, *entries[1:], strict=True) if of[1] - of[0] >= n * paths]
    if filled:
        name, most = getattr(filled[0], "__qualname__", ""), filled[0].cache_info().maxsize
        place = f"cache of {name}, {most} at most"
    else:
        main = max(places, key=lambda p: (bool(file(p[-1].filename)), lasting[p].size_diff))
        place = _line(make, main[-1], file)
    return {**nothing, "bytes": size, "course": "fills" if filled else "constant", "place": place}


def _line(make: Callable[[], object], place: tracemalloc.Frame, file: Callable[[str], str]) -> str:
    """Name the application's line that leads to what rounds keep at a place, or else the place.

    To record its frames is slow: only what is kept gets such a look.
    """
    changes = _changes(*_snapshots(make, (0, _LOOKS), FRAMES))
    here = {trace: change for trace, change in changes.items() if trace[-1] == place}
    frames = max(here, key=lambda trace: here[trace].size_diff, default=(place,))
    own = next((frame for frame in reversed(frames) if file(frame.filename)), frames[-1])
    name = file(own.filename) or own.filename.rpartition("site-packages/")[2]
    return f"{name}:{own.lineno}"


def seconds_of(work: Callable[[], object], times: int) -> float:
    """Measure the seconds of some work: core time, or a third of the time that it waits."""
    wall, core = times_of(work, times)
    return max(core, wall / 3, 1e-9 / times)


def _snapshots(
    make: Callable[[], object], portions: Sequence[int], frames: int = 1, ends: float = math.inf
) -> Iterator[tracemalloc.Snapshot]:
    """Yield what is there after each portion of rounds, until `ends` by the monotonic clock."""
    tracemalloc.start(frames)
    try:
        for times in portions:
            for _ in range(times):
                make()
                if time.monotonic() > ends:
                    return
            gc.collect()
            yield tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()


def _stay(make: Callable[[], object], seconds: float, objects: float) -> int:
    """Count the many more rounds that keep at least half of as many objects each; 0: they do not.

    Some is given back now and then: sqlite3 forgets closed cursors, 200 at a time, and those of
    earlier requests among them. So growth counts from the lowest point on, which may come later.
    """
    affordable = max(1, int(_LONGER * seconds / seconds_of(make, 1)))
    window = min(affordable, math.ceil(_WINDOW / objects))
    window = max(window, min(_CACHED, affordable // _WINDOWS))
    gc.collect()
    blocks = [sys.getallocatedblocks()]
    for _ in range(affordable // window):
        for _ in range(window):
            make()
        gc.collect()
        blocks.append(sys.getallocatedblocks())
        rises = [after - before for before, after in itertools.pairwise(blocks)]
        if len(rises) > 1 and max(rises[-2:]) < objects * window / 4:
            return 0
        low = max(index for index, number in enumerate(blocks) if number == min(blocks))
        windows = len(blocks) - 1 - low
        if windows == _WINDOWS:
            break
    stays = windows > 0 and blocks[-1] - blocks[low] >= objects * window * windows / 2
    return stays * window * (len(blocks) - 1)


def _growing(
    make: Callable[[], object], rounds: int, tables: dict[tracemalloc.Traceback, float]
) -> list[tracemalloc.Traceback]:
    """Leave out tables that many more rounds do not enlarge, each by its bytes per round.

    A table that always has as many entries may grow once, as removed ones take room as well. What
    is more than one block there is no table, but what the interpreter gives back later: without
    the GIL it lists the objects that other threads have dropped.
    """
    changes = _changes(*_snapshots(make, (0, rounds)))
    return [
        place
        for place, rate in tables.items()
        if place in changes
        and changes[place].count_diff <= 1
        and changes[place].size_diff >= rate * rounds / _GROWTH
    ]


def _weigh(
    make: Callable[[], object], seconds: float, counts: dict[tracemalloc.Traceback, float]
) -> tuple[list[tracemalloc.Traceback], float]:
    """Find the places of what rounds keep, and the bytes per round of the blocks alone.

    `counts` are the objects of each place per round; what is tidied now and then is left out.
    CPython keeps freed blocks: what is kept at one place may lie where others allocated it. So
    all blocks of a size count, if rounds keep equally many of them, and if that is more.
    """
    enough = max(2 * _LOOKS, int(_LATER / min(counts.values())))
    half = max(1, min(enough, int(_LONGER * seconds / seconds_of(make, 1))) // 2)
    snapshots = [*_snapshots(make, (half, half))]
    blocks = [Counter(trace.size for trace in snapshot.traces) for snapshot in snapshots]
    held = {stat.traceback: stat.count for stat in snapshots[1].statistics("traceback")}
    places = [p for p, n in counts.items() if held.get(p, 0) >= _CONSTANT * n * 2 * half]
    of_sizes = sum(
        size * _each(blocks[0][size], number - blocks[0][size], half)
        for size, number in blocks[1].items()
    )
    return places, of_sizes


def _each(first: int, second: int, half: int) -> int:
    """Count the blocks of a size that every round keeps, from those of both halves; or 0."""
    if first < _STEADY * second:
        return 0  # more and more: what earlier rounds left behind allocates it, too
    # What fills once is there after the first half, or is given back in the second.
    for more, rounds in ((second, half), (first + second, 2 * half)):
        each = round(more / rounds)
        even = abs(more - each * rounds) <= _OFF * each * rounds
        if even and min(first, second) >= each * half / 2:
            return each
    return 0


def _lasts(
    before: tracemalloc.StatisticDiff | None, after: tracemalloc.StatisticDiff, n: int, table: float
) -> bool:
    """Whether a place keeps as many objects for each round as before, or a table that grows.

    It compares n rounds and the 2·n after them. What fills, such as CPython's own cache of
    attributes, keeps another number each time.
    """
    if abs(after.count_diff) <= 1:
        return after.size_diff >= table
    objects = round(after.count_diff / (2 * n))
    counts = (after.count_diff, 2 * n), (before.count_diff if before else 0, n)
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
    caches = (item for item in gc.get_objects() if type(item) is _CACHE)
    return [item for item in caches if item.cache_info().maxsize is not None]
