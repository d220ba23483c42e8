"""A duet: the servers of both sides alive together, loaded at the same time; the sample is a ratio.

Whatever disturbs the machine meanwhile disturbs both sides alike, and leaves their ratio (Bulej et
al., Duet Benchmarking: Improving Measurement Accuracy in the Cloud, ICPE 2020, arXiv 2001.05811).

Both servers share the server cores, both generators the client cores. What one side gets while it
is alone, in the few milliseconds between the two starts, the other gets at the end, since both
loads are equally long; who starts first changes from duet to duet. Core time is read for both trees
before the first request and after the last answer of either.

Memory is shared: the two servers map the same files, and each counts for half of such a page (PSS),
or not at all (USS), while the other lives. On FastAPI's json that is a tenth of the PSS, by which
every ratio would be too far from 1. So the server that ends last is read once more when it is
alone; what it gained then is added to both sides, which share alike.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servebench import load, observation, ports, sampler, warmup
from servebench.compare.model import SideName
from servebench.compare.player import Part, Player, duet_load
from servebench.flags import Flag
from servebench.protocol import DUET_SECONDS, SLOW_SECONDS
from servebench.rows import Rows, Summary

_POLL_SECONDS: Final = 0.02
_SHARED: Final = {
    "pss_idle": "pss",
    "pss_steady": "pss",
    "pss_peak": "pss",
    "uss_steady": "uss",
}
"""Metrics that the other side's server makes smaller, with what they are made of."""


@dataclass(frozen=True, slots=True)
class DuetOutcome:
    """What one duet gave: figures of both sides, or of none.

    Attributes:
        flags: Of each side.
        metrics: Of each side; empty on both if either has a fail flag.
        seconds: Wall time of the whole duet.
        load_seconds: Wall time in which measured load was applied.
    """

    flags: dict[SideName, tuple[Flag, ...]]
    metrics: dict[SideName, dict[str, float]]
    seconds: float
    load_seconds: float


def perform(
    base: Part,
    head: Part,
    log: Callable[[SideName], Path],
    *,
    head_first: bool,
    seconds: float = DUET_SECONDS,
) -> DuetOutcome:
    """Play one duet.

    Args:
        base: What base launches.
        head: What head launches.
        log: File for the output of a side's server.
        head_first: Whether head's server is started, questioned and loaded before base's.
        seconds: Least duration of a closed load, s.

    Raises:
        InterruptedRun: From the signal handler; nothing is left running.
    """
    began = time.monotonic()
    shared = duet_load(head.case, seconds)
    players = (
        Player("base", base, log("base"), shared),
        Player("head", head, log("head"), shared),
    )
    _Duet(players[::-1] if head_first else players).run()
    void = any(player.failed for player in players)
    return DuetOutcome(
        flags={player.name: tuple(player.serving.flags) for player in players},
        metrics={player.name: {} if void else player.metrics for player in players},
        seconds=time.monotonic() - began,
        load_seconds=max(player.load_seconds for player in players),
    )


def settled(base: Rows, head: Rows, duration: float) -> bool:
    """Tell whether the ratio of the throughputs moved by at most 5 % between a load's halves.

    Both sides may still get quicker: as long as they do so together, their ratio is what it is.

    Args:
        base: Answers of base.
        head: Answers of head.
        duration: Of the load, s.
    """
    firsts, seconds = zip(*(_halves(rows, duration) for rows in (base, head)), strict=True)
    if min(*firsts, *seconds) == 0:
        return False
    moved = (seconds[1] / seconds[0]) / (firsts[1] / firsts[0])
    return abs(math.log(moved)) <= math.log1p(warmup.STEADY_SPREAD)


def unshared(
    metrics: Mapping[str, float], beside: sampler.MemorySample, alone: sampler.MemorySample
) -> dict[str, float]:
    """Memory of a side as it would be without the other side's server, bytes by metric.

    Args:
        metrics: Of the side, while both lived.
        beside: The memory of either side's server, at the end of that.
        alone: The same server's right after, without the other.
    """
    gained = {
        kind: after - before
        for kind, before, after in (
            ("pss", beside.pss, alone.pss),
            ("uss", beside.uss, alone.uss),
        )
        if alone.processes and before is not None and after is not None
    }
    return {
        name: metrics[name] + gained[kind]
        for name, kind in _SHARED.items()
        if name in metrics and kind in gained
    }


def _halves(rows: Rows, duration: float) -> tuple[int, int]:
    """Answers in the first half of a load, and in the second."""
    first = int((rows.end <= duration / 2).sum())
    return first, int((rows.end <= duration).sum()) - first


class _VoidDuetError(Exception):
    """A side has failed: what the other does is of no use any more."""


