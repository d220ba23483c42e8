"""One launch: server start → verify → warm-up → measure → verify → stop.

It ends with figures, or with a fail flag and a reason; in both cases nothing of it is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servebench.core.errors import LaunchError
from servebench.core.model import Case
from servebench.core.protocol import SLOW_SECONDS, UNIT_REQUESTS
from servebench.host import resource_usage
from servebench.measure import figures, warmup
from servebench.measure.runner import LaunchOutcome
from servebench.measure.server import Counter, Serving
from servebench.measure.testbed import Rig


@dataclass(frozen=True, slots=True)
class Options:
    """How launches are done, beyond what the case says.

    Attributes:
        window: Seconds of one warm-up window.
        count: The server counts its requests too. Its metrics exporter then runs beside it: right
            for proving that nothing is lost, not for figures to keep.
        phase: Called with what the launch is doing.
    """

    window: float = 1.0
    count: bool = False
    phase: Callable[[str], None] = lambda _name: None


def perform(case: Case, rig: Rig, options: Options, log: Path) -> LaunchOutcome:
    """Do one launch; its server's output goes to `log`. Only `InterruptedRun` is raised."""
    began = time.monotonic()
    launch = _Launch(case, rig, options, log)
    serving = launch.serving
    try:
        launch.run()
    except LaunchError as error:
        serving.fail(error.flag, error.detail)
    except Exception as error:
        # One launch must not end the run, not even by a mistake of ours.
        serving.fail_by_mistake(error)
    return LaunchOutcome(
        flags=tuple(serving.flags),
        metrics={} if serving.failed else launch.metrics,
        seconds=time.monotonic() - began,
        load_seconds=launch.load_seconds,
    )


class _Launch:
    def __init__(self, case: Case, rig: Rig, options: Options, log: Path) -> None:
        self.case, self.rig, self.options = case, rig, options
        self.serving = Serving(case, rig, log, count=options.count)
        self.metrics: dict[str, float] = {}
        self.load_seconds = 0.0

    def run(self) -> None:
        serving, phase = self.serving, self.options.phase
        phase("starting")
        serving.start()
        with self._stopped():
            serving.await_ready()
            phase("verifying")
            workers = serving.identify()
            ready_time = time.monotonic() - serving.session.started
            unit = serving.verify(repeats=UNIT_REQUESTS)
            observed = self._measure(unit)
            phase("verifying")
            try:
                # The fastest of both: a disturbed unit would be a ceiling that is too low.
                unit = min(unit, serving.verify(repeats=1))
            finally:
                # What was wrong with the load explains why the server is not right after it.
                self.metrics, flags = figures.conclude(
                    self.case, self.rig, observed,
                    workers=workers, unit=unit, ready_time=ready_time, sizes=serving.sizes,
                )  # fmt: skip
                serving.flags += flags
            serving.require_same(workers)

    def _measure(self, unit: float) -> figures.Observation:
        serving, phase = self.serving, self.options.phase
        counter = None
        if serving.metrics_port is not None and serving.server.counter is not None:
            counter = Counter(serving.metrics_port, serving.server.counter)
        with resource_usage.TreeSampler(serving.session) as tree:
            phase("warming up")
            warm = self._warm_up(unit)
            earlier = counter.settled() if counter else 0
            phase("measuring")
            watch = figures.Watch(serving, tree, warm)
            with watch.load() as generation:
                generation.wait_load()
                watch.end()
                result = generation.collect()
            self.load_seconds = result.seconds
            return watch.observation(
                result, lambda: counter.settled() - earlier if counter else None
            )

    def _warm_up(self, unit: float) -> warmup.WarmUp:
        """Slow endpoints by one full wave, all others until steady."""
        case, window, serving = self.case, self.options.window, self.serving
        given = (self.rig.oha, case.load, serving.url)
        cores, status = serving.client_cores, case.endpoint.expect.status
        if max(unit, case.endpoint.floor) >= SLOW_SECONDS:
            requests = warmup.wave_size(case)
            return warmup.wave(*given, cores=cores, requests=requests, status=status)
        limit = 10 * window
        return warmup.warm_up(*given, cores=cores, window=window, limit=limit, status=status)

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        """After a good launch, a bad stop is its failure."""
        serving = self.serving
        try:
            yield
        except BaseException as error:
            if isinstance(error, LaunchError):
                serving.explain(error)
            serving.abandon()
            raise
        self.options.phase("stopping")
        serving.stop()
