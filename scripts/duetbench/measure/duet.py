"""A duet: the servers of both sides run and are loaded at the same time; the sample is a ratio.

A disturbance of the machine slows both sides alike and leaves their ratio (Bulej et al., Duet
Benchmarking, ICPE 2020, arXiv 2001.05811). Both servers share the server cores, both generators the
client cores. Core time is read for both trees before the first request and after the last answer.

A duet is: verify → warm up → collect garbage → measure → verify, each step on both sides. Cases
that share a server are measured in turn on one launch of each side, as its start takes as long as a
duet. The servers are killed at the end: launches of one server test whether it stops on request.

Memory is shared: the two servers map the same files. While both live, each counts for half of such
a page (PSS): a tenth of the PSS of FastAPI's json. So the last server is read once more after the
other has ended, and what it gained is added to both sides' figures.
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from duetbench.core.errors import FlagName
from duetbench.core.metrics import CPU_IDLE, METRICS
from duetbench.core.model import Flag, Load
from duetbench.core.protocol import (
    DUET_QUEUE,
    DUET_SECONDS,
    DUET_WARM_UP,
    DUET_WAVES,
    LEAST_WAIT,
    SLOW_SECONDS,
    UNIT_REQUESTS,
    UNLIKE,
    below_saturation,
    bound_queue,
    duet_load,
)
from duetbench.core.units import utc_now
from duetbench.host import proc, tree_usage
from duetbench.measure import idle, launch, verify, warmup
from duetbench.measure.launch import Observation
from duetbench.measure.server import Serving
from duetbench.measure.testbed import SideCase, server_of
from duetbench.store.comparison import Duet, SideName

REPEATED: Final = 12
"""Requests that show how much of a waiting one is work: the first ones to a server are dearer."""

_POLL_SECONDS: Final = 0.02
_TWICE: Final = 1.6  # times a single request from which some at once are two waves
_LOOKS: Final = 50  # at a server that seems to wait
_LOOK_SECONDS: Final = 0.001  # between them, at least

_SHARED: Final = ("pss_idle", "pss_steady")  # metrics that the other side's server makes smaller


def perform(
    pairs: Sequence[tuple[SideCase, SideCase]],
    log: Callable[[SideName], Path],
    *,
    head_first: bool,
    order: int = 0,
    seconds: float = DUET_SECONDS,
) -> tuple[Duet, ...]:
    """Run a duet of each pair of base and head, with closed loads of at least `seconds` s.

    All run on one launch of each side, numbered from `order`. The first duet that fails is the
    last, unless only its answers were wrong. A side's server writes to the file `log(side)`.
    InterruptedRun leaves nothing running. Raises ValueError if cases cannot share a server.
    """
    began, started = time.monotonic(), utc_now()
    base, head = zip(*pairs, strict=True)
    loads = [duet_load(part.case, seconds) for part in head]
    sides = (SideRun("base", base, loads, log("base")), SideRun("head", head, loads, log("head")))
    results = _Duets(sides[::-1] if head_first else sides).run(len(pairs))
    common = (time.monotonic() - began - sum(result.seconds for result in results)) / len(results)
    return tuple(
        Duet(
            case=head[number].case.id,
            order=order + number,
            head_first=head_first,
            started=started,
            seconds=result.seconds + common,
            load_seconds=result.load_seconds,
            connections=result.connections,
            wait=None if result.void else result.wait,
            flags_base=tuple(result.flags["base"]),
            flags_head=tuple(result.flags["head"]),
            base={} if result.void else result.metrics["base"],
            head={} if result.void else result.metrics["head"],
        )
        for number, result in enumerate(results)
    )


def own_memory(
    metrics: Mapping[str, float],
    beside: tree_usage.MemorySample,
    alone: tree_usage.MemorySample,
) -> dict[str, float]:
    """Memory of a side without the effect of the other side's server, bytes by metric.

    `beside` and `alone` sample one server: at the end of the duet, and after the other's end.
    """
    if not alone.pids or beside.pss is None or alone.pss is None:
        return {}
    gain = alone.pss - beside.pss
    return {name: metrics[name] + gain for name in _SHARED if name in metrics}


class SideRun:
    """One side of a running duet."""

    def __init__(
        self, name: SideName, launched: Sequence[SideCase], loads: Sequence[Load], log: Path
    ) -> None:
        if len({server_of(part.case) for part in launched}) > 1:
            raise ValueError(f"{', '.join(part.case.id for part in launched)}: not of one server")
        self.name = name
        self._cases = [
            part.case.model_copy(update={"load": load})
            for part, load in zip(launched, loads, strict=True)
        ]
        self.serving = Serving(self._cases[0], launched[0].testbed, log)
        self.take(0)

    def take(self, number: int) -> None:
        """Switch to one of the cases, and reset everything that belongs to the previous one."""
        self._number = number
        self.serving.take(self._cases[number])
        self.warming = self.serving.case.load
        self.work = 0.0  # core time of a request to the idle server, s
        self.wait = 0.0  # rest of its time, in which neither server nor client computes, s
        self.blocked = 0.0  # of its time, in which further requests have to wait, s
        self.connections: int | None = None  # of its load, if fewer than declared
        self.warm_up = warmup.WarmUp(0.0, (), steady=False)
        self.metrics: dict[str, float] = {}

    def start(self, *, aside: bool) -> None:
        """Start the server; `aside`: on the client cores, which are idle before the load.

        That halves the time on two cores. Only on an equal number: servers may count their cores.
        """
        testbed, case = self.serving.testbed, self.serving.case
        here, there = testbed.server_cores(case), testbed.client_cores(case)
        self.serving.start(there if aside and len(there) == len(here) else here)

    def meet(self) -> None:
        """Wait until all workers serve, and pin the server to its own cores."""
        self.serving.meet()
        self.serving.open_idle()
        if self.serving.testbed.machine.pinned:
            self.serving.session.move(self.serving.testbed.server_cores(self.serving.case))

    def verify(self) -> None:
        """Check answers of the idle server, and measure the core time and the wait of one.

        The first request may import something, so a target that seems slow gets more requests.
        """
        serving, self.work, waited = self.serving, math.inf, math.inf
        tree = tree_usage.TreeSampler(serving.session.members)
        for repeats in (UNIT_REQUESTS, REPEATED):
            before, earlier = tree.edge(), len(serving.answers)
            # Single requests set no ceiling here, so slow ones need no repetition.
            serving.verify(1 if serving.slow else repeats)
            used = tree_usage.between(before, tree.edge()).cpu_seconds
            answers = serving.answers[earlier:]
            self.work = min(self.work, used / len(answers))
            waited = min(waited, *(answer.waited for answer in answers))
            self.wait = waited - self.work
            light = self.work * serving.case.load.connections <= DUET_QUEUE and not self.waits
            if light or serving.testbed.subject.fixed:
                return
        if self.waits:
            self.wait = min(self.wait, self._asleep() * (self.wait + self.work))
            # One more than it works on at once takes twice as long if they are answered in turn.
            single, case = self.wait + self.work, serving.case
            more = case.workers * (case.threads or 1) + 1
            with warmup.Burst(serving.client, requests=more) as burst:
                self.blocked = single * (burst.collect().seconds > _TWICE * single)

    def _asleep(self) -> float:
        """Share of some requests' time in which no thread of the server could run; 1 if unknown.

        Threads that a busy machine keeps from cores do not wait. How long they are kept tells less:
        several may be at once.
        """
        serving, looks = self.serving, list[bool]()
        pids = [process.pid for process in serving.session.members()]
        pause, timeout = max(_LOOK_SECONDS, self.wait / _LOOKS), serving.case.load.timeout

        def watch(connection: socket.socket) -> None:
            ends = time.monotonic() + timeout
            while time.monotonic() < ends and not select.select([connection], [], [], pause)[0]:
                asleep = not any(map(proc.runnable, pids))
                if not select.select([connection], [], [], 0)[0]:  # else it is not of this request
                    looks.append(asleep)

        for _ in range(REPEATED):
            if len(looks) < _LOOKS / 2:
                request, path = serving.request, serving.request.path
                where = f"{request.method} {path}"
                verify.ask(request, path, serving.port, where, timeout=timeout, watch=watch)
        return sum(looks) / len(looks) if looks else 1.0

    @property
    def waits(self) -> bool:
        """Whether its handler spends more time on waiting than on computing."""
        return self.wait > max(LEAST_WAIT, self.work)

    def shorten(self, sides: Sequence[SideRun]) -> None:
        """Choose a target's load by the slower of both sides: a wave of it fits, and no queue."""
        serving, case = self.serving, self.serving.case
        if not serving.testbed.subject.fixed:
            least = case.workers * (case.threads or 1)
            seconds = max(
                sum(side.work for side in sides)
                / min(len(serving.testbed.server_cores(case)), 2 * least),
                *(side.blocked / least for side in sides),
            )
            wave = max(side.work + max(0.0, side.wait) for side in sides)
            load = duet_load(case, max(case.load.duration, DUET_WAVES * wave))
            load = bound_queue(load, seconds, DUET_QUEUE, least)
            if load != case.load:
                self.offer(load)
                self.warming = bound_queue(load, seconds, DUET_WARM_UP, least)

    def offer(self, load: Load) -> None:
        """Measure under this load, which may have fewer connections than the declared one."""
        declared = self._cases[self._number].load.connections
        self.serving.offer(load)
        self.connections = load.connections if load.connections < declared else None


