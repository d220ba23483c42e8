"""Every error that servebench raises on purpose.

    ServebenchError                  exit code 1
    ├── UsageError                   exit code 2: the command line asks for what does not exist
    ├── DeclarationError             exit code 2: an experiment.toml or pyproject.toml is wrong
    ├── SetupError                   exit code 1: a tool, interpreter or stack cannot be made
    ├── BusyError                    exit code 1: another measurement is under way on this machine
    ├── RecordError                  exit code 1: a run file cannot be read or written
    ├── CountError                   exit code 1: instructions cannot be counted
    ├── ServiceError                 exit code 1: GitHub cannot be reached, or refuses
    ├── HistoryError                 exit code 1: the history cannot be fetched or pushed
    ├── ArtifactError                exit code 1: what another machine sent cannot be used
    ├── NothingMeasuredError         exit code 3: no launch gave a figure
    └── LaunchError                  one launch failed; carries the validity flag, others go on

A message says what was expected, what was found, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from servebench.flags import FlagName


class ServebenchError(Exception):
    """Base of all errors whose message is meant for the person at the keyboard."""

    exit_code: ClassVar[int] = 1


class UsageError(ServebenchError):
    """The command line names something that does not exist or cannot be combined."""

    exit_code = 2


class DeclarationError(ServebenchError):
    """A declaration is wrong: which file, which key, what was found, what is allowed."""

    exit_code = 2

    def __init__(self, file: str, key: str, found: object, allowed: str) -> None:
        self.file, self.key, self.found, self.allowed = file, key, found, allowed
        super().__init__(f"{file}: {key}: found {found!r}; allowed: {allowed}")


class SetupError(ServebenchError):
    """Something that measuring needs is missing and could not be made."""


class BusyError(ServebenchError):
    """Another measurement is under way on this machine."""


class RecordError(ServebenchError):
    """A run file cannot be read, written or understood."""


class CountError(ServebenchError):
    """Instructions cannot be counted: Valgrind is missing, was ended, or wrote no counts."""


class ServiceError(ServebenchError):
    """GitHub cannot be reached, refuses, or answers what was not expected."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class HistoryError(ServebenchError):
    """The branch that holds the history cannot be fetched, pushed, or laid out."""


class ArtifactError(ServebenchError):
    """What another machine sent is not what was asked for; nothing of it is used."""


class NothingMeasuredError(ServebenchError):
    """No launch of the plan gave a usable figure."""

    exit_code = 3


class LaunchError(ServebenchError):
    """One launch failed. It gets a status, a flag and a reason, and never a figure."""

    def __init__(self, flag: FlagName, detail: str) -> None:
        self.flag, self.detail = flag, detail
        super().__init__(f"{flag}: {detail}")
