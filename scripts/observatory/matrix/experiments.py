"""The experiments: each `apps/*/experiment.toml` as types, with its cases in every profile.

A declaration is expanded to cases, one per combination of its axes, and checked. A case id is the
experiment's folder and the block's rendered template; nothing ever parses it. One id means one
thing: between profiles, only duration and timeout may differ.

A `Formula` is arithmetic such as `40 * workers`, over the profile's parameters and the case's axes.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, model_validator
from simpleeval import InvalidExpression, SimpleEval

from duetbench.app import request_lines
from duetbench.app.declarations import (
    Application,
    HeaderName,
    HeaderText,
    Text,
    mistake,
    read_toml,
    several,
    validate,
)
from duetbench.app.servers import misfit
from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Case, Endpoint, Expectation, Frozen, Interface, Load, Profile
from observatory.matrix import declared_interpreters
from observatory.matrix.declared_interpreters import InterpreterSpec

FILE: Final = "experiment.toml"
PUBLISHED: Final = "published.toml"
"""What only reports read of an experiment."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)


Formula = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]
Names = Annotated[tuple[Text, ...], BeforeValidator(several), Field(min_length=1)]
Counts = Annotated[
    tuple[Annotated[int, Field(gt=0)], ...], BeforeValidator(several), Field(min_length=1)
]
Steps = Annotated[tuple[float, ...], BeforeValidator(several), Field(min_length=1)]


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
    python: Names = Field(
        description="all: those that set-up installs by default and the block's stacks can be made "
        "for. optional: those that are installed only for cases that use them."
    )
    stack: Names
    server: Names
    loop: Names
    load: Names
    workers: Counts | None = None
    threads: Counts | None = None
    vary: dict[str, Steps] = Field(default_factory=dict)
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


Value = str | float
Numbers = Mapping[str, float]
Setting = Mapping[str, str | int]
"""Values instead of the declared ones: of a case or of its load, by name."""

_WORDS: Final = ("endpoint", "python", "stack", "server", "loop", "load")
_COUNTS: Final = ("workers", "threads")
_OF_LAUNCHES: Final = {name: f"{{{name}}}" for name in ("tmp", "port")}
"""Placeholders that each launch fills in; see `app.testbed`."""

_ID: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_KEYS: Final = "only the keys that apps/asgi-wsgi/experiment.toml explains"


_Cell = tuple[str, CasesTable, dict[str, Value]]
"""A combination of axes: the place of its block, that, and values of parameters and axes."""


@dataclass(frozen=True)
class Experiment:
    """One question with one moving axis: a folder with its applications, and cases per profile.

    `titles` maps a case's id to the declared title of what it serves, if there is one; expanding
    the cases fills it. Errors name `file`.
    """

    folder: Path
    file: str
    declaration: Declaration
    interpreters: Mapping[str, InterpreterSpec]
    stacks: Mapping[str, StackSpec]
    titles: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def cases(self) -> Mapping[Profile, tuple[Case, ...]]:
        """All cases by profile; raises DeclarationError for an unknown name or a repeated id."""
        meanings: dict[str, str] = {}
        cases: dict[Profile, dict[str, Case]] = {profile: {} for profile in PROFILES}
        for profile, by_id in cases.items():
            for cell in self._cells(profile):
                case = self._case(cell)
                meaning = _meaning(case)
                if case.id in by_id or meanings.setdefault(case.id, meaning) != meaning:
                    allowed = (
                        "one case per id and profile; between profiles it differs in nothing but "
                        "duration and timeout: put the parameter into the id, as in wait{wait}"
                    )
                    raise DeclarationError(self.file, f"{cell[0]}.id", case.id, allowed)
                by_id[case.id] = case
        return {profile: tuple(by_id.values()) for profile, by_id in cases.items()}

    def cases_with(
        self, profile: Profile, setting: Setting, python: str | None
    ) -> tuple[Case, ...]:
        """Expand the cases with a setting instead of the declared values, each once.

        With a `python`, these are the cases of this interpreter, which may be an optional one.
        Cases that no server can serve like this are left out. A declared case keeps its id.
        """
        ids = {_meaning(case): case.id for cases in self.cases.values() for case in cases}
        cases: dict[str, Case] = {}
        for cell in self._cells(profile, python):
            with suppress(DeclarationError):
                case = self._case(cell, setting)
                cases.setdefault(_meaning(case), case)
        end = "".join(f"/{name}-{value}" for name, value in setting.items())
        return tuple(
            case.model_copy(update={"id": ids.get(meaning, f"{case.id}{end}")})
            for meaning, case in cases.items()
        )

    def _cells(self, profile: Profile, python: str | None = None) -> Iterator[_Cell]:
        """Yield the combinations of axes that are cases of a profile."""
        for index, block in enumerate(self.declaration.cases):
            if profile not in block.profiles:
                continue
            axes: dict[str, tuple[Value, ...]] = {name: getattr(block, name) for name in _WORDS}
            if block.python in {("all",), ("optional",)}:
                axes["python"] = tuple(
                    name
                    for name, spec in self.interpreters.items()
                    if (python or spec.optional == (block.python == ("optional",)))
                    and all(name in self.stacks[stack].interpreters for stack in block.stack)
                )
            if python:
                axes["python"] = tuple(name for name in axes["python"] if name == python)
            axes |= {name: values for name in _COUNTS if (values := getattr(block, name))}
            axes |= block.vary
            usual: dict[str, Value] = {"workers": 1, **self.declaration.profiles[profile]}
            for values in itertools.product(*axes.values()):
                cell = usual | dict(zip(axes, values, strict=True))
                yield from ((f"cases[{index}]", block, {**cell, **pair}) for pair in block.pairs)

    def _case(self, cell: _Cell, setting: Setting = MappingProxyType({})) -> Case:
        """Make a case; raises DeclarationError with the block's place and what is wrong in it."""
        place, block, values = cell
        try:
            return self._expand(block, values, setting)
        except KeyError as error:
            allowed = f"names that are declared; there is no {error}"
        except ValidationError as error:
            allowed = ": ".join(map(str, mistake(error)))
        except (ValueError, UsageError) as error:
            allowed = str(error)
        raise DeclarationError(self.file, place, block.id, allowed)

    def _expand(self, block: CasesTable, values: dict[str, Value], setting: Setting) -> Case:
        identifier = f"{self.name}/{block.id.format_map(_texts(values))}"
        if not _ID.fullmatch(identifier):
            raise ValueError(f"letters, digits and _ . - between single /, but not {identifier}")
        values = values | {name: setting[name] for name in (*_WORDS, *_COUNTS) if name in setting}
        texts = _texts(values)
        python = self.interpreters[texts["python"]]
        made_for = self.stacks[texts["stack"]].interpreters
        if texts["python"] not in made_for:
            raise ValueError(f"Python {', '.join(made_for)} (of stack {texts['stack']})")
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        numbers["gil"] = 0.0 if python.free_threaded else 1.0
        table = self.declaration.endpoints[texts["endpoint"]]
        if not setting:
            self.titles[identifier] = table.title.format_map(texts)
        case = Case(
            id=identifier,
            experiment=self.name,
            endpoint=self._endpoint(texts["endpoint"], table, numbers),
            **{name: texts[name] for name in ("python", "stack", "server", "loop")},
            **{name: numbers[name] for name in _COUNTS if name in numbers},
            slots=None if math.isinf(slots := evaluate(table.slots, numbers)) else slots,
            load=_load(self.declaration.loads[texts["load"]], numbers, setting),
            cores=block.cores,
            env={
                name: text.format_map({**_OF_LAUNCHES, **texts}) for name, text in table.env.items()
            },
        )
        if fault := misfit(case):
            axis, actual, allowed = fault
            raise ValueError(f"{axis} {actual} is not {allowed}")
        return case

    def _endpoint(self, name: str, table: EndpointTable, values: Numbers) -> Endpoint:
        floor = evaluate(table.floor, values)
        takes = evaluate(table.takes or "0", {**values, "floor": floor})
        first, *others = request_lines.paths((table.path, *table.paths), self.folder)
        same = ("app", "interface", "factory", "method", "body", "expect")
        return Endpoint(
            name=name,
            **{name: getattr(table, name) for name in same},
            path=first,
            paths=tuple(others),
            headers={name.lower(): text for name, text in table.headers.items()},
            floor=floor,
            takes=max(floor, takes),
        )


