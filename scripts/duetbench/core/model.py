"""The types of duetbench: case, plan, launch, what one request does, run.

All are frozen, and validated on creation. A `Case` carries all that a launch needs, and a `Run` all
that a reader needs.
"""

from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from duetbench.core.errors import FlagKind, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.units import rounded

FORMAT_VERSION: Final = 3
"""Version of the run file."""

MOST: Final = 2_000
"""Entries of a list that a page shows: many times what any comparison has."""

READY_SECONDS: Final = 30.0
_LONGEST_S: Final = 1e7
"""Upper bound of any measured time: four months. A longer one is a fault, or forged."""


def in_our_time(moment: datetime) -> datetime:
    """Refuse moments before 2000 and after 2199, which may overflow in other time zones."""
    if not 2000 <= moment.year < 2200:
        raise ValueError("expected a moment of the years 2000 to 2199")
    return moment


def _moment(text: str) -> str:
    with suppress(ValueError):
        if in_our_time(datetime.fromisoformat(text)).tzinfo is not None:
            return text
    raise ValueError("expected a moment like 2026-11-20T03:00:00+00:00")


Figure = Annotated[float, Field(ge=-1e18, le=1e18)]
Amount = Annotated[float, Field(ge=0, le=1e18)]
"""An amount. Bounded, so that sums, products and ratios of stored values stay finite."""

Ratio = Annotated[float, Field(gt=1e-9, le=1e9)]
"""A ratio of two figures."""

Moment = Annotated[str, AfterValidator(_moment)]
"""A time in ISO 8601 with its offset from UTC, as text."""

Seconds = Annotated[float, Field(ge=0, le=_LONGEST_S), AfterValidator(rounded)]
"""A time that was measured, s."""


def _possible(metrics: dict[str, float]) -> dict[str, float]:
    if unknown := sorted(metrics.keys() - METRICS):
        raise ValueError(f"unknown metrics {unknown}; the registry is metrics.py")
    wrong = [reason for name in metrics if (reason := METRICS[name].wrong(metrics[name]))]
    if wrong:
        raise ValueError(f"{'; '.join(wrong[:3])}: no launch gives that")
    return metrics


Figures = Annotated[dict[str, float], AfterValidator(_possible)]
"""What a launch gave, by metric, in SI units."""

_Entry = TypeVar("_Entry")
Many = Annotated[tuple[_Entry, ...], Field(max_length=MOST)]
"""A list whose length a page can bear, whoever wrote the file."""


