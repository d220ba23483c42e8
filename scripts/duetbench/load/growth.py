"""Does a side keep memory for every request? Requests in process suggest it, a soak decides.

They are a server's first ones, in which caches fill, as are those of a duet.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from duetbench.core.comparison import SIDES, Course, Curve, Growth, SideName
from duetbench.core.model import KeptMemory
from duetbench.load.oha_results import Floats, per_answer

SECONDS: Final = (5.0, 10.0)
"""Seconds of a soak within a comparison: at least, if time is short, and at most."""

AROUND: Final = 4.0
"""Seconds to start and stop the server of a soak."""

FLOOR: Final = 100.0
"""Bytes per request up to which memory counts as not growing: what our own handlers keep in a load
of two seconds."""

ROOM: Final = 1e6
"""Bytes that a server may gain in the judged part of a soak: a few arenas."""

_WARM: Final = 0.2  # share of a soak's requests that fill pools, and are ignored
_WINDOWS: Final = 6  # fewest of the rest: two per third, which gives a wide interval
_TASKS: Final = 0.9  # left behind per request: counts are exact where bytes scatter
_HEAPS: Final = 100e6  # bytes: those of 128 threads took 30 MB in the judged part of a soak
_FALLS: Final = 0.3  # share of the gain that is given back, from which it is no leak
_DECAYED: Final = 0.7
_LASTING: Final = 0.85
"""Rate in the last third over that in the first. n requests that keep the square root of n give
0.6; a pool that fills twice as slowly as the soak lasts gives 0.75."""


def of_curve(curve: Curve, *, fills_slowly: bool = False) -> Growth:
    """Classify the curve of a soak: constant, fills, none or undecided.

    `fills_slowly`: whether heaps may fill for longer than the soak. Then tasks prove a leak, or
    more bytes than heaps take.
    """
    answered = np.array(curve.requests or [0], dtype=float)
    memory = np.array(curve.memory or [0], dtype=float)
    first = int(np.searchsorted(answered, _WARM * answered[-1]))
    grown, steps = np.diff(memory[first:]), np.diff(answered[first:])
    whole = per_answer(grown, steps)
    requests = int(answered[-1] - answered[first])
    if whole is None or len(steps) < _WINDOWS:
        return Growth(course="undecided", requests=requests, curve=curve)
    figures = dict(zip(("estimate", "low", "high"), whole, strict=True))
    course = _course(memory[first:], grown, steps, whole[0])
    # A busy machine answers less and less of what piles up, so bytes may seem to decay.
    unsure, tasks = course in {"undecided", "fills"}, curve.left(curve.tasks) >= _TASKS
    if unsure and whole[1] > FLOOR and tasks:
        course = "constant"
    if fills_slowly and course == "constant" and not tasks and grown.sum() <= _HEAPS:
        course = "undecided"
    # A queue drains: without load more tasks end than a few of the server itself.
    course = "fills" if curve.tasks[2:] and curve.tasks[2] + 3 < curve.tasks[1] else course
    return Growth(course=course, requests=requests, curve=curve, **figures)


def _course(memory: Floats, grown: Floats, steps: Floats, whole: float) -> Course:
    floor = max(FLOOR, ROOM / float(steps.sum()))
    gained, lost = float(grown.clip(0).sum()), float(-grown.clip(max=0).sum())
    amplitude = float(memory.max() - memory.min())
    if min(gained, amplitude / 2) > ROOM and lost > _FALLS * gained:
        half = len(memory) // 2
        risen = float(memory[half:].min() - memory[:half].min())
        return "undecided" if risen > amplitude / 4 else "fills"
    third = len(steps) // 3
    begin, end = (
        per_answer(grown[:third], steps[:third]),
        per_answer(grown[-third:], steps[-third:]),
    )
    if begin is None or end is None:
        return "undecided"
    if whole <= floor and end[0] <= floor:
        return "none"
    if end[0] < max(floor, _DECAYED * begin[0]):
        return "fills"
    lasting = end[1] > floor and end[0] >= _LASTING * begin[0]
    return "constant" if lasting else "undecided"


def decide(kept: KeptMemory | None, growth: Growth | None) -> KeptMemory | None:
    """Decide by a soak whether requests in process, which were fewer, showed a leak.

    A cache keeps as much for each until it is full. What load neither shows nor refutes stays
    open, such as a few bytes that scatter covers.
    """
    if kept is None or kept.course != "constant" or growth is None or growth.curve is None:
        return kept
    requests = max(growth.curve.requests, default=0)
    shows, refutes = growth.course == "constant", growth.course == "fills"
    if growth.course == "none":
        shows, refutes = growth.low > kept.bytes / 2, growth.high < kept.bytes / 2
    if requests <= kept.requests or not (shows or refutes):
        return kept
    course = "constant" if shows else "fills"
    return kept.model_copy(update={"course": course, "requests": requests, "loaded": True})


def leaks(growths: Mapping[SideName, Growth]) -> bool:
    """Whether head, unlike base, keeps memory for every request.

    Only a base that was loaded alone as well is a contrast. Head must surely keep half as much
    again as it.
    """
    base, head = (growths.get(side) for side in SIDES)
    if head is None or head.course != "constant" or base is None or base.curve is None:
        return False
    return base.course != "undecided" and head.low > 1.5 * max(0.0, base.high)
