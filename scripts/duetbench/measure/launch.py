"""One launch: server start → verify → warm-up → measure → verify → stop.

It ends with figures, or with a fail flag and a reason; in both cases nothing of it is left.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from duetbench.core.errors import LaunchError
from duetbench.core.model import Case, Launch, Status
from duetbench.core.protocol import UNIT_REQUESTS
from duetbench.core.units import utc_now
from duetbench.host.tree_usage import TreeSampler
from duetbench.measure import figures, warmup
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


def perform(
    case: Case, testbed: Testbed, options: Options, log: Path, *, number: int = 0, order: int = 0
) -> Launch:
    """Do one launch; its server's output goes to `log`. Only `InterruptedRun` is raised.

    `number` is its round, and `order` its place in the run.
    """
    began, started = time.monotonic(), utc_now()
    serving = Serving(case, testbed, log, count=options.count)
    metrics: dict[str, float] = {}
    try:
        with _stopped(serving, options):
            options.phase("starting")
            serving.start()
            serving.await_ready()
            options.phase("verifying")
            serving.meet()
            serving.verify(repeats=UNIT_REQUESTS)
            observation = _measure(serving, options)
            options.phase("verifying")
            metrics = figures.finish(observation)
    except LaunchError as error:
        serving.fail(error.flag, error.detail)
    except Exception as error:
        # One launch must not end the run, not even by a mistake of ours.
        serving.fail_by_mistake(error)
    return Launch(
        case=case.id,
        round=number,
        order=order,
        started=started,
        seconds=time.monotonic() - began,
        load_seconds=serving.load_seconds,
        status=Status.FAILED if serving.failed else Status.OK,
        flags=tuple(serving.flags),
        metrics={} if serving.failed else metrics,
    )


def _measure(serving: Serving, options: Options) -> figures.Observation:
    counter = None
    if serving.metrics_port is not None and serving.server.counter is not None:
        counter = Counter(serving.metrics_port, serving.server.counter)
    with TreeSampler(serving.session.members) as tree:
        options.phase("warming up")
        warm = _warm_up(serving, options.window)
        earlier = counter.settled() if counter else 0
        options.phase("measuring")
        observation = figures.Observation(serving, tree, warm)
        with observation.load() as generation:
            generation.wait_load()
            observation.end()
            observation.collect()
        observation.handled = counter.settled() - earlier if counter else None
        return observation


def _warm_up(serving: Serving, window: float) -> warmup.WarmUp:
    """Slow endpoints by one full wave, all others until steady."""
    if serving.slow:
        with warmup.Burst(serving.client, requests=warmup.wave_size(serving.case)) as wave:
            return wave.collect()
    return warmup.warm_up(serving.client, window=window, limit=10 * window)


@contextmanager
def _stopped(serving: Serving, options: Options) -> Iterator[None]:
    """After a good launch, a bad stop is its failure."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, LaunchError):
            serving.explain(error)
        serving.abandon()
        raise
    options.phase("stopping")
    serving.stop()
