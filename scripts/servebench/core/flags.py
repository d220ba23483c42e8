"""Validity flags: what was wrong with a launch, and whether its figures may be used.

A *fail* flag voids the launch: it keeps a status and a reason, and loses every figure.
A *warn* flag is shown beside the figures; from those with a `DISTURBING` one nothing is decided.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

Severity = Literal["fail", "warn"]


class FlagName(StrEnum):
    """The name of a flag, as stored in run files."""

    WRONG_STATUS = "wrong_status"
    WRONG_BODY = "wrong_body"
    WRONG_SIZE = "wrong_size"
    TRANSPORT_ERRORS = "transport_errors"
    GIL_MISMATCH = "gil_mismatch"
    VERSION_MISMATCH = "version_mismatch"
    WORKER_RESTARTED = "worker_restarted"
    SERVER_DIED = "server_died"
    NOT_READY = "not_ready"
    NOT_STOPPED = "not_stopped"
    COUNT_MISMATCH = "count_mismatch"
    LITTLES_LAW = "littles_law"
    IMPOSSIBLE = "impossible"
    NOT_CONCURRENT = "not_concurrent"
    NO_ANSWER = "no_answer"
    CLIENT_SATURATED = "client_saturated"
    CLIENT_FAILED = "client_failed"
    CONNECTIONS_OVER_BACKPRESSURE = "connections_over_backpressure"
    FOREIGN_LISTENER = "foreign_listener"
    INTERRUPTED = "interrupted"
    HARNESS_ERROR = "harness_error"

    OVERLOADED = "overloaded"
    SCHED_LAG = "sched_lag"
    NOT_STEADY = "not_steady"
    ABOVE_UNIT = "above_unit"
    MEMORY_GROWS = "memory_grows"
    CONNECTIONS_REOPENED = "connections_reopened"
    WORKER_IMBALANCE = "worker_imbalance"
    CORES_INSUFFICIENT = "cores_insufficient"
    CORES_SHARED = "cores_shared"
    HOST_NOISE = "host_noise"
    FEW_SAMPLES = "few_samples"
    FEW_LAUNCHES = "few_launches"
    UNPINNED = "unpinned"
    ENV_CHANGED = "env_changed"
    STOP_TIMEOUT = "stop_timeout"


class FlagKind(NamedTuple):
    """One row of the registry: how bad a flag is, and what it means in a sentence."""

    severity: Severity
    meaning: str


FLAGS: Final[dict[FlagName, FlagKind]] = {
    FlagName.WRONG_STATUS: FlagKind("fail", "a response had another status than declared"),
    FlagName.WRONG_BODY: FlagKind("fail",
        "a response had another content type or body than declared"),
    FlagName.WRONG_SIZE: FlagKind("fail",
        "a response under load had a body of another size than right ones have"),
    FlagName.TRANSPORT_ERRORS: FlagKind("fail",
        "connections were refused or reset, or requests timed out"),
    FlagName.GIL_MISMATCH: FlagKind("fail",
        "the GIL of a serving process was not in the state that the case names"),
    FlagName.VERSION_MISMATCH: FlagKind("fail",
        "a serving process ran other versions than the case's interpreter and lock"),
    FlagName.WORKER_RESTARTED: FlagKind("fail",
        "the serving processes changed during the measurement"),
    FlagName.SERVER_DIED: FlagKind("fail", "the server ended before it was asked to"),
    FlagName.NOT_READY: FlagKind("fail", "the server was not ready in time"),
    FlagName.NOT_STOPPED: FlagKind("fail",
        "a process of the server's session outlived it, or outlived being killed"),
    FlagName.COUNT_MISMATCH: FlagKind("fail",
        "the server counted other requests than the client sent"),
    FlagName.LITTLES_LAW: FlagKind("fail",
        "the requests in flight do not add up to the connections of the closed loop"),
    FlagName.IMPOSSIBLE: FlagKind("fail",
        "a figure above its ceiling, below its floor, or contradicting another"),
    FlagName.NOT_CONCURRENT: FlagKind("fail",
        "requests that the experiment says overlap were served one after another"),
    FlagName.NO_ANSWER: FlagKind("fail", "no good answer came while the load was on"),
    FlagName.CLIENT_SATURATED: FlagKind("fail",
        "the load generator had no core time left: it, not the server, was measured"),
    FlagName.CLIENT_FAILED: FlagKind("fail", "the load generator failed or printed rubbish"),
    FlagName.CONNECTIONS_OVER_BACKPRESSURE: FlagKind("fail",
        "the load opens more connections than the server accepts"),
    FlagName.FOREIGN_LISTENER: FlagKind("fail",
        "a process that is not ours listened on the server's port"),
    FlagName.INTERRUPTED: FlagKind("fail", "the launch was interrupted"),
    FlagName.HARNESS_ERROR: FlagKind("fail", "servebench itself failed in this launch"),
    FlagName.OVERLOADED: FlagKind("warn", "the server did not keep up with the offered rate"),
    FlagName.SCHED_LAG: FlagKind("warn", "the generator sent requests later than scheduled"),
    FlagName.NOT_STEADY: FlagKind("warn",
        "the warm-up ended before the throughput was steady, or its level moved in the load"),
    FlagName.ABOVE_UNIT: FlagKind("warn",
        "the throughput was above what the fastest single request, alone, would allow"),
    FlagName.MEMORY_GROWS: FlagKind("warn", "the server kept memory for every request"),
    FlagName.CONNECTIONS_REOPENED: FlagKind("warn",
        "connections that are to be kept alive were closed and opened again"),
    FlagName.WORKER_IMBALANCE: FlagKind("warn", "the connections were spread unevenly"),
    FlagName.CORES_INSUFFICIENT: FlagKind("warn",
        "more workers than server cores: scaling with workers cannot be seen here"),
    FlagName.CORES_SHARED: FlagKind("warn", "server and generator share cores"),
    FlagName.HOST_NOISE: FlagKind("warn",
        "other processes or the hypervisor took core time during the measurement"),
    FlagName.FEW_SAMPLES: FlagKind("warn", "too few requests for the tail percentiles"),
    FlagName.FEW_LAUNCHES: FlagKind("warn", "too few launches for an interval"),
    FlagName.UNPINNED: FlagKind("warn", "server and generator could not be pinned to cores"),
    FlagName.ENV_CHANGED: FlagKind("warn",
        "the machine's kernel, governor or core count changed during the run"),
    # Some releases of servers do; what they had answered until then is no less true.
    FlagName.STOP_TIMEOUT: FlagKind("warn",
        "the server did not end when it was asked to, and was killed after its figures"),
}  # fmt: skip


DISTURBING: Final = frozenset(
    {
        FlagName.HOST_NOISE,
        FlagName.NOT_STEADY,
        FlagName.MEMORY_GROWS,
        FlagName.CONNECTIONS_REOPENED,
        FlagName.SCHED_LAG,
        FlagName.ENV_CHANGED,
        FlagName.UNPINNED,
    }
)
"""Warnings that something besides the case was measured too, or something that does not last:
nothing is decided from such figures.

The other warnings describe the case or the machine (few cores, shared cores, an uneven spread);
they belong to the answer.
"""


class Flag(BaseModel):
    """A flag raised for one launch, with what was expected and found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: FlagName
    detail: str

    @property
    def severity(self) -> Severity:
        return FLAGS[self.name].severity
