"""The metric registry: one row per metric. To add a metric, add a row here.

Values are SI units throughout (seconds, bytes, 1/s, or 1 for ratios and counts).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from duetbench.core import units
from duetbench.core.units import cores, count, octets, rate, seconds, share, size

Concern = Literal["cpu", "throughput", "latency", "tail", "memory", "start"]

MATERIAL: Final[dict[Concern, float]] = {
    "cpu": 0.02,
    "throughput": 0.02,
    "latency": 0.05,
    "tail": 0.1,
    "memory": 0.05,
    "start": 0.1,
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

With fewer than about ten answers beyond it, one would be the maximum by another name.
"""

_SMALLEST: Final = 1e-12
_LARGEST: Final = 1e15
"""Smaller figures other than 0 are rounding errors of a subtraction, larger ones are faults."""

_DIRECTIONS: Final = {
    "has": ("higher", "lower"),
    "has a": ("longer", "shorter"),
    "needs": ("more", "less"),
    "takes": ("more", "less"),
    "serves": ("more", "fewer"),
    "executes": ("more", "fewer"),
}
"""What reports call a larger figure and a smaller one, after a verb."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The meaning of a figure.

    Its situation says in which cases comparisons judge it, and nights look for steps. always: all.
    unlimited: closed loops whose handlers do not wait. ceiling: closed loops with a declared
    ceiling. response, service: the other cases, by the times that describe the server. Tails and
    start use the same duets and never prolong a comparison. start alone: comparisons of starts,
    which also judge start and memory after start.
    """

    name: str  # key in run files
    format: units.Format  # for people, with the SI unit of the stored value
    meaning: str  # one sentence
    title: str = ""  # column heading; empty: the name
    noun: str = ""  # what it measures, in a sentence's words; empty: the title
    label: str = ""  # its name in a row of a report, at most 20 characters; empty: its noun
    better: Literal["lower", "higher", "neither"] = "lower"  # neither: a figure of context
    concern: Concern = "cpu"  # its threshold of `MATERIAL`
    situation: str = ""  # empty: it is never judged
    verb: str = "has"  # what a case does if the figure moved
    floor: float = 0.0  # change, relative, up to which nothing moved; 0: a tenth of its limit
    shrinks: bool = False  # figures below zero are possible
    one: str = ""  # what a request does once, after the verb: an `SQL statement`
    many: str = ""  # the plural of that

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))
        object.__setattr__(self, "noun", self.noun or self.title)
        object.__setattr__(self, "label", self.label or self.noun)
        object.__setattr__(self, "floor", self.floor or self.limit / 10)

    @property
    def unit(self) -> units.Unit:
        return self.format.unit

    @property
    def directions(self) -> tuple[str, str]:
        """What reports call a larger figure and a smaller one: more, fewer."""
        return _DIRECTIONS[self.verb]

    @property
    def executes(self) -> bool:
        """Whether a request's instructions may say something about it: not of memory, a start."""
        return self.unit != "B" and self.concern != "start"

    @property
    def limit(self) -> float:
        """The relative change on which somebody acts, and that "no change" excludes."""
        return MATERIAL[self.concern]

    def effect(self, amount: str, *, rose: bool) -> str:
        """Say in words that a case's figure moved: `needs 22 % more CPU per request`.

        With an amount in times: `needs 31 times the CPU per request`.
        """
        if amount.endswith(" times"):
            return f"{self.verb.removesuffix(' a')} {amount} the {self.noun}"
        return f"{self.verb} {amount} {self.directions[not rose]} {self.noun}"

    def count(self, number: float) -> str:
        """Write a number of effects with their noun: `21 SQL statements`."""
        noun = self.one if number == 1 else self.many
        return f"{self.format(number)} {noun}" if self.one else self.format(number)

    def rounded(self, value: float) -> float:
        """Round a value for a file; counts stay exact."""
        exact = self.format is units.count and float(value).is_integer()
        return value if exact else units.rounded(value)

    def wrong(self, value: float) -> str | None:
        """Say why a value is impossible for this metric, in half a sentence; None if it is not."""
        size = abs(value) if self.shrinks else value
        if value == 0 or _SMALLEST <= size <= _LARGEST:
            return None
        return f"expected {self.name} to be 0, or {_SMALLEST:g} to {_LARGEST:g}, found {value:g}"


