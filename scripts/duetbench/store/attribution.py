"""Code that a change of instructions lies in: the result of `duetbench why`, as a file.

Instructions are per request. Totals come from plain counts, which are exact; what functions have
comes from counts with a trampoline below every Python function, which costs some hundred
instructions an entry, so a function's figures are only good for its share of the change.
The format is in docs/why.md.
"""

from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_serializer, field_validator

from duetbench.core.model import Amount, Artefact, Figure, Frozen, When
from duetbench.store.change import StackState
from duetbench.store.comparison import PackageChange

FORMAT_VERSION: Final = 1
"""Version of all files here. 1: first published format (2026-11)."""

PYTHON: Final = "python"
"""Stands for a package where code is the interpreter's or the standard library's."""

APPLICATION: Final = "application"
"""Stands for a package where code is the measured application's own."""

IMPORT_OF: Final = "the import of "
"""Begins what is asked where it is no request, but the import of an application."""


class Function(Frozen):
    """A function of Python code, or (`line` is None) of compiled code."""

    name: str = Field(description="Qualified, as `APIRoute.handle`; of compiled code its symbol.")
    file: str = Field(description="Below the folder of packages, as `fastapi/routing.py`.")
    line: int | None = Field(default=None, ge=1, description="The first one, on the newer side.")
    package: str = Field(description="Distribution, or `python`, or `application`.")


class Native(Frozen):
    """Compiled code called by a function: instructions per request in it, without its callees."""

    symbol: str
    base: Amount
    head: Amount


class Row(Frozen):
    """A function's part of the change, with the compiled code that it calls itself.

    Of code that only one side has, its topmost function has all that lies below it.
    """

    function: Function
    caller: Function | None = Field(default=None, description="The one that most of it is below.")
    state: Literal["both", "came", "went"] = Field(description="Which side has it.")
    base: Amount = Field(description="Instructions per request, trampolined.")
    head: Amount = Field(description="Instructions per request, trampolined.")
    share: Figure = Field(description="Of the change of the trampolined totals; may be negative.")
    entries: tuple[Amount, Amount] | None = Field(default=None, description="Per request.")
    bytecodes: tuple[Amount, Amount] | None = Field(default=None, description="Per request, too.")
    native: tuple[Native, ...] = Field(default=(), description="What moved most comes first.")


class PackageTotal(Frozen):
    """Instructions of all code of one package, without what it calls of others."""

    package: str
    base: Amount
    head: Amount


class Node(Frozen):
    """A function in the aligned tree of calls; instructions per request with all below it.

    Files have the tree as a list, callers first, each node with its `depth` from 0: calls go deeper
    than readers of JSON do.
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
    """Instructions per request of both sides, and what repeated counts scatter by, as a share."""

    base: Amount = Field(gt=0)
    head: Amount = Field(gt=0)
    spread: Amount


class Attribution(Artefact):
    """Code that one case's change of instructions lies in."""

    noun: ClassVar[str] = "an attribution (duetbench why)"
    place: ClassVar[str] = "attributions/{0.id}.json"
    indent: ClassVar[int | None] = None

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    when: When
    duetbench: str = Field(description="Version.")
    case: str
    asked: str | None = Field(
        default=None, description="The request of an --app: GET /items/7; or an import."
    )
    python: str = Field(description="Version and build, as 3.14.7t.")
    base: StackState
    head: StackState
    packages: tuple[PackageChange, ...] = ()
    change: str | None = Field(default=None, description="The change record that it explains.")
    comparison: str | None = Field(default=None, description="The comparison that it explains.")
    totals: Totals = Field(description="Of plain counts: exact.")
    counted: Totals = Field(description="Trampolined: what rows and tree add up to.")
    runs: int = Field(ge=1, description="Trampolined counts of each side; figures are medians.")
    threshold: float = Field(ge=0, description="Share of the total that equal sides differ by.")
    seconds: Amount = Field(description="What it took.")
    rows: tuple[Row, ...] = Field(description="What moved most comes first; none: nothing moved.")
    own: tuple[PackageTotal, ...] = Field(description="By package.")
    tree: Node
    notes: tuple[str, ...] = Field(default=(), description="What it cannot see.")

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
        for listed in reversed(tree):
            row = _ListedNode.model_validate(listed)
            if set(below) - set(range(row.depth + 2)):
                raise ValueError(
                    f"a node of depth {row.depth} with nodes deeper than its own below"
                )
            under = tuple(reversed(below.pop(row.depth + 1, [])))
            node = Node(function=row.function, base=row.base, head=row.head, below=under)
            below.setdefault(row.depth, []).append(node)
        if [len(nodes) for depth, nodes in below.items() if depth == 0] != [1] or len(below) > 1:
            raise ValueError("expected a tree: one node of depth 0, and it first")
        return below[0][0]
