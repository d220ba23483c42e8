"""One launch: server start → verify → warm-up → measure → verify → stop.

It ends with figures, or with a fail flag and a reason, and leaves nothing running in either case.
Duets use the same observation under load, and derive figures and flags from it in the same way.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from duetbench.app.testbed import SideCase
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Launch
from duetbench.host import machine, tree_usage
from duetbench.load import oha, oha_results, validity, verify
from duetbench.load.server import SLOW_SECONDS, UNIT_REQUESTS, Serving
from duetbench.load.validity import Facts
from duetbench.load.verify import right_sizes

SIZE_REQUESTS: Final = 20
SIZE_SECONDS: Final = 2.0
"""Requests to the idle server after a load that had bodies of other sizes than before it.

As many as had 20 of these under load, but only for about 2 s.
"""

SPOT_SECONDS: Final = 0.5
SPOT_SHARE: Final = 4000
"""Least time between two checks of an answer under load, s, and fewest requests between them.

With its connection a check costs a server the core time of about three requests, but counts as one:
CPU per request is at most 0.06 % too high.
"""

WINDOW_SECONDS = 0.4
"""Length of a launch's warm-up window, s; tests shorten it."""

RATE_WINDOWS: Final = 2
"""Windows that warm up a load with a rate: thousands of requests, more than it will send."""

STEADY_WINDOWS: Final = 5
MOST_WINDOWS: Final = 10
STEADY_SPREAD: Final = 0.05
"""Largest distance of a window's throughput from the mean, and largest fitted change, as shares.
Windows of one second differ by 1 to 2 % on a quiet two-core machine."""

_POLL_SECONDS: Final = 0.05  # between looks at a load: 0.1 % of a core


