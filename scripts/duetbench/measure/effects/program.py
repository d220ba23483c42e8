"""The program that makes requests while it records what they do.

Its targets are the requests of `duetbench.measure.inside.program`, and it needs what that needs.
Standard library only, for any CPython from 3.10 on.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from duetbench.measure.effects import memory
from duetbench.measure.effects.recorder import Recorder, clocked
from duetbench.measure.inside import checkout, program
from duetbench.measure.inside.drivers import AsgiDriver
from duetbench.measure.inside.program import Answer
from duetbench.measure.instructions.phases import PLAN, Unit, run

ROUNDS = 4
"""Times that each path is requested and recorded: what differs between them is not steady."""

SECONDS = "DUETBENCH_EFFECTS_SECONDS"
"""Variable with the seconds that the memory of each target may take."""

EARLY = "{}.early"
"""File beside the report with the target's index, which has the part without the memory."""

_WARM = 3  # rounds before, and beside the recorded ones: their answers must be the same
_SLOW = 0.5  # seconds of a round from which fewer are made
_COLLECTED = 20  # rounds in which the collector is watched
_PEAKS = 3
_LONGEST = 300_000  # bytes of an answer that are compared place by place


def prepare(target: str) -> Unit:
    """Prepare what observes a target; it returns the report."""
    return Unit(lambda: _Requests(target).report(), once=True, threads=True)


class _Requests:
    """Requests of one target, first recorded, and then measured."""

    def __init__(self, target: str) -> None:
        folder = str(checkout.checkout())
        plan = json.loads(Path(os.environ[PLAN]).read_text("utf-8"))
        early = EARLY.format(plan["targets"].index(target))
        self._early = Path(plan["reports"], early).absolute()
        self._recorder = Recorder(folder)
        request: Any
        if program.REQUEST in os.environ:
            request, self._paths = program.open_served(check=False)
        else:
            request, self._paths = program.prepare(target).call, ("",)
        self._request: Callable[[], Answer] = request
        self._driver = request if isinstance(request, AsgiDriver) else None
        self._recorder.waiting = self._waiting
        self._answers: dict[str, list[Answer]] = {path: [] for path in self._paths}
        self._alone: dict[str, list[Answer]] = {path: [] for path in self._paths}

    def report(self) -> dict[str, Any]:
        """Make all requests, and return what was seen, as JSON."""
        began = time.perf_counter()
        first = self._record()
        if self._driver is not None:
            self._driver.start_threads()
        took = time.perf_counter() - began
        slow = took > _SLOW
        for _ in range(1 if slow else _WARM):
            self._round(self._alone)
        enabled = gc.isenabled()
        gc.collect()
        gc.disable()  # a collection that begins now is one that the application asks for
        self._answers = {path: [] for path in self._paths}
        rounds = [self._record() for _ in range(2 if slow else ROUNDS)]
        if enabled:
            gc.enable()
        each = memory.seconds_of(lambda: self._round(self._alone), 1 if slow else _WARM)
        each /= len(self._paths)
        budget = float(os.environ.get(SECONDS, "1"))
        report = self._report(first, rounds, each)
        self._tell(report)
        if each * len(self._paths) <= budget / _COLLECTED:
            report["young"] = self._collections()
            report["peaks"] = memory.peaks(self._every, _PEAKS)
            paths, own = len(self._paths), self._recorder.file
            report["kept"] = memory.kept(self._request, paths, budget, self._line, own)
        return report

    def _report(
        self, first: dict[str, Any], rounds: Sequence[dict[str, Any]], each: float
    ) -> dict[str, Any]:
        """Describe what was seen of the requests, without their memory."""
        codes = {id(code): code for found in rounds for code in (*found["calls"], *found["codes"])}
        return {
            "paths": self._paths,
            "rounds": len(rounds),
            "imports": [e for e in first["events"] if e[0] == "import"],
            "events": [found["events"] for found in rounds],
            "calls": [sum(not clocked(code) for code in found["calls"]) for found in rounds],
            "names": self._names(rounds),
            "functions": [
                [getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno]
                for code in codes.values()
            ],
            "tasks": [found["tasks"] for found in rounds],
            "threads": [found["threads"] for found in rounds],
            "peaks": [0],
            "young": None,
            "kept": None,
            "answers": [[self._described(a) for a in self._answers[p]] for p in self._paths],
            "alone": [[self._described(a) for a in self._alone[p]] for p in self._paths],
            "unseen": self._recorder.unseen,
            "seconds": each,
        }

    def _tell(self, report: dict[str, Any]) -> None:
        """Write the report so far, for those who wait."""
        part = self._early.with_suffix(".part")
        part.write_text(json.dumps(report), "utf-8")
        part.replace(self._early)

    def _record(self) -> dict[str, Any]:
        """Request each path once, and return what that did."""
        tasks, threads = len(self._tasks()), threading.active_count()
        self._recorder.on()
        try:
            self._round(self._answers)
        finally:
            self._recorder.off()
        events, calls, codes = self._recorder.take()
        left = len(self._tasks()) - tasks
        return {
            "events": events,
            "calls": calls,
            "codes": codes,
            "tasks": left,
            "threads": threading.active_count() - threads,
        }

    def _round(self, answers: dict[str, list[Answer]]) -> None:
        for path in self._paths:
            answers[path].append(self._request())

    def _every(self) -> None:
        for _ in self._paths:
            self._request()

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks(self._driver.loop) if self._driver else set()

    def _waiting(self) -> list[asyncio.Task[Any]]:
        """The tasks of the application, the one that serves the request first."""
        if self._driver is None:
            return []
        server = self._driver.server
        return [server, *(self._tasks() - {server})]

    def _collections(self) -> list[int]:
        """Count the collections of young garbage in some requests: both counts."""
        before = gc.get_stats()[0]["collections"]
        for _ in range(_COLLECTED):
            self._every()
        return [gc.get_stats()[0]["collections"] - before, _COLLECTED * len(self._paths)]

    def _names(self, rounds: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """List the application's own functions, and how often each round calls them."""
        counts = [Counter(map(id, found["calls"])) for found in rounds]
        codes = {id(code): code for found in rounds for code in found["calls"]}
        return [
            [getattr(code, "co_qualname", code.co_name), file, [count[key] for count in counts]]
            for key, code in codes.items()
            if (file := self._recorder.file(code.co_filename))
        ]

    def _line(self, frames: Sequence[tuple[str, int]]) -> str:
        """Name the application's line of an allocation, or else the innermost one."""
        own = ((self._recorder.file(name), line) for name, line in frames)
        inner = frames[0] if frames else ("", 0)
        file, line = next((place for place in own if place[0]), inner)
        return f"{file.rpartition('site-packages/')[2]}:{line}" if file else ""

    def _described(self, answer: Answer) -> dict[str, Any]:
        status, headers, body = answer
        pairs = [
            [part.decode("latin-1") if isinstance(part, bytes) else part for part in header]
            for header in headers
        ]
        text = body[:_LONGEST].decode("utf-8", "replace")
        return {
            "status": status,
            "headers": [[name.lower(), value] for name, value in pairs],
            "length": len(body),
            "digest": hashlib.sha256(body).hexdigest()[:16],
            "body": text.replace(str(checkout.checkout()), "."),
            "cut": len(body) > _LONGEST,
        }


if __name__ == "__main__":
    run(prepare, program.preload)
