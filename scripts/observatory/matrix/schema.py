"""`experiment.toml` as types.

`experiments` checks the names (servers, stacks, …) that a declaration uses and the cases that
follow. A `Formula` is arithmetic such as `40 * workers`, over the profile's parameters
and the case's axes.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from simpleeval import InvalidExpression, SimpleEval

from duetbench.app.declarations import Application, HeaderName, HeaderText, Text, several
from duetbench.core.model import Expectation, Frozen, Interface, Profile

FILE: Final = "experiment.toml"
PUBLISHED: Final = "published.toml"
"""What only reports read of an experiment."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)


def _formula(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Formula = Annotated[str, BeforeValidator(_formula), StringConstraints(min_length=1)]
Names = Annotated[tuple[Text, ...], BeforeValidator(several), Field(min_length=1)]
ALL: Final = ("all",)
"""All interpreters that set-up installs by default and the block's stacks can be made for."""
OPTIONAL: Final = ("optional",)
"""The interpreters that are installed only for cases that use them."""
Counts = Annotated[
    tuple[Annotated[int, Field(gt=0)], ...], BeforeValidator(several), Field(min_length=1)
]
Numbers = Annotated[tuple[float, ...], BeforeValidator(several), Field(min_length=1)]


class StackSpec(Frozen):
    """What a stack may declare beside its packages."""

    title: str = Field(default="", description="Shown to readers; may be empty.")
    interpreters: tuple[str, ...] = Field(default=(), description="Default: all declared.")


class EndpointTable(Frozen):
    """One handler. Floor, slots and takes may use parameters, axes and `gil` (1 or 0).

    `request_lines` explains paths.
    """

    title: Text = Field(default="", description="Shown to readers; placeholders as in ids.")
    app: Application
    interface: Interface
    factory: bool = False
    method: Annotated[str, StringConstraints(pattern=r"^[A-Z]+$")] = "GET"
    path: Annotated[str, StringConstraints(pattern=r"^/")]
    paths: tuple[Annotated[str, StringConstraints(pattern=r"^/")], ...] = ()
    headers: dict[HeaderName, HeaderText] = Field(default_factory=dict)
    body: str = ""
    expect: Expectation
    floor: Formula = "0"
    slots: Formula = "inf"
    takes: Formula | None = None
    ceiling: object = None  # of the anchor's revision, like the next two; nobody reads them
    overlap: object = None
    verify_only: object = None
    env: dict[str, str] = Field(default_factory=dict)


class LoadTable(Frozen):
    """One kind of load. Its numbers may use parameters and axes; connections also the others."""

    model: object = None  # of the anchor's revision; it follows from the others
    connections: Formula
    rate: Formula | None = Field(
        default=None, description="None: each connection sends as soon as it has its answer."
    )
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
    pairs: tuple[dict[str, float], ...] = Field(default=({},), min_length=1)


class Declaration(Frozen):
    """A whole `experiment.toml`. Each block of cases is already merged over `defaults`."""

    title: Text = Field(default="", description="Shown to readers; default: the folder's name.")
    question: Text
    source: dict[str, str] = Field(min_length=1, description="Its title, date and address.")
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


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """Evaluate arithmetic over `values`, with `min`, `max` and `inf`.

    Raises ValueError if it is none, or gives no number from 0 on.
    """
    names = {**values, "inf": math.inf}
    try:
        number = float(SimpleEval(functions={"min": min, "max": max}, names=names).eval(formula))
    except (InvalidExpression, SyntaxError, TypeError, ValueError, ArithmeticError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{formula!r}, which is a number over {[*names]}: {reason}") from error
    if not number >= 0:  # or nan
        raise ValueError(f"{formula!r} = {number:g}, which is to be 0 or more")
    return number


def count(formula: str, values: Mapping[str, float]) -> int:
    """Evaluate a formula that gives a whole number, 1 or more; raises ValueError."""
    number = evaluate(formula, values)
    if number < 1 or not number.is_integer():
        raise ValueError(f"{formula!r} = {number:g}, which is to be a whole number, 1 or more")
    return int(number)
