"""The code that a change of instructions lies in: the result of `duetbench why`, as a file.

Instructions are per request. Totals come from plain counts, which are exact. Figures of functions
come from counts with a trampoline below every Python function, which costs some hundred
instructions per entry, so they only rank functions. The format is in docs/why.md.
"""

from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_serializer, field_validator

from duetbench.core.model import Amount, Artefact, Frozen, When
from duetbench.store.change import StackState
from duetbench.store.comparison import PackageChange

FORMAT_VERSION: Final = 1
"""Version of all files here. 1: first published format (2026-11)."""

PYTHON: Final = "python"
"""Replaces a package's name for code of the interpreter or the standard library."""

APPLICATION: Final = "application"
"""Replaces a package's name for code of the measured application."""


class Function(Frozen):
    """A function of Python code, or (`line` is None) of compiled code."""

    name: str = Field(description="Qualified, as `APIRoute.handle`; for compiled code its symbol.")
    file: str = Field(description="Below the folder of packages, as `fastapi/routing.py`.")
    line: int | None = Field(default=None, ge=1, description="Its first line, on the newer side.")
    package: str = Field(description="Distribution, or `python`, or `application`.")


class Native(Frozen):
    """Compiled code that a function calls: its instructions per request, without its callees."""

    symbol: str
    base: Amount
    head: Amount


class Row(Frozen):
    """What a function executes on both sides, with the compiled code that it calls directly.

    For code of only one side, the topmost function includes everything below it.
    """

    function: Function
    caller: Function | None = Field(default=None, description="The caller of most of it.")
    state: Literal["both", "came", "went"] = Field(description="The sides that have it.")
    base: Amount = Field(description="Instructions per request, trampolined.")
    head: Amount = Field(description="Instructions per request, trampolined.")
    entries: tuple[Amount, Amount] | None = Field(default=None, description="Per request.")
    native: tuple[Native, ...] = Field(default=(), description="The largest change comes first.")


class PackageTotal(Frozen):
    """Instructions of all code of one package, without calls into others."""

    package: str
    base: Amount
    head: Amount


class Node(Frozen):
    """A function in the aligned tree of calls; instructions per request include all below it.

    Files list the tree, callers first, each node with its `depth` from 0: calls are nested more
    deeply than JSON readers allow.
    """

    function: Function
    base: Amount
    head: Amount
    below: tuple["Node", ...] = ()


class _ListedNode(Frozen):
    depth: int = Field(ge=0, le=300)  # a page is drawn by recursion
    function: Function
    base: Amount
    head: Amount


class Totals(Frozen):
    """Figures of both sides; `spread` is the scatter of repeated ones, as a share."""

    base: Amount = Field(gt=0)
    head: Amount = Field(gt=0)
    spread: Amount


class Attribution(Artefact):
    """The functions behind one case's change of instructions."""

    noun: ClassVar[str] = "an attribution (duetbench why)"
    place: ClassVar[str] = "attributions/{0.id}.json"
    indent: ClassVar[int | None] = None

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    when: When
    duetbench: str = Field(description="Version.")
    case: str
    asked: str | None = Field(default=None, description="The request of an --app: GET /items/7.")
    python: str = Field(description="Version and build, as 3.14.7t.")
    base: StackState
    head: StackState
    packages: tuple[PackageChange, ...] = ()
    change: str | None = Field(default=None, description="The change record that it explains.")
    comparison: str | None = Field(default=None, description="The comparison that it explains.")
    totals: Totals = Field(description="Instructions from plain counts, exact.")
    counted: Totals = Field(description="Trampolined: the sums of rows and tree.")
    runs: int = Field(ge=1, description="Such counts of each side; figures are medians.")
    threshold: float = Field(ge=0, description="Share of the total by which equal sides differ.")
    seconds: Amount = Field(description="Time that it took.")
    rows: tuple[Row, ...] = Field(description="The largest change comes first; empty: no change.")
    own: tuple[PackageTotal, ...] = Field(description="By package.")
    tree: Node
    notes: tuple[str, ...] = Field(default=(), description="What it cannot show.")

    @field_serializer("tree")
    def _as_list(self, tree: Node) -> list[dict[str, Any]]:
        nodes, waiting = [], [(0, tree)]
        while waiting:
            depth, node = waiting.pop()
            nodes.append({"depth": depth, **node.model_dump(exclude={"below"})})
            waiting += [(depth + 1, child) for child in reversed(node.below)]
        return nodes

    @field_validator("tree", mode="before")
    @classmethod
    def _of_list(cls, tree: object) -> object:
        if not isinstance(tree, list):
            return tree
        below: dict[int, list[Node]] = {}
        for item in reversed(tree):
            row = _ListedNode.model_validate(item)
            if set(below) - set(range(row.depth + 2)):
                raise ValueError(
                    f"a node of depth {row.depth} with nodes deeper than its own below"
                )
            children = tuple(reversed(below.pop(row.depth + 1, [])))
            node = Node(function=row.function, base=row.base, head=row.head, below=children)
            below.setdefault(row.depth, []).append(node)
        if [len(nodes) for depth, nodes in below.items() if depth == 0] != [1] or len(below) > 1:
            raise ValueError("expected a tree: one node of depth 0, at the beginning")
        return below[0][0]
