"""Starts the program that makes requests and records what they do, and reads its reports."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import CountError
from duetbench.measure.effects import program as inside
from duetbench.measure.instructions import counting, profiling

PROGRAM: Final = inside.__name__

Round = Sequence[tuple[str, str, str]]
"""Events of one request to each path: kind, text, and the application's line."""

Reply = Mapping[str, Any]
"""An answer: status, headers, length, digest, body."""

Name = tuple[str, str]
"""A function's qualified name, and its file."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What the requests of one target did, in one process or in several.

    Attributes:
        events: Of each round.
        calls: Function calls of each round; none before CPython 3.11.
        names: The application's own functions, with their calls in each round.
        functions: All functions that were entered: qualified name, file, first line.
        left: Tasks and threads that each round left behind.
        peaks: Bytes that a round needed at most.
        young: Collections of young garbage, and the requests with them; None: no time.
        kept: As `memory.kept` returns it.
        answers: Of each path, recorded; `alone`: the same without recording.
        imports: Events of the first round.
        seconds: Of a request.
    """

    paths: Sequence[str]
    events: Sequence[Round]
    calls: Sequence[int]
    names: Mapping[Name, Sequence[int]]
    functions: Sequence[tuple[str, str, int]]
    left: Mapping[str, Sequence[int]]
    peaks: Sequence[int]
    young: tuple[int, int] | None
    kept: Mapping[str, Any] | None
    answers: Sequence[Sequence[Reply]]
    alone: Sequence[Sequence[Reply]]
    imports: Sequence[Round]
    unseen: Sequence[str]
    seconds: float

    def with_(self, other: "Activity") -> "Activity":
        """Join this with what another process showed of the same side."""
        rounds, more = (len(part.events) for part in (self, other))
        both = (self.kept, other.kept)
        return replace(
            self,
            events=(*self.events, *other.events),
            calls=(*self.calls, *other.calls),
            names={
                name: (*self.names.get(name, [0] * rounds), *other.names.get(name, [0] * more))
                for name in {*self.names, *other.names}
            },
            left={kind: (*found, *other.left[kind]) for kind, found in self.left.items()},
            peaks=[peak for peak in (*self.peaks, *other.peaks) if peak],
            kept=min(filter(None, both), key=lambda kept: kept["bytes"], default=None),
            answers=[(*a, *b) for a, b in zip(self.answers, other.answers, strict=True)],
            alone=[(*a, *b) for a, b in zip(self.alone, other.alone, strict=True)],
            imports=(*self.imports, *other.imports),
        )


def observe(
    client: Any,
    targets: Sequence[str],
    *,
    seconds: float,
    timeout: float,
    tell: Callable[[str, Activity], object] = lambda _target, _activity: None,
) -> dict[str, Activity | str]:
    """Observe targets, or give each one's reason why not; CountError if nothing was observed.

    `client` is a `judge.counted.Program`. The memory of each target is measured for at most some
    `seconds`; meanwhile `tell` gets what was seen before.
    """
    plan = {"targets": list(targets), "report": True}
    env = {**client.env, inside.SECONDS: f"{seconds:.2f}"}
    expected = {inside.EARLY.format(index): target for index, target in enumerate(targets)}

    def watch(folder: Path) -> None:
        for name in [*expected]:
            if (file := folder / name).exists():
                target, activity = expected.pop(name), _read(counting.report_of(file))
                if not isinstance(activity, str):
                    tell(target, activity)

    reports, _ = profiling.perform(client.python, client.payload, plan, env, timeout, watch)
    return {target: _read(report) for target, report in zip(targets, reports, strict=True)}


def _read(report: Mapping[str, Any]) -> Activity | str:
    if "reason" in report:
        return str(report["reason"])
    try:
        return Activity(
            paths=report["paths"],
            events=[[tuple(event) for event in found] for found in report["events"]],
            calls=report["calls"],
            names={(name, file): counts for name, file, counts in report["names"]},
            functions=[(name, file, line) for name, file, line in report["functions"]],
            left={"tasks left": report["tasks"], "threads left": report["threads"]},
            peaks=report["peaks"],
            young=report["young"],
            kept=report["kept"],
            answers=report["answers"],
            alone=report["alone"],
            imports=[[tuple(event) for event in report["imports"]]],
            unseen=report["unseen"],
            seconds=report["seconds"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CountError(f"expected the report of a target, found one without {error}") from error


def relative(functions: Sequence[tuple[str, str, int]], root: os.PathLike[str]) -> set[Name]:
    """Name functions by their file from the root, and their qualified name."""
    return {(os.path.relpath(file, root), name) for name, file, _line in functions}
