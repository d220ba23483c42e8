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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from duetbench.app.inside import program
from duetbench.app.inside.drivers import AsgiDriver
from duetbench.app.inside.phases import private, run, write
from duetbench.app.programs import REPORT, REQUEST, Answer, checkout, to_texts
from duetbench.core.text import hider
from duetbench.effects import libraries, memory
from duetbench.effects.activity import Event, Reply
from duetbench.effects.recorder import Recorder, Round, activity, describe

ROUNDS = 4
"""Times that each path is requested and recorded: what differs between them is not steady."""

_WARM = 3  # rounds before, and beside the recorded ones: their answers must be the same
_SLOW = 0.1  # seconds of a round from which one is recorded
_FEWEST = 20  # rounds that the memory must have time for


def _report(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Record requests, then measure their memory; the fields of an `Activity`.

    The plan has the `patience` for the first answer to each path, and for memory `seconds`.
    """
    folder = Path.cwd()
    requests, patience, budget = _Requests(), plan["patience"], plan["seconds"]

    def end(*_: object) -> None:
        # No exception: the application could catch it.
        write(folder / REPORT, {"reason": requests.make_one.endless(), "kind": "endless"})
        os._exit(0)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, patience * len(requests.paths))
    first, answers = requests.record()
    wrong = requests.status and {reply["status"] for reply in answers} != {requests.status}
    signal.setitimer(signal.ITIMER_REAL, 0)
    requests.make_one.start_threads()
    alone = list[list[Reply]]()
    seconds = memory.seconds_of(lambda: alone.append(requests.describe()), 1)
    slow = seconds > _SLOW
    warm, number = (0, 1) if slow else (_WARM, ROUNDS)
    alone += [requests.describe() for _ in range(warm)]
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()  # no round has the finalizers of another one
    rounds, replies = zip(*(requests.record() for _ in range(number)), strict=True)
    if enabled:
        gc.enable()
    paths, recorder = len(requests.paths), requests.recorder
    each = (seconds if slow else memory.seconds_of(requests.make_each, warm)) / paths
    alone += [requests.describe() for _ in range(warm)]
    # What only the first round imports counts as if each did, so that it can be compared.
    imports = [("first import", text, at) for kind, text, at in first.events if kind == "import"]
    seen = activity(
        [round_._replace(events=[*imports, *round_.events]) for round_ in rounds],
        paths=requests.paths,
        answers=[*zip(*replies, strict=True)],
        alone=[*zip(*alone, strict=True)],
        loaded=recorder.loaded,
        seconds=each,
        unseen=recorder.unseen,
        plans=recorder.plans,
        status=requests.status,
        routes=sys.modules["duetbench_entry"].routes() if wrong else (),
    )
    if each * paths > budget / _FEWEST:
        return seen.fields
    # What is known stays if the application does not survive the rest.
    write(folder / REPORT, seen.fields)
    memory_kept: Any = None
    with suppress(BaseException):
        memory_kept = memory.kept(requests.make_each, paths, budget, recorder.file)
    return replace(seen, kept=memory_kept, loaded=recorder.loaded).fields


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

    def describe(self) -> list[Reply]:
        """Request each path once, and describe the answers, which may be long."""
        return [_described(self.make_one()) for _ in self.paths]

    def make_each(self) -> None:
        """Request each path once, and keep none of the answers meanwhile."""
        for _ in self.paths:
            self.make_one()

    def record(self) -> tuple[Round, list[Reply]]:
        """Request each path once, and return what that did, with the answers."""
        tasks, threads = len(self._tasks()), threading.active_count()
        self.recorder.on()
        try:
            answers = [self.make_one() for _ in self.paths]
        finally:
            round_ = self.recorder.off()
        left: list[Event] = [("tasks left", "", "")] * (len(self._tasks()) - tasks)
        left += [("threads left", "", "")] * (threading.active_count() - threads)
        return round_._replace(events=[*round_.events, *left]), [*map(_described, answers)]

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks(self.driver.loop) if self.driver else set()

    def _waiting(self) -> list[asyncio.Task[Any]]:
        """The tasks of the application, the one that serves the request first."""
        server = [self.driver.server] if self.driver else []
        return [*server, *self._tasks().difference(server)]


def _described(answer: Answer) -> Reply:
    status, headers, body = answer
    for text, name in private.items():
        body = body.replace(text.encode(), name.encode())
    return describe(status, to_texts(headers), body, checkout(), hider(private))


if __name__ == "__main__":
    run(_report)