class _Duet:
    """One duet under way; `run` is the protocol, the other methods are its steps."""

    def __init__(self, order: tuple[Player, ...]) -> None:
        self.order = order
        self.beside: sampler.MemorySample | None = None

    def run(self) -> None:
        """Start, verify, warm up, measure, verify, stop: each step on both sides."""
        first, second = self.order
        with ExitStack() as stack:
            stack.callback(self._end, first)
            stack.callback(self._unshare, first)  # when the other has ended
            stack.callback(self._end, second)
            try:
                self._each(Player.start)
                self._each(Player.await_ready)
                # Each side is questioned even if the other has failed: is it only the other?
                self._each(Player.verify)
                self._go_on()
                self._warm_up()
                seen = self._measure()
                self._each(lambda player: self._finish(player, seen))
                self.beside = sampler.memory_of(first.serving.session)
            except _VoidDuetError:
                pass

    def _each(self, step: Callable[[Player], None]) -> None:
        """Do a step on each side that is still well."""
        for player in self.order:
            if not player.failed:
                with player.blamed():
                    step(player)

    def _go_on(self) -> None:
        if any(player.failed for player in self.order):
            raise _VoidDuetError

    def _end(self, player: Player) -> None:
        player.end(in_order=not any(one.failed for one in self.order))

    def _unshare(self, last: Player) -> None:
        """Give both sides the memory that they have without each other."""
        if self.beside is None or any(player.failed for player in self.order):
            return
        with last.blamed():
            alone = sampler.memory_of(last.serving.session)
            for player in self.order:
                player.metrics |= unshared(player.metrics, self.beside, alone)

    def _warm_up(self) -> None:
        """Warm up both at the same time: slow ones by one full wave, others for some time."""
        wave = self._slow()
        for player, summary in self._bursts(wave=wave):
            windows = () if wave else (summary.answered / summary.seconds,)
            player.warm_up = warmup.WarmUp(summary.seconds, windows, steady=True)

    def _slow(self) -> bool:
        return any(max(p.unit, p.case.endpoint.floor) >= SLOW_SECONDS for p in self.order)

    def _bursts(self, *, wave: bool) -> list[tuple[Player, Summary]]:
        """Load both sides briefly at the same time; every answer must be good."""
        found: list[tuple[Player, Summary]] = []
        with ExitStack() as stack:
            running: list[tuple[Player, load.Burst]] = []
            for player in self.order:
                with player.blamed():
                    running.append((player, stack.enter_context(player.burst(wave=wave))))
            self._go_on()
            for player, burst in running:
                with player.blamed():
                    summary = burst.collect()
                    warmup.only_good(summary, player.case.endpoint.expect.status)
                    found.append((player, summary))
            self._go_on()
        return found

    def _measure(self) -> dict[SideName, observation.Observation]:
        """Load both sides at the same time, and look at everything at the same moments."""
        order = self.order
        with ExitStack() as stack:
            trees: dict[SideName, sampler.TreeSampler] = {}
            generators: dict[SideName, load.Generation] = {}
            for player in order:
                with player.blamed():
                    player.serving.require_ours()
                    tree = sampler.TreeSampler(player.serving.session)
                    trees[player.name] = stack.enter_context(tree)
            self._go_on()
            host = sampler.host_edge()
            earlier = {player.name: ports.clients(player.serving.port) for player in order}
            before = {name: tree.edge() for name, tree in trees.items()}
            for player in order:
                with player.blamed():
                    generators[player.name] = stack.enter_context(player.generate())
            self._go_on()
            connections = {player.name: self._connections(player, stack) for player in order}
            checks = {
                player.name: stack.enter_context(player.serving.spot_checks(player.warm_up))
                for player in order
            }
            self._await_loads(generators)
            for check in checks.values():
                check.end()
            after = {name: tree.edge() for name, tree in trees.items()}
            used = sampler.host_between(host, sampler.host_edge())
            clients = {
                player.name: ports.clients(
                    player.serving.port, time.monotonic() - before[player.name].at
                )
                for player in order
            }
            seen: dict[SideName, observation.Observation] = {}
            for player in order:
                name = player.name
                a, b = before[name], after[name]
                with player.blamed():
                    seen[name] = observation.Observation(
                        result=generators[name].collect(),
                        usage=sampler.between(a, b),
                        host=used,
                        memory=trees[name].memory(a.at, b.at),
                        pids_before=frozenset(process.pid for process in a.processes),
                        pids_after=frozenset(process.pid for process in b.processes),
                        connections=connections[name],
                        warm_up=player.warm_up,
                        handled=None,
                        opened=len(clients[name] - earlier[name]),
                        checks=checks[name].asked,
                    )
                    player.load_seconds = seen[name].result.seconds
                    player.serving.require_alive()
                    player.serving.require_ours()
                    player.serving.heed(checks[name])
        self._go_on()
        # Waves are too few, and rates too low, to tell one half from the other.
        if not self._slow() and order[0].case.load.rate is None:
            steady = settled(
                seen["base"].result.rows, seen["head"].result.rows, order[0].case.load.duration
            )
            for name, one in seen.items():
                warm_up = replace(one.warm_up, steady=steady)
                seen[name] = replace(one, warm_up=warm_up)
        return seen

    def _connections(self, player: Player, stack: ExitStack) -> dict[int, int]:
        """Count the connections per worker in the middle of the load, if there are several."""
        if player.case.workers == 1:
            return {}
        return stack.enter_context(player.serving.connections(player.case.load.duration / 2))

    def _await_loads(self, generators: dict[SideName, load.Generation]) -> None:
        """Wait until both loads are over, or either side has failed."""
        pending = list(self.order)
        while pending:
            for player in tuple(pending):
                with player.blamed():
                    player.serving.require_alive()
                    if generators[player.name].over():
                        pending.remove(player)
            self._go_on()
            if pending:
                generators[pending[0].name].session.wait(_POLL_SECONDS)

    def _finish(self, player: Player, seen: dict[SideName, observation.Observation]) -> None:
        """Verify once more, and conclude; what was wrong with the load comes first."""
        other = seen["head" if player.name == "base" else "base"]
        beside = observation.Beside(
            server=other.usage.cores, client=other.result.client_cores or 0.0
        )
        try:
            player.unit = min(player.unit, player.serving.verify(repeats=1))
        finally:
            player.metrics, flags = observation.conclude(
                player.case, player.rig, seen[player.name],
                workers=player.workers, unit=player.unit, ready_time=player.ready_time,
                sizes=player.serving.sizes, beside=beside,
            )  # fmt: skip
            player.serving.flags += flags
        player.serving.require_same(player.workers)
