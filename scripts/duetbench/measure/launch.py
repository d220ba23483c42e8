"""One launch: server start → verify → warm-up → measure → verify → stop.

It ends with figures, or with a fail flag and a reason, and leaves nothing running in either case.
Duets use the same observation under load, and derive figures and flags from it in the same way.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Launch, Status
from duetbench.core.protocol import SIZE_REQUESTS, SIZE_SECONDS, UNIT_REQUESTS
from duetbench.core.units import utc_now
from duetbench.host import machine, ports, tree_usage
from duetbench.measure import oha, oha_results, reading, validity, warmup
from duetbench.measure.server import Serving, rest
from duetbench.measure.testbed import Testbed
from duetbench.measure.verify import SpotChecks, right_sizes


def perform(
    case: Case,
    testbed: Testbed,
    log: Path,
    *,
    window: float = 1.0,
    number: int = 0,
    order: int = 0,
) -> Launch:
    """Do one launch; its server's output goes to `log`. Raises only `InterruptedRun`.

    `window` is that of the warm-up, s; `number` the launch's round, `order` its place in the run.
    """
    began, started = time.monotonic(), utc_now()
    metrics: dict[str, float] = {}
    with Serving(case, testbed, log) as serving, serving.blamed():
        serving.start()
        serving.meet()
        serving.open_idle()
        if not testbed.subject.fixed:
            rest(serving)
        serving.verify(repeats=UNIT_REQUESTS)
        metrics = finish(_measure(serving, window))
        serving.stop()  # after a good launch, a bad stop is its failure
    return Launch(
        case=case.id,
        round=number,
        order=order,
        started=started,
        seconds=time.monotonic() - began,
        status=Status.FAILED if serving.failed else Status.OK,
        flags=tuple(serving.flags),
        metrics={} if serving.failed else metrics,
    )


def _measure(serving: Serving, window: float) -> "Observation":
    with tree_usage.TreeSampler(serving.session.members) as tree:
        if serving.slow:  # one full wave; others warm up until they are steady
            requests = warmup.wave_size(serving.case, serving.case.load)
            with warmup.Burst(serving.client, requests=requests) as wave:
                warm = wave.collect()
        else:
            warm = warmup.warm_up(serving.client, window=window, limit=10 * window)
        serving.require_same(collect=True)
        observation = Observation(serving, tree, warm)
        with observation.load() as generation:
            generation.wait_load()
            observation.end()
            observation.collect()
        return observation


class Observation:
    """Observes a server and its generator, from before the first request until the last answer.

    `load` starts the generator, `end` follows its last answer, `collect` takes its result. Usage,
    host, memory and the cores that the case's `commands` used span that time. `connections` are
    per process in the middle of it (empty: not counted). `opened` are the connections that clients
    opened, spot checks included. `sizes` counts the answers of the right status by the bytes of
    their bodies.
    """

    def __init__(
        self, serving: Serving, tree: tree_usage.TreeSampler, warm_up: warmup.WarmUp
    ) -> None:
        serving.require_ours()
        self.serving, self.tree, self.warm_up = serving, tree, warm_up
        self._earlier = ports.clients(serving.port)
        self._host, self.before = machine.core_times(), serving.edge()
        self._commands = serving.workspace.cpu_seconds()

    @contextmanager
    def load(self) -> Iterator[oha.Generation]:
        """Run the load, count connections in the middle of it, and check answers meanwhile."""
        serving, case, windows = self.serving, self.serving.case, self.warm_up.windows
        checks = SpotChecks(
            serving.request,
            serving.port,
            timeout=case.load.timeout,
            cores=serving.client.cores,
            throughput=case.load.rate or (windows[-1] if windows else 0.0),
        )
        self.connections: dict[int, int] = {}
        with oha.Generation(serving.client) as self.generation, checks as self.checks:
            if case.workers > 1:
                self.generation.midway = self._count_connections
            yield self.generation

    def _count_connections(self) -> bool:
        serving = self.serving
        without = [connection.getsockname()[1] for connection in serving.idle]
        members = serving.session.members()
        counts = ports.connections_per_process(serving.port, members, without)
        self.connections.update(counts)
        return bool(counts)

    def end(self) -> None:
        """Read usage and host after the last request, and end the checks before that."""
        self.checks.end()
        self.after = self.serving.edge()
        self.usage = tree_usage.between(self.before, self.after)
        self.host = machine.core_times().since(self._host)
        used = self.serving.workspace.cpu_seconds() - self._commands
        self.commands = max(0.0, used) / self.usage.wall_seconds
        seconds = time.monotonic() - self.before.at
        self.opened = len(ports.clients(self.serving.port, seconds) - self._earlier)

    def collect(self) -> None:
        """Take the result; LaunchError if generator or server failed, or others use the port."""
        result, status = self.generation.collect(), self.serving.case.endpoint.expect.status
        self.serving.load_seconds = result.summary.seconds
        self.sizes = oha_results.sizes(result.rows, status)
        window = self.before.at, self.after.at
        self.memory, self.course = self.tree.metrics(*window), self.tree.course(*window)
        self.serving.require_running("it to live under load", FlagName.SERVER_DIED)
        self.serving.require_ours()
        if problem := self.checks.problem:  # the first wrong answer under load
            self.serving.fail(problem.flag, problem.detail)


def finish(observation: Observation, other: Observation | None = None) -> dict[str, float]:
    """Verify once more, and compute figures; LaunchError as `Serving.verify` and `require_same`.

    `other` observed our other server meanwhile, with its generator on the same client cores.
    """
    serving, sizes = observation.serving, observation.sizes
    try:
        serving.verify(repeats=1)
        right = right_sizes(serving.request, serving.answers) or sizes
        if others := sum(n for size, n in sizes.items() if size not in right):
            # Do they vary without a load, too, if asked as often as such an answer takes?
            often = SIZE_REQUESTS * sum(sizes.values()) // others
            serving.verify(max(UNIT_REQUESTS, min(often, int(SIZE_SECONDS / serving.unit))))
    finally:
        # A problem of the load explains why the server is not right after it.
        metrics = _conclude(observation, other)
    serving.require_same()
    return metrics


def _conclude(observation: Observation, other: Observation | None) -> dict[str, float]:
    """Compute the metrics of a measurement, and raise its flags."""
    serving, rows = observation.serving, observation.generation.rows
    case, testbed = serving.case, serving.testbed
    status, ours = case.endpoint.expect.status, [observation, *([other] if other else [])]
    figures = _figures(observation, ours)
    # Per worker process; unknown if workers share a process.
    pids = {worker.pid for worker in serving.workers}
    alone = observation.connections and len(pids) == len(serving.workers)
    flags = validity.judge(
        validity.Facts(
            case=case,
            figures=figures,
            server_cores=len(testbed.server_cores(case)),
            client_cores=len(testbed.client_cores(case)),
            commands=sum(one.commands for one in ours),
            client_beside=other.generation.client_cores or 0.0 if other else 0.0,
            pinned=testbed.machine.pinned,
            pids_before=frozenset(process.stat.pid for process in observation.before.processes),
            pids_after=frozenset(process.stat.pid for process in observation.after.processes),
            connections=tuple(observation.connections.get(pid, 0) for pid in sorted(pids) if alone),
            idle_lost=sum(map(reading.readable, serving.idle)),
            steady=observation.warm_up.steady,
            right_sizes=right_sizes(serving.request, serving.answers),
            sizes=observation.sizes,
            excerpts=observation.checks.excerpts,
            # In duets only the ratio is steady.
            throughputs=()
            if other
            else oha_results.throughput_thirds(rows, case.load, status=status),
            times=oha_results.time_thirds(rows, case.load, status=status),
        )
    )
    for flag in flags:
        serving.fail(flag.name, flag.detail)
    for change in machine.environment_changes(testbed.machine, machine.fingerprint()):
        serving.fail(FlagName.ENV_CHANGED, change)
    if ceiling := case.ceiling:
        figures["ceiling"] = ceiling
        if "throughput" in figures:
            figures["efficiency"] = figures["throughput"] / ceiling
    return {name: figures[name] for name in METRICS if name in figures}


def _figures(observation: Observation, ours: Sequence[Observation]) -> dict[str, float]:
    """Compute the metrics, and what only checks use; `ours` are all servers that ran meanwhile."""
    serving, result, used = observation.serving, observation.generation, observation.usage
    case, host, sent = serving.case, observation.host, observation.checks.sent
    figures = oha_results.figures(
        result.rows,
        result.summary,
        case.load,
        status=case.endpoint.expect.status,
        floor=case.endpoint.floor,
    )
    figures |= observation.memory
    figures |= {
        # The whole load, with the drain after the deadline: its answers cost core time too.
        "server_cores": used.cpu_seconds / result.summary.seconds,
        "host_steal": host.steal_share,
        "reopened": max(0, observation.opened - sent - case.load.connections),
        "ready_time": serving.ready_time,
        "import_time": serving.import_time,
        "unit_service": serving.unit,
        "warm_up": observation.warm_up.seconds,
    }
    if requests := figures["requests"] + sent:
        figures["server_cpu_per_request"] = used.cpu_seconds / requests
        figures["switches_voluntary"] = used.switches / requests
    if result.client_cores is not None:
        figures["client_cores"] = result.client_cores
        known = sum(
            one.usage.cores + (one.generation.client_cores or 0.0) + one.commands for one in ours
        )
        figures["host_other"] = max(0.0, (host.busy - host.harness) / host.at - known)
    if result.began is not None:
        growth = oha_results.growth(observation.course, result.rows.end, result.began)
        if growth is not None:
            kept = "memory_per_request"
            figures |= zip((kept, "least_kept", f"{kept}_late"), growth, strict=True)
    if serving.cpu_idle is not None:
        figures["cpu_idle"] = serving.cpu_idle
    return figures