def _latency(kind: str, meaning: str) -> Iterator[Metric]:
    judged: Mapping[str, tuple[Concern, str]] = {
        "p50": ("latency", kind), "p99": ("tail", f"{kind} tail"),
    }  # fmt: skip
    for point in ("min", "mean", *(name for name, _, _ in PERCENTILES), "max"):
        text = "p99.9" if point == "p999" else point
        which = {"p50": "median", "min": "shortest", "max": "longest"}.get(point, text)
        concern, situation = judged.get(point, ("cpu", ""))
        yield Metric(
            f"{kind}_{point}", seconds, f"{meaning}: {text}.", f"{kind} {text}",
            f"{which} {kind} time", concern=concern, situation=situation, verb="has a",
        )  # fmt: skip
    yield Metric(
        f"{kind}_slow_half",
        seconds,
        f"{meaning}: mean of those from the median to the p99.",
        f"{kind} of the slower half",
        f"{kind} time in the slower half",
        "slower half" if kind == "response" else "slower half, served",
        concern="tail",
        situation=f"{kind} tail",
        verb="has a",
    )


_ROWS: Final[list[Metric]] = [
    Metric("throughput", rate, "Good answers (declared status) per second of the load window.",
           noun="requests per second", label="requests/s", better="higher",
           concern="throughput", situation="unlimited", verb="serves"),
    *_latency("response", "Time from the scheduled start (closed loop: the send) to the answer"),
    *_latency("service", "Time from the send to the answer"),
    Metric("errors", count, "Transport errors."),
    Metric("server_cpu_per_request", seconds,
           "CPU time of the whole server process tree per answered request.", "CPU per request",
           situation="always", verb="needs"),
    Metric("server_cores", cores, "Cores used by the whole server process tree.", "server cores"),
    Metric("pss_idle", size, "Proportional set size before the load.", "PSS idle"),
    Metric("pss_steady", size, "Median proportional set size of the server tree under load.",
           "PSS steady", "memory", concern="memory", situation="always", verb="needs"),
    Metric("ready_time", seconds,
           "Time from the start of the server until every worker has answered.", "ready"),
    Metric("start_cpu", seconds,
           "CPU time of the whole server process tree until its first right answer.",
           "CPU to start", concern="start", situation="start alone", verb="needs"),
    Metric("start_time", seconds,
           "Time from the start of the server, with nothing beside it, to its first right answer.",
           concern="start", situation="start alone", verb="has a"),
    Metric("pss_start", size,
           "Proportional set size of the server tree after its first right answers, without a "
           "load.", "memory after start",
           concern="memory", situation="memory after start", verb="needs"),
    Metric("import_time", seconds,
           "CPU time of a worker for importing the application, or for creating it.",
           "CPU to import", "CPU to import the application", "CPU to import",
           concern="start", situation="start", verb="needs"),
    Metric("unit_service", seconds,
           "Fastest request of a series sent one at a time to the idle server.", "single request"),
    Metric("efficiency", share, "Throughput over its ceiling.",
           better="higher", concern="throughput", situation="ceiling"),
    *(
        Metric(name, form, meaning, title, better="neither", shrinks=form is octets)
        for name, form, title, meaning in (
            ("offered", rate, "", "Requests that a paced or an open load asks for per second."),
            ("requests", count, "", "Requests with an answer."),
            ("client_cores", cores, "", "Cores used by the load generator."),
            ("memory_per_request", octets, "bytes kept/request",
             "Memory kept per request of the second half of the load."),
            ("threads_peak", count, "threads", "Most threads of the server tree."),
            ("ceiling", rate, "", "What arithmetic allows: slots or connections over the floor."),
            ("warm_up", seconds, "warm-up", "Length of the warm-up."),
            ("host_steal", share, "steal", "Share of core time that the hypervisor took."),
            ("host_other", cores, "other load", "Cores used by neither server nor generator."),
        )
    ),
]  # fmt: skip

METRICS: Final[dict[str, Metric]] = {row.name: row for row in _ROWS}

CPU: Final = "server_cpu_per_request"
"""The metric that sums up a case: it confirms steps, and shows what a release changed."""

HEADLINES: Final = (
    CPU, "throughput", "response_p50", "service_p50", "efficiency", "pss_steady", "response_p99",
    "service_p99", "service_p95", "server_cores", "ready_time", "unit_service", "start_cpu",
    "start_time", "pss_start", "import_time", "response_slow_half", "service_slow_half",
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


def judged_in(situations: Collection[str]) -> tuple[str, ...]:
    """The metrics that are judged in any of some situations, the first headline first."""
    return tuple(name for name in JUDGED if METRICS[name].situation in situations)
