"""Every error that duetbench raises on purpose, the exit codes, and every validity flag.

A LaunchError ends one launch, and the others go on; any other error ends the command with its code.
A message says what was expected, what was found, and what to do. No error has exit code 1, which
means that the command succeeded with a bad result.

A *void* launch keeps a status and a reason, and loses every figure. The figures of a *disturbed*
one contain something else, too: trends leave them out, and statements get wider intervals. A
*note* describes the case or the machine, which belongs to the answer.
"""

import signal
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import ClassVar, Final, Literal, Self

EXIT_CODES: Final[Mapping[str, str]] = {
    "0": "done; everything was judged, and nothing is materially slower or broken",
    "1": "done, and something is wrong: materially slower or broken, failed, refused or missing",
    "2": "wrong usage, or a wrong declaration",
    "3": "incomplete: nothing usable was measured, or something stayed undecided",
    "4": "failed: set-up, network, disk, or an error in duetbench",
    "5": "the machine is busy: another measurement runs, and did for the time of --wait",
    "129, 130, 143": "interrupted: the terminal closed, Ctrl-C, SIGTERM; what was measured is kept",
    "141": "the program that read the output has ended",
}
"""The meaning of exit codes, for every command. docs/reference.md prints it."""

FAILED: Final = 4


class DuetbenchError(Exception):
    """Base of all errors with a message for the user."""

    exit_code: ClassVar[int] = FAILED


class UsageError(DuetbenchError):
    """The command line names something that does not exist or cannot be combined."""

    exit_code = 2


class DeclarationError(DuetbenchError):
    """A declaration is wrong; the message names file, key, value and what is allowed."""

    exit_code = 2

    def __init__(self, file: str, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{file}: {key}: found {value!r}; allowed: {allowed}")


class SetupError(DuetbenchError):
    """Something that measuring needs is missing, and set-up failed."""


class BusyError(DuetbenchError):
    """Something else uses this machine, for all of the time that the user waits."""

    exit_code = 5


class RecordError(DuetbenchError):
    """A run file cannot be read, written or understood."""


class CountError(DuetbenchError):
    """A request cannot be counted or observed.

    `kind` says whether its login was refused, or it was not answered in time.
    """

    def __init__(self, message: str, kind: Literal["", "login", "endless"] = "") -> None:
        self.kind = kind
        super().__init__(message)


class HistoryError(DuetbenchError):
    """The branch that holds the history cannot be fetched, pushed, or laid out."""


class ArtifactError(DuetbenchError):
    """Files from another machine are not the expected ones; none of them is used."""


class NothingMeasuredError(DuetbenchError):
    """No launch of the plan gave a usable figure; `flags` are those of the first one."""

    exit_code = 3

    def __init__(self, message: str, flags: "Collection[FlagName]" = ()) -> None:
        self.flags = flags
        super().__init__(message)


class InterruptedRun(SystemExit):
    """The user stopped the run; `advice` says what is kept and how to continue.

    It is a `SystemExit`: whoever goes on after an `Exception` does not go on after it.
    """

    def __init__(self, signum: int) -> None:
        self.signal = signal.Signals(signum)
        self.advice = ""
        super().__init__(self.exit_code)

    def __str__(self) -> str:
        return self.signal.name

    @property
    def exit_code(self) -> int:
        return 128 + self.signal


FlagKind = Literal["void", "disturbed", "note"]


class FlagName(StrEnum):
    """The name of a flag, as stored in run files."""

    kind: FlagKind
    meaning: str

    def __new__(cls, name: str, kind: FlagKind, meaning: str) -> Self:
        flag = str.__new__(cls, name)
        flag._value_, flag.kind, flag.meaning = name, kind, meaning
        return flag

    WRONG_ANSWER = "wrong_answer", "void", "a status, type, body or size other than declared"
    NO_ANSWER = "no_answer", "void", "connections failed, requests timed out, or nothing answered"
    SERVER_DIED = "server_died", "void", "the server ended, or its processes changed under load"
    NOT_READY = (
        "not_ready",
        "void",
        "the server was not ready in time, ran another Python than declared, or a command failed",
    )
    STRAY_PROCESS = (
        "stray_process",
        "void",
        "another process listened on the server's port, or one of the server's survived its end",
    )
    IMPOSSIBLE = "impossible", "void", "a figure over its ceiling, below its floor or contradictory"
    LOAD_FAILED = "load_failed", "void", "the load generator failed, or was the limit"
    HARNESS_ERROR = "harness_error", "void", "duetbench itself failed in this launch"

    HOST_NOISE = (
        "host_noise",
        "disturbed",
        "something else took core time, moved processes, or made the load late",
    )
    NOT_STEADY = (
        "not_steady",
        "disturbed",
        "the warm-up ended before the throughput was steady, or it changed in the load",
    )
    MEMORY_GROWS = (
        "memory_grows",
        "disturbed",
        "memory grew with the requests of a load: duetbench soak tells whether for good",
    )
    OVERLOADED = "overloaded", "note", "the server did not keep up with the offered rate"
    ERROR_INSIDE = "error_inside", "note", "a body with the declared status reports an error"
    FEW_CORES = "few_cores", "note", "server, generator and workers share cores"
    FEW_SAMPLES = "few_samples", "note", "too few requests for the tail percentiles"
    FEW_LAUNCHES = "few_launches", "note", "too few launches for an interval"
    STOP_TIMEOUT = "stop_timeout", "note", "the server ignored SIGTERM: killed after its figures"


DISTURBING: Final = frozenset(name for name in FlagName if name.kind == "disturbed")


class LaunchError(DuetbenchError):
    """One launch failed. It gets a status, a flag and a reason, and never a figure."""

    def __init__(self, flag: FlagName, detail: str) -> None:
        self.flag, self.detail = flag, detail
        super().__init__(f"{flag}: {detail}")
