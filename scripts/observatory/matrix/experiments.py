"""The experiments: each `apps/*/experiment.toml`, with its cases in every profile.

A declaration is expanded to cases, one per combination of its axes, and checked. A case id is the
experiment's folder and the block's rendered template; nothing ever parses it. One id means one
thing: between profiles, only duration and timeout may differ.
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
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from duetbench.app import request_lines
from duetbench.app.declarations import Place, key_path, mistake, read_toml, validate
from duetbench.app.servers import SERVERS, misfit
from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Case, Endpoint, Frozen, Load, Profile
from observatory.matrix import declared_interpreters
from observatory.matrix.declared_interpreters import InterpreterSpec
from observatory.matrix.schema import (
    ALL,
    FILE,
    OPTIONAL,
    PROFILES,
    CasesTable,
    Declaration,
    EndpointTable,
    LoadTable,
    StackSpec,
    evaluate,
)

Value = str | float
Numbers = Mapping[str, float]
Setting = Mapping[str, str | int]
"""Values instead of the declared ones: of a case or of its load, by name."""

_Known = TypeVar("_Known")
_Name = TypeVar("_Name", bound=str)
_WORDS: Final = ("endpoint", "python", "stack", "server", "loop", "load")
_COUNTS: Final = ("workers", "threads")
_OF_LAUNCHES: Final = {name: f"{{{name}}}" for name in ("tmp", "port")}
"""Placeholders that each launch fills in; see `app.testbed`."""

_ID: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_KEYS: Final = "only the keys that apps/asgi-wsgi/experiment.toml explains"


class _Cell(NamedTuple):
    """A combination of axes: the place of its block, that, and the profile's parameters."""

    place: Place
    block: CasesTable
    axes: dict[str, Value]
    parameters: Numbers


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
        loaded = {name for block in self.declaration.cases for name in block.endpoint}
        for name, endpoint in self.declaration.endpoints.items():
            if name not in loaded and not endpoint.verify_only:
                expected = "cases that load it, or verify_only = true"
                raise self._error(("endpoints", name), "no cases", expected)
        meanings: dict[str, str] = {}
        cases: dict[Profile, tuple[Case, ...]] = {}
        for profile in PROFILES:
            by_id: dict[str, Case] = {}
            for cell in self._cells(profile):
                case, key = self._case(cell), (*cell.place, "id")
                if case.id in by_id:
                    raise self._error(key, case.id, f"unique ids in profile {profile}")
                if meanings.setdefault(case.id, meaning := _meaning(case)) != meaning:
                    allowed = (
                        "one meaning per id; between profiles it differs in more than duration and "
                        "timeout: put the parameter into the id, as in wait{wait}"
                    )
                    raise self._error(key, case.id, allowed)
                by_id[case.id] = case
            cases[profile] = tuple(by_id.values())
        return cases

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
            place = "cases", index
            if profile in block.profiles:
                parameters = self._known((*place, "profiles"), profile, self.declaration.profiles)
                for axes in self._combinations(place, block, python):
                    yield _Cell(place, block, axes, parameters)

    def _combinations(
        self, place: Place, block: CasesTable, python: str | None
    ) -> Iterator[dict[str, Value]]:
        axes: dict[str, tuple[Value, ...]] = {name: getattr(block, name) for name in _WORDS}
        if block.python in {ALL, OPTIONAL}:
            made_for = [
                self._known((*place, "stack"), name, self.stacks).interpreters
                for name in block.stack
            ]
            axes["python"] = tuple(
                name
                for name, spec in self.interpreters.items()
                if (python or spec.optional == (block.python == OPTIONAL))
                and all(name in names for names in made_for)
            )
        if python:
            axes["python"] = tuple(name for name in axes["python"] if name == python)
        counts = {name: getattr(block, name) for name in _COUNTS}
        axes |= {name: values for name, values in counts.items() if values}
        axes |= block.vary
        for combination in itertools.product(*axes.values()):
            for pair in block.pairs or ({},):
                yield {"workers": 1, **dict(zip(axes, combination, strict=True)), **pair}

    def _case(self, cell: _Cell, setting: Setting = MappingProxyType({})) -> Case:
        place, block, axes, parameters = cell
        identifier = self._render((*place, "id"), block.id, _texts(axes, parameters))
        if not _ID.fullmatch(identifier):
            allowed = "letters, digits and _ . - between single /"
            raise self._error((*place, "id"), identifier, allowed)
        axes = axes | {name: setting[name] for name in (*_WORDS, *_COUNTS) if name in setting}
        word, texts = {name: str(axes[name]) for name in _WORDS}, _texts(axes, parameters)
        made_for = self._known((*place, "stack"), word["stack"], self.stacks).interpreters
        python = self._known((*place, "python"), word["python"], self.interpreters)
        if word["python"] not in made_for:
            allowed = f"{', '.join(made_for)} (of stack {word['stack']})"
            raise self._error((*place, "python"), word["python"], allowed)
        self._known((*place, "server"), word["server"], SERVERS)
        numbers = {name: value for name, value in axes.items() if isinstance(value, int | float)}
        values = {**parameters, **numbers, "gil": 0.0 if python.free_threaded else 1.0}
        counts = {
            name: self._count((*place, name), str(numbers[name]), {})
            for name in _COUNTS
            if name in numbers
        }
        table = self._known((*place, "endpoint"), word["endpoint"], self.declaration.endpoints)
        load = self._known((*place, "load"), word["load"], self.declaration.loads)
        key = "endpoints", word["endpoint"]
        if not setting:
            title = self._render((*key, "title"), table.title, texts)
            self.titles[f"{self.name}/{identifier}"] = title
        slots = (*key, "slots"), table.slots, values
        case = Case(
            id=f"{self.name}/{identifier}",
            experiment=self.name,
            endpoint=self._endpoint(key, table, values),
            **{name: word[name] for name in ("python", "stack", "server", "loop")},
            **counts,
            slots=None if math.isinf(self._number(*slots)) else self._count(*slots),
            load=self._load(("loads", word["load"]), load, values, setting),
            cores=block.cores,
            env={
                name: self._render((*key, "env", name), text, {**_OF_LAUNCHES, **texts})
                for name, text in table.env.items()
            },
        )
        if fault := misfit(case):
            axis, actual, allowed = fault
            at = ("loads", word["load"]) if axis == "connections" else place
            raise self._error((*at, axis), actual, allowed)
        return case

    def _endpoint(self, key: Place, table: EndpointTable, values: Numbers) -> Endpoint:
        floor = self._number((*key, "floor"), table.floor, values)
        takes = self._number((*key, "takes"), table.takes or "0", {**values, "floor": floor})
        try:
            first, *others = request_lines.paths((table.path, *table.paths), self.folder)
        except UsageError as error:
            raise self._error((*key, "path"), table.path, str(error)) from error
        same = ("app", "interface", "factory", "method", "body", "expect")
        return Endpoint(
            name=str(key[-1]),
            **{name: getattr(table, name) for name in same},
            path=first,
            paths=tuple(others),
            headers={name.lower(): text for name, text in table.headers.items()},
            floor=floor,
            takes=max(floor, takes),
        )

    def _load(self, key: Place, table: LoadTable, values: Numbers, setting: Setting) -> Load:
        numbers = {
            name: self._number((*key, name), text, values)
            for name in ("rate", "duration", "timeout")
            if (text := getattr(table, name)) is not None
        }
        at = (*key, "connections")
        connections = self._count(at, table.connections, {**values, **numbers})
        if "connections" in setting:
            if table.model == "open":
                raise self._error(at, setting["connections"], "the product of rate and duration")
            connections = int(setting["connections"])
        if (table.rate is None) != (table.model == "closed"):
            allowed = "a rate belongs to paced and open loads, and to them only"
            raise self._error(key, table.model, allowed)
        try:
            return Load(connections=connections, **numbers)
        except ValidationError as error:
            place, actual, allowed = mistake(error)
            raise self._error((*key, *place), actual, allowed) from error

    def _number(self, key: Place, formula: str, values: Numbers) -> float:
        try:
            number = evaluate(formula, values)
        except ValueError as error:
            allowed = f"arithmetic over {', '.join([*values, 'inf'])}, min() and max() ({error})"
            raise self._error(key, formula, allowed) from error
        if number < 0:
            raise self._error(key, f"{formula} = {number:g}", "0 or more")
        return number

    def _count(self, key: Place, formula: str, values: Numbers) -> int:
        number = self._number(key, formula, values)
        if number < 1 or not number.is_integer():
            raise self._error(key, f"{formula} = {number:g}", "a whole number, 1 or more")
        return int(number)

    def _render(self, key: Place, template: str, values: Mapping[str, str]) -> str:
        try:
            return template.format_map(values)
        except (ValueError, LookupError, AttributeError) as error:
            raise self._error(key, template, f"{{names}} of: {', '.join(values)}") from error

    def _known(self, key: Place, name: _Name, known: Mapping[_Name, _Known]) -> _Known:
        if name not in known:
            raise self._error(key, name, ", ".join(known))
        return known[name]

    def _error(self, key: Place, value: object, allowed: str) -> DeclarationError:
        return DeclarationError(self.file, key_path(key), value, allowed)


