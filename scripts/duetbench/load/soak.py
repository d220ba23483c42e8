"""A soak: one server, loaded in bursts; does the memory that it holds after each grow for good?

Between two bursts no request is in progress, so the server holds only what it keeps. The load of a
duet, two seconds, cannot distinguish memory kept for every request from a pool that still fills.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import numpy as np
import psutil
from pydantic import Field

from duetbench.app.testbed import SideCase
from duetbench.core.model import Figure, Frozen
from duetbench.core.units import significant
from duetbench.host.tree_usage import anonymous
from duetbench.load.oha import Burst
from duetbench.load.oha_results import Floats, per_answer
from duetbench.load.server import Serving

BURSTS: Final = 24
"""Bursts of a soak: eight for each third of it. The first fifth is discarded."""

SHORTEST: Final = 0.2  # s of a burst, at least
PAUSE: Final = 0.5  # s before tasks are counted
SHARE: Final = 0.5  # of the free memory, at which a soak ends early

FLOOR: Final = 100.0
"""Bytes per request up to which memory counts as not growing: what our own handlers keep in a load
of two seconds."""

ROOM: Final = 1e6
"""Bytes that a server may gain in the judged part of a soak: a few arenas."""

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


Look = Callable[[float, Curve], None]


def perform(
    side: SideCase, log: Path, seconds: float, look: Look = lambda _seconds, _curve: None
) -> Curve:
    """Load a server for `seconds` s; `look` gets the seconds and the curve so far.

    Raises only `InterruptedRun`: the curve's `problem` says what ended a soak early.
    """
    each, curve = max(SHORTEST, seconds / BURSTS), Curve()
    with Serving(side, log) as serving, serving.blamed():
        serving.start()
        serving.meet()
        serving.verify(repeats=1)
        tasks = [sum(worker.tasks for worker in serving.workers)]
        room = SHARE * psutil.virtual_memory().available
        curve, began = _next(serving, curve, 0), time.monotonic()
        while (spent := time.monotonic() - began) < seconds and curve.memory[-1] < room:
            look(spent, curve)
            with Burst(serving.client, each) as burst:
                answered = burst.collect().answered
            curve = _next(serving, curve, answered)
        look(spent, curve)
        for _ in range(2):  # a queue drains, what leaks stays
            serving.session.wait(PAUSE)
            tasks.append(sum(worker.tasks for worker in serving.identify()))
        curve = curve.model_copy(update={"tasks": tuple(tasks)})
    problems = [flag.detail for flag in serving.flags if flag.kind == "void"]
    return curve.model_copy(update={"problem": "; ".join(problems)})


def _next(serving: Serving, curve: Curve, requests: int) -> Curve:
    """Extend the curve by what the server holds now, after `requests` more requests."""
    members = serving.session.members()
    held = anonymous([member.pid for member in members])
    threads = sum(member.num_threads() for member in members)
    so_far = curve.requests[-1] if curve.requests else 0
    return curve.model_copy(
        update={
            "requests": (*curve.requests, so_far + requests),
            "memory": (*curve.memory, held),
            "threads": (*curve.threads, threads),
        }
    )
