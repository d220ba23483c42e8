"""The program that makes requests while it records what they do.

The requests are those of `duetbench.app.inside.program`, and it needs what that needs.
Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from duetbench.app.inside import program
from duetbench.app.inside.drivers import AsgiDriver
from duetbench.app.inside.phases import private, run, write
from duetbench.app.inside.request import REPORT, REQUEST, Answer, checkout, to_texts
from duetbench.core.text import hider
from duetbench.effects import libraries, memory
from duetbench.effects.activity import PATIENCE, SECONDS, Activity, Event
from duetbench.effects.recorder import Recorder, clocked, describe

ROUNDS = 4
"""Times that each path is requested and recorded: what differs between them is not steady."""

_WARM = 3  # rounds before, and beside the recorded ones: their answers must be the same
_SLOW = 0.5  # seconds of a round from which fewer are made
_FEWEST = 20  # rounds that the memory must have time for


class _Round(NamedTuple):
    events: list[Event]
    calls: list[CodeType]
    resumed: list[CodeType]
    answers: list[dict[str, Any]]


def _report(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Record requests, then measure their memory; the fields of an `Activity`."""
    folder = Path.cwd()
    requests, patience, budget = _Requests(), plan[PATIENCE], plan[SECONDS]

    def end(*_: object) -> None:
        # No exception: the application could catch it.
        write(folder / REPORT, {"reason": requests.make_one.endless(), "kind": "endless"})
        os._exit(0)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, patience * len(requests.paths))
    began = time.perf_counter()
    first = requests.record()
    wrong = requests.status and {a["status"] for a in first.answers} != {requests.status}
    signal.setitimer(signal.ITIMER_REAL, 0)
    requests.make_one.start_threads()
    slow = time.perf_counter() - began > _SLOW
    warm = 1 if slow else _WARM
    alone = [requests.describe() for _ in range(warm)]
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()  # no round has the finalizers of another one
    rounds = [requests.record() for _ in range(2 if slow else ROUNDS)]
    if enabled:
        gc.enable()
    paths, recorder = len(requests.paths), requests.recorder
    each = memory.seconds_of(requests.make_each, warm) / paths
    alone += [requests.describe() for _ in range(warm)]
    # What only the first round imports counts as if each did, so that it can be compared.
    imports = [("first import", text, at) for kind, text, at in first.events if kind == "import"]
    activity = Activity(
        paths=requests.paths,
        events=[[*imports, *found.events] for found in rounds],
        calls=[sum(not clocked(code) for code in found.calls) for found in rounds],
        functions=requests.functions(rounds),
        loaded=recorder.loaded,
        answers=_by_path([found.answers for found in rounds]),
        alone=_by_path(alone),
        seconds=each,
        unseen=recorder.unseen,
        plans=recorder.plans,
        status=requests.status,
        routes=sys.modules["duetbench_entry"].routes() if wrong else (),
    )
    if each * paths > budget / _FEWEST:
        return activity.fields
    # What is known stays if the application does not survive the rest.
    write(folder / REPORT, activity.fields)
    kept: Any = None
    with suppress(BaseException):
        kept = memory.kept(requests.make_each, paths, budget, recorder.file)
    return replace(activity, kept=kept, loaded=recorder.loaded).fields


class _Requests:
    """Requests of one target; each round has one to each of its paths."""

    def __init__(self) -> None:
        self.recorder = Recorder(str(checkout()))
        fields = json.loads(Path(os.environ[REQUEST]).read_text("utf-8"))
        libraries.hide = hider(fields["secrets"])
        self.status = fields["status"]  # of right answers
        self.make_one = request = program.open_served(check=False)
        libraries.hide = hider({**fields["secrets"], **private})  # and what a login gave
        self.paths = request.paths
        self.driver = request if isinstance(request, AsgiDriver) else None
        self.recorder.waiting = self._waiting

    def describe(self) -> list[dict[str, Any]]:
        """Request each path once, and describe the answers, which may be long."""
        return [_described(self.make_one()) for _ in self.paths]

    def make_each(self) -> None:
        """Request each path once, and keep none of the answers meanwhile."""
        for _ in self.paths:
            self.make_one()

    def record(self) -> _Round:
        """Request each path once, and return what that did."""
        tasks, threads = len(self._tasks()), threading.active_count()
        self.recorder.on()
        try:
            answers = [self.make_one() for _ in self.paths]
        finally:
            events, calls, resumed = self.recorder.off()
        events += [("tasks left", "", "")] * (len(self._tasks()) - tasks)
        events += [("threads left", "", "")] * (threading.active_count() - threads)
        return _Round(events, calls, resumed, [*map(_described, answers)])

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks(self.driver.loop) if self.driver else set()

    def _waiting(self) -> list[asyncio.Task[Any]]:
        """The tasks of the application, the one that serves the request first."""
        server = [self.driver.server] if self.driver else []
        return [*server, *self._tasks().difference(server)]

    def functions(self, rounds: Sequence[_Round]) -> list[tuple[str, str, int]]:
        """List the application's own functions, and how often the first round calls each."""
        calls = Counter(self.recorder.names(rounds[0].calls))
        # By id: hashing a code object goes through all its constants.
        codes = {id(code): code for found in rounds for code in (*found.calls, *found.resumed)}
        return [(*name, calls[name]) for name in {*self.recorder.names(codes.values())}]


def _by_path(rounds: Sequence[Sequence[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[*answers] for answers in zip(*rounds, strict=True)]


def _described(answer: Answer) -> dict[str, Any]:
    status, headers, body = answer
    for text, name in private.items():
        body = body.replace(text.encode(), name.encode())
    return describe(status, to_texts(headers), body, checkout(), hider(private))


if __name__ == "__main__":
    run(_report)
