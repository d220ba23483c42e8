"""A duet: the servers of both sides alive together, loaded at the same time; the sample is a ratio.

What disturbs the machine meanwhile disturbs both sides alike and leaves their ratio (Bulej et al.,
Duet Benchmarking, ICPE 2020, arXiv 2001.05811). Both servers share the server cores, both
generators the client cores; who starts first changes from duet to duet. Core time is read for both
trees before the first request and after the last answer of either.

Memory is shared: the two servers map the same files, and each counts for half of such a page (PSS),
or not at all (USS), while the other lives: a tenth of the PSS of FastAPI's json. So the server that
ends last is read once more when it is alone; what it gained then is added to both sides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servebench.core.errors import LaunchError
from servebench.core.flags import Flag
from servebench.core.model import Case, Load
from servebench.core.protocol import DUET_SECONDS, DUET_WARM_UP, DUET_WAVES, UNIT_REQUESTS
from servebench.host import resource_usage
from servebench.measure import figures, warmup
from servebench.measure.oha_results import Rows
from servebench.measure.server import Serving
from servebench.measure.testbed import Rig
from servebench.record.comparison import SideName

_POLL_SECONDS: Final = 0.02
_SHARED: Final = {"pss_idle": "pss", "pss_steady": "pss", "pss_peak": "pss", "uss_steady": "uss"}
"""Metrics that the other side's server makes smaller, with what they are made of."""


@dataclass(frozen=True, slots=True)
class DuetOutcome:
    """What one duet gave: flags of each side, and figures of both sides or of none; times in s."""

    flags: dict[SideName, tuple[Flag, ...]]
    metrics: dict[SideName, dict[str, float]]
    seconds: float
    load_seconds: float


def perform(
    base: SideCase,
    head: SideCase,
    log: Callable[[SideName], Path],
    *,
    head_first: bool,
    seconds: float = DUET_SECONDS,
) -> DuetOutcome:
    """Play one duet with closed loads of at least `seconds` s.

    Output of a side's server goes to the file `log(side)`. InterruptedRun from the signal handler
    leaves nothing running.
    """
    began = time.monotonic()
    shared = duet_load(head.case, seconds)
    sides = (SideRun("base", base, log("base"), shared), SideRun("head", head, log("head"), shared))
    _Duet(sides[::-1] if head_first else sides).run()
    void = any(side.failed for side in sides)
    return DuetOutcome(
        flags={side.name: tuple(side.serving.flags) for side in sides},
        metrics={side.name: {} if void else side.metrics for side in sides},
        seconds=time.monotonic() - began,
        load_seconds=max(side.load_seconds for side in sides),
    )


def settled(one: Rows, other: Rows, duration: float) -> bool:
    """Tell whether the ratio of the throughputs moved by at most 5 % between a load's halves.

    Both sides may still get quicker: as long as they do so together, their ratio is what it is.
    """
    sides = (one, other)
    first = [int((rows.end <= duration / 2).sum()) for rows in sides]
    second = [int((rows.end <= duration).sum()) - n for rows, n in zip(sides, first, strict=True)]
    if not min(*first, *second):
        return False
    moved = (second[1] / second[0]) / (first[1] / first[0])
    return abs(math.log(moved)) <= math.log1p(warmup.STEADY_SPREAD)


def unshared(
    metrics: Mapping[str, float],
    beside: resource_usage.MemorySample,
    alone: resource_usage.MemorySample,
) -> dict[str, float]:
    """Memory of a side as it would be without the other side's server, bytes by metric.

    `beside` and `alone` are of either side's server, at the end of the duet and right after it.
    """
    found = {}
    for name, kind in _SHARED.items():
        before, after = getattr(beside, kind), getattr(alone, kind)
        if name in metrics and alone.pids and before is not None and after is not None:
            found[name] = metrics[name] + (after - before)
    return found


@dataclass(frozen=True, slots=True)
class SideCase:
    """A case as one side defines it, with the rig that it is launched on."""

    case: Case
    rig: Rig


def server_of(case: Case) -> Hashable:
    """What the case's server is started with; cases for which it is equal can share one."""
    app, variables = case.endpoint, tuple(sorted(case.env.items()))
    return (
        case.experiment, case.stack, case.python, case.server, app.app, app.interface,
        case.loop, case.workers, case.threads, case.cores, variables,
    )  # fmt: skip


def duet_load(case: Case, seconds: float = DUET_SECONDS) -> Load:
    """The load of a case in a duet: as declared, but for a closed loop's duration.

    Rates keep their duration too: the connections of an open load follow from it.
    """
    if case.load.rate is not None:
        return case.load
    slowest = max(case.endpoint.takes, case.endpoint.floor)
    return case.load.model_copy(update={"duration": max(seconds, DUET_WAVES * slowest)})


