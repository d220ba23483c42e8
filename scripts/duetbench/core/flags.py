"""Validity flags: what was wrong with a launch, and whether its figures may be used.

A *fail* flag voids the launch: it keeps a status and a reason, and loses every figure.
A *warn* flag is shown beside the figures; from those with a `DISTURBING` one nothing is decided.
"""

from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict

Severity = Literal["fail", "warn"]


class FlagName(StrEnum):
    """The name of a flag, as stored in run files."""

    severity: Severity
    meaning: str

    def __new__(cls, name: str, severity: Severity, meaning: str) -> Self:
        flag = str.__new__(cls, name)
        flag._value_, flag.severity, flag.meaning = name, severity, meaning
        return flag

    WRONG_STATUS = "wrong_status", "fail", "a response had another status than declared"
    WRONG_BODY = "wrong_body", "fail", "a response had another content type or body than declared"
    WRONG_SIZE = (
        "wrong_size",
        "fail",
        "a response under load had a body of another size than right ones have",
    )
    TRANSPORT_ERRORS = (
        "transport_errors",
        "fail",
        "connections were refused or reset, or requests timed out",
    )
    GIL_MISMATCH = (
        "gil_mismatch",
        "fail",
        "the GIL of a serving process was not in the state that the case names",
    )
    VERSION_MISMATCH = (
        "version_mismatch",
        "fail",
        "a serving process ran other versions than the case's interpreter and lock",
    )
    WORKER_RESTARTED = (
        "worker_restarted",
        "fail",
        "the serving processes changed during the measurement",
    )
    SERVER_DIED = "server_died", "fail", "the server ended before it was asked to"
    SETUP_FAILED = (
        "setup_failed",
        "fail",
        "a command that was to run before or after the server failed",
    )
    NOT_READY = "not_ready", "fail", "the server was not ready in time"
    NOT_STOPPED = (
        "not_stopped",
        "fail",
        "a process of the server's session outlived it, or outlived being killed",
    )
    COUNT_MISMATCH = (
        "count_mismatch",
        "fail",
        "the server counted other requests than the client sent",
    )
    LITTLES_LAW = (
        "littles_law",
        "fail",
        "the requests in flight do not add up to the connections of the closed loop",
    )
    IMPOSSIBLE = (
        "impossible",
        "fail",
        "a figure above its ceiling, below its floor, or contradicting another",
    )
    NOT_CONCURRENT = (
        "not_concurrent",
        "fail",
        "requests that the experiment says overlap were served one after another",
    )
    NO_ANSWER = "no_answer", "fail", "no good answer came while the load was on"
    CLIENT_SATURATED = (
        "client_saturated",
        "fail",
        "the load generator had no core time left: it, not the server, was measured",
    )
    CLIENT_FAILED = "client_failed", "fail", "the load generator failed or printed rubbish"
    CONNECTIONS_OVER_BACKPRESSURE = (
        "connections_over_backpressure",
        "fail",
        "the load opens more connections than the server accepts",
    )
    FOREIGN_LISTENER = (
        "foreign_listener",
        "fail",
        "a process that is not ours listened on the server's port",
    )
    INTERRUPTED = "interrupted", "fail", "the launch was interrupted"
    HARNESS_ERROR = "harness_error", "fail", "duetbench itself failed in this launch"

    OVERLOADED = "overloaded", "warn", "the server did not keep up with the offered rate"
    SCHED_LAG = "sched_lag", "warn", "the generator sent requests later than scheduled"
    NOT_STEADY = (
        "not_steady",
        "warn",
        "the warm-up ended before the throughput was steady, or its level moved in the load",
    )
    ABOVE_UNIT = (
        "above_unit",
        "warn",
        "the throughput was above what the fastest single request, alone, would allow",
    )
    MEMORY_GROWS = "memory_grows", "warn", "the server kept memory for every request"
    CONNECTIONS_REOPENED = (
        "connections_reopened",
        "warn",
        "connections that are to be kept alive were closed and opened again",
    )
    WORKER_IMBALANCE = "worker_imbalance", "warn", "the connections were spread unevenly"
    CORES_INSUFFICIENT = (
        "cores_insufficient",
        "warn",
        "more workers than server cores: scaling with workers cannot be seen here",
    )
    CORES_SHARED = "cores_shared", "warn", "server and generator share cores"
    HOST_NOISE = (
        "host_noise",
        "warn",
        "other processes or the hypervisor took core time during the measurement",
    )
    FEW_SAMPLES = "few_samples", "warn", "too few requests for the tail percentiles"
    FEW_LAUNCHES = "few_launches", "warn", "too few launches for an interval"
    UNPINNED = "unpinned", "warn", "server and generator could not be pinned to cores"
    ANSWERS_DIFFER = (
        "answers_differ",
        "warn",
        "the sides answer one request with different bodies, each always with the same",
    )
    ENV_CHANGED = (
        "env_changed",
        "warn",
        "the machine's kernel, governor or core count changed during the run",
    )
    # Some releases of servers do; what they had answered until then is no less true.
    STOP_TIMEOUT = (
        "stop_timeout",
        "warn",
        "the server did not end when it was asked to, and was killed after its figures",
    )


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
        return self.name.severity
