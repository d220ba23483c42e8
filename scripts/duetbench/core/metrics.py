"""The metric registry: one row per metric. To add a metric, add a row here.

Values are SI units throughout (seconds, bytes, 1/s, or 1 for ratios and counts).
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from duetbench.core import units
from duetbench.core.units import cores, count, octets, plain, rate, seconds, share, size

Situation = Literal[
    "always",
    "unlimited",
    "ceiling",
    "response",
    "service",
    "response tail",
    "service tail",
    "start",
    "start alone",
    "idle",
]
"""The cases in which a comparison judges a metric.

always: all. unlimited: closed loops whose handlers do not wait. ceiling: closed loops with a
declared ceiling. response, service: the other cases, by the times that describe the server. Tails,
start and idle use the same duets and never prolong a comparison. start alone: comparisons of
starts, which also judge start. idle: targets of which a server computes without requests.
"""

Concern = Literal["cpu", "throughput", "latency", "tail", "memory", "start", "idle"]

MATERIAL: Final[dict[Concern, float]] = {
    "cpu": 0.02,
    "throughput": 0.02,
    "latency": 0.05,
    "tail": 0.1,
    "memory": 0.05,
    "start": 0.1,
    "idle": 0.5,
}
"""The relative change from which it is material, by concern; docs/comparing.md gives the reasons.
Reports show smaller changes too, but not as news."""

PERCENTILES: Final[tuple[tuple[str, float, int], ...]] = (
    ("p50", 0.5, 1),
    ("p90", 0.9, 1),
    ("p95", 0.95, 100),
    ("p99", 0.99, 1_000),
    ("p999", 0.999, 10_000),
)
"""Percentiles of times: name, quantile, and the fewest answers that they need.

A tail percentile needs about ten answers beyond it; with fewer it would be the maximum by another
name, so it is left out. p50 and p90 are always given, as the articles do for their twenty requests;
`few_samples` reports when there are too few even for them.
"""


_SMALLEST: Final = 1e-12
"""A figure other than 0 below this is a rounding error of a subtraction, or forged."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The meaning of a figure.

    Attributes:
        name: Key in run files.
        format: Formatter for people, with the SI unit of the stored value.
        meaning: One sentence.
        title: Column heading; empty: the name.
        label: Its name in a row of a report, at most 20 characters; empty: its noun.
        lower: Relevance threshold, if lower is better: the relative change up to which there is
            none, however precisely it is measured.
        higher: The same, if higher is better.
        concern: Which threshold of `MATERIAL` applies if the metric is judged.
        situation: In which cases comparisons judge it and nights look for steps; None: in none.
        moves: What reports say when the figure rose|fell, with `{}` for the amount; empty: that
            the title is higher or lower.
        highest: The largest possible value; None: that of the format.
        least: The least figure that matters; comparisons take smaller ones for it, and judge the
            metric only if a side has more.
    """

    name: str
    format: units.Format
    meaning: str
    title: str = ""
    label: str = ""
    lower: float | None = None
    higher: float | None = None
    concern: Concern = "cpu"
    situation: Situation | None = None
    moves: str = ""
    highest: float | None = None
    least: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))
        object.__setattr__(self, "label", self.label or self.noun)

    @property
    def unit(self) -> units.Unit:
        return self.format.unit

    @property
    def noun(self) -> str:
        """What it measures, in its sentence's words: `CPU per request`, `memory`."""
        return self.moves.partition("|")[2].partition(" ")[2] or self.title

    @property
    def directions(self) -> tuple[str, str]:
        """What reports call a larger figure and a smaller one: more, fewer."""
        larger, _, smaller = self.moves.partition("{} ")[2].partition(" ")[0].partition("|")
        return larger or "more", smaller or "less"

    @property
    def better(self) -> Literal["lower", "higher", "neither"]:
        """Which direction is better; `neither` for context figures."""
        if self.lower is not None:
            return "lower"
        return "neither" if self.higher is None else "higher"

    @property
    def floor(self) -> float:
        """The relative change up to which nothing moved: if it is judged, a tenth of its limit."""
        return self.limit / 10 if self.situation else self.lower or self.higher or 0.0

    @property
    def executes(self) -> bool:
        """Whether a request's instructions may say something about it: not of memory, a start."""
        return self.unit != "B" and self.concern not in {"start", "idle"}

    @property
    def limit(self) -> float:
        """The relative change on which somebody acts, and that "no change" excludes."""
        return MATERIAL[self.concern]

    def effect(self, amount: str, *, rose: bool) -> str:
        """Say in words that a case's figure moved: `needs 22 % more CPU per request`.

        With an amount in times: `needs 31 times the CPU per request`.
        """
        words = self.moves or f"has {{}} higher|lower {self.title}"
        if amount.endswith(" times"):
            words = re.sub(r"\w+\|\w+", "the", words.replace("has a ", "has "))
        return re.sub(r"(\w+)\|(\w+)", r"\1" if rose else r"\2", words).format(amount)

    def rounded(self, value: float) -> float:
        """Round a value for a file; counts stay exact."""
        exact = self.format is units.count and float(value).is_integer()
        return value if exact else units.rounded(value)

    def wrong(self, value: float) -> str | None:
        """Say why a value is impossible for this metric, in half a sentence; None if it is not."""
        highest, lowest = self.highest or self.format.highest, self.format.lowest
        if not lowest <= value <= highest:  # also false for NaN
            return (
                f"expected {self.name} to be a number from {lowest:g} to {highest:g}, "
                f"found {value:g}"
            )
        if 0 < abs(value) < _SMALLEST:
            return f"expected {self.name} to be 0, or {_SMALLEST:g} and more, found {value:g}"
        return None