class SideRun:
    """One side under way. What goes wrong inside of `blamed` is noted as this side's failure."""

    def __init__(self, name: SideName, launched: SideCase, log: Path, shared: Load) -> None:
        self.name = name
        self.case = launched.case.model_copy(update={"load": shared})
        self.serving = Serving(self.case, launched.rig, log)
        self.load_seconds = 0.0
        self.warm_up = warmup.WarmUp(0.0, (), steady=False)
        self.metrics: dict[str, float] = {}

    @property
    def failed(self) -> bool:
        return self.serving.failed

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Note a failure as this side's, and go on behind the block."""
        try:
            yield
        except LaunchError as error:
            self.serving.explain(error)
            self.serving.fail(error.flag, error.detail)
        except Exception as error:
            # One duet must not end the comparison, not even by a mistake of ours.
            self.serving.fail_by_mistake(error)

    def meet(self) -> None:
        self.serving.await_ready()
        self.serving.meet()


class _Duet:
    """One duet under way; `run` is the protocol, the other methods are its steps."""

    def __init__(self, order: tuple[SideRun, ...]) -> None:
        self.order = order
        self.beside: resource_usage.MemorySample | None = None

    def run(self) -> None:
        """Start, verify, warm up, measure, verify, stop: each step on both sides."""
        first, second = self.order
        with ExitStack() as stack:
            stack.callback(self._end, first)
            stack.callback(self._unshare, first)  # when the other has ended
            stack.callback(self._end, second)
            self._each(lambda side: side.serving.start())
            self._each(SideRun.meet)
            # Each side is questioned even if the other has failed: is it only the other?
            self._each(lambda side: side.serving.verify(UNIT_REQUESTS))
            seen = self._measure() if self._warm_up() else None
            if seen is not None:
                self._each(lambda side: self._finish(side, seen))
                self.beside = resource_usage.memory_of(first.serving.session)

    def _each(self, step: Callable[[SideRun], None]) -> None:
        for side in self.order:
            if not side.failed:
                with side.blamed():
                    step(side)

    @property
    def _void(self) -> bool:
        return any(side.failed for side in self.order)

    def _end(self, side: SideRun) -> None:
        """Stop the server; a bad stop is a failure, unless the duet is void anyway."""
        if self._void:
            side.serving.abandon()
            return
        try:
            side.serving.stop()
        except LaunchError as error:
            side.serving.fail(error.flag, error.detail)

    def _unshare(self, last: SideRun) -> None:
        if self.beside is None or self._void:
            return
        with last.blamed():
            alone = resource_usage.memory_of(last.serving.session)
            for side in self.order:
                side.metrics |= unshared(side.metrics, self.beside, alone)

    def _warm_up(self) -> bool:
        """Warm up both at once, slow ones by one full wave; False if an answer was not good."""
        wave = self._slow()
        with ExitStack() as stack:
            bursts: dict[SideRun, warmup.Burst] = {}
            for side in self.order:
                with side.blamed():
                    if not self._void:
                        requests = warmup.wave_size(side.case) if wave else 0
                        seconds = 0.0 if wave else DUET_WARM_UP
                        bursts[side] = stack.enter_context(
                            warmup.Burst(side.serving.client, seconds=seconds, requests=requests)
                        )
            for side, burst in bursts.items() if not self._void else ():
                with side.blamed():
                    side.warm_up = burst.collect()
        return not self._void

    def _slow(self) -> bool:
        return any(side.serving.slow for side in self.order)

    def _measure(self) -> dict[SideRun, figures.Watch] | None:
        """Load both sides at once and look at everything together; None if one failed."""
        watches: dict[SideRun, figures.Watch] = {}
        with ExitStack() as stack:

            def watch(side: SideRun) -> None:
                tree = stack.enter_context(resource_usage.TreeSampler(side.serving.session))
                watches[side] = figures.Watch(side.serving, tree, side.warm_up)

            def offer(side: SideRun) -> None:
                stack.enter_context(watches[side].load(count=side.case.workers > 1))

            def observe(side: SideRun) -> None:
                result = watches[side].generation.collect()
                side.load_seconds = result.summary.seconds
                watches[side].keep(result)

            for step in (watch, offer):
                self._each(step)
                if self._void:
                    return None
            if not self._await_loads(watches):
                return None
            for one in watches.values():
                one.checks.end()
            for one in watches.values():
                one.end()
            self._each(observe)
        if self._void:
            return None
        # Waves are too few, and rates too low, to tell one half from the other.
        load = self.order[0].case.load
        if not self._slow() and load.rate is None:
            rows, others = (one.result.rows for one in watches.values())
            steady = settled(rows, others, load.duration)
            for one in watches.values():
                one.warm_up = replace(one.warm_up, steady=steady)
        return watches

    def _await_loads(self, watches: Mapping[SideRun, figures.Watch]) -> bool:
        """Wait until both loads are over; returns False as soon as either side has failed."""
        pending = list(self.order)
        while pending and not self._void:
            for side in tuple(pending):
                with side.blamed():
                    side.serving.require_alive()
                    if watches[side].generation.over():
                        pending.remove(side)
            if pending and not self._void:
                watches[pending[0]].generation.session.wait(_POLL_SECONDS)
        return not self._void

    def _finish(self, side: SideRun, seen: Mapping[SideRun, figures.Watch]) -> None:
        (other,) = (watch for one, watch in seen.items() if one is not side)
        beside = figures.Beside(server=other.usage.cores, client=other.result.client_cores or 0.0)
        side.metrics = figures.finish(seen[side], beside)
