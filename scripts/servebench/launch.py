"""One launch: server start → verify → warm-up → measure → verify → stop.

The launch is the sample of everything that servebench says. It ends with figures, or with a fail
flag and a reason; in both cases nothing of it is left on the machine.
"""

from __future__ import annotations

import math
import re
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench import load, machine, paths, ports, probe, rows, sampler, validate, verify, warmup
from servebench.counter import Counter
from servebench.errors import LaunchError
from servebench.flags import Flag, FlagName
from servebench.formulas import evaluate
from servebench.model import Case
from servebench.process import Session
from servebench.protocol import SLOW_SECONDS, UNIT_REQUESTS
from servebench.rig import Rig
from servebench.runner import Outcome
from servebench.servers import SERVERS

READY_SECONDS: Final = 30.0
"""For a server to print its ready lines, and again for all its workers to answer: 1 s measured."""

FREE_SECONDS: Final = 5.0
"""For the kernel to close a stopped server's listening socket."""

_POLL_SECONDS: Final = 0.02
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_LOG_TAIL: Final = 400  # characters of a server's own words in a reason


@dataclass(frozen=True, slots=True)
class Options:
    """How launches are done, beyond what the case says.

    Attributes:
        window: Seconds of one warm-up window.
        count: Whether the server counts its requests too. Its metrics exporter then runs beside
            it: right for proving that nothing is lost, not for figures to keep.
    """

    window: float = 1.0
    count: bool = False


def perform(case: Case, rig: Rig, options: Options, log: Path) -> Outcome:
    """Do one launch.

    Args:
        case: What to launch.
        rig: Tools, environments and cores.
        options: How.
        log: File for the server's output.

    Raises:
        InterruptedRun: From the signal handler; nothing is left running.
    """
    began = time.monotonic()
    launch = _Launch(case, rig, options, log)
    try:
        launch.run()
    except LaunchError as error:
        launch.fail(error.flag, error.detail)
    except Exception as error:
        # One launch must not end the run, not even by a mistake of ours.
        with log.open("a") as file:
            traceback.print_exc(file=file)
        what = f"{type(error).__name__}: {error}; the traceback is in the launch's log, {log.name}"
        launch.fail(FlagName.HARNESS_ERROR, what)
    failed = any(flag.severity == "fail" for flag in launch.flags)
    return Outcome(
        flags=tuple(launch.flags),
        metrics={} if failed else launch.metrics,
        seconds=time.monotonic() - began,
        load_seconds=launch.load_seconds,
    )


