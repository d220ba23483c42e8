"""Every error that duetbench raises on purpose, what exit codes mean, and every validity flag.

A LaunchError ends one launch, and the others go on; any other error ends the verb with its code.
A message says what was expected, what was found, and what to do. Exit code 1 is never an error's:
it says that all was done, and what was found is bad.

A *fail* flag voids a launch: it keeps a status and a reason, and loses every figure. A *warn* flag
is shown beside the figures; a `DISTURBING` one widens the intervals of statements.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Final, Literal, Self

EXIT_CODES: Final[Mapping[str, str]] = {
    "0": "done; all that was to be judged was judged, nothing is materially slower or broken",
    "1": "done, and something is wrong: materially slower or broken, failed, refused or missing",
    "2": "wrong usage, or a wrong declaration",
    "3": "no answer, or not all of it: nothing usable was measured, or something stayed undecided",
    "4": "could not be done: set-up, network, disk, a busy machine, an error of duetbench's own",
    "130, 143": "interrupted by Ctrl-C, or ended; what was measured is kept",
}
"""What every verb's exit code means. The README shows this table, and `--help` prints it."""

FAILED: Final = 4


class DuetbenchError(Exception):
    """Base of all errors whose message is meant for the person at the keyboard."""

    exit_code: ClassVar[int] = FAILED


class UsageError(DuetbenchError):
    """The command line names something that does not exist or cannot be combined."""

    exit_code = 2


class DeclarationError(DuetbenchError):
    """A declaration is wrong: which file, which key, what was found, what is allowed."""

    exit_code = 2

    def __init__(self, file: str, key: str, value: object, allowed: str) -> None:
        self.file, self.key, self.value, self.allowed = file, key, value, allowed
        super().__init__(f"{file}: {key}: found {value!r}; allowed: {allowed}")


class SetupError(DuetbenchError):
    """Something that measuring needs is missing and could not be made."""


class BusyError(DuetbenchError):
    """Another measurement is under way on this machine."""


class RecordError(DuetbenchError):
    """A run file cannot be read, written or understood."""


class CountError(DuetbenchError):
    """Instructions cannot be counted: Valgrind is missing, was ended, or wrote no counts."""


