"""The program whose instructions are counted: one request, or one unit of work, at a time.

Valgrind runs it in the environment of a stack or a target. Its targets are `request/<endpoint>`,
requests to declared endpoints; `unit/<module>/<words>`, units of work that an experiment declares;
and `served/<name>`, requests to the application that servers serve.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duetbench.core.text import to_bytes
from duetbench.measure.instructions.phases import SLOW, UnfitError, Unit, run

# A JSON file with the request to a served application: the fields of an `Ask`, the status of a
# right answer, and the texts that nobody may see, with their names.
REQUEST = "DUETBENCH_REQUEST"

# The folder that the application is started in.
WORKSPACE = "DUETBENCH_WORKSPACE"

# Packages that applications import, partly with their first request. The applications themselves
# are imported later, in a process for each target.
_FRAMEWORKS = ("anyio._backends._asyncio", "fastapi.responses", "flask", "pydantic")

# Requests in a phase: enough for a count with six digits.
_REQUESTS, _FEWEST = 30, 3

# Seconds that the requests of a phase may wait, such as for a timer: waiting counts nothing.
_WAITING = 0.2

# Seconds of a request from which on `_FEWEST` are enough: it executes millions of instructions.
_COMPUTING = 0.0005

# Seconds for which a thread may keep others from running while it is found out whether one
# computes all the time; and the looks that show it, or that show the contrary: on a busy machine
# some of both are due to chance.
_INTERVAL, _LATE, _PROMPT = 0.05, 8, 3

Answer = tuple[int, list[Any], bytes]

# Function calls per request up to which a phase has `_REQUESTS`: some simple requests. Under
# Valgrind ten times as many calls take a second.
_CALLS = 3_000


def preload() -> None:
    """Import the stack's frameworks for all targets, unless there is a single application.

    That imports what it needs: under Valgrind all the others would take seconds.
    """
    if REQUEST in os.environ:
        return
    importlib.import_module("duetbench.measure.inside.requests")
    for module in _FRAMEWORKS:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)


def prepare(target: str) -> Unit:
    """Prepare a target's work, and check its result once.

    Raises:
        ValueError: There is no such target, or its result is wrong.
    """
    kind, _, rest = target.partition("/")
    if kind == "request":
        from duetbench.measure.inside import requests  # noqa: PLC0415 - imported by preload

        n = _FEWEST if requests.seconds(rest) >= _COMPUTING else _REQUESTS
        return Unit(requests.open_request(rest), n=n, warmup=min(n, 20))
    if kind == "served":
        return _served()
    if kind == "unit":
        module, _, words = rest.partition("/")
        unit: Unit = importlib.import_module(module).unit(words)
        return unit
    raise ValueError(f"expected request/…, unit/… or served/…, found {target}")


def open_served(*, check: bool) -> tuple[Callable[[], Answer], tuple[str, ...]]:
    """Import the application that the environment names, in its folder.

    Returns what sends one request after the other, and their paths. With `check`, each path is
    requested once before, and a request that is answered with a wrong status raises UnfitError, now
    or later.
    """
    from duetbench.measure.inside import drivers  # noqa: PLC0415 - only here

    fields = json.loads(Path(os.environ[REQUEST]).read_text("utf-8"))
    status, body = fields.pop("status"), to_bytes(fields.pop("body"))
    del fields["secrets"]
    ask = drivers.Ask(**fields, body=body, status=status if check else None)
    os.chdir(os.environ[WORKSPACE])
    # Importing it imports the application.
    import duetbench_entry as entry  # type: ignore[import-not-found]  # noqa: PLC0415

    app = entry.application
    request: Callable[[], Answer]
    if os.environ[entry.INTERFACE] == "asgi":
        request = drivers.asgi(app, ask, lifespan=True)
    else:
        request = drivers.wsgi(app, ask)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_INTERVAL)
    computes = _another_computes()
    # The application's threads switch only where one waits: otherwise the clock would decide how
    # often they switch. One that never waits would keep all others from running.
    sys.setswitchinterval(usual if computes else 60)
    if computes and check:
        raise UnfitError("a thread of it computes while nothing is requested")
    paths = (ask.path, *ask.paths)
    for _ in paths if check else ():
        request()
    return request, paths


def _another_computes() -> bool:
    """Whether this thread nearly always has to wait for another one when it has slept."""
    looks = {True: 0, False: 0}
    while looks[True] < _LATE and looks[False] < _PROMPT:
        began = time.perf_counter()
        time.sleep(_INTERVAL / 2)
        looks[time.perf_counter() - began > 1.4 * _INTERVAL] += 1
    return looks[True] == _LATE


def _served() -> Unit:
    """Open the served application, and choose how many requests to count."""
    from duetbench.measure.inside import drivers  # noqa: PLC0415 - only here

    request, paths = open_served(check=True)
    if isinstance(request, drivers.AsgiDriver):
        request.start_threads()
    requests, (seconds, work) = _FEWEST, _times(request, len(paths))
    if work < SLOW <= seconds:  # it waits, or another process had the core for an instant
        seconds, work = min((seconds, work), _times(request, len(paths)))
    if seconds < SLOW:
        calls = sum(_count_calls(request) for _ in paths) / len(paths)
        requests = max(_FEWEST, _REQUESTS // max(1, round(calls / _CALLS)))
        requests = max(_FEWEST, min(requests, int(_WAITING / max(seconds - work, 1e-9))))
    rounds = -(-requests // len(paths))  # rounded up, so each path is as often in every phase
    n = rounds * len(paths)
    # After n calls, one of 1.9 million instructions still changed by 0.5 % while it was counted.
    return Unit(
        request, n=n, warmup=4 * n, threads=True, least=len(paths), seconds=seconds, work=work
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


def _times(request: Callable[[], object], calls: int) -> tuple[float, float]:
    """Wall and core time of a request, s: the mean over `calls` calls."""
    wall, work = time.perf_counter(), time.process_time()
    for _ in range(calls):
        request()
    return (time.perf_counter() - wall) / calls, (time.process_time() - work) / calls


if __name__ == "__main__":
    run(prepare, preload)