class _Launch:
    """One launch under way; `run` is the protocol, the other methods are its steps."""

    def __init__(self, case: Case, rig: Rig, options: Options, log: Path) -> None:
        self.case, self.rig, self.options, self.log = case, rig, options, log
        self.flags: list[Flag] = []
        self.metrics: dict[str, float] = {}
        self.load_seconds = 0.0
        self._server = SERVERS[case.server]
        self._server_cores = rig.server_cores(case) if rig.machine.pinned else None
        self._client_cores = rig.client_cores(case) if rig.machine.pinned else None
        self._port = ports.free_port()
        counting = options.count and self._server.counter is not None
        self._metrics_port = ports.free_port() if counting else None
        self._base = f"http://127.0.0.1:{self._port}"

    def fail(self, flag: FlagName, detail: str) -> None:
        """Note why the launch cannot be used."""
        self.flags.append(Flag(name=flag, detail=_scrub(detail)))

    def run(self) -> None:
        """Start, verify, warm up, measure, verify, stop."""
        for port in (self._port, self._metrics_port):
            if port is not None:
                ports.require_free(port)
        session = Session.start(
            self.rig.server_argv(self.case, self._port, self._metrics_port),
            role="server",
            cores=self._server_cores,
            env=self.rig.environment(self.case),
            cwd=self.rig.folder(self.case),
            log=self.log,
        )
        with self._stopped(session), self._death_explained(session):
            self._await_ready(session)
            workers = self._identify()
            ready_time = time.monotonic() - session.started
            unit = self._verify(repeats=UNIT_REQUESTS)
            observed = self._measure(session, unit)
            try:
                # The fastest of both: a disturbed unit would be a ceiling that is too low.
                unit = min(unit, self._verify(repeats=1))
            finally:
                # What was wrong with the load explains why the server is not right after it.
                self._judge(observed, workers, unit, ready_time)
            self._require_same(workers)

    def _measure(self, session: Session, unit: float) -> _Observed:
        counter = None
        if self._metrics_port is not None and self._server.counter is not None:
            counter = Counter(self._metrics_port, self._server.counter)
        url = self._base + self.case.endpoint.path
        with sampler.TreeSampler(session) as tree:
            warm = self._warm_up(url, unit)
            self._require_ours(session)
            handled = counter.settled() if counter else 0
            host_a, edge_a = sampler.host_edge(), tree.edge()
            with (
                load.Generation.start(
                    self.rig.oha, self.case.load, url, cores=self._client_cores
                ) as generation,
                self._midway(session) as connections,
            ):
                generation.wait_load()
                edge_b, host_b = tree.edge(), sampler.host_edge()
                result = generation.collect()
            self.load_seconds = result.seconds
            memory = tree.memory(edge_a.at, edge_b.at)
        if session.poll() is not None:
            raise LaunchError(
                FlagName.SERVER_DIED,
                f"it ended under load with exit code {session.poll()}; it said: {_tail(self.log)}",
            )
        self._require_ours(session)
        return _Observed(
            result=result,
            usage=sampler.between(edge_a, edge_b),
            host=sampler.host_between(host_a, host_b),
            memory=memory,
            pids_before=frozenset(process.pid for process in edge_a.processes),
            pids_after=frozenset(process.pid for process in edge_b.processes),
            connections=dict(connections),
            warm_up=warm,
            handled=counter.settled() - handled if counter else None,
        )

    def _judge(
        self,
        seen: _Observed,
        workers: tuple[probe.Identity, ...],
        unit: float,
        ready_time: float,
    ) -> None:
        case, rig = self.case, self.rig
        figures = rows.figures(
            seen.result.rows, seen.result.summary, case.load,
            status=case.endpoint.expect.status, floor=case.endpoint.floor,
        )  # fmt: skip
        figures |= _costs(figures, seen)
        figures |= {
            "ready_time": ready_time,
            "unit_service": unit,
            "warm_up": seen.warm_up.seconds,
        }
        held = _by_worker(seen.connections, workers)
        if held and sum(held):
            figures["connections_max_share"] = max(held) / sum(held)
        ceiling = self._ceiling(unit)
        if ceiling is not None:
            figures["ceiling"] = ceiling
            if "throughput" in figures:
                figures["efficiency"] = figures["throughput"] / ceiling
        self.metrics = figures
        for flag in validate.judge(
            validate.Facts(
                case=case,
                figures=figures,
                ceiling=ceiling,
                ceiling_measured=case.ceiling is not None and "unit" in case.ceiling,
                server_cores=len(rig.server_cores(case)),
                client_cores=len(rig.client_cores(case)),
                pinned=rig.machine.pinned,
                pids_before=seen.pids_before,
                pids_after=seen.pids_after,
                connections=held,
                steady=seen.warm_up.steady,
                backpressure=self._server.backpressure(case.workers),
                server_handled=seen.handled,
                client_total=seen.result.summary.answered,
            )
        ):
            self.flags.append(flag)
        for change in machine.environment_changes(rig.machine, machine.fingerprint()):
            self.flags.append(Flag(name=FlagName.ENV_CHANGED, detail=change))

    def _ceiling(self, unit: float) -> float | None:
        case = self.case
        if case.ceiling is None:
            return None
        return evaluate(
            case.ceiling,
            {
                "c": case.load.connections,
                "slots": case.slots or math.inf,
                "floor": case.endpoint.floor,
                "unit": unit,
                "cores": len(self.rig.server_cores(case)),
                "workers": case.workers,
                "threads": case.threads or math.inf,
                "rate": case.load.rate or math.inf,
            },
        )

    def _warm_up(self, url: str, unit: float) -> warmup.WarmUp:
        """Warm up as the endpoint allows: slow ones by one full wave, all others until steady."""
        case, window = self.case, self.options.window
        status = case.endpoint.expect.status
        if max(unit, case.endpoint.floor) >= SLOW_SECONDS:
            requests = min(case.load.connections, case.slots or case.load.connections)
            seconds = warmup.wave(
                self.rig.oha, url, requests,
                timeout=case.load.timeout, cores=self._client_cores, status=status,
            )  # fmt: skip
            return warmup.WarmUp(seconds, (), steady=True)
        return warmup.warm_up(
            self.rig.oha, case.load, url,
            cores=self._client_cores, window=window, limit=10 * window, status=status,
        )  # fmt: skip

    def _verify(self, repeats: int) -> float:
        found = verify.verify(
            self.case.endpoint, self._base, repeats=repeats, timeout=self.case.load.timeout
        )
        return found.unit

    def _identify(self) -> tuple[probe.Identity, ...]:
        case = self.case
        asgi = case.endpoint.interface == "asgi"
        # Threads of one process can be told apart by their event loops, which WSGI does not have.
        visible = asgi or self._server.worker_kind(case) == "process"
        identities = probe.probe(
            self._base, workers_expected=case.workers if visible else 1, timeout=READY_SECONDS
        )
        probe.check_identity(
            identities,
            free_threaded=case.free_threaded,
            python_version=self.rig.versions[case.python],
            packages=self.rig.stacks[case.stack].packages,
            loop=case.loop if asgi else None,
            required=(self._server.name,),
        )
        return identities

    def _require_same(self, workers: tuple[probe.Identity, ...]) -> None:
        was, now = {w.worker for w in workers}, {w.worker for w in self._identify()}
        if was != now:
            raise LaunchError(
                FlagName.WORKER_RESTARTED,
                f"expected the workers {sorted(was)} to the end, found {sorted(now)}",
            )

    def _require_ours(self, session: Session) -> None:
        if foreign := ports.foreign_listeners(self._port, session):
            raise LaunchError(
                FlagName.FOREIGN_LISTENER,
                f"expected only our server on port {self._port}, but {'; '.join(foreign)}",
            )

    def _await_ready(self, session: Session) -> None:
        server, expected = self._server, self._server.ready_lines(self.case)
        deadline = time.monotonic() + READY_SECONDS
        while (found := len(server.ready.findall(_read(self.log)))) < expected:
            if session.wait(_POLL_SECONDS) is not None:
                raise LaunchError(
                    FlagName.NOT_READY,
                    f"expected {expected} ready lines of {server.name}, but it ended with exit "
                    f"code {session.poll()} after {found}; it said: {_tail(self.log)}",
                )
            if time.monotonic() > deadline:
                raise LaunchError(
                    FlagName.NOT_READY,
                    f"expected {expected} lines like {server.ready.pattern!r} of {server.name} in "
                    f"{READY_SECONDS:.0f} s, found {found}; it said: {_tail(self.log)}",
                )

    @contextmanager
    def _midway(self, session: Session) -> Iterator[dict[int, int]]:
        """Count the connections per process once, in the middle of the load, beside it."""
        found: dict[int, int] = {}
        timer = threading.Timer(
            self.case.load.duration / 2,
            lambda: found.update(ports.connections_per_process(self._port, session)),
        )
        timer.start()
        try:
            yield found
        finally:
            timer.cancel()
            timer.join()

    @contextmanager
    def _death_explained(self, session: Session) -> Iterator[None]:
        """Whatever fails while the server is dead fails because it is dead."""
        try:
            yield
        except LaunchError as error:
            code = session.poll()
            if code is not None and error.flag not in {FlagName.NOT_READY, FlagName.SERVER_DIED}:
                self.fail(FlagName.SERVER_DIED, f"exit code {code}; it said: {_tail(self.log)}")
            raise

    @contextmanager
    def _stopped(self, session: Session) -> Iterator[None]:
        """Stop the server whatever happens; after a good launch, a bad stop is its failure."""
        server = self._server
        try:
            yield
        except BaseException:
            with suppress(LaunchError):
                session.stop(server.grace)
            raise
        report = session.stop(server.grace)
        ports.wait_free(self._port, FREE_SECONDS)
        if not report.clean:
            raise LaunchError(
                FlagName.NOT_STOPPED,
                f"expected {server.name} to end by itself within {server.grace:g} s of SIGTERM, "
                f"but {len(report.killed)} of its processes had to be killed",
            )
        if report.exit_code not in server.exit_codes:
            raise LaunchError(
                FlagName.SERVER_DIED,
                f"expected {server.name} to end with one of {sorted(server.exit_codes)}, found "
                f"{report.exit_code}; it said: {_tail(self.log)}",
            )


