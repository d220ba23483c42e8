"""What requests did, as the programs that observe them write it and the tool reads it.

Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duetbench.core.effects import KeptMemory

PROGRAM = "duetbench.effects.program"
"""The module that observes, in a process of its own."""

OUT = "DUETBENCH_SUITE"
"""The variable with the file for what requests of tests do."""

SECRETS = "secrets.json"
"""The file beside `OUT` with texts that nobody may see, and their names."""

CALL, COUNT = "--call", "--count"
"""Options in place of a runner of tests: before functions to call, or one to call and count."""

BAD = "failed", "error"
"""How tests end that fail."""

Event = tuple[str, str, str]
"""Kind, text, and the application's line: `authors, shop/main.py:41`, or nothing."""

Reply = Mapping[str, Any]
"""An answer: status, headers, length, digest, body as Latin-1, whether that is cut, checkout."""

Name = tuple[str, str]
"""A function's file from the application's folder, and its qualified name."""


@dataclass(frozen=True)
class Activity:
    """What the requests of one target did, in one process or in several.

    Attributes:
        events: Of each round, which is a request to each path: kind, text, the application's line.
        calls: Function calls of each round.
        functions: The application's own that were entered, with their calls in the first round.
        answers: Of each path, recorded; `alone`: the same without recording.
        loaded: Python files that were used, from the application's folder; None: not known.
        seconds: Of a request.
        unseen: What nothing here sees.
        status: Which right answers have; 0: any.
        routes: The application's paths, if an answer has another status.
        kept: What requests keep; None: no time.
        plans: Of statements, where the database tells: the plan, and the line that sends it.
        hide: Removes private values from a text.
    """

    paths: Sequence[str]
    events: Sequence[Sequence[Event]]
    calls: Sequence[int]
    functions: Sequence[tuple[str, str, int]]
    answers: Sequence[Sequence[Reply]]
    alone: Sequence[Sequence[Reply]] = ()
    loaded: Sequence[str] | None = None
    seconds: float = 0.0
    unseen: Sequence[str] = ()
    status: int = 0
    routes: Sequence[str] = ()
    kept: KeptMemory | None = None
    plans: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hide: Callable[[str], str] = str

    @property
    def fields(self) -> dict[str, Any]:
        """All but `hide`, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "hide"}

    def hidden(self, hide: Callable[[str], str]) -> Activity:
        """Remove private values from all texts, and from those that are made of it later."""
        return replace(
            self,
            events=[[(kind, hide(text), at) for kind, text, at in made] for made in self.events],
            plans={hide(text): (hide(plan), at) for text, (plan, at) in self.plans.items()},
            hide=hide,
        )

    def with_(self, other: Activity) -> Activity:
        """Join this with what another process showed of the same side."""
        memories = sorted(filter(None, (self.kept, other.kept)), key=lambda memory: memory.bytes)
        # A leak is what both keep; its size is that of the process that missed less of it.
        leaks = all(memory.course == "constant" for memory in memories)
        return replace(
            self,
            events=(*self.events, *other.events),
            calls=(*self.calls, *other.calls),
            functions=(*other.functions, *self.functions),
            loaded=None
            if self.loaded is None or other.loaded is None
            else (*self.loaded, *other.loaded),
            kept=memories[-1 if leaks else 0] if memories else None,
            answers=[(*a, *b) for a, b in zip(self.answers, other.answers, strict=True)],
        )


@dataclass(frozen=True)
class Operation:
    """One request that a test makes, and what it did.

    Attributes:
        test: That makes it, in a `phase` (setup, call, teardown) and as the `number`th in that.
        route: The template of its path, if the application tells it (`routed`); else a guess.
        mixed: Whether another one was under way, so that nothing tells what each of them did.
        body: What it sends, as Latin-1; None: not known.
    """

    test: str
    phase: str
    number: int
    method: str
    path: str
    route: str
    routed: bool
    mixed: bool
    did: Activity
    query: str = ""
    content_type: str = ""
    body: str | None = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """What is the same on both sides."""
        return self.test, self.phase, self.number

    @property
    def endpoint(self) -> str:
        """Its method and route: `GET /items/{id}`."""
        return f"{self.method} {self.route}"