def _load(table: LoadTable, values: Numbers, setting: Setting) -> Load:
    numbers = {
        name: evaluate(text, values)
        for name in ("rate", "duration", "timeout")
        if (text := getattr(table, name)) is not None
    }
    load = Load(connections=evaluate(table.connections, {**values, **numbers}), **numbers)
    if (connections := setting.get("connections")) is None:
        return load
    if load.open:
        raise ValueError("of an open load as many connections as its rate and duration ask for")
    return load.model_copy(update={"connections": int(connections)})


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    """Write the values that templates may use."""
    return {
        name: value if isinstance(value, str) else f"{value:.15g}" for name, value in values.items()
    }


def _meaning(case: Case) -> str:
    """Return a key that is equal for cases that differ only in id, duration and timeout."""
    load = case.load.model_copy(update={"duration": 1.0, "timeout": 1.0})
    return case.model_copy(update={"id": "", "load": load}).model_dump_json()


def load_stacks(root: Path) -> dict[str, StackSpec]:
    """Read what is declared of each stack, one per dependency group of `apps/pyproject.toml`.

    Raises DeclarationError for a wrong key, a table for an unknown group or interpreter, or if
    there is no such file.
    """
    file = root / "apps" / "pyproject.toml"
    document: dict[str, Any] = read_toml(file)
    declared = {
        name: validate(StackSpec, table, str(file), table=f"tool.duetbench.stacks.{name}")
        for name, table in document.get("tool", {}).get("duetbench", {}).get("stacks", {}).items()
    }
    groups = document.get("dependency-groups", {})
    every = tuple(declared_interpreters.load().interpreters)
    used = {python for spec in declared.values() for python in spec.interpreters}
    for names, known in ((declared, groups), (used, every)):
        if unknown := sorted(set(names).difference(known)):
            allowed = f"one of {', '.join(sorted(known))}"
            raise DeclarationError(str(file), "tool.duetbench.stacks", unknown[0], allowed)
    specs = ((name, declared.get(name, StackSpec())) for name in groups)
    return {
        name: StackSpec(title=spec.title, interpreters=spec.interpreters or every)
        for name, spec in specs
    }


def load_experiments(
    root: Path, interpreters: Mapping[str, InterpreterSpec], stacks: Mapping[str, StackSpec]
) -> tuple[Experiment, ...]:
    """Read all experiments of a checkout with these interpreters and stacks, sorted by name.

    Raises DeclarationError for an invalid one, with place, value and allowed values.
    """
    experiments = []
    for path in sorted((root / "apps").glob(f"*/{FILE}")):
        file = path.relative_to(root).as_posix()
        declaration = validate(Declaration, read_toml(path, file), file, keys=_KEYS)
        experiments.append(Experiment(path.parent, file, declaration, interpreters, stacks))
    # Expand them now, so that every reader gets the error.
    return tuple(experiment for experiment in experiments if experiment.cases)
