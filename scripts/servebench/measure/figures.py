"""What was seen while load was on, and what follows from it: the figures and the flags."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from servebench.core.flags import Flag, FlagName
from servebench.core.formula import NO_UNIT
from servebench.core.model import Case
from servebench.declare.servers import SERVERS
from servebench.host import machine, ports, resource_usage
from servebench.measure import identity, oha, oha_results, validity, warmup
from servebench.measure.server import Serving
from servebench.measure.testbed import Rig


@dataclass(frozen=True, slots=True)
class Observation:
    """What a measurement saw, before anything is concluded from it.

    Usage, host and memory span from before the load until its last answer; `connections` are per
    process in the middle of it (empty: nobody looked); `opened` are those that clients opened,
    `checks` of them for spot checks; `handled` is the server's own count.
    """

    result: oha.LoadResult
    usage: resource_usage.Usage
    host: resource_usage.HostUsage
    memory: resource_usage.Memory
    pids_before: frozenset[int]
    pids_after: frozenset[int]
    connections: dict[int, int]
    warm_up: warmup.WarmUp
    handled: int | None
    opened: int
    checks: int = 0


class Watch:
    """Looks at a server and its generator, from before the first request on.

    `load` starts the generator, `end` follows its last answer, `observation` tells what was seen.
    """

    def __init__(
        self, serving: Serving, tree: resource_usage.TreeSampler, warm_up: warmup.WarmUp
    ) -> None:
        serving.require_ours()
        self.serving, self.tree, self.warm_up = serving, tree, warm_up
        self.earlier = ports.clients(serving.port)
        self.host, self.before = resource_usage.host_edge(), tree.edge()

    @contextmanager
    def load(self, *, count: bool = True) -> Iterator[oha.Generation]:
        """Offer the load, `count` connections in the middle of it, and check answers meanwhile."""
        serving, load = self.serving, self.serving.case.load
        counted: AbstractContextManager[dict[int, int]] = (
            serving.connections(load.duration / 2) if count else nullcontext({})
        )
        with (
            oha.Generation.start(
                serving.rig.oha, load, serving.url, cores=serving.client_cores
            ) as self.generation,
            counted as self.connections,
            serving.spot_checks(self.warm_up) as self.checks,
        ):
            yield self.generation

    def end(self) -> None:
        """The last request has ended. All checks must, too, before anything else is read."""
        self.checks.end()
        self.after = self.tree.edge()
        self.used = resource_usage.host_between(self.host, resource_usage.host_edge())
        seconds = time.monotonic() - self.before.at
        self.opened = len(ports.clients(self.serving.port, seconds) - self.earlier)

    def observation(
        self, result: oha.LoadResult, handled: Callable[[], int | None] = lambda: None
    ) -> Observation:
        """What was seen beside the result; LaunchError if the server died or is not alone."""
        before, after = self.before, self.after
        memory = self.tree.memory(before.at, after.at)
        self.serving.require_alive()
        self.serving.require_ours()
        self.serving.heed(self.checks)
        return Observation(
            result=result,
            usage=resource_usage.between(before, after),
            host=self.used,
            memory=memory,
            pids_before=frozenset(process.pid for process in before.processes),
            pids_after=frozenset(process.pid for process in after.processes),
            connections=dict(self.connections),
            warm_up=self.warm_up,
            handled=handled(),
            opened=self.opened,
            checks=self.checks.asked,
        )


@dataclass(frozen=True, slots=True)
class Beside:
    """What else of ours worked at the same time, in cores; `client` on the same client cores."""

    server: float = 0.0
    client: float = 0.0


ALONE = Beside()


def conclude(
    case: Case,
    rig: Rig,
    seen: Observation,
    *,
    workers: tuple[identity.Identity, ...],
    unit: float,
    ready_time: float,
    sizes: Iterable[int] = (),
    beside: Beside = ALONE,
) -> tuple[dict[str, float], tuple[Flag, ...]]:
    """Compute the metrics of a measurement, and all flags that they call for.

    `unit` is the fastest single request to the idle server, `ready_time` from the server's start
    until every worker had answered (s); `sizes` are the bytes of bodies that verification found
    right.
    """
    status = case.endpoint.expect.status
    figures = oha_results.figures(
        seen.result.rows, seen.result.summary, case.load,
        status=status, floor=case.endpoint.floor,
    )  # fmt: skip
    figures |= _costs(figures, seen, beside)
    figures["connections_reopened"] = max(0, seen.opened - seen.checks - case.load.connections)
    figures |= {"ready_time": ready_time, "unit_service": unit, "warm_up": seen.warm_up.seconds}
    held = _by_worker(seen.connections, workers)
    if any(held):
        figures["connections_max_share"] = max(held) / sum(held)
    ceiling, sure = (rig.ceiling(case, one) for one in (unit, NO_UNIT))
    if ceiling is not None:
        figures["ceiling"] = ceiling
        if "throughput" in figures:
            figures["efficiency"] = figures["throughput"] / ceiling
    judged = validity.judge(
        validity.Facts(
            case=case,
            figures=figures,
            ceiling=sure,
            ceiling_unit=ceiling if ceiling != sure else None,
            server_cores=len(rig.server_cores(case)),
            client_cores=len(rig.client_cores(case)),
            client_beside=beside.client,
            pinned=rig.machine.pinned,
            pids_before=seen.pids_before,
            pids_after=seen.pids_after,
            connections=held,
            steady=seen.warm_up.steady,
            backpressure=SERVERS[case.server].backpressure(case.workers),
            server_handled=seen.handled,
            client_total=seen.result.summary.answered + seen.checks,
            right_sizes=frozenset(sizes),
            sizes=oha_results.sizes(seen.result.rows, status),
            throughputs=(
                # In a duet only the ratio has to be steady.
                oha_results.throughput_thirds(seen.result.rows, case.load, status=status)
                if beside is ALONE
                else ()
            ),
            times=oha_results.time_thirds(seen.result.rows, case.load, status=status),
        )
    )
    changes = machine.environment_changes(rig.machine, machine.fingerprint())
    changed = (Flag(name=FlagName.ENV_CHANGED, detail=change) for change in changes)
    return figures, (*judged, *changed)


def _costs(figures: dict[str, float], seen: Observation, beside: Beside) -> dict[str, float]:
    usage, result, memory, host = seen.usage, seen.result, seen.memory, seen.host
    found: dict[str, float] = {
        # The whole load, with the drain after the deadline: its answers cost core time as well.
        "server_cores": usage.cpu_seconds / result.seconds,
        "rss_steady": memory.rss.steady,
        "threads_peak": memory.threads_peak,
        "host_steal": host.steal_share,
    }
    if requests := figures.get("requests", 0) + seen.checks:
        found |= {
            "server_cpu_per_request": usage.cpu_seconds / requests,
            "switches_voluntary": usage.voluntary / requests,
            "switches_involuntary": usage.involuntary / requests,
        }
    if result.client_cores is not None:
        found["client_cores"] = result.client_cores
        ours = usage.cores + result.client_cores + beside.server + beside.client
        found["host_other"] = max(0.0, host.busy_cores - host.harness_cores - ours)
    if result.began is not None:
        grown = oha_results.growth(memory.course, result.rows.end, result.began)
        if grown is not None:
            names = ("memory_per_request", "memory_per_request_low", "memory_per_request_high")
            found |= zip(names, grown, strict=True)
    if memory.pss is not None:
        pss = memory.pss
        found |= {"pss_idle": pss.idle, "pss_steady": pss.steady, "pss_peak": pss.peak}
    if memory.uss is not None:
        found["uss_steady"] = memory.uss.steady
    return found


def _by_worker(
    connections: dict[int, int], workers: tuple[identity.Identity, ...]
) -> tuple[int, ...]:
    """Connections of each worker process; none where workers share a process."""
    pids = {worker.pid for worker in workers}
    if len(pids) < len(workers) or not connections:
        return ()
    return tuple(connections.get(pid, 0) for pid in sorted(pids))