_UNJUDGED: Final[tuple[Concern, None]] = ("cpu", None)
_JUDGED_TIMES: Final[dict[str, tuple[Concern, Situation]]] = {
    "response_p50": ("latency", "response"),
    "response_p99": ("tail", "response tail"),
    "response_slow_half": ("tail", "response tail"),
    "service_p50": ("latency", "service"),
    "service_p99": ("tail", "service tail"),
    "service_slow_half": ("tail", "service tail"),
}


def _latency(kind: str, meaning: str) -> Iterator[Metric]:
    for point in ("min", "mean", *(name for name, _, _ in PERCENTILES), "max"):
        floor = 0.02 if point in {"p99", "p999", "max"} else 0.004
        text = "p99.9" if point == "p999" else point
        which = {"p50": "median", "min": "shortest", "max": "longest"}.get(point, text)
        name, title = f"{kind}_{point}", f"{kind} {text}"
        yield _time(name, f"{meaning}: {text}.", title, floor, f"{which} {kind} time")
    yield _time(
        f"{kind}_slow_half",
        f"{meaning}: mean of those from the median to the p99.",
        f"{kind} of the slower half",
        0.01,
        f"{kind} time in the slower half",
        "slower half" if kind == "response" else "slower half, served",
    )


def _time(name: str, meaning: str, title: str, floor: float, noun: str, label: str = "") -> Metric:
    concern, situation = _JUDGED_TIMES.get(name, _UNJUDGED)
    return Metric(
        name, seconds, meaning, title, label, lower=floor, concern=concern, situation=situation,
        moves=f"has a {{}} longer|shorter {noun}",
    )  # fmt: skip


CPU_IDLE: Final = "cpu_idle"

