"""The metric registry: one row per metric, with its roles. To add a metric, add a row here.

Values are SI units throughout (seconds, bytes, 1/s, or 1 for ratios and counts).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

from duetbench.core import units

Direction = Literal["lower", "higher", "neither"]

Situation = Literal[
    "always", "unlimited", "ceiling", "response", "service", "response tail", "service tail"
]
"""Of which cases a comparison judges a metric.

always: all. unlimited: closed loops whose handlers wait for nothing. ceiling: closed loops under a
declared ceiling. response, service: the others, by the times that tell about the server. Tails are
judged from the same duets, and are never a reason to measure longer.
"""

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
        rank: Place among the headlines, the metrics that people look at first; None: none of them.
        judged: In which cases a comparison judges it, and nights look for steps in it; None: none.
        compared: Whether the site compares it across cases.
        column: Whether a table that declares no columns has it.
        brief: Its label in a line of progress; None: it is not there.
        more: What is said of a case whose figure rose, `{}` in place of by how much; empty: that
            the title is higher.
        less: The same of one whose figure fell.
        tolerated: Its tolerance, where that is not five times the floor.
    """

    name: str
    title: str
    unit: Literal["s", "B", "1/s", "1"]
    better: Direction
    floor: float
    format: units.Format
    meaning: str
    highest: float | None = None
    negative: bool = False
    rank: int | None = None
    judged: Situation | None = None
    compared: bool = False
    column: bool = False
    brief: str | None = None
    more: str = ""
    less: str = ""
    tolerated: float | None = None

    def moved(self, size: str, *, rose: bool) -> str:
        """What a case does whose figure moved by a size: `needs 22 % more CPU per request`."""
        word = self.more if rose else self.less
        return (word or f"has {{}} {'higher' if rose else 'lower'} {self.title}").format(size)

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
        return 5 * self.floor if self.tolerated is None else self.tolerated


_LATENCY_ROLES: Final[dict[str, dict[str, Any]]] = {
    "response_mean": {"column": True},
    "response_p50": {
        "rank": 3,
        "judged": "response",
        "compared": True,
        "column": True,
        "brief": "p50",
    },
    "response_p99": {"rank": 7, "judged": "response tail", "compared": True, "column": True},
    "response_max": {"column": True},
    "service_p50": {"rank": 4, "judged": "service"},
    "service_p95": {"rank": 9},
    "service_p99": {"rank": 8, "judged": "service tail"},
}


def _latency(kind: str, meaning: str) -> list[Metric]:
    rows = []
    for point in ("min", "mean", *(name for name, _, _ in PERCENTILES), "max"):
        floor = 0.02 if point in {"p99", "p999", "max"} else 0.004
        label = "p99.9" if point == "p999" else point
        name, text = f"{kind}_{point}", f"{meaning}: {label}."
        roles = _LATENCY_ROLES.get(name, {})
        which = {"p50": "median", "min": "shortest", "max": "longest"}.get(point, label)
        roles = {
            **roles,
            "more": f"has a {{}} longer {which} {kind} time",
            "less": f"has a {{}} shorter {which} {kind} time",
        }
        rows.append(
            Metric(name, f"{kind} {label}", "s", "lower", floor, units.seconds, text, **roles)
        )
    return rows


