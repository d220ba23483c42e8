"""The code that a change of instructions lies in: the result of `duetbench why`, as a file.

Instructions are per request. Totals come from plain counts, which are exact. Figures of functions
come from counts with a trampoline below every Python function, which costs some hundred
instructions per entry, so they only rank functions. The format is in docs/why.md.
"""

from typing import ClassVar, Final, Literal

from pydantic import Field

from duetbench.core.model import Amount, Artefact, Frozen, When
from duetbench.store.change import StackState
from duetbench.store.comparison import PackageChange

FORMAT_VERSION: Final = 2
"""Version of all files here. 2: without the tree of calls (2026-11)."""

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


class Row(Frozen):
    """What a function executes on both sides, with the compiled code that it calls directly.

    A function of only one side includes everything below it that the other side does not do.
    """

    function: Function
    caller: str | None = Field(default=None, description="The caller of most of it.")
    state: Literal["both", "came", "went"] = Field(description="The sides that have it.")
    base: Amount = Field(description="Instructions per request, trampolined.")
    head: Amount = Field(description="Instructions per request, trampolined.")
    entries: tuple[Amount, Amount] | None = Field(default=None, description="Per request.")


class Totals(Frozen):
    """Instructions per request on both sides."""

    base: Amount = Field(gt=0)
    head: Amount = Field(gt=0)


class Attribution(Artefact):
    """The functions behind one case's change of instructions."""

    noun: ClassVar[str] = "an attribution (duetbench why)"
    place: ClassVar[str] = "attributions/{0.id}.json"
    indent: ClassVar[int | None] = None

    format: Literal[2] = FORMAT_VERSION
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
    spread: Amount = Field(description="Scatter of repeated plain counts, as a share.")
    counted: Totals = Field(description="Trampolined: the sums of all functions.")
    runs: int = Field(ge=1, description="Such counts of each side; figures are medians.")
    threshold: float = Field(ge=0, description="Share of the total by which equal sides differ.")
    seconds: Amount = Field(description="Time that it took.")
    rows: tuple[Row, ...] = Field(description="The largest change comes first; empty: no change.")