_ROWS: Final[list[Metric]] = [
    Metric("offered", rate, "Requests that a paced or an open load asks for per second."),
    Metric(
        "throughput",
        rate,
        "Good answers (declared status) per second of the load window.",
        label="requests/s",
        higher=0.002,
        concern="throughput",
        situation="unlimited",
        moves="serves {} more|fewer requests per second",
    ),
    *_latency("response", "Time from the scheduled start (closed loop: the send) to the answer"),
    *_latency("service", "Time from the send to the answer"),
    Metric("requests", count, "Requests with an answer."),
    Metric("timeouts", count, "Requests that timed out.", lower=0),
    Metric("errors", count, "Other transport errors.", lower=0),
    Metric(
        "server_cpu_per_request",
        seconds,
        "CPU time of the whole server process tree per answered request.",
        "CPU per request",
        lower=0.002,
        situation="always",
        moves="needs {} more|less CPU per request",
    ),
    Metric(
        "server_cores",
        cores,
        "Cores used by the whole server process tree.",
        "server cores",
        lower=0.02,
    ),
    Metric("client_cores", cores, "Cores used by the load generator."),
    Metric("pss_idle", size, "Proportional set size before the load.", "PSS idle", lower=0.01),
    Metric(
        "pss_steady",
        size,
        "Median proportional set size of the server tree under load.",
        "PSS steady",
        lower=0.004,
        concern="memory",
        situation="always",
        moves="needs {} more|less memory",
    ),
    Metric("memory_per_request", octets, "Memory kept per request.", "bytes kept/request"),
    Metric(
        "memory_per_request_late",
        octets,
        "Memory kept per request of the second half of the load.",
        "bytes kept/request, late",
    ),
    Metric("threads_peak", count, "Most threads of the server tree.", "threads"),
    Metric(
        "switches_voluntary",
        plain,
        "Voluntary context switches of the server tree per request: a thread waits, and is woken.",
        "wake-ups/request",
        lower=0.02,
        moves="has {} more|fewer wake-ups per request",
    ),
    Metric(
        "ready_time",
        seconds,
        "Time from the start of the server until every worker has answered.",
        "ready",
        lower=0.05,
    ),
    Metric(
        "start_cpu",
        seconds,
        "CPU time of the whole server process tree until its first right answer.",
        "CPU to start",
        lower=0.01,
        concern="start",
        situation="start alone",
        moves="needs {} more|less CPU to start",
    ),
    Metric(
        "start_time",
        seconds,
        "Time from the start of the server, with nothing beside it, to its first right answer.",
        lower=0.01,
        concern="start",
        situation="start alone",
        moves="has a {} longer|shorter start time",
    ),
    Metric(
        "import_time",
        seconds,
        "CPU time of a worker for importing the application, or for creating it.",
        "CPU to import",
        "CPU to import",
        lower=0.01,
        concern="start",
        situation="start",
        moves="needs {} more|less CPU to import the application",
    ),
    Metric(
        CPU_IDLE,
        seconds,
        "CPU time per second of the whole server process tree after its start, without requests.",
        "idle CPU per second",
        "CPU without requests",
        lower=0.1,
        concern="idle",
        situation="idle",
        moves="needs {} more|less CPU per second without requests",
        least=0.005,
    ),
    Metric(
        "unit_service",
        seconds,
        "Fastest request of a series sent one at a time to the idle server.",
        "single request",
        lower=0.02,
    ),
    Metric("ceiling", rate, "What arithmetic allows: slots or connections over the floor."),
    Metric(
        "efficiency",
        share,
        "Throughput over its ceiling.",
        higher=0.004,
        concern="throughput",
        situation="ceiling",
    ),
    Metric("warm_up", seconds, "Length of the warm-up.", "warm-up"),
    Metric("host_steal", share, "Share of core time that the hypervisor took.", "steal", highest=1),
    Metric("host_other", cores, "Cores used by neither server nor generator.", "other load"),
]

METRICS: Final[dict[str, Metric]] = {row.name: row for row in _ROWS}

CPU: Final = "server_cpu_per_request"
"""The metric that sums up a case: it confirms steps, and shows what a release changed."""

INSTRUCTIONS: Final = "instructions"
"""Instructions per request inside the process. No launch has this metric."""

TIME_INSIDE: Final = Metric(
    "seconds",
    seconds,
    "CPU time of a call inside the process.",
    "time in process (seconds)",
    lower=0.01,
    moves="takes {} more|less time in process",
)
"""The time of asv's benchmarks, and of anchored points until 2026-11. No launch has it."""

_COUNTED: Final = Metric(
    INSTRUCTIONS,
    count,
    "Instructions of a request inside the process.",
    label=INSTRUCTIONS,
    lower=0.01,
    moves="executes {} more|fewer instructions per request",
)


def row(name: str) -> Metric:
    """The row of a metric, or of `instructions`; for times inside the process, `TIME_INSIDE`."""
    return _COUNTED if name == INSTRUCTIONS else METRICS.get(name, TIME_INSIDE)


HEADLINES: Final = (
    CPU, "throughput", "response_p50", "service_p50", "efficiency", "pss_steady", "response_p99",
    "service_p99", "service_p95", "server_cores", "ready_time", "unit_service", "start_cpu",
    "start_time", "import_time", "response_slow_half", "service_slow_half", CPU_IDLE,
)  # fmt: skip
"""The metrics that people look at first, the first one first."""

COLUMNS: Final = (
    "throughput", "response_mean", "response_p50", "response_p99", "response_max", CPU,
    "server_cores", "pss_steady", "ceiling", "efficiency",
)  # fmt: skip
"""The columns of tables that declare none."""

JUDGED: Final = tuple(name for name in HEADLINES if METRICS[name].situation)
"""The metrics that comparisons judge in some case. Steps in others could not be confirmed."""

BRIEF: Final = HEADLINES[:3]
"""The metrics in a line of progress."""


def judged_in(situations: Collection[Situation]) -> tuple[str, ...]:
    """The metrics that are judged in any of some situations, the first headline first."""
    return tuple(name for name in JUDGED if METRICS[name].situation in situations)
