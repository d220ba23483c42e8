"""One side of a running duet: its server, how its handler behaves, and the load that follows.

A handler that computes gets as many connections as it answers in time; one that mostly waits gets
so few that cores stay idle. Single requests to the idle server tell which it is.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from duetbench.app.testbed import SideCase, server_of
from duetbench.core.comparison import SideName
from duetbench.core.model import Case, Load
from duetbench.core.protocol import (
    DUET_QUEUE,
    DUET_WARM_UP,
    DUET_WAVES,
    LEAST_WAIT,
    UNIT_REQUESTS,
    bound_queue,
    duet_load,
)
from duetbench.host import proc, tree_usage
from duetbench.load import reading, verify, warmup
from duetbench.load.server import Serving

REPEATED: Final = 12
"""Requests that show how much of a waiting one is work: the first ones to a server are dearer."""

_TWICE: Final = 1.6  # times a single request from which some at once are two waves
_LOOKS: Final = 50  # at a server that seems to wait
_LOOK_SECONDS: Final = 0.001  # between them, at least


class SideRun(Serving):
    """The server of one side of a running duet, with what its first requests showed."""

    def __init__(
        self, name: SideName, launched: Sequence[SideCase], loads: Sequence[Load], log: Path
    ) -> None:
        if len({server_of(part.case) for part in launched}) > 1:
            raise ValueError(f"{', '.join(part.case.id for part in launched)}: not of one server")
        self.name = name
        self.beside: tree_usage.MemorySample | None = None  # at the end of the last duet
        self.cases = [
            part.case.model_copy(update={"load": load})
            for part, load in zip(launched, loads, strict=True)
        ]
        super().__init__(self.cases[0], launched[0].testbed, log)

    def take(self, case: Case) -> None:
        super().take(case)
        self.declared = self.warming = case.load
        self.work = 0.0  # core time of a request to the idle server, s
        self.wait = 0.0  # rest of its time, in which neither server nor client computes, s
        self.blocked = 0.0  # of its time, in which further requests have to wait, s
        self.warm_up = warmup.WarmUp(0.0, (), steady=False)
        self.metrics: dict[str, float] = {}

    def begin(self, *, aside: bool) -> None:
        """Start the server; `aside`: on the client cores, which are idle before the load.

        That halves the time on two cores. Only on an equal number: servers may count their cores.
        """
        here, there = self.testbed.server_cores(self.case), self.testbed.client_cores(self.case)
        self.start(there if aside and len(there) == len(here) else here)

    def meet(self) -> None:
        """Wait until all workers serve, and pin the server to its own cores."""
        super().meet()
        if self.testbed.machine.pinned:
            self.session.move(self.testbed.server_cores(self.case))

    def probe(self) -> None:
        """Check answers of the idle server, and measure the core time and the wait of one.

        The first request may import something, so a target that seems slow gets more requests.
        """
        self.work = waited = math.inf
        for repeats in (UNIT_REQUESTS, REPEATED):
            before, earlier = self.edge(), len(self.answers)
            self.verify(1 if self.slow else repeats)
            used = tree_usage.between(before, self.edge()).cpu_seconds
            answers = self.answers[earlier:]
            self.work = min(self.work, used / len(answers))
            waited = min(waited, *(answer.waited for answer in answers))
            self.wait = waited - self.work
            light = self.work * self.case.load.connections <= DUET_QUEUE and not self.waits
            if light or self.testbed.subject.fixed:
                return
        if self.waits:
            self.wait = min(self.wait, self._asleep() * (self.wait + self.work))
            # One more than it works on at once takes twice as long if they are answered in turn.
            single = self.wait + self.work
            with warmup.Burst(self.client, requests=self.least + 1) as burst:
                self.blocked = single * (burst.collect().seconds > _TWICE * single)

    def _asleep(self) -> float:
        """Share of some requests' time in which no thread of the server could run; 1 if unknown.

        Threads that a busy machine keeps from cores do not wait. How long they are kept tells less:
        several may be at once.
        """
        looks: list[bool] = []
        pids = [process.pid for process in self.session.members()]
        pause, timeout = max(_LOOK_SECONDS, self.wait / _LOOKS), self.case.load.timeout

        def watch(connection: socket.socket) -> None:
            ends = time.monotonic() + timeout
            while time.monotonic() < ends and not reading.readable(connection, pause):
                asleep = not any(map(proc.runnable, pids))
                if not reading.readable(connection):  # else it is not of this request
                    looks.append(asleep)

        request, path = self.request, self.request.path
        for _ in range(REPEATED):
            if len(looks) < _LOOKS / 2:
                where = f"{request.method} {path}"
                verify.ask(request, path, self.port, where, timeout=timeout, watch=watch)
        return sum(looks) / len(looks) if looks else 1.0

    @property
    def least(self) -> int:
        """Requests that it works on at once, at least."""
        return self.case.workers * (self.case.threads or 1)

    @property
    def single(self) -> float:
        """Seconds of a request to the idle server."""
        return self.work + max(0.0, self.wait)

    @property
    def waits(self) -> bool:
        """Whether its handler spends more time on waiting than on computing."""
        return self.wait > max(LEAST_WAIT, self.work)

    def shorten(self, sides: Sequence[SideRun]) -> None:
        """Choose a target's load by the slower of both sides: a wave of it fits, and no queue."""
        case, least = self.case, self.least
        if not self.testbed.subject.fixed:
            cores = min(len(self.testbed.server_cores(case)), 2 * least)
            blocked = max(side.blocked for side in sides)
            seconds = max(sum(side.work for side in sides) / cores, blocked / least)
            wave = max(side.single for side in sides)
            load = duet_load(case, max(case.load.duration, DUET_WAVES * wave))
            load = bound_queue(load, seconds, DUET_QUEUE, least)
            if load != case.load:
                self.offer(load)
                self.warming = bound_queue(load, seconds, DUET_WARM_UP, least)