@dataclass(slots=True)
class _Result:
    """Result of one duet. The end of the servers can still add flags and figures."""

    flags: dict[SideName, list[Flag]]
    metrics: dict[SideName, dict[str, float]]
    seconds: float
    load_seconds: float
    connections: int | None
    wait: float | None

    @property
    def void(self) -> bool:
        return any(flag.kind == "void" for flags in self.flags.values() for flag in flags)


class _Duets:
    """The duets of one pair of launches; `run` is the protocol, the other methods are its steps."""

    def __init__(self, order: tuple[SideRun, ...]) -> None:
        self.order = order
        self.wait: float | None = None  # of a request, if the load leaves cores idle for waits, s
        self.beside: dict[SideName, tree_usage.MemorySample] = {}

    def run(self, number: int) -> list[_Result]:
        """Start both servers, run `number` duets or until one ends them, and end both."""
        results: list[_Result] = []
        with ExitStack() as stack:
            for side in self.order:
                stack.callback(self._end, side)
            self._each(lambda side: side.start(aside=side is self.order[1]))
            self._each(SideRun.meet)
            self._rest()
            while len(results) < number and not (results and self._over):
                results.append(self._duet(len(results)))
            self._unshare(results)
        return results

    def _rest(self) -> None:
        """Measure what both servers of a target use without requests.

        If that is next to nothing in a case's first duet, its later ones spend no time on it.
        """
        (testbed,) = (side.serving.testbed for side in self.order if side.name == "head")
        servings = [side.serving for side in self.order]
        case = servings[0].case.id
        if testbed.subject.fixed or case in testbed.quiet or self._void:
            return
        members = [serving.session.members for serving in servings]
        figures = idle.cpu(*members, wait=servings[0].session.wait)
        for serving, figure in zip(servings, figures, strict=True):
            serving.cpu_idle = figure
        if max(figures) <= METRICS[CPU_IDLE].least:
            testbed.quiet.add(case)

    def _duet(self, number: int) -> _Result:
        """Verify, warm up, measure, verify: each step on both sides."""
        began = time.monotonic()
        if number:
            for side in self.order:
                side.take(number)
        # Ask each side even if the other has failed: perhaps only the other fails.
        self._ask(SideRun.verify)
        self._compare_errors()
        self._each(lambda side: side.shorten(self.order))
        warm = self._warm_up()
        self.wait = self._lighten() if warm else None
        observations = self._measure() if warm else None
        if observations is not None:
            self._ask(lambda side: self._finish(side, observations))
            self._compare_errors()
            base, head = (side.serving for side in sorted(self.order, key=lambda s: s.name))
            if difference := verify.difference(base.answers, head.answers):
                head.fail(FlagName.ANSWERS_DIFFER, difference)
        return _Result(
            flags={side.name: side.serving.flags for side in self.order},
            metrics={side.name: side.metrics for side in self.order},
            seconds=time.monotonic() - began,
            load_seconds=max(side.serving.load_seconds for side in self.order),
            connections=self.order[0].connections,
            wait=self.wait,
        )

    def _lighten(self) -> float | None:
        """Leave cores idle for handlers that wait; return the longer wait, s, or None without one.

        The first duet of a case chooses the load for all of them, so that they are alike.
        """
        (testbed,) = (side.serving.testbed for side in self.order if side.name == "head")
        case = self.order[0].serving.case
        if case.id not in testbed.light:
            testbed.light[case.id] = self._light_connections()
        if (connections := testbed.light[case.id]) is None:
            return None
        load = case.load.model_copy(update={"connections": connections})
        self._each(lambda side: side.offer(load))
        return max(0.0, *(side.wait for side in self.order))

    def _light_connections(self) -> int | None:
        """Choose the connections of a load below saturation; None if the handlers compute.

        The warm-up, with all connections, shows what a request costs, and what a light load would
        hide: that one side serves fewer at once.
        """
        serving = self.order[0].serving
        case, testbed = serving.case, serving.testbed
        windows = [window for side in self.order for window in side.warm_up.windows] or [1.0]
        single = [side.work + max(0.0, side.wait) for side in self.order]
        explained = max(single) / min(single)  # by what a request takes alone
        unlike = max(windows) > UNLIKE * explained * min(windows)
        if unlike or testbed.subject.fixed or not any(side.waits for side in self.order):
            return None
        busy = sum(side.work / (side.work + max(0.0, side.wait)) for side in self.order)
        slots = case.workers * case.threads if case.threads else None
        return below_saturation(case.load, busy, len(testbed.server_cores(case)), slots)

    def _compare_errors(self) -> None:
        """Fail a side if it alone answers with an error: an error is no faster answer.

        If both do, each keeps its warning.
        """
        reports = [
            (side.serving, flag.detail)
            for side in self.order
            for flag in side.serving.flags
            if flag.name is FlagName.ERROR_INSIDE
        ]
        if len(reports) == 1 and not self._void:
            ((serving, detail),) = reports
            serving.fail(FlagName.WRONG_ANSWER, f"the other side answers without error; {detail}")

    def _each(self, step: Callable[[SideRun], None], *only: SideRun) -> None:
        for side in only or self.order:
            if not side.serving.failed:
                with side.serving.blamed():
                    step(side)

    def _ask(self, step: Callable[[SideRun], None]) -> None:
        """Ask both sides; at once if handlers only wait, as others would disturb each other."""
        if self.order[0].serving.case.endpoint.floor < SLOW_SECONDS:
            self._each(step)
            return
        # Daemons: an interrupt does not wait for them, and their servers are killed.
        threads = [
            threading.Thread(target=self._each, args=(step, side), daemon=True)
            for side in self.order
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def _void(self) -> bool:
        return any(side.serving.failed for side in self.order)

    @property
    def _over(self) -> bool:
        """Whether the launches cannot serve further cases: something beside answers went wrong."""
        flags = (flag for side in self.order for flag in side.serving.flags)
        # After a wrong answer, the server goes on with others.
        return any(f.kind == "void" and f.name is not FlagName.WRONG_ANSWER for f in flags)

    def _end(self, side: SideRun) -> None:
        with side.serving.blamed():
            side.serving.kill()

    def _unshare(self, results: Sequence[_Result]) -> None:
        """End one server, a dead one if there is one, and add what the other gains in memory."""
        last, other = sorted(self.order, key=lambda side: side.serving.ended)
        self._end(other)
        if last.name in self.beside:
            with last.serving.blamed():
                alone = tree_usage.memory_of(last.serving.session.members)
                for result in results:
                    for metrics in result.metrics.values():
                        metrics.update(own_memory(metrics, self.beside[last.name], alone))

    def _warm_up(self) -> bool:
        """Warm up both at once, slow ones by one full wave; False if an answer was wrong."""
        bursts: dict[SideRun, warmup.Burst] = {}
        edges: dict[SideRun, tree_usage.Edge] = {}
        trees = {
            side: tree_usage.TreeSampler(side.serving.session.members)
            for side in self.order
            if not side.serving.failed
        }
        with ExitStack() as stack:

            def begin(side: SideRun) -> None:
                client = replace(side.serving.client, load=side.warming)
                case = side.serving.case.model_copy(update={"load": side.warming})
                requests = warmup.wave_size(case) if self._slow() else 0
                seconds = 0.0 if requests else DUET_WARM_UP
                burst = warmup.Burst(client, seconds=seconds, requests=requests)
                edges[side] = trees[side].edge()
                bursts[side] = stack.enter_context(burst)

            def collect(side: SideRun) -> None:
                side.warm_up = bursts[side].collect()
                used = tree_usage.between(edges[side], trees[side].edge()).cpu_seconds
                for window in side.warm_up.windows:  # a busy server needs less for each
                    side.work = min(side.work, used / (window * side.warm_up.seconds))

            for step in (begin, collect):
                if not self._void:
                    self._each(step)
        return not self._void

    def _slow(self) -> bool:
        return any(side.serving.slow for side in self.order)

    def _measure(self) -> dict[SideRun, Observation] | None:
        """Load both sides at once and observe them together; None if one failed."""
        observations: dict[SideRun, Observation] = {}
        with ExitStack() as stack:

            def observe(side: SideRun) -> None:
                tree = stack.enter_context(side.serving.watch())
                observations[side] = Observation(side.serving, tree, side.warm_up)

            def offer(side: SideRun) -> None:
                stack.enter_context(observations[side].load(count=side.serving.case.workers > 1))

            for step in (lambda side: side.serving.collect(), observe, offer):
                self._each(step)
                if self._void:
                    return None
            if not self._await_loads(observations):
                return None
            for observation in observations.values():
                observation.checks.end()  # on both sides, before anything else is read
            for observation in observations.values():
                observation.end()
            self._each(lambda side: observations[side].collect())
        return None if self._void else observations

    def _await_loads(self, observations: Mapping[SideRun, Observation]) -> bool:
        """Wait until both loads are over; False as soon as either side has failed."""
        pending = list(self.order)
        while pending and not self._void:
            for side in tuple(pending):
                with side.serving.blamed():
                    side.serving.require_alive()
                    if observations[side].generation.over():
                        pending.remove(side)
            if pending and not self._void:
                observations[pending[0]].generation.session.wait(_POLL_SECONDS)
        return not self._void

    def _finish(self, side: SideRun, observations: Mapping[SideRun, Observation]) -> None:
        (other,) = (sample for key, sample in observations.items() if key is not side)
        neighbour = launch.Neighbour(
            other.usage.cores, other.generation.client_cores or 0.0, commands=other.commands
        )
        side.metrics = launch.finish(observations[side], neighbour)
        self.beside[side.name] = tree_usage.memory_of(side.serving.session.members)