_ROWS: Final[list[Metric]] = [
    Metric(
        "offered",
        "offered",
        "1/s",
        "neither",
        0,
        units.rate,
        "Requests that the load model asks for per second (paced and open loads only).",
    ),
    Metric(
        "achieved",
        "achieved",
        "1/s",
        "higher",
        0.002,
        units.rate,
        "Requests answered per second, whatever the answer.",
    ),
    Metric(
        "throughput",
        "throughput",
        "1/s",
        "higher",
        0.002,
        units.rate,
        "Good answers (declared status) per second of the load window.",
        rank=2,
        judged="unlimited",
        compared=True,
        column=True,
        brief="",
        more="serves {} more requests per second",
        less="serves {} fewer requests per second",
    ),
    *_latency("response", "Time from the scheduled start (closed loop: the send) to the answer"),
    *_latency("service", "Time from the send to the answer"),
    Metric(
        "queueing_mean",
        "queueing mean",
        "s",
        "lower",
        0.05,
        units.seconds,
        "Mean wait between the scheduled start and the send (paced and open loads).",
    ),
    Metric(
        "sched_lag_p99",
        "schedule lag p99",
        "s",
        "lower",
        0.05,
        units.seconds,
        "Lag of the generator's own schedule that 99 % of the requests stayed below.",
    ),
    Metric(
        "sched_lag_max",
        "schedule lag max",
        "s",
        "lower",
        0.05,
        units.seconds,
        "Largest lag of the generator's own schedule (paced and open loads).",
    ),
    Metric("requests", "requests", "1", "neither", 0, units.count, "Requests with an answer."),
    Metric("good", "good", "1", "neither", 0, units.count, "Requests with the declared status."),
    Metric(
        "unsent",
        "unsent",
        "1",
        "lower",
        0,
        units.count,
        "Requests of the schedule that the generator never sent.",
    ),
    Metric("timeouts", "timeouts", "1", "lower", 0, units.count, "Requests that timed out."),
    Metric("errors", "errors", "1", "lower", 0, units.count, "Other transport errors."),
    Metric(
        "window",
        "window",
        "s",
        "neither",
        0,
        units.seconds,
        "Length of the load window that the throughput refers to.",
    ),
    Metric(
        "in_flight_mean",
        "in flight",
        "1",
        "neither",
        0,
        units.plain,
        "Time-weighted mean of the requests in flight.",
    ),
    Metric(
        "server_cpu_per_request",
        "CPU/request",
        "s",
        "lower",
        0.002,
        units.seconds,
        "Core time of the whole server process tree per answered request.",
        rank=1,
        judged="always",
        compared=True,
        column=True,
        brief="CPU/request",
        more="needs {} more CPU per request",
        less="needs {} less CPU per request",
    ),
    Metric(
        "server_cores",
        "server cores",
        "1",
        "lower",
        0.02,
        units.cores,
        "Cores used by the whole server process tree.",
        highest=1e5,
        rank=10,
        column=True,
    ),
    Metric(
        "client_cores",
        "client cores",
        "1",
        "neither",
        0,
        units.cores,
        "Cores used by the load generator.",
        highest=1e5,
    ),
    Metric(
        "pss_idle",
        "PSS idle",
        "B",
        "lower",
        0.01,
        units.size,
        "Proportional set size of the server tree before the load.",
    ),
    Metric(
        "pss_steady",
        "PSS steady",
        "B",
        "lower",
        0.004,
        units.size,
        "Median proportional set size of the server tree under load.",
        rank=6,
        judged="always",
        compared=True,
        column=True,
        more="needs {} more memory",
        less="needs {} less memory",
    ),
    Metric(
        "pss_peak",
        "PSS peak",
        "B",
        "lower",
        0.02,
        units.size,
        "Largest proportional set size of the server tree under load.",
    ),
    Metric(
        "uss_steady",
        "USS steady",
        "B",
        "lower",
        0.01,
        units.size,
        "Median unique set size of the server tree under load.",
    ),
    Metric(
        "rss_steady",
        "RSS steady",
        "B",
        "lower",
        0.01,
        units.size,
        "Median resident set size of the server tree under load, shared pages counted twice.",
    ),
    Metric(
        "memory_per_request",
        "bytes kept/request",
        "B",
        "neither",
        0,
        units.count,
        "Growth of the server tree's resident memory under load per answered request.",
        highest=1e9,
        negative=True,
    ),
    Metric(
        "memory_per_request_low",
        "bytes kept/request, low",
        "B",
        "neither",
        0,
        units.count,
        "Lower end of the 95 % interval of that growth, over windows of one load.",
        highest=1e9,
        negative=True,
    ),
    Metric(
        "memory_per_request_high",
        "bytes kept/request, high",
        "B",
        "neither",
        0,
        units.count,
        "Upper end of the 95 % interval of that growth, over windows of one load.",
        highest=1e9,
        negative=True,
    ),
    Metric(
        "threads_peak",
        "threads",
        "1",
        "neither",
        0,
        units.count,
        "Most threads of the server tree.",
    ),
    Metric(
        "switches_voluntary",
        "voluntary switches/request",
        "1",
        "lower",
        0.05,
        units.plain,
        "Voluntary context switches of the server tree per request.",
    ),
    Metric(
        "switches_involuntary",
        "involuntary switches/request",
        "1",
        "lower",
        0.05,
        units.plain,
        "Involuntary context switches of the server tree per request.",
    ),
    Metric(
        "connections_max_share",
        "largest worker share",
        "1",
        "neither",
        0,
        units.share,
        "Share of the connections that the busiest worker process held.",
        highest=1,
    ),
    Metric(
        "connections_reopened",
        "reopened connections",
        "1",
        "lower",
        0,
        units.count,
        "Connections opened under load beside those that it keeps, at least: as far as the "
        "kernel still lists them.",
        highest=1e6,
    ),
    Metric(
        "ready_time",
        "ready",
        "s",
        "lower",
        0.05,
        units.seconds,
        "Time from the start of the server until every worker has answered.",
        rank=11,
    ),
    Metric(
        "unit_service",
        "single request",
        "s",
        "lower",
        0.02,
        units.seconds,
        "Fastest request of a series sent one at a time to the idle server.",
        rank=12,
    ),
    Metric(
        "ceiling",
        "ceiling",
        "1/s",
        "neither",
        0,
        units.rate,
        "What arithmetic allows: slots or connections over the service floor.",
        column=True,
    ),
    Metric(
        "efficiency",
        "efficiency",
        "1",
        "higher",
        0.004,
        units.share,
        "Throughput over its ceiling.",
        highest=10,
        rank=5,
        judged="ceiling",
        column=True,
    ),
    Metric("warm_up", "warm-up", "s", "neither", 0, units.seconds, "Length of the warm-up."),
    Metric(
        "host_steal",
        "steal",
        "1",
        "neither",
        0,
        units.share,
        "Share of the machine's core time that the hypervisor took.",
        highest=1,
    ),
    Metric(
        "host_other",
        "other load",
        "1",
        "neither",
        0,
        units.cores,
        "Cores used by processes that are neither server nor generator.",
        highest=1e5,
    ),
]