def _each_once(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    if len({entry.case.id for entry in entries}) < len(entries):
        raise ValueError("expected each case once")
    return entries


OfCases = Annotated[Many[_Entry], AfterValidator(_each_once)]
"""A list of what is known of cases, each of them once."""


Profile = Literal["quick", "nightly", "published"]
Interface = Literal["asgi", "wsgi"]


class Frozen(BaseModel):
    """Base of all values: immutable, unknown keys and infinite figures refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Artefact(Frozen):
    """A value with a file of its own, and a field `format`; see `files`."""

    noun: ClassVar[str]
    """Its name in errors: a change record."""
    indent: ClassVar[int | None] = 1
    """Indent of its JSON; None: all on one line."""
    place: ClassVar[str] = ""
    """Place of its file below `results/`: a format string, filled from the value."""

    @property
    def path(self) -> str:
        return self.place.format(self)


class Load(Frozen):
    """The load of one case: a closed loop, or a rate with at most `connections` in flight."""

    connections: int = Field(gt=0, description="Connections, all kept alive.")
    rate: float | None = Field(None, gt=0, description="Requests/s offered; null: a closed loop.")
    duration: float = Field(gt=0, description="Seconds in which requests are sent.")
    timeout: float = Field(gt=0, description="Seconds after which a request counts as timed out.")

    @property
    def open(self) -> bool:
        """Whether each request has a connection, so that all are sent on schedule."""
        return self.rate is not None and self.connections == self.rate * self.duration

    @property
    def times(self) -> Literal["response", "service"]:
        """The kind of times that describes the server.

        With a rate it is service times, from the send on: response times contain the generator's
        queue. A closed loop has no queue, and its times are called response times.
        """
        return "response" if self.rate is None else "service"


class Expectation(Frozen):
    """What a right answer looks like. At most one of `text`, `json_value`, `json_schema`."""

    status: int = Field(default=200, ge=100, le=599)
    content_type: str | None = Field(None, description="Media type, without parameters; null: any.")
    text: str | None = Field(default=None, description="Regular expression for the whole body.")
    json_value: Any = Field(default=None, description="The exact JSON value of the body.")
    json_schema: dict[str, Any] | None = Field(default=None, description="JSON Schema (2020-12).")
    size: tuple[int, int] | None = Field(
        default=None,
        description="Least and most bytes of a right body, if it varies; null: under load, only "
        "one or two sizes of the idle server's answers are right; if it has more, any.",
    )

    @property
    def tells_body(self) -> bool:
        return any(v is not None for v in (self.text, self.json_value, self.json_schema))

    @model_validator(mode="after")
    def _one_body_with_sizes_in_order(self) -> Self:
        if self.size is not None and not 0 <= self.size[0] <= self.size[1]:
            raise ValueError("size: give the least and the most bytes, in this order, from 0")
        if (self.text, self.json_value, self.json_schema).count(None) < 2:
            raise ValueError("give one of text, json_value and json_schema, or none")
        return self


class Endpoint(Frozen):
    """One handler of an experiment's application."""

    name: str
    app: str = Field(description="module:attribute inside the experiment's folder.")
    interface: Interface
    factory: bool = Field(default=False, description="The attribute is called for the application.")
    method: str = "GET"
    path: str
    paths: tuple[str, ...] = Field((), description="Further ones: each request takes any of all.")
    headers: dict[str, str] = Field(default_factory=dict)
    body: str = Field("", description="Of each request: text for UTF-8, or a data URL.")
    expect: Expectation
    floor: float = Field(ge=0, description="Service floor in s: no answer can be faster.")
    takes: float = Field(0, ge=0, description="Seconds of a request, about; for planning only.")


class Case(Frozen):
    """One cell: everything that a launch needs, resolved."""

    id: str
    experiment: str
    endpoint: Endpoint
    python: str = Field(description="Name of an interpreter in pyproject.toml: 3.14, 3.14t, …")
    stack: str
    server: str
    loop: str
    workers: int = Field(gt=0)
    threads: int | None = Field(None, gt=0, description="Blocking threads per worker; null: none.")
    slots: int | None = Field(None, description="Requests in service at once; null: unlimited.")
    load: Load
    cores: Literal["split", "shared"] = Field(
        description="split: server and generator on cores of their own; shared: both on all."
    )
    env: dict[str, str] = Field(default_factory=dict, description="Variables for its server.")
    env_names: tuple[str, ...] = Field((), description="Variables whose values are not recorded.")
    before: tuple[str, ...] = Field((), description="Shell commands that run once for each side.")
    after: tuple[str, ...] = Field(default=(), description="Shell commands after each stop.")
    server_args: tuple[str, ...] = Field(
        default=(),
        exclude_if=().__eq__,
        description="Arguments of the server beside those that duetbench gives it.",
    )
    ready_timeout: float = Field(
        default=READY_SECONDS,
        gt=0,
        exclude_if=READY_SECONDS.__eq__,
        description="Seconds in which every worker of the server must answer; 1 s is usual.",
    )

    @property
    def free_threaded(self) -> bool:
        return self.python.removesuffix("-jit").endswith("t")

    @property
    def ceiling(self) -> float | None:
        """Requests/s that arithmetic allows: those offered, or those that may wait at once."""
        floor, connections = self.endpoint.floor, self.load.connections
        waiting = min(connections, self.slots or connections) / floor if floor else None
        return min(filter(None, (self.load.rate, waiting)), default=None)


class Plan(Frozen):
    """The cases of a run, of one profile, with numbers and durations of launches."""

    profile: Profile
    launches: int = Field(gt=0, description="Launches per case.")
    seed: int
    cases: tuple[Case, ...]


class Flag(Frozen):
    """A flag of one launch; `detail` says what was expected and found."""

    name: FlagName
    detail: str

    @property
    def kind(self) -> FlagKind:
        return self.name.kind


class Status(StrEnum):
    """How a launch ended."""

    OK = "ok"
    FAILED = "failed"


class Launch(Frozen):
    """One server start → verify → warm-up → measure → verify → stop: the sample."""

    case: str
    round: int = Field(ge=0, description="Number among its case's launches, from 0.")
    order: int = Field(ge=0, le=10**9, description="Place in the run's sequence, from 0.")
    started: str = Field(description="UTC, ISO 8601.")
    seconds: Seconds = Field(description="Wall time of the whole launch.")
    status: Status
    flags: tuple[Flag, ...] = ()
    metrics: Figures = Field(default_factory=dict)

    @field_validator("metrics")
    @classmethod
    def _rounded(cls, metrics: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if info.mode == "json":
            return metrics  # whoever wrote the file has rounded them
        rows = METRICS.items()
        return {name: row.rounded(metrics[name]) for name, row in rows if name in metrics}

    @model_validator(mode="after")
    def _failure_is_never_a_number(self) -> Self:
        failing = [flag for flag in self.flags if flag.kind == "void"]
        if self.status is Status.FAILED and (self.metrics or not failing):
            raise ValueError("a failed launch has a fail flag with a reason, and no metrics")
        if self.status is Status.OK and (failing or not self.metrics):
            raise ValueError("a launch with a fail flag, or without metrics, is not ok")
        return self

    @property
    def failure(self) -> str:
        """Why it failed; empty if it did not."""
        return "; ".join(
            f"{flag.name}: {flag.detail}" for flag in self.flags if flag.kind == "void"
        )


class Machine(Frozen):
    """Fingerprint of the machine: figures of different machines are never compared."""

    id: str = Field(description="Stable and readable: CPU model, cores, and a hash of the rest.")
    cpu: str
    cores: int = Field(gt=0, le=10**5)
    server_cores: tuple[int, ...]
    client_cores: tuple[int, ...]
    memory: int = Field(ge=0, le=10**18, description="Bytes.")
    kernel: str
    os: str
    virtual: str | None = Field(description="Hypervisor, if one is seen.")
    governor: str | None = Field(description="Frequency governor, if the machine shows one.")
    pinned: bool


class Verdict(StrEnum):
    """What is said of a finding, from head's side."""

    WORSE = "worse"
    BETTER = "better"
    DIFFERENT = "different"  # which is neither good nor bad by itself
    SAME = "same"
    UNKNOWN = "unknown"

    @property
    def sign(self) -> str:
        """A sign beside the word: neither a colour nor a sign alone says which is better."""
        return dict(zip(Verdict, "▼▲≠=?", strict=True))[self]

    @property
    def text(self) -> str:
        """The word with its sign: `▼ worse`."""
        return f"{self.sign} {self}"


class StackRecord(Frozen):
    """The locked packages that a run was measured with."""

    name: str
    digest: str = Field(description="SHA-256 of the lock file.")
    packages: dict[str, str]


class InterpreterKind(Frozen):
    """What distinguishes interpreters of one version."""

    free_threaded: bool
    jit: bool = Field(
        default=False, description="Its JIT compiler is on while it serves; its name ends in -jit."
    )

    @property
    def suffix(self) -> str:
        """The end of its name."""
        return "t" if self.free_threaded else "-jit" if self.jit else ""


class InterpreterRecord(InterpreterKind):
    """An interpreter, as it describes itself."""

    name: str
    version: str
    build: str = Field(description="Compiler and build flags that matter.")
    origin: Literal["prebuilt", "source", "found"] = Field(
        description="prebuilt, source: from set-up, one of them for all; found: the machine's own."
    )
    memory: str = Field("", description="Its allocator, and huge pages: requested, granted.")

    @property
    def text(self) -> str:
        """Version and kind, for people."""
        kind = " free-threaded" if self.free_threaded else " with the JIT" if self.jit else ""
        return f"{self.version}{kind}"


class CaseResult(Frozen):
    """One case with its launches."""

    case: Case
    launches: Many[Launch] = ()
    missing: str = Field("", description="Why it was never launched: no such interpreter here.")

    @property
    def usable(self) -> tuple[Launch, ...]:
        """The launches that did not fail."""
        return tuple(launch for launch in self.launches if launch.status is Status.OK)

    @property
    def status(self) -> Literal["measured", "failed", "not measured"]:
        """Whether there is a usable launch, or at least a launch."""
        return "measured" if self.usable else "failed" if self.launches else "not measured"


ResultStatus = Literal["complete", "partial"]
"""How a run or a comparison ended; partial: it goes on, or was interrupted."""


class Run(Artefact):
    """Many launches on one machine for one commit and its stacks: one immutable file."""

    noun: ClassVar[str] = "a run file"
    indent: ClassVar[int | None] = None
    place: ClassVar[str] = "runs/{0.machine.id}/{0.year}/{0.id}.json"

    format: Literal[3] = FORMAT_VERSION
    id: str
    status: ResultStatus
    started: Moment
    wall_seconds: Seconds = 0.0
    duetbench: str
    commit: str | None = Field(description="40 hex digits; null outside a git repository.")
    dirty: bool
    profile: Profile
    launches: int
    seed: int
    machine: Machine
    oha: str
    oha_origin: Literal["prebuilt", "source"] | None = Field(None, description="Of older runs.")
    interpreters: tuple[InterpreterRecord, ...]
    stacks: tuple[StackRecord, ...]
    results: OfCases[CaseResult]
    notes: tuple[str, ...] = Field((), description="Events of the run: interruptions, orphans, …")

    @property
    def year(self) -> int:
        return datetime.fromisoformat(self.started).astimezone(UTC).year
