"""What one request does: the kinds of effects, and how both sides differ in them. Pure."""

from typing import Final, Literal

from pydantic import Field

from duetbench.core import units
from duetbench.core.metrics import Metric
from duetbench.core.model import Amount, Frozen

EffectKind = Literal[
    "sql", "plan", "transaction", "call", "connect", "cache", "read", "write", "process", "thread",
    "task", "threads left", "tasks left", "log", "exception", "import", "first import",
    "library exception", "function",
]  # fmt: skip
"""What is counted per request, the most telling first. First import: modules that the first request
imports."""


def _effect(name: str, noun: str, verb: str, one: str, many: str = "") -> Metric:
    meaning = f"What one request {verb}, seen in requests made without a server."
    return Metric(name, units.times, meaning, noun=noun, verb=verb, one=one, many=many or f"{one}s")


EFFECTS: Final[dict[str, Metric]] = {
    row.name: row
    for row in (
        _effect("sql", "SQL statements", "sends", "SQL statement"),
        _effect("plan", "query plans", "uses", "query plan"),
        _effect("transaction", "transaction commands", "sends", "transaction command"),
        _effect(
            "call", "calls to other hosts", "makes", "call to another host", "calls to other hosts"
        ),
        _effect("connect", "connections opened", "opens", "connection"),
        _effect("cache", "cache commands", "sends", "cache command"),
        _effect("read", "files opened", "opens", "file"),
        _effect("write", "files written", "writes", "file"),
        _effect("process", "processes started", "starts", "process", "processes"),
        _effect("thread", "threads started", "starts", "thread"),
        _effect("task", "tasks created", "creates", "task"),
        _effect("threads left", "threads left behind", "leaves", "thread behind", "threads behind"),
        _effect("tasks left", "tasks left behind", "leaves", "task behind", "tasks behind"),
        _effect("log", "log records", "writes", "log record"),
        _effect("exception", "exceptions raised", "raises", "exception"),
        _effect("import", "modules imported", "imports", "module"),
        _effect("first import", "modules imported at first", "imports at first", "module"),
        _effect("function", "function calls", "makes", "function call"),
        _effect(
            "library exception",
            "exceptions in libraries",
            "raises",
            "exception in libraries",
            "exceptions in libraries",
        ),
    )
}
"""The kinds of effects of a request."""

Keeping = Literal["none", "constant", "fills"]

TELLING: Final[tuple[EffectKind, ...]] = (
    "sql", "plan", "call", "connect", "cache", "read", "write", "process", "thread",
    "threads left", "tasks left", "log", "function",
)  # fmt: skip
"""Kinds that say by themselves what a commit did, the most telling first."""

KEPT: Final = "memory kept"
"""What stands in place of a kind for the bytes that a request keeps."""

MORE: Final = 1.2
ROOM: Final = 64.0
"""Bytes per request, beside a fifth, by which a side that keeps memory keeps more than another."""


class RequestEffect(Frozen):
    """Something that one request does a different number of times on each side."""

    kind: EffectKind
    text: str = Field(description="A statement without its values, a host, a file, a function.")
    place: str = Field(default="", description="The application's line: `authors, main.py:41`.")
    base: Amount = Field(description="Times per request.")
    head: Amount


class KeptMemory(Frozen):
    """Memory that is still there after a request."""

    course: Keeping = Field(
        description="constant: every request keeps as much. fills: less and less, in a cache that "
        "has a limit, or none under load. none: less than 16 bytes per request."
    )
    bytes: Amount = Field(default=0.0, description="Per request.")
    place: str = Field(default="", description="The line that allocated most of it, or a cache.")
    requests: int = Field(ge=0, description="The first ones, over which it was measured.")
    loaded: bool = Field(default=False, description="Whether a load decided on its course.")


class AnswerDifference(Frozen):
    """Head answers a request differently than base."""

    path: str = Field(default="", description="Empty if there is only one.")
    what: str = Field(description="Such as `head answers 0 rows instead of 20`.")
    broken: bool = Field(description="Whether its status is worse, or its content type differs.")


class Effects(Frozen):
    """What one request does on both sides, counted in process, without load."""

    differ: tuple[RequestEffect, ...] = ()
    totals: dict[EffectKind, tuple[Amount, Amount]] = Field(
        default_factory=dict,
        description="Per request, base and head: what both sides do equally often each time.",
    )
    unsteady: dict[EffectKind, str] = Field(
        default_factory=dict, description="Not compared, as it differs within one side: how."
    )
    answers: tuple[AnswerDifference, ...] = ()
    length: int = Field(default=0, ge=0, description="Bytes of head's shortest answer.")
    status: int = Field(default=200, ge=100, le=599, description="Status of head's first answer.")
    kept_base: KeptMemory | None = Field(default=None, description="Null: not measured.")
    kept_head: KeptMemory | None = None
    unseen: tuple[str, ...] = Field(
        default=(), description="What was not looked at: calls of a package, exceptions."
    )
    tests: tuple[str, ...] = Field((), description="Tests whose requests differ, the most first.")
    unmeasured: str = Field(default="", description="Why memory was not measured.")
    seconds: Amount = Field(default=0.0, description="It took so long, for both sides.")

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.differ or self.answers or self.leaks or self.repairs)

    def figure(self, kind: str, side: Literal[0, 1]) -> float | None:
        """How often a side's request has an effect, or the bytes that it keeps; None: unknown."""
        if kind == KEPT:
            memory = (self.kept_base, self.kept_head)[side]
            if memory is None:
                return None
            return memory.bytes if memory.course == "constant" else 0.0
        if kind in self.unsteady:
            return None
        return next((both[side] for name, both in self.totals.items() if name == kind), 0.0)

    @property
    def leaks(self) -> bool:
        """Whether head keeps more memory for every request than base."""
        return _keeps_more(self.kept_head, self.kept_base)

    @property
    def repairs(self) -> bool:
        """Whether head keeps less memory for every request than base."""
        return _keeps_more(self.kept_base, self.kept_head)


def _keeps_more(side: KeptMemory | None, other: KeptMemory | None) -> bool:
    return (
        side is not None
        and other is not None
        and side.course == "constant"
        and (other.course != "constant" or side.bytes > MORE * other.bytes + ROOM)
    )
