"""The program whose instructions are counted: one request at a time, to what servers serve."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from duetbench.app.inside import phases
from duetbench.app.inside.drivers import DRIVERS, Ask, Driver
from duetbench.app.inside.phases import UnfitError, Unit
from duetbench.app.programs import REQUEST, WORKSPACE, identified, identify, private_parts
from duetbench.core.text import to_bytes

# Requests in a round: enough for a count with six digits.
REQUESTS, FEWEST = 60, 6

# Seconds of an uncounted request from which it is slow, and is counted once in a round; how many of
# these warm up.
SLOW, WARM = 0.05, 3

# Seconds that the requests of a round may wait, such as for a timer: waiting counts nothing.
_WAITING = 0.4

# Seconds for which a thread that does not wait keeps others from running: ten times as long as
# usual, or the clock would decide how often threads switch.
_INTERVAL = 0.05

# Function calls per request up to which a round has `REQUESTS`: some simple requests. Under
# Valgrind ten times as many calls take a second.
_CALLS = 3_000


def open_served(*, check: bool) -> Driver:
    """Import the application that the environment names, in its folder.

    Returns what sends one request after the other. With `check`, each path is requested once
    before, and a request that is answered with a wrong status raises UnfitError, now or later.
    """
    fields = json.loads(Path(os.environ[REQUEST]).read_text("utf-8"))
    status, body = fields.pop("status"), to_bytes(fields.pop("body"))
    login = fields.pop("login", None)
    del fields["secrets"]
    ask = first = Ask(**fields, body=body, status=status if check else None)
    if login:
        known = {name: login[name] for name in ("path", "method", "headers")}
        first = Ask(**known, body=to_bytes(login["body"]))
    os.chdir(os.environ[WORKSPACE])
    # Importing it imports the application.
    import duetbench_entry as entry  # type: ignore[import-not-found]  # noqa: PLC0415

    request = DRIVERS[os.environ[entry.INTERFACE]](entry.application, first)
    if login:
        try:
            given = identify(request(), login["token"])
        except ValueError as error:
            raise UnfitError(f"--login {first.method} {first.path}: {error}", "login") from None
        phases.private |= dict.fromkeys(private_parts(given), "{login}")
        request.take(replace(ask, headers=identified(ask.headers, given)))
    sys.setswitchinterval(_INTERVAL)
    for _ in request.paths if check else ():
        request()
    return request


def prepare() -> Unit:
    """Open the served application, check its answers, and choose how many requests to count."""
    request = open_served(check=True)
    request.start_threads()
    return unit_of(request, len(request.paths))


def unit_of(call: Callable[[], object], turns: int = 1) -> Unit:
    """Choose how many calls to count, of which so many in turn differ from each other."""
    calls, (seconds, work) = 1, times_of(call, turns)
    if work < SLOW:  # it may seem to wait because another process has the core
        seconds, work = min((seconds, work), *(times_of(call, turns) for _ in range(4)))
    slow = seconds >= SLOW
    if not slow:
        entered = sum(_count_calls(call) for _ in range(turns)) / turns
        calls = max(FEWEST, REQUESTS // max(1, round(entered / _CALLS)))
        calls = max(FEWEST, min(calls, int(_WAITING / max(seconds - work, 1e-9))))
    n = -(-calls // turns) * turns  # rounded up: each path is as often in every round
    return Unit(
        call,
        n=n,
        # After 30 calls, one of 1.9 million instructions still changed by 0.5 %.
        warmup=WARM if slow else 2 * n,
        turns=turns,
    )


def _count_calls(request: Callable[[], object]) -> int:
    """Count the function calls of a request in this thread; equal code makes as many."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        request()
    finally:
        sys.setprofile(None)
    return calls


def times_of(request: Callable[[], object], calls: int) -> tuple[float, float]:
    """Measure wall and core time of a request, s: the mean over `calls` calls."""
    wall, work = time.perf_counter(), time.process_time()
    for _ in range(calls):
        request()
    return (time.perf_counter() - wall) / calls, (time.process_time() - work) / calls


if __name__ == "__main__":
    phases.run(partial(phases.measure, prepare))