class ServiceError(DuetbenchError):
    """GitHub cannot be reached, refuses, or answers what was not expected."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class HistoryError(DuetbenchError):
    """The branch that holds the history cannot be fetched, pushed, or laid out."""


class ArtifactError(DuetbenchError):
    """What another machine sent is not what was asked for; nothing of it is used."""


class NothingMeasuredError(DuetbenchError):
    """No launch of the plan gave a usable figure."""

    exit_code = 3


Severity = Literal["fail", "warn"]


def _fail(name: str, meaning: str) -> tuple[str, Severity, str, bool]:
    return name, "fail", meaning, False


def _warn(name: str, meaning: str) -> tuple[str, Severity, str, bool]:
    return name, "warn", meaning, False


def _disturbs(name: str, meaning: str) -> tuple[str, Severity, str, bool]:
    return name, "warn", meaning, True


class FlagName(StrEnum):
    """The name of a flag, as stored in run files."""

    severity: Severity
    meaning: str
    disturbs: bool

    def __new__(cls, name: str, severity: Severity, meaning: str, disturbs: bool) -> Self:
        flag = str.__new__(cls, name)
        flag._value_, flag.severity, flag.meaning = name, severity, meaning
        flag.disturbs = disturbs
        return flag

    WRONG_STATUS = _fail("wrong_status", "a response had another status than declared")
    WRONG_BODY = _fail("wrong_body", "a response had another content type or body than declared")
    WRONG_SIZE = _fail("wrong_size", "under load, a body had another size than right ones have")
    TRANSPORT_ERRORS = _fail("transport_errors", "connections failed, or requests timed out")
    GIL_MISMATCH = _fail("gil_mismatch", "the GIL of a serving process was not as the case says")
    VERSION_MISMATCH = _fail("version_mismatch", "a process ran other versions than the case names")
    WORKER_RESTARTED = _fail("worker_restarted", "the serving processes changed under load")
    SERVER_DIED = _fail("server_died", "the server ended before it was asked to")
    SETUP_FAILED = _fail("setup_failed", "a command before or after the server failed")
    NOT_READY = _fail("not_ready", "the server was not ready in time")
    NOT_STOPPED = _fail("not_stopped", "a process of the server's session outlived it or SIGKILL")
    COUNT_MISMATCH = _fail("count_mismatch", "the server counted other requests than were sent")
    LITTLES_LAW = _fail(
        "littles_law", "the requests in flight do not add up to the connections of the closed loop"
    )
    IMPOSSIBLE = _fail("impossible", "a figure above its ceiling, below its floor or contradictory")
    NOT_CONCURRENT = _fail(
        "not_concurrent", "requests that the experiment says overlap were served one after another"
    )
    NO_ANSWER = _fail("no_answer", "no good answer came while the load was on")
    CLIENT_SATURATED = _fail(
        "client_saturated",
        "the load generator had no core time left: it, not the server, was measured",
    )
    CLIENT_FAILED = _fail("client_failed", "the load generator failed or printed rubbish")
    CONNECTIONS_OVER_BACKPRESSURE = _fail(
        "connections_over_backpressure", "the load opens more connections than the server accepts"
    )
    FOREIGN_LISTENER = _fail("foreign_listener", "another process listened on the server's port")
    INTERRUPTED = _fail("interrupted", "the launch was interrupted")
    HARNESS_ERROR = _fail("harness_error", "duetbench itself failed in this launch")

    OVERLOADED = _warn("overloaded", "the server did not keep up with the offered rate")
    SCHED_LAG = _disturbs("sched_lag", "the generator sent requests later than scheduled")
    NOT_STEADY = _disturbs(
        "not_steady",
        "the warm-up ended before the throughput was steady, or its level moved in the load",
    )
    ABOVE_UNIT = _warn(
        "above_unit", "the throughput was above what the fastest single request, alone, would allow"
    )
    NOBODY_BUSY = _warn(
        "nobody_busy", "requests waited for something that is no core time of server or generator"
    )
    SMALL_POOL = _warn(
        "small_pool", "nobody was busy, and fewer requests were under way than had connections"
    )
    ERROR_INSIDE = _warn("error_inside", "a body that came with the declared status tells an error")
    MEMORY_GROWS = _disturbs("memory_grows", "the server kept memory for every request")
    CONNECTIONS_REOPENED = _disturbs(
        "connections_reopened", "connections that are to be kept alive were closed and opened again"
    )
    WORKER_IMBALANCE = _warn("worker_imbalance", "the connections were spread unevenly")
    CORES_INSUFFICIENT = _warn(
        "cores_insufficient",
        "more workers than server cores: scaling with workers cannot be seen here",
    )
    CORES_SHARED = _warn("cores_shared", "server and generator share cores")
    HOST_NOISE = _disturbs(
        "host_noise", "other processes or the hypervisor took core time during the measurement"
    )
    FEW_SAMPLES = _warn("few_samples", "too few requests for the tail percentiles")
    FEW_LAUNCHES = _warn("few_launches", "too few launches for an interval")
    UNPINNED = _disturbs("unpinned", "server and generator could not be pinned to cores")
    ANSWERS_DIFFER = _warn(
        "answers_differ",
        "the sides answer one request with different bodies, each always with the same",
    )
    ENV_CHANGED = _disturbs("env_changed", "kernel, governor or core count changed in the run")
    # Some releases of servers do; what they had answered until then is no less true.
    STOP_TIMEOUT = _warn(
        "stop_timeout",
        "the server did not end when it was asked to, and was killed after its figures",
    )


DISTURBING: Final = frozenset(name for name in FlagName if name.disturbs)
"""Warnings that something besides the case was measured too, or something that does not last:
no trend is judged from such figures, and the intervals of statements are wider.

The other warnings describe the case or the machine (few cores, shared cores, an uneven spread);
they belong to the answer.
"""


class LaunchError(DuetbenchError):
    """One launch failed. It gets a status, a flag and a reason, and never a figure."""

    def __init__(self, flag: FlagName, detail: str) -> None:
        self.flag, self.detail = flag, detail
        super().__init__(f"{flag}: {detail}")