def perform(side: SideCase, log: Path) -> Launch:
    """Do one launch; its server's output goes to `log`. Raises only `InterruptedRun`."""
    metrics: dict[str, float] = {}
    with Serving(side, log) as serving, serving.blamed():
        serving.start()
        serving.meet()
        # A declared wait is longer than any unit: one request is enough to verify it.
        serving.verify(1 if side.case.endpoint.floor >= SLOW_SECONDS else UNIT_REQUESTS)
        metrics = _measure(serving).finish()
        serving.stop()  # after a good launch, a bad stop is its failure
    return serving.result(metrics)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Result of a warm-up: good answers/s by window; `steady`: the limit did not end it."""

    seconds: float
    windows: tuple[float, ...]
    steady: bool


def is_steady(windows: Sequence[float]) -> bool:
    """Whether the last five windows lie within 5 % of their mean, without a trend.

    A slow climb would pass the first test, so the change of a fitted line has the same limit.
    """
    if len(windows) < STEADY_WINDOWS:
        return False
    last = np.asarray(windows[-STEADY_WINDOWS:], dtype=np.float64)
    mean = float(last.mean())
    if mean <= 0:
        return False
    slope = float(np.polyfit(np.arange(STEADY_WINDOWS), last, 1)[0])
    change = abs(slope) * (STEADY_WINDOWS - 1)
    spread = float(np.abs(last - mean).max())
    # Rounding must not decide about a window exactly on the limit.
    return max(spread, change) <= STEADY_SPREAD * mean * (1 + 1e-9)


def warm_up(client: oha.Client, *, slots: int | None = None, once: bool = False) -> WarmUp:
    """Load the server in windows until its throughput is steady, or ten windows are over.

    Each window is a burst, with about 20 ms between two of them, over no more connections than
    `slots`. `once`: a wave is enough, as of a handler for which windows are too short. LaunchError
    as of `Burst.collect`, at the first wrong answer.
    """
    began, window = time.monotonic(), oha.WAVE_SECONDS if once else WINDOW_SECONDS
    windows: tuple[float, ...] = ()
    steady = False
    while not steady and time.monotonic() - began < MOST_WINDOWS * window:
        with oha.Burst(client, window, slots) as burst:
            windows += (burst.collect().rate,)
        paced = client.load.rate is not None
        steady = once or (len(windows) >= RATE_WINDOWS if paced else is_steady(windows))
    return WarmUp(time.monotonic() - began, windows, steady)


def _measure(serving: Serving) -> "Observation":
    tree = tree_usage.TreeSampler(serving.session.members)
    warm = warm_up(serving.client, slots=serving.case.slots, once=serving.slow)
    serving.require_same(collect=True)
    observation = Observation(serving, tree, warm)
    with observation.load() as generation:
        while not observation.over():
            generation.session.wait(_POLL_SECONDS)
        observation.end()
        observation.collect()
    return observation


class Observation(Facts):
    """What a load shows of a server, from before the first request until the last answer.

    `load` starts the generator, `end` follows its last answer, `collect` takes its result. Usage,
    host and memory span that time.
    """

    def __init__(self, serving: Serving, tree: tree_usage.TreeSampler, warm_up: WarmUp) -> None:
        serving.require_ours()
        side = serving.side
        super().__init__(
            case=side.case,
            server_cores=len(side.server_cores),
            client_cores=len(side.client_cores),
            pinned=side.testbed.machine.pinned,
            steady=warm_up.steady,
        )
        self.serving, self.tree, self.warm_up = serving, tree, warm_up
        self.checks = 0  # requests beside the load so far
        self._host, self.before = machine.core_times(), serving.edge()

    @contextmanager
    def load(self) -> Iterator[oha.Generation]:
        """Run the load."""
        with oha.Generation(self.serving.client) as self.generation:
            yield self.generation

    def over(self) -> bool:
        """Whether the last request has ended; as `Generation.over`.

        It looks at the memory, and checks an answer from time to time; LaunchError as of `ask`.
        """
        self.tree.look()
        if self.generation.over():
            return True
        serving, load = self.serving, self.case.load
        throughput = load.rate or self.warm_up.windows[-1]
        due = (self.checks + 0.5) * max(SPOT_SECONDS, SPOT_SHARE / max(throughput, 1e-3))
        if due <= time.monotonic() - self.generation.began < load.duration:
            paths = verify.choose_paths(serving.request)
            path = paths[self.checks % len(paths)]
            self.checks += 1
            # A connection of its own, so that all workers get some.
            with verify.connect(serving.port, load.timeout) as connection:
                verify.ask(connection, serving.request, path, ", under load")
        return False

    def end(self) -> None:
        """Read usage and host after the last request."""
        after = self.serving.edge()
        self.pids_before, self.pids_after = self.before.pids, after.pids
        self.cpu = after.cpu - self.before.cpu
        self.window = self.before.at, after.at
        self.cores = self.cpu / (after.at - self.before.at)
        self.host = machine.core_times().since(self._host)
        self.figures = {"host_steal": self.host.steal_share}

    def collect(self) -> None:
        """Take the result; LaunchError if generator or server failed, or others use the port."""
        result, endpoint = self.generation.collect(), self.case.endpoint
        rows, summary, status = result.rows, result.summary, endpoint.expect.status
        self.sizes, figures = oha_results.sizes(rows, status), self.figures
        figures |= oha_results.figures(
            rows, summary, self.case.load, status=status, floor=endpoint.floor
        )
        figures |= self.tree.metrics(*self.window)
        # The whole load, with the drain after the deadline: its answers cost core time too.
        figures["server_cores"] = self.cpu / summary.seconds
        if requests := figures["requests"] + self.checks:
            figures["server_cpu_per_request"] = self.cpu / requests
        if result.client_cores is not None:
            figures["client_cores"] = result.client_cores
        course = [(at, size) for at, size in self.tree.course if at <= self.window[1]]
        if growth := oha_results.growth(course, rows.end, result.began):
            figures |= zip(("memory_per_request", "least_kept"), growth, strict=True)
        self.serving.require_running("it to live under load", FlagName.SERVER_DIED)
        self.serving.require_ours()

    def finish(self, other: "Observation | None" = None) -> dict[str, float]:
        """Verify once more, and compute figures; LaunchError of `Serving.verify`, `require_same`.

        `other` observed our other server meanwhile, with its generator on the same client cores.
        """
        serving, sizes = self.serving, self.sizes
        try:
            serving.verify(repeats=1)
            right = right_sizes(serving.request, serving.answers) or sizes
            if others := sum(n for size, n in sizes.items() if size not in right):
                # Do they vary without a load, too, if asked as often as such an answer takes?
                often = SIZE_REQUESTS * sum(sizes.values()) // others
                serving.verify(max(UNIT_REQUESTS, min(often, int(SIZE_SECONDS / serving.unit))))
        finally:
            # A problem of the load explains why the server is not right after it.
            self._judge(other)
        serving.require_same()
        return {name: self.figures[name] for name in METRICS if name in self.figures}

    def _judge(self, other: "Observation | None") -> None:
        """Complete the figures, and raise the flags."""
        serving, figures = self.serving, self.figures
        ours = [self, *([other] if other else [])]
        figures |= {
            "ready_time": serving.ready_time,
            "import_time": serving.import_time,
            "unit_service": serving.unit,
            "warm_up": self.warm_up.seconds,
        }
        if "client_cores" in figures:
            clients = [usage.generation.client_cores or 0.0 for usage in ours]
            self.client_beside = sum(clients) - clients[0]
            known = sum(clients) + sum(usage.cores for usage in ours)
            host = self.host
            figures["host_other"] = max(0.0, (host.busy - host.harness) / host.at - known)
        rows, status = self.generation.rows, self.case.endpoint.expect.status
        self.times = oha_results.time_thirds(rows, self.case.load, status=status)
        self.right_sizes = right_sizes(serving.request, serving.answers)
        for flag in validity.judge(self):
            serving.fail(flag.name, flag.detail)
        if ceiling := self.case.ceiling:
            figures["ceiling"] = ceiling
            if "throughput" in figures:
                figures["efficiency"] = figures["throughput"] / ceiling
