"""Starts the program that makes requests and records what they do, and reads its reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from duetbench.core.errors import CountError
from duetbench.core.model import KeptMemory
from duetbench.measure.effects import program as inside
from duetbench.measure.instructions import counting
from duetbench.measure.instructions.counting import Program

PROGRAM: Final = inside.__name__

Reply = Mapping[str, Any]
"""An answer: status, headers, length, digest, body as Latin-1, whether that is cut, checkout."""

Name = tuple[str, str]
"""A function's file from the application's folder, and its qualified name."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What the requests of one target did, in one process or in several.

    Attributes:
        events: Of each round, which is a request to each path: kind, text, the application's line.
        calls: Function calls of each round; none before CPython 3.11.
        functions: The application's own that were entered, with their calls in the first round.
        peaks: Bytes that a round needed at most.
        young: Collections of young garbage, and the requests with them; None: no time.
        kept: What requests keep; None: no time.
        loaded: Python files that were used, from the application's folder; None: not known.
        status: Which right answers have; 0: any.
        routes: The application's paths, if an answer has another status.
        answers: Of each path, recorded; `alone`: the same without recording.
        seconds: Of a request.
        hide: Removes private values from a text.
    """

    paths: Sequence[str]
    events: Sequence[Sequence[tuple[str, str, str]]]
    calls: Sequence[int]
    functions: Sequence[tuple[str, str, int]]
    peaks: Sequence[int]
    young: tuple[int, int] | None
    kept: KeptMemory | None
    answers: Sequence[Sequence[Reply]]
    alone: Sequence[Sequence[Reply]]
    unseen: Sequence[str]
    seconds: float
    loaded: frozenset[str] | None = None
    status: int = 0
    routes: Sequence[str] = ()
    hide: Callable[[str], str] = str

    @property
    def entered(self) -> frozenset[Name]:
        return frozenset((file, name) for file, name, _ in self.functions)

    def with_(self, other: "Activity") -> "Activity":
        """Join this with what another process showed of the same side."""
        kept = sorted(filter(None, (self.kept, other.kept)), key=lambda memory: memory.bytes)
        # A leak is what both keep; its size is that of the process that missed less of it.
        leaks = all(memory.course == "constant" for memory in kept)
        return replace(
            self,
            events=(*self.events, *other.events),
            calls=(*self.calls, *other.calls),
            functions=(*other.functions, *self.functions),
            loaded=None
            if self.loaded is None or other.loaded is None
            else self.loaded | other.loaded,
            peaks=[peak for peak in (*self.peaks, *other.peaks) if peak],
            kept=kept[-1 if leaks else 0] if kept else None,
            answers=[(*a, *b) for a, b in zip(self.answers, other.answers, strict=True)],
            alone=[(*a, *b) for a, b in zip(self.alone, other.alone, strict=True)],
        )


_ACTIVITY: Final = TypeAdapter(Activity)


def observe(
    client: Program,
    *,
    seconds: float = 1.0,
    timeout: float = 60.0,
    patience: float = 0.0,
    tell: Callable[[Activity], object] = lambda _activity: None,
) -> Activity:
    """Observe requests; CountError, with the reason: that cannot be.

    Memory is measured for at most some `seconds`; meanwhile `tell` gets what was seen before.
    `patience` are the seconds in which the first answer to a path must have ended; 0: any.
    """
    plan, told = {inside.PATIENCE: patience, inside.SECONDS: seconds}, False

    def watch(folder: Path) -> None:
        nonlocal told
        if not told and (folder / inside.EARLY).exists():
            told = True
            tell(_read(counting.report_of(folder / inside.EARLY), client.hide))

    with counting.start(client, plan) as process:
        try:
            report = process.report(timeout, watch)
        except CountError:
            if not told:
                raise
            report = counting.report_of(process.folder / inside.EARLY)  # all but the memory
        return _read(report, client.hide)


def _read(report: Mapping[str, Any], hide: Callable[[str], str]) -> Activity:
    try:
        seen = _ACTIVITY.validate_python(report)
    except ValidationError as error:
        raise CountError(f"expected the report of a target, found {error}") from error
    events = [[(kind, hide(text), place) for kind, text, place in made] for made in seen.events]
    return replace(seen, events=events, hide=hide)