@dataclass(frozen=True, slots=True)
class _Observed:
    """What the measurement saw, before anything is concluded from it."""

    result: load.LoadResult
    usage: sampler.Usage
    host: sampler.HostUsage
    memory: sampler.Memory
    pids_before: frozenset[int]
    pids_after: frozenset[int]
    connections: dict[int, int]
    warm_up: warmup.WarmUp
    handled: int | None


def _costs(figures: dict[str, float], seen: _Observed) -> dict[str, float]:
    usage, result, memory, host = seen.usage, seen.result, seen.memory, seen.host
    found: dict[str, float] = {
        # The whole load, with the drain after the deadline: its answers cost core time as well.
        "server_cores": usage.cpu_seconds / result.seconds,
        "rss_steady": memory.rss.steady,
        "threads_peak": memory.threads_peak,
        "host_steal": host.steal_share,
    }
    if requests := figures.get("requests"):
        found |= {
            "server_cpu_per_request": usage.cpu_seconds / requests,
            "switches_voluntary": usage.voluntary / requests,
            "switches_involuntary": usage.involuntary / requests,
        }
    if result.client_cores is not None:
        found["client_cores"] = result.client_cores
        known = host.harness_cores + usage.cores + result.client_cores
        found["host_other"] = max(0.0, host.busy_cores - known)
    if memory.pss is not None:
        found |= {
            "pss_idle": memory.pss.idle,
            "pss_steady": memory.pss.steady,
            "pss_peak": memory.pss.peak,
        }
    if memory.uss is not None:
        found["uss_steady"] = memory.uss.steady
    return found


def _by_worker(
    connections: dict[int, int], workers: tuple[probe.Identity, ...]
) -> tuple[int, ...] | None:
    """Connections of each worker process; None where workers share a process."""
    pids = {worker.pid for worker in workers}
    if len(pids) < len(workers) or not connections:
        return None
    return tuple(connections.get(pid, 0) for pid in sorted(pids))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _tail(path: Path) -> str:
    return " ".join(_read(path).split())[-_LOG_TAIL:] or "nothing"


def _scrub(text: str) -> str:
    """Take this machine's folders out of a text that is kept."""
    for folder, name in (
        (paths.project_root(), "."),
        (paths.cache_dir(), "$CACHE"),
        (Path.home(), "~"),
    ):
        text = text.replace(str(folder), name)
    # A server's own words may hold anything; escape sequences would act on the reader's terminal.
    return re.sub(r"\s+", " ", _CONTROL.sub("", text))
