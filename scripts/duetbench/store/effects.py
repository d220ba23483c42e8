"""What one request does on both sides of a comparison: the stored types. Pure."""

from typing import Final, Literal

from pydantic import Field

from duetbench.core.model import Amount, Frozen

EffectKind = Literal[
    "sql", "transaction", "call", "connect", "cache", "read", "write", "process", "thread",
    "task", "threads left", "tasks left", "log", "exception", "import", "first import", "collect",
    "library exception", "young collections", "function", "peak",
]  # fmt: skip
"""What is counted per request, the most telling first. Peak: bytes that a request needs at most.
Young collections: for 1,000 requests. First import: modules that the first request imports."""

Keeping = Literal["none", "constant", "fills"]


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
        description="constant: every request keeps as much. fills: less and less, or in a cache "
        "that has a limit. none: less than 16 bytes per request."
    )
    bytes: Amount = Field(default=0.0, description="Per request.")
    place: str = Field(default="", description="The line that allocated most of it, or a cache.")
    requests: int = Field(ge=0, description="Requests that it was measured over.")


class AnswerDifference(Frozen):
    """Head answers a request differently than base."""

    path: str = Field(default="", description="Empty if there is only one.")
    what: str = Field(description="Such as `head answers 0 rows instead of 20`.")
    broken: bool = Field(description="Whether its status or content type differs.")


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
    length: int = Field(default=0, ge=0, description="Bytes of head's first answer.")
    kept_base: KeptMemory | None = Field(default=None, description="Null: not measured.")
    kept_head: KeptMemory | None = None
    unseen: tuple[str, ...] = Field(
        default=(), description="What was not looked at: calls of a package, exceptions."
    )
    unmeasured: str = Field(default="", description="Why memory was not measured, on which side.")
    seconds: Amount = Field(default=0.0, description="It took so long, for both sides.")

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.differ or self.answers or self.leaks or self.repairs)

    @property
    def moved(self) -> frozenset[EffectKind]:
        """The kinds that differ."""
        return frozenset(effect.kind for effect in self.differ)

    def figure(self, kind: str, side: Literal[0, 1]) -> float | None:
        """How often a side's request has an effect, or the bytes that it keeps; None: unknown."""
        if kind == KEPT:
            kept = (self.kept_base, self.kept_head)[side]
            if kept is None:
                return None
            return kept.bytes if kept.course == "constant" else 0.0
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


LIMIT: Final = "limit_"
"""Prefix of a kind in a comparison's method: the most that a request of head may do."""

KEPT: Final = "memory kept"

TELLING: Final[tuple[EffectKind, ...]] = (
    "sql", "call", "connect", "cache", "read", "write", "process", "thread", "threads left",
    "tasks left", "log", "function",
)  # fmt: skip
"""Kinds that say by themselves what a commit did, the most telling first."""

MORE: Final = 1.2
ROOM: Final = 64.0
"""Bytes per request, beside a fifth, by which a side that keeps memory keeps more than another."""