METRICS: Final[dict[str, Metric]] = {row.name: row for row in _ROWS}

INSTRUCTIONS: Final = "instructions"
"""Metric of the instructions of a request inside the process, which no launch has."""

TIME_INSIDE: Final = Metric(
    "seconds",
    "time in process (seconds)",
    "s",
    "lower",
    0.01,
    units.seconds,
    "Core time of a call inside the process.",
    more="takes {} more time in process",
    less="takes {} less time in process",
    tolerated=0.03,
)
"""No metric of launches: that of anchored points until 2026-11, and of asv's times."""


def row(name: str) -> Metric:
    """The row of a metric; of a time inside the process, whatever its name, that of these."""
    return METRICS.get(name, TIME_INSIDE)


HEADLINES: Final = tuple(
    row.name for row in sorted(_ROWS, key=lambda row: row.rank or 0) if row.rank is not None
)
"""The metrics that people look at first, the first one first."""

JUDGED: Final = tuple(name for name in HEADLINES if METRICS[name].judged)
"""The metrics that a comparison judges in some case: no step in another could be confirmed."""

LEADING: Final = tuple(name for name in JUDGED if not str(METRICS[name].judged).endswith("tail"))
"""Of these, what cases are measured for."""

WORK: Final = tuple(name for name in LEADING if METRICS[name].unit != "B")
"""Of these, what more work would move; memory is not among them."""

BRIEF: Final = {name: label for name in HEADLINES if (label := METRICS[name].brief) is not None}
"""What a line of progress shows of a launch, each with its label."""


def judged(situations: Collection[Situation]) -> tuple[str, ...]:
    """The metrics that are judged in any of some situations, the first headline first."""
    return tuple(name for name in JUDGED if METRICS[name].judged in situations)
