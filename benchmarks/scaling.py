"""How work scales over threads: the time of t threads that each do the same fixed work.

Ideally it is constant: with a core for each, t threads do t times as much in the time of one. With
the GIL they take t times as long. The kinds of work are pure Python, which shares nothing; C code
of the standard library; and a framework that answers requests in the process, with its locks,
caches and reference counts of shared objects. The timed part includes making the threads, which are
not pinned.
A call takes tens of milliseconds, so every sample is one call (`number`).
"""

from __future__ import annotations

import copy
import functools
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from duetbench.app.inside import drivers
from observatory.measure.inside import load_module

from ._suite import Clock, require_stack, skip

THREADS = [1, 2, 4, 8, 16, 32]  # the same on all machines; more than cores are skipped
STEPS = 10**6
DOCUMENTS = 600
REQUESTS = 300
DOCUMENT = {
    "offset": 0,
    "services": [
        {"service_id": number, "name": f"service {number}", "ratio": number / 7, "tags": ["a", "b"]}
        for number in range(20)
    ],
}
CLOCK = Clock(time.perf_counter)


def _count() -> None:
    counted = 0
    for step in range(STEPS):
        counted += step & 1


def _documents(document: dict[str, Any]) -> None:
    for _ in range(DOCUMENTS):
        if len(json.loads(json.dumps(document))) != len(document):
            raise RuntimeError("expected the document back")


def _requests(drive: Callable[[], tuple[int, Any, bytes]]) -> None:
    for _ in range(REQUESTS):
        status, _headers, body = drive()
        if status != 200 or not body:
            raise RuntimeError(f"expected status 200 and a body, found {status} and {body!r}")


@functools.cache
@CLOCK.leaves_out
def _works(kind: str, threads: int) -> list[Callable[[], None]]:
    """The work of each thread: its own document or driver, but one application."""
    if kind == "python":
        return [_count] * threads
    if kind == "json":
        documents = [copy.deepcopy(DOCUMENT) for _ in range(threads)]
        return [functools.partial(_documents, document) for document in documents]
    interface = "asgi" if kind == "fastapi" else "wsgi"
    app = load_module("asgi-wsgi", f"{interface}_app").app
    requests = [drivers.DRIVERS[interface](app, drivers.Ask("/json")) for _ in range(threads)]
    return [functools.partial(_requests, request) for request in requests]


class Scaling:
    """The same work on each of some threads."""

    version = "1"
    params = (["python", "json", "fastapi", "flask"], THREADS)
    param_names = ("work", "threads")
    rounds = 2
    repeat = 5
    number = 1
    timer = CLOCK
    warmup_time = 0.001  # s; less than any call takes, so it is exactly one unmeasured call
    timeout = 300

    def time_threads(self, work: str, threads: int) -> None:
        """Time `threads` threads that do this work once each."""
        require_stack("current")
        cores = len(os.sched_getaffinity(0))
        if threads > cores:
            skip(f"{threads} threads: only {cores} cores are available")
        works = _works(work, threads)
        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(each) for each in works]:
                future.result()
