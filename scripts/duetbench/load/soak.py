"""A soak: one server, loaded in bursts, and the memory that it holds after each of them.

Between two bursts no request is in progress, so the server holds only what it keeps. The load of a
duet, two seconds, cannot distinguish memory kept for every request from a pool that still fills.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from duetbench.app.testbed import Testbed
from duetbench.core.model import Case
from duetbench.host.tree_usage import anonymous
from duetbench.load import warmup
from duetbench.load.growth import Curve
from duetbench.load.server import Serving

BURSTS: Final = 24
"""Bursts of a soak: eight for each third of it. The first fifth is discarded."""

SHORTEST: Final = 0.2  # s of a burst, at least
PAUSE: Final = 0.5  # s before tasks are counted
ROOM: Final = 0.5  # share of the free memory at which a soak ends early

Look = Callable[[float, Curve], None]


def perform(
    case: Case,
    testbed: Testbed,
    log: Path,
    seconds: float,
    look: Look = lambda _seconds, _curve: None,
) -> Curve:
    """Load a server for `seconds` s; `look` gets the seconds and the curve so far.

    Raises only `InterruptedRun`: the curve's `problem` says what ended a soak early.
    """
    each, curve = max(SHORTEST, seconds / BURSTS), Curve()
    with Serving(case, testbed, log) as serving, serving.blamed():
        serving.start()
        serving.meet()
        serving.verify(repeats=1)
        tasks = [sum(worker.tasks for worker in serving.workers)]
        room = ROOM * psutil.virtual_memory().available
        curve, began = _next(serving, curve, 0), time.monotonic()
        while (spent := time.monotonic() - began) < seconds and curve.memory[-1] < room:
            look(spent, curve)
            with warmup.Burst(serving.client, each) as burst:
                warm = burst.collect()
            curve = _next(serving, curve, round(sum(warm.windows) * warm.seconds))
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
    threads = sum(member.threads for member in members)
    so_far = curve.requests[-1] if curve.requests else 0
    return curve.model_copy(
        update={
            "requests": (*curve.requests, so_far + requests),
            "memory": (*curve.memory, held),
            "threads": (*curve.threads, threads),
        }
    )
