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
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from duetbench.app.testbed import SideCase
from duetbench.core.comparison import SIDES, Duet, SideName
from duetbench.core.errors import FlagName
from duetbench.core.model import Case, Load
from duetbench.host import tree_usage
from duetbench.load.launch import Observation, WarmUp
from duetbench.load.loads import (
    DUET_SECONDS,
    DUET_WARM_UP,
    DUET_WAVES,
    QUEUE_SECONDS,
    below_saturation,
    duet_load,
    in_time,
)
from duetbench.load.oha import WAVE_SECONDS, Burst
from duetbench.load.server import UNIT_REQUESTS, Serving

LEAST_WAIT: Final = 0.001
"""Seconds of an answer in which neither server nor client computes, from which its handler waits.
Less is the kernel's hand-over between them."""

REPEATED: Final = 12
"""Requests that show how much of a waiting one is work: the first ones to a server cost more."""

_TWICE: Final = 1.6  # times a single request from which some at once are two waves
_POLL_SECONDS: Final = 0.02
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
    InterruptedRun leaves nothing running. All cases have the same `server_of`.
    """
    began = time.monotonic()
    loads = [duet_load(head.case, seconds) for _, head in pairs]
    base, head = (
        SideRun(name, parts, loads, log(name))
        for name, parts in zip(SIDES, zip(*pairs, strict=True), strict=True)
    )
    results = _Duets(base, head, head_first=head_first).run()
    common = (time.monotonic() - began - sum(result["seconds"] for result in results)) / len(
        results
    )
    for number, result in enumerate(results, order):
        result |= {"order": number, "head_first": head_first}
        result["seconds"] += common
        if any(flag.kind == "void" for flag in (*result["flags_base"], *result["flags_head"])):
            result |= {"wait": None, "base": {}, "head": {}}
    return tuple(map(Duet.model_validate, results))


def own_memory(
    metrics: Mapping[str, float], beside: tree_usage.MemorySample, alone: tree_usage.MemorySample
) -> dict[str, float]:
    """Memory of a side without the effect of the other side's server, bytes by metric.

    `beside` and `alone` sample one server: at the end of the duet, and after the other's end.
    """
    if not alone.pids:
        return {}
    gain = alone.pss - beside.pss
    return {name: metrics[name] + gain for name in _SHARED if name in metrics}


class SideRun(Serving):
    """The server of one side of a running duet, with what its first requests showed."""

    burst: Burst
    warm_up: WarmUp

    def __init__(
        self, name: SideName, launched: Sequence[SideCase], loads: Sequence[Load], log: Path
    ) -> None:
        self.name = name
        self.beside: tree_usage.MemorySample | None = None  # at the end of the last duet
        self.cases = [
            part.case.model_copy(update={"load": load})
            for part, load in zip(launched, loads, strict=True)
        ]
        super().__init__(replace(launched[0], case=self.cases[0]), log)

    def take(self, case: Case) -> None:
        super().take(case)
        self.declared = case.load
        self.work = 0.0  # core time of a request to the idle server, s
        self.wait = 0.0  # rest of its time, in which neither server nor client computes, s
        self.blocked = 0.0  # of its time, in which further requests have to wait, s
        self.metrics: dict[str, float] = {}

    def probe(self) -> None:
        """Check answers of the idle server, and measure the core time and the wait of one.

        The first request may import something, so a target that seems slow gets more requests.
        """
        self.work = waited = math.inf
        for repeats in (UNIT_REQUESTS, REPEATED):
            before, earlier = self.edge(), len(self.answers)
            self.verify(1 if self.slow else repeats)
            answers, used = self.answers[earlier:], max(0.0, self.edge().cpu - before.cpu)
            self.work = min(self.work, used / len(answers))
            waited = min(waited, *(answer.waited for answer in answers))
            self.wait = waited - self.work
            light = self.work * self.case.load.connections <= QUEUE_SECONDS and not self.waits
            if light or self.testbed.subject.fixed:
                return
        if self.waits:
            # One more than it works on at once takes twice as long if they are answered in turn.
            single = self.wait + self.work
            with Burst(self.client, WAVE_SECONDS, self.least + 1) as burst:
                self.blocked = single * (burst.collect().seconds > _TWICE * single)

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

    def offer(self, load: Load) -> None:
        """Make the generator use this load from now on."""
        self.case = self.case.model_copy(update={"load": load})
        self.client = replace(self.client, load=load)

    def begin_warm_up(self, stack: ExitStack, *, slow: bool) -> None:
        """Start the requests of a warm-up; a wave of them if either side is slow."""
        seconds = WAVE_SECONDS if slow else DUET_WARM_UP
        self.burst = stack.enter_context(Burst(self.client, seconds, self.case.slots))

    def end_warm_up(self) -> None:
        with self.burst:
            warm = self.burst.collect()
        self.warm_up = WarmUp(warm.seconds, (warm.rate,), steady=True)


class _Duets:
    """The duets of one pair of launches; `run` is the protocol, the other methods are its steps."""

    def __init__(self, base: SideRun, head: SideRun, *, head_first: bool) -> None:
        self.sides = base, head
        self.order = (head, base) if head_first else (base, head)
        self.observed: dict[SideRun, Observation] = {}

    def run(self) -> list[dict[str, Any]]:
        """Start both servers, run the duets until one ends them, and end both.

        Returns fields of `Duet`; the end of the servers still adds flags and figures.
        """
        results: list[dict[str, Any]] = []
        with ExitStack() as stack:
            for side in self.order:
                stack.enter_context(side)
            self._each(SideRun.start)
            self._each(SideRun.meet)
            for cases in zip(*(side.cases for side in self.sides), strict=True):
                if results and self._over:
                    break
                if results:
                    for side, case in zip(self.sides, cases, strict=True):
                        side.take(case)
                results.append(self._duet())
            self._unshare(results)
        return results

    def _duet(self) -> dict[str, Any]:
        """Verify, warm up, measure, verify: each step on both sides."""
        began = time.monotonic()
        base, head = self.sides
        # Ask each side even if the other has failed: perhaps only the other fails.
        self._each(SideRun.probe)
        self._compare_errors()
        wait = self._choose_load()
        if self._measure():
            self._each(self._finish)
            self._compare_errors()
        connections = head.case.load.connections
        return {
            "case": head.case.id,
            "seconds": time.monotonic() - began,
            "connections": connections if connections < head.declared.connections else None,
            "wait": wait,
            "flags_base": base.flags,
            "flags_head": head.flags,
            "base": base.metrics,
            "head": head.metrics,
        }

    def _choose_load(self) -> float | None:
        """Choose a target's load by both sides; return the longer wait, s, if it leaves cores idle.

        A handler that computes gets as many connections as the slower side answers in time; one
        that mostly waits gets so few that cores stay idle, unless requests wait for each other.
        The first duet of a case chooses for all of them, so that they are alike.
        """
        testbed, case = self.sides[1].testbed, self.sides[1].case
        if self._void or testbed.subject.fixed:
            return None
        if case.id not in testbed.loads:
            testbed.loads[case.id] = self._load(len(self.sides[1].side.server_cores))
        load, light = testbed.loads[case.id]
        self._each(lambda side: side.offer(load))
        return max(0.0, *(side.wait for side in self.sides)) if light else None

    def _load(self, cores: int) -> tuple[Load, bool]:
        """Choose the load of a case, and whether it leaves cores idle."""
        case, least = self.sides[1].case, self.sides[1].least
        blocked = max(side.blocked for side in self.sides)
        computed = sum(side.work for side in self.sides) / min(cores, 2 * least)
        wave = max(side.single for side in self.sides)
        load = duet_load(case, max(case.load.duration, DUET_WAVES * wave))
        if load.rate is not None:
            return load, False
        number, few = in_time(max(computed, blocked / least), least), 0
        if not blocked and any(side.waits for side in self.sides):
            busy = sum(side.work / side.single for side in self.sides)
            few = below_saturation(busy, cores, case.workers * (case.threads or 0))
        number = min(load.connections, number, few or number)
        return load.model_copy(update={"connections": number}), few > 0

    def _measure(self) -> bool:
        """Warm up both sides at once, load both, and observe them together; False if one failed."""
        slow = any(side.slow for side in self.order)
        with ExitStack() as stack:
            return self._both(
                lambda side: side.begin_warm_up(stack, slow=slow),
                SideRun.end_warm_up,
                lambda side: side.require_same(collect=True),
                self._observe,
                lambda side: stack.enter_context(self.observed[side].load()),
                self._await_loads,
                lambda side: self.observed[side].end(),
                lambda side: self.observed[side].collect(),
            )

    def _observe(self, side: SideRun) -> None:
        tree = tree_usage.TreeSampler(side.session.members)
        self.observed[side] = Observation(side, tree, side.warm_up)

    def _finish(self, side: SideRun) -> None:
        (other,) = {*self.order} - {side}
        side.metrics = self.observed[side].finish(self.observed[other])
        side.beside = tree_usage.memory_of(side.session.members)

    def _await_loads(self, _side: SideRun) -> None:
        """Wait until both loads are over, or either side has failed."""
        pending = list(self.order)
        while pending and not self._void:
            for side in tuple(pending):
                with side.blamed():
                    side.require_running("it to live under load", FlagName.SERVER_DIED)
                    if self.observed[side].over():
                        pending.remove(side)
            if pending and not self._void:
                self.observed[pending[0]].generation.session.wait(_POLL_SECONDS)

    def _compare_errors(self) -> None:
        """Fail a side if it alone answers with an error: an error is no faster answer.

        If both do, each keeps its warning.
        """
        reports = [
            (side, flag.detail)
            for side in self.order
            for flag in side.flags
            if flag.name is FlagName.ERROR_INSIDE
        ]
        if len(reports) == 1 and not self._void:
            ((side, detail),) = reports
            side.fail(FlagName.WRONG_ANSWER, f"the other side answers without error; {detail}")

    def _each(self, step: Callable[[SideRun], object]) -> None:
        """Do a step on each side that has not failed, one after the other."""
        for side in self.order:
            if not side.failed:
                with side.blamed():
                    step(side)

    def _both(self, *steps: Callable[[SideRun], object]) -> bool:
        """Do steps on both sides, as long as none has failed; whether none has."""
        for step in steps:
            if not self._void:
                self._each(step)
        return not self._void

    @property
    def _void(self) -> bool:
        return any(side.failed for side in self.order)

    @property
    def _over(self) -> bool:
        """Whether the launches cannot serve further cases: something beside answers went wrong."""
        flags = (flag for side in self.order for flag in side.flags)
        # After a wrong answer, the server goes on with others.
        return any(f.kind == "void" and f.name is not FlagName.WRONG_ANSWER for f in flags)

    def _unshare(self, results: Sequence[Mapping[str, Any]]) -> None:
        """End one server, a dead one if there is one, and add what the other gains in memory."""
        last, other = sorted(self.order, key=lambda side: side.ended)
        with other.blamed():
            other.kill()
        if last.beside is not None:
            with last.blamed():
                alone = tree_usage.memory_of(last.session.members)
                for metrics in (result[side.name] for result in results for side in self.order):
                    metrics.update(own_memory(metrics, last.beside, alone))
