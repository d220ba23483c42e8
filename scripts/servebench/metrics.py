"""The metric registry: one row per metric. To add a metric, add a row here.

Values are SI units throughout (seconds, bytes, 1/s, or 1 for ratios and counts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from servebench import units

Direction = Literal["lower", "higher", "neither"]

PERCENTILES: Final[tuple[tuple[str, float, int], ...]] = (
    ("p50", 0.5, 1),
    ("p90", 0.9, 1),
    ("p95", 0.95, 100),
    ("p99", 0.99, 1_000),
    ("p999", 0.999, 10_000),
)
"""Of times: name, quantile, and the fewest answers from which it is given.

A tail percentile needs about ten answers beyond it, or it is the maximum under another name; one
that lacks them is left out, never guessed. p50 and p90 are always given, as the articles do for
their twenty requests; `few_samples` says when there are too few even for them.
"""


_HIGHEST: Final = {"s": 1e6, "B": 1e15, "1/s": 1e9, "1": 1e12}
"""By unit: what no launch on any machine comes near. A figure beyond it is a fault, or a lie."""

_SMALLEST: Final = 1e-12
"""Below it, other than 0, no figure means anything: what remains of a subtraction, if not a lie."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a figure means.

    Attributes:
        name: Key in run files.
        title: Column heading.
        unit: SI unit of the stored value.
        better: Which direction is better; `neither` for context figures.
        floor: Relevance floor: a relative change up to here is none, however surely it is seen.
        format: Formatter for people.
        meaning: One sentence.
        highest: The largest value that there can be; None: that of the unit.
        negative: Whether it can be below zero, as a growth can.
    """

    name: str
    title: str
    unit: Literal["s", "B", "1/s", "1"]
    better: Direction
    floor: float
    format: units.Formatter
    meaning: str
    highest: float | None = None
    negative: bool = False

    def wrong(self, value: float) -> str | None:
        """Why a value cannot be one of this metric, in half a sentence; None: it can."""
        highest = _HIGHEST[self.unit] if self.highest is None else self.highest
        lowest = -highest if self.negative else 0
        if not lowest <= value <= highest:  # nor is NaN
            return (
                f"expected {self.name} to be a number from {lowest:g} to {highest:g}, "
                f"found {value:g}"
            )
        if 0 < abs(value) < _SMALLEST:
            return f"expected {self.name} to be 0, or {_SMALLEST:g} and more, found {value:g}"
        return None

    @property
    def tolerance(self) -> float:
        """A relative change that need not be excluded before "no change" is said.

        Wide enough above the floor that a change in between is decided either way in time.
        """
        return 5 * self.floor


def _latency(kind: str, meaning: str) -> list[Metric]:
    rows = []
    for point in ("min", "mean", *(name for name, _, _ in PERCENTILES), "max"):
        floor = 0.02 if point in {"p99", "p999", "max"} else 0.004
        label = "p99.9" if point == "p999" else point
        rows.append(
            Metric(
                f"{kind}_{point}", f"{kind} {label}", "s", "lower", floor, units.seconds,
                f"{meaning}: {label}.",
            )
        )  # fmt: skip
    return rows


_ROWS: Final[list[Metric]] = [
    Metric("offered", "offered", "1/s", "neither", 0, units.rate,
           "Requests that the load model asks for per second (paced and open loads only)."),
    Metric("achieved", "achieved", "1/s", "higher", 0.002, units.rate,
           "Requests answered per second, whatever the answer."),
    Metric("throughput", "throughput", "1/s", "higher", 0.002, units.rate,
           "Good answers (declared status) per second of the load window."),
    *_latency("response", "Time from the scheduled start (closed loop: the send) to the answer"),
    *_latency("service", "Time from the send to the answer"),
    Metric("queueing_mean", "queueing mean", "s", "lower", 0.05, units.seconds,
           "Mean wait between the scheduled start and the send (paced and open loads)."),
    Metric("sched_lag_p99", "schedule lag p99", "s", "lower", 0.05, units.seconds,
           "Lag of the generator's own schedule that 99 % of the requests stayed below."),
    Metric("sched_lag_max", "schedule lag max", "s", "lower", 0.05, units.seconds,
           "Largest lag of the generator's own schedule (paced and open loads)."),
    Metric("requests", "requests", "1", "neither", 0, units.count, "Requests with an answer."),
    Metric("good", "good", "1", "neither", 0, units.count, "Requests with the declared status."),
    Metric("unsent", "unsent", "1", "lower", 0, units.count,
           "Requests of the schedule that the generator never sent."),
    Metric("timeouts", "timeouts", "1", "lower", 0, units.count, "Requests that timed out."),
    Metric("errors", "errors", "1", "lower", 0, units.count, "Other transport errors."),
    Metric("window", "window", "s", "neither", 0, units.seconds,
           "Length of the load window that the throughput refers to."),
    Metric("in_flight_mean", "in flight", "1", "neither", 0, units.significant,
           "Time-weighted mean of the requests in flight."),
    Metric("server_cpu_per_request", "CPU/request", "s", "lower", 0.002, units.seconds,
           "Core time of the whole server process tree per answered request."),
    Metric("server_cores", "server cores", "1", "lower", 0.02, units.cores,
           "Cores used by the whole server process tree.", highest=1e5),
    Metric("client_cores", "client cores", "1", "neither", 0, units.cores,
           "Cores used by the load generator.", highest=1e5),
    Metric("pss_idle", "PSS idle", "B", "lower", 0.01, units.size,
           "Proportional set size of the server tree before the load."),
    Metric("pss_steady", "PSS steady", "B", "lower", 0.004, units.size,
           "Median proportional set size of the server tree under load."),
    Metric("pss_peak", "PSS peak", "B", "lower", 0.02, units.size,
           "Largest proportional set size of the server tree under load."),
    Metric("uss_steady", "USS steady", "B", "lower", 0.01, units.size,
           "Median unique set size of the server tree under load."),
    Metric("rss_steady", "RSS steady", "B", "lower", 0.01, units.size,
           "Median resident set size of the server tree under load, shared pages counted twice."),
    Metric("memory_per_request", "bytes kept/request", "B", "neither", 0, units.count,
           "Growth of the server tree's resident memory under load per answered request.",
           highest=1e9, negative=True),
    Metric("memory_per_request_low", "bytes kept/request, low", "B", "neither", 0, units.count,
           "Lower end of the 95 % interval of that growth, over windows of one load.",
           highest=1e9, negative=True),
    Metric("memory_per_request_high", "bytes kept/request, high", "B", "neither", 0, units.count,
           "Upper end of the 95 % interval of that growth, over windows of one load.",
           highest=1e9, negative=True),
    Metric("threads_peak", "threads", "1", "neither", 0, units.count,
           "Most threads of the server tree."),
    Metric("switches_voluntary", "voluntary switches/request", "1", "lower", 0.05,
           units.significant, "Voluntary context switches of the server tree per request."),
    Metric("switches_involuntary", "involuntary switches/request", "1", "lower", 0.05,
           units.significant, "Involuntary context switches of the server tree per request."),
    Metric("connections_max_share", "largest worker share", "1", "neither", 0, units.share,
           "Share of the connections that the busiest worker process held.", highest=1),
    Metric("connections_reopened", "reopened connections", "1", "lower", 0, units.count,
           "Connections opened under load beside those that it keeps, at least: as far as the "
           "kernel still lists them.", highest=1e6),
    Metric("ready_time", "ready", "s", "lower", 0.05, units.seconds,
           "Time from the start of the server until every worker has answered."),
    Metric("unit_service", "single request", "s", "lower", 0.02, units.seconds,
           "Fastest request of a series sent one at a time to the idle server."),
    Metric("ceiling", "ceiling", "1/s", "neither", 0, units.rate,
           "What arithmetic allows: slots or connections over the service floor."),
    Metric("efficiency", "efficiency", "1", "higher", 0.004, units.share,
           "Throughput over its ceiling.", highest=10),
    Metric("warm_up", "warm-up", "s", "neither", 0, units.seconds, "Length of the warm-up."),
    Metric("host_steal", "steal", "1", "neither", 0, units.share,
           "Share of the machine's core time that the hypervisor took.", highest=1),
    Metric("host_other", "other load", "1", "neither", 0, units.cores,
           "Cores used by processes that are neither server nor generator.", highest=1e5),
]  # fmt: skip

METRICS: Final[dict[str, Metric]] = {row.name: row for row in _ROWS}
