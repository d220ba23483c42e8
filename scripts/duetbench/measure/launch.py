"""One launch: server start → verify → warm-up → measure → verify → stop.

It ends with figures, or with a fail flag and a reason; in both cases nothing of it is left.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from duetbench.core.errors import LaunchError
from duetbench.core.model import Case
from duetbench.core.protocol import UNIT_REQUESTS
from duetbench.host import usage
from duetbench.measure import figures, warmup
from duetbench.measure.runner import LaunchOutcome
from duetbench.measure.server import Counter, Serving
from duetbench.measure.testbed import Testbed


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


def perform(case: Case, testbed: Testbed, options: Options, log: Path) -> LaunchOutcome:
    """Do one launch; its server's output goes to `log`. Only `InterruptedRun` is raised."""
    began = time.monotonic()
    launch = _Launch(case, testbed, options, log)
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
    def __init__(self, case: Case, testbed: Testbed, options: Options, log: Path) -> None:
        self.options = options
        self.serving = Serving(case, testbed, log, count=options.count)
        self.metrics: dict[str, float] = {}
        self.load_seconds = 0.0

    def run(self) -> None:
        serving, phase = self.serving, self.options.phase
        with self._stopped():
            phase("starting")
            serving.start()
            serving.await_ready()
            phase("verifying")
            serving.meet()
            serving.verify(repeats=UNIT_REQUESTS)
            watch = self._measure()
            phase("verifying")
            self.metrics = figures.finish(watch)

    def _measure(self) -> figures.Watch:
        serving, phase = self.serving, self.options.phase
        counter = None
        if serving.metrics_port is not None and serving.server.counter is not None:
            counter = Counter(serving.metrics_port, serving.server.counter)
        with usage.TreeSampler(serving.session) as tree:
            phase("warming up")
            warm = self._warm_up()
            earlier = counter.settled() if counter else 0
            phase("measuring")
            watch = figures.Watch(serving, tree, warm)
            with watch.load() as generation:
                generation.wait_load()
                watch.end()
                result = generation.collect()
            self.load_seconds = result.summary.seconds
            watch.keep(result)
            watch.handled = counter.settled() - earlier if counter else None
            return watch

    def _warm_up(self) -> warmup.WarmUp:
        """Slow endpoints by one full wave, all others until steady."""
        serving, window = self.serving, self.options.window
        if serving.slow:
            with warmup.Burst(serving.client, requests=warmup.wave_size(serving.case)) as wave:
                return wave.collect()
        return warmup.warm_up(serving.client, window=window, limit=10 * window)

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