def _texts(axes: Mapping[str, Value], parameters: Numbers) -> dict[str, str]:
    """List the names that templates may use, with their values."""
    values = {**{name: axes[name] for name in _WORDS}, **parameters, **axes}
    return {
        name: value if isinstance(value, str) else f"{value:.15g}" for name, value in values.items()
    }


def _meaning(case: Case) -> str:
    """Return a key that is equal for cases that differ only in id, duration and timeout."""
    load = case.load.model_copy(update={"duration": 1.0, "timeout": 1.0})
    return case.model_copy(update={"id": "", "load": load}).model_dump_json()


def undeclared(root: Path, reason: str) -> UsageError:
    """The error for a checkout without experiments."""
    return UsageError(
        f"{root} declares no experiments ({reason}): see 'Adding things' in duetbench's "
        "CONTRIBUTING.md; an application is measured by `duetbench compare --app shop.main:app`"
    )


class _AppsSettings(Frozen):
    stacks: dict[str, StackSpec] = Field(default_factory=dict)


def load_stacks(root: Path) -> dict[str, StackSpec]:
    """Read what is declared of each stack, one per dependency group of `apps/pyproject.toml`.

    Raises DeclarationError for a wrong key, or a table for an unknown group or interpreter, and
    UsageError if the checkout declares no stacks at all.
    """
    file = root / "apps" / "pyproject.toml"
    if not file.exists():
        raise undeclared(root, "no apps/pyproject.toml")
    document: dict[str, Any] = read_toml(file)
    groups = document.get("dependency-groups", {})
    table = document.get("tool", {}).get("duetbench", {})
    declared = validate(_AppsSettings, table, str(file), table="tool.duetbench").stacks
    interpreters = declared_interpreters.load(root).interpreters
    for name, spec in declared.items():
        key = f"tool.duetbench.stacks.{name}"
        if name not in groups:
            allowed = f"a dependency group: {', '.join(sorted(groups))}"
            raise DeclarationError(str(file), key, name, allowed)
        for python in spec.interpreters:
            if python not in interpreters:
                allowed = f"one of {', '.join(sorted(interpreters))}"
                raise DeclarationError(str(file), f"{key}.interpreters", python, allowed)
    every = {"interpreters": tuple(interpreters)}
    specs = {name: declared.get(name, StackSpec()) for name in groups}
    return {
        name: spec if spec.interpreters else spec.model_copy(update=every)
        for name, spec in specs.items()
    }


def load_experiments(
    root: Path,
    interpreters: Mapping[str, InterpreterSpec],
    stacks: Mapping[str, StackSpec],
) -> tuple[Experiment, ...]:
    """Read all experiments of a checkout with these interpreters and stacks, sorted by name.

    Raises DeclarationError for an invalid one, with place, value and allowed values, and UsageError
    if there is none.
    """
    files = sorted((root / "apps").glob(f"*/{FILE}"))
    if not files:
        raise undeclared(root, f"no apps/*/{FILE}")
    experiments = []
    for path in files:
        file = path.relative_to(root).as_posix()
        declaration = validate(Declaration, read_toml(path, file), file, keys=_KEYS)
        experiments.append(Experiment(path.parent, file, declaration, interpreters, stacks))
    # Expand them now, so that every reader gets the error.
    return tuple(experiment for experiment in experiments if experiment.cases)
