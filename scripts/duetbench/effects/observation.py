"""Starts the program that makes requests and records what they do, and reads its reports."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from duetbench.app.inside import process as inside
from duetbench.app.inside.process import Process, Program
from duetbench.core.errors import CountError
from duetbench.core.model import KeptMemory  # noqa: F401 - a type of `Activity`
from duetbench.effects.activity import EARLY, PATIENCE, SECONDS, Activity

_GLANCE: Final = 0.1  # seconds between two looks for an early report

_ACTIVITY: Final = TypeAdapter(Activity)
_ACTIVITY.rebuild()  # with the types of this module: an observed process has none of pydantic


@dataclass(frozen=True, slots=True)
class Observation:
    """A process under way that makes requests; it has until `ends` by the monotonic clock."""

    process: Process
    hide: Callable[[str], str]
    ends: float

    def first(self) -> Activity:
        """Wait for what was seen before memory is measured; CountError as `activity`."""
        early = self.process.folder / EARLY
        while not early.exists() and time.monotonic() < self.ends:
            if self.process.session.wait(_GLANCE) is not None:
                return self.activity()
        return self._read(inside.report_of(early)) if early.exists() else self.activity()

    def activity(self) -> Activity:
        """Wait for all that was seen, without the memory if the process does not survive that.

        CountError, with the reason: nothing was seen.
        """
        try:
            report = self.process.report(self.ends - time.monotonic())
        except CountError as error:
            if not (early := self.process.folder / EARLY).exists():
                raise CountError(self.hide(str(error)), login=error.login) from error
            report = inside.report_of(early)
        return self._read(report)

    def _read(self, report: Mapping[str, Any]) -> Activity:
        try:
            seen = _ACTIVITY.validate_python(report)
        except ValidationError as error:
            raise CountError(f"expected the report of a target, found {error}") from error
        events = [[(kind, self.hide(text), at) for kind, text, at in made] for made in seen.events]
        return replace(seen, events=events, hide=self.hide)


@contextmanager
def start(
    client: Program, *, seconds: float, ends: float, patience: float
) -> Iterator[Observation]:
    """Start to observe requests until `ends` at most; leaving ends it.

    Memory is measured for at most some `seconds`. `patience` are the seconds in which the first
    answer to a path must have ended; 0: any.
    """
    plan = {PATIENCE: patience, SECONDS: seconds}
    with inside.start(client, plan) as process:
        yield Observation(process, client.hide, ends)
