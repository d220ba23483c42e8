"""Does a server keep memory for every request? A soak tells; duets confirm it, or refute it.

A duet sees only a server's first seconds, in which allocators and caches fill, and many duets see
them many times. So duets decide only on what requests in process were seen to keep.
"""

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from pydantic import Field

from duetbench.core.comparison import Duet, SideName
from duetbench.core.model import Figure, Frozen, KeptMemory
from duetbench.core.units import significant, student
from duetbench.load.oha_results import Floats, per_answer

FLOOR: Final = 100.0
"""Bytes per request up to which memory counts as not growing: what our own handlers keep in a load
of two seconds."""

ROOM: Final = 1e6
"""Bytes that a server may gain in the judged part of a soak: a few arenas."""

_KEPT: Final = "memory_per_request"
_WARM: Final = 0.2  # share of a soak's requests that fill pools, and are ignored
_WINDOWS: Final = 6  # fewest of the rest: two per third, which gives a wide interval
_TASKS: Final = 0.9  # left behind per request: counts are exact where bytes scatter
_FALLS: Final = 0.3  # share of the gain that is given back, from which it is no leak
_DECAYED: Final = 0.7
_LASTING: Final = 0.85
"""Rate in the last third over that in the first. n requests that keep the square root of n give
0.6; a pool that fills twice as slowly as the soak lasts gives 0.75."""


class Curve(Frozen):
    """Memory, threads and tasks of a server at the start and after each burst of a soak."""

    requests: tuple[int, ...] = Field(default=(), description="Answered so far.")
    memory: tuple[int, ...] = Field(default=(), description="Anonymous memory, bytes.")
    threads: tuple[int, ...] = ()
    tasks: tuple[int, ...] = Field(default=(), description="Of event loops: first, last, later.")
    problem: str = Field(default="", description="What ended it early.")

    def left(self, counts: tuple[int, ...]) -> float:
        """How many threads or tasks each request leaves behind."""
        return (counts[-1] - counts[0]) / max(1, self.requests[-1]) if len(counts) > 1 else 0.0


Course = Literal["constant", "fills", "none", "undecided"]


class Growth(Frozen):
    """Memory that a side keeps per request, in bytes with a 95 % interval."""

    course: Course = Field(
        description="constant: every request leaks. fills: a pool fills, or memory is given back. "
        "none: nothing measurable. undecided: anything else."
    )
    estimate: Figure = 0.0
    low: Figure = 0.0
    high: Figure = 0.0
    requests: int = Field(ge=0, description="Number of requests that it was measured over.")
    curve: Curve

    @property
    def words(self) -> str:
        """The amount in words: `2.5 kB (2.3…2.7 kB) and 1 task`, or nothing measurable."""
        if self.course == "none":
            return f"nothing measurable (below {math.ceil(max(self.high, 100) / 100) / 10:g} kB)"
        ends = (self.estimate, self.low, self.high)
        parts = ["{} kB ({}…{} kB)".format(*(significant(end / 1e3, 2) for end in ends))]
        curve = self.curve
        leaks = {"tasks": curve.left(curve.tasks), "threads": curve.left(curve.threads)}
        parts += [f"{significant(size, 2)} {what}" for what, size in leaks.items() if size >= 0.01]
        return " and ".join(parts)


def of_curve(curve: Curve) -> Growth:
    """Classify the curve of a soak: constant, fills, none or undecided."""
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


def decide(kept: KeptMemory | None, duets: Sequence[Duet], side: SideName) -> KeptMemory | None:
    """Decide by the load of duets whether requests in process, which were fewer, showed a leak.

    Each duet has what a side keeps per request in the second half of its load. A cache keeps as
    much for each until it is full. What load neither shows nor refutes stays open, such as a few
    bytes that scatter covers.
    """
    metrics = (duet.metrics(side) for duet in duets)
    # What a duet prevents has no figures of it, and no number of requests.
    figures = [row for row in metrics if {_KEPT, "requests"} <= row.keys()]
    if kept is None or kept.course != "constant" or len(figures) < 2:
        return kept
    rates = np.array([row[_KEPT] for row in figures])
    requests = int(sum(row["requests"] for row in figures)) // len(duets)
    half = student(len(rates) - 1) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    shows, refutes = rates.mean() - half > kept.bytes / 2, rates.mean() + half < kept.bytes / 2
    if requests <= kept.requests or not (shows or refutes):
        return kept
    course = "constant" if shows else "fills"
    return kept.model_copy(update={"course": course, "requests": requests, "loaded": True})
