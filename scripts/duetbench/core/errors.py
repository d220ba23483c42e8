"""Every error that duetbench raises on purpose, and what exit codes mean.

A LaunchError ends one launch, and the others go on; any other error ends the verb with its code.
A message says what was expected, what was found, and what to do. Exit code 1 is never an error's:
it says that all was done, and what was found is bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from duetbench.core.flags import FlagName


EXIT_CODES: Final[Mapping[str, str]] = {
    "0": "done; all that was to be judged was judged, and nothing is slower or broken",
    "1": "done, and something is wrong: slower or broken by the change, failed, refused or missing",
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


class LaunchError(DuetbenchError):
    """One launch failed. It gets a status, a flag and a reason, and never a figure."""

    def __init__(self, flag: FlagName, detail: str) -> None:
        self.flag, self.detail = flag, detail
        super().__init__(f"{flag}: {detail}")
