"""`experiment.toml` as types: what may be written there, and how a mistake is told.

This module knows the file's form; what its words refer to (servers, stacks, …) and the cases that
follow from it are `experiments`' business. Numbers may be written as formulas (see `formulas`) over
the profile's parameters and the case's axes wherever the type here is `Formula`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from servebench.errors import DeclarationError
from servebench.model import Expectation, Frozen, Interface, LoadModel, Profile

FILE: Final = "experiment.toml"
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
UNLIMITED: Final = "unlimited"


def _formula(value: object) -> object:
    """A number is a formula too."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _several(value: object) -> object:
    """One value is a list of one."""
    return value if isinstance(value, list | tuple) else (value,)


Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Formula = Annotated[str, BeforeValidator(_formula), StringConstraints(min_length=1)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_several), Field(min_length=1)]
Counts = Annotated[
    tuple[Annotated[int, Field(gt=0)], ...], BeforeValidator(_several), Field(min_length=1)
]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_several), Field(min_length=1)]


class SourceTable(Frozen):
    """Where the experiment comes from."""

    title: Text
    date: Text = Field(description="As exactly as it is known: 2025-10, 2025-10-30.")
    url: Text | None = None


class EndpointTable(Frozen):
    """One handler. Floor, slots and takes may use parameters, axes and `gil` (1 or 0)."""

    app: Annotated[str, StringConstraints(pattern=r"^\w+(\.\w+)*:\w+$")]
    interface: Interface
    path: Annotated[str, StringConstraints(pattern=r"^/")]
    expect: Expectation
    floor: Formula = "0"
    overlap: int = Field(default=0, ge=0)
    slots: Formula = UNLIMITED
    takes: Formula | None = None
    ceiling: Formula | None = None
    env: dict[str, str] = Field(default_factory=dict)
    verify_only: bool = False


class LoadTable(Frozen):
    """One kind of load. Its numbers may use parameters and axes; connections also the others."""

    model: LoadModel
    connections: Formula
    rate: Formula | None = None
    duration: Formula
    timeout: Formula


class CasesTable(Frozen):
    """A block of cases: all combinations of its axes; `pairs` move several of them together."""

    id: Text = Field(description="Template: {endpoint}, {python}, … and any parameter.")
    profiles: tuple[Profile, ...] = Field(min_length=1)
    cores: Literal["split", "shared"]
    endpoint: Names
    python: Names
    stack: Names
    server: Names
    loop: Names
    load: Names
    workers: Counts | None = None
    threads: Counts | None = None
    vary: dict[str, Numbers] = Field(default_factory=dict)
    pairs: Annotated[tuple[dict[str, float], ...], Field(min_length=1)] | None = None


class Declaration(Frozen):
    """A whole `experiment.toml`. Each block of cases has been merged over `defaults`."""

    question: Text
    source: SourceTable
    deviations: tuple[Text, ...] = ()
    profiles: dict[Profile, dict[str, float]] = Field(min_length=1)
    endpoints: dict[str, EndpointTable] = Field(min_length=1)
    loads: dict[str, LoadTable] = Field(min_length=1)
    defaults: dict[str, Any] = Field(default_factory=dict)
    cases: tuple[CasesTable, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _merge_defaults(cls, raw: Any) -> Any:
        defaults, cases = raw.get("defaults"), raw.get("cases")
        if not (isinstance(defaults, dict) and isinstance(cases, list)):
            return raw
        merged = [{**defaults, **block} if isinstance(block, dict) else block for block in cases]
        return {**raw, "cases": merged}


_TABLES: Final[dict[str, type[BaseModel]]] = {
    "source": SourceTable,
    "endpoints": EndpointTable,
    "loads": LoadTable,
    "cases": CasesTable,
}


def read_toml(path: Path, shown: str) -> dict[str, Any]:
    """Read a file as it is written; `shown` is how errors name it.

    Raises:
        DeclarationError: It is not TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(shown, "file", str(error), "TOML in UTF-8") from error


def check_form(written: dict[str, Any], shown: str) -> Declaration:
    """Check the form of what is written.

    Raises:
        DeclarationError: The first mistake.
    """
    try:
        return Declaration.model_validate(written)
    except ValidationError as error:
        raise _refused(shown, written, error) from error


def _refused(shown: str, written: dict[str, Any], error: ValidationError) -> DeclarationError:
    """Tell the first mistake with the file's own words."""
    first = error.errors(include_url=False)[0]
    location = first["loc"]
    if location[-1:] == ("[key]",):
        location = location[:-1]
    found, allowed = mistake(first, f"only the keys {', '.join(_fields(location))}")
    return DeclarationError(shown, key_path(in_defaults(location, written)), found, allowed)


def mistake(first: ErrorDetails, keys: str) -> tuple[object, str]:
    """What was found, and what is allowed, in words of ours instead of pydantic's.

    Args:
        first: The mistake.
        keys: What to say of a key that is not known.
    """
    kind = first["type"]
    if kind == "missing":
        return "nothing", "a value; this key is required"
    if kind == "extra_forbidden":
        return first["loc"][-1], keys
    allowed = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if kind in {"too_short", "string_too_short"}:
        allowed = "at least one value"
    elif kind == "string_pattern_mismatch":
        allowed = f"text that matches {first['ctx']['pattern']}"
    return _short(first["input"]), allowed


def in_defaults(location: Sequence[str | int], written: Mapping[str, Any]) -> Sequence[str | int]:
    """Name the place where something stands: a block of cases may have it from the defaults."""
    if location[0] == "cases" and len(location) > 2:
        block, defaults = written["cases"][location[1]], written.get("defaults", {})
        if location[2] in defaults and location[2] not in block:
            return ("defaults", *location[2:])
    return location


def key_path(location: Sequence[str | int]) -> str:
    """Spell a place in the file: `cases[0].endpoint`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "file"


def _fields(location: Sequence[str | int]) -> list[str]:
    """The keys that the table around a location may have."""
    if "expect" in location[:-1]:
        table: type[BaseModel] = Expectation
    else:
        table = _TABLES.get(str(location[0]), Declaration) if len(location) > 1 else Declaration
    return list(table.model_fields)


def _short(found: Any) -> Any:
    return found if isinstance(found, str | int | float | list | tuple) else "a table"
