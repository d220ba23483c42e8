"""Which code a change of instructions lies in: what `servebench why` found, as a file.

Instructions are per request. Totals come from plain counts, which are exact; what functions have
comes from counts with a trampoline below every Python function, which costs some hundred
instructions an entry, so a function's figures are only good for its share of the change.

Files are `results/attributions/<id>.json`; the format is in docs/why.md.
"""

from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from servebench.core.model import Artefact, Frozen
from servebench.record.change import StackState
from servebench.record.comparison import PackageChange
from servebench.record.files import attempted, write
from servebench.record.files import read as read_file

FOLDER: Final = "attributions"
FORMAT_VERSION: Final = 1
"""Version of all files here. 1: first published format (2026-11)."""

PYTHON: Final = "python"
"""Stands for a package where code is the interpreter's or the standard library's."""

APPLICATION: Final = "application"
"""Stands for a package where code is the measured application's own."""


class Function(Frozen):
    """A function of Python code, or (`line` is None) of compiled code."""

    name: str = Field(description="Qualified, as `APIRoute.handle`; of compiled code its symbol.")
    file: str = Field(description="Below the folder of packages, as `fastapi/routing.py`.")
    line: int | None = Field(default=None, ge=1, description="The first one, on the newer side.")
    package: str = Field(description="Distribution, or `python`, or `application`.")


class Native(Frozen):
    """Compiled code called by a function: instructions per request in it, without its callees."""

    symbol: str
    base: float = Field(ge=0)
    head: float = Field(ge=0)


class Row(Frozen):
    """What one function has of the change, with the compiled code that it calls itself.

    Of code that only one side has, its topmost function has all that lies below it.
    """

    function: Function
    caller: Function | None = Field(default=None, description="The one that most of it is below.")
    state: Literal["both", "came", "went"] = Field(
        description="Whether both sides have it, only the newer one, or only the older one."
    )
    base: float = Field(ge=0, description="Instructions per request, trampolined.")
    head: float = Field(ge=0, description="Instructions per request, trampolined.")
    share: float = Field(description="Of the change of the trampolined totals; may be negative.")
    entries: tuple[float, float] | None = Field(
        default=None, description="How often it is entered per request, exact: base and head."
    )
    bytecodes: tuple[float, float] | None = Field(
        default=None, description="Bytecodes that it executes per request, exact."
    )
    native: tuple[Native, ...] = Field(default=(), description="What moved most comes first.")


class Own(Frozen):
    """What all code of one package has, without what it calls of others."""

    package: str
    base: float = Field(ge=0)
    head: float = Field(ge=0)


class Node(Frozen):
    """A function in the aligned tree of calls; instructions per request with all below it."""

    function: Function
    base: float = Field(ge=0)
    head: float = Field(ge=0)
    below: tuple["Node", ...] = ()


class Totals(Frozen):
    """Instructions per request of both sides, and what repeated counts scatter by, as a share."""

    base: float = Field(gt=0)
    head: float = Field(gt=0)
    spread: float = Field(ge=0)


class Attribution(Artefact):
    """Where the instructions of one case's change are."""

    what: ClassVar[str] = "an attribution (servebench why)"

    format: Literal[1] = FORMAT_VERSION
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    when: AwareDatetime
    servebench: str = Field(description="Version.")
    case: str
    python: str = Field(description="Version and build, as 3.14.7t.")
    base: StackState
    head: StackState
    packages: tuple[PackageChange, ...] = ()
    change: str | None = Field(default=None, description="The change record that it explains.")
    comparison: str | None = Field(default=None, description="The comparison that it explains.")
    totals: Totals = Field(description="Of plain counts: exact.")
    counted: Totals = Field(description="Trampolined: what rows and tree add up to.")
    runs: int = Field(ge=1, description="Trampolined counts of each side; figures are medians.")
    threshold: float = Field(
        ge=0,
        description="Share of the total below which no function is named: what equal sides "
        "were seen to differ by.",
    )
    seconds: float = Field(ge=0, description="What it took.")
    rows: tuple[Row, ...] = Field(description="What moved most comes first; none: nothing moved.")
    own: tuple[Own, ...] = Field(description="By package.")
    tree: Node
    notes: tuple[str, ...] = Field(default=(), description="What it cannot see.")

    @model_validator(mode="after")
    def _rows_are_in_order(self) -> Self:
        sizes = [abs(row.head - row.base) for row in self.rows]
        if sizes != sorted(sizes, reverse=True):
            raise ValueError("rows are not in the order of what moved most")
        return self


def save(results: Path, record: Attribution) -> Path:
    """Write one, in place of an earlier one of its id; RecordError if it cannot be written."""
    return write(results / FOLDER / f"{record.id}.json", record)


def read(path: Path) -> Attribution:
    """Read one; RecordError if it is none, or is not named as its file."""
    return read_file(Attribution, path, named=True)


def every(results: Path) -> tuple[dict[str, Attribution], tuple[str, ...]]:
    """All attributions by id, and sentences about those that cannot be read."""
    problems: list[str] = []
    paths = sorted((results / FOLDER).glob("*.json"))
    return dict(attempted(paths, lambda path: (path.stem, read(path)), problems)), tuple(problems)
