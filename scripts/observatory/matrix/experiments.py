"""The experiments: each `apps/*/experiment.toml`, with its cases in every profile.

A declaration is expanded to cases, one per combination of its axes, and checked. A case id is the
experiment's folder and the block's rendered template; nothing ever parses it. One id means one
thing: between profiles, only duration and timeout may differ.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any, Final

from pydantic import Field, ValidationError

from duetbench.app import request_lines
from duetbench.app.declarations import Place, key_path, mistake, read_toml
from duetbench.app.declarations import validate as validate_table
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
    FormulaError,
    LoadTable,
    StackSpec,
    evaluate,
    in_defaults,
    validate,
)

Value = str | float
_WORDS: Final = ("endpoint", "python", "stack", "server", "loop", "load")
_COUNTS: Final = ("workers", "threads")
_OF_LAUNCHES: Final = {name: f"{{{name}}}" for name in ("tmp", "port")}
"""Placeholders that each launch fills in; see `app.testbed`."""

_ID: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_FREE_AXIS: Final = re.compile(r"[a-z][a-z0-9_]*")
_AS_DECLARED: Final[Mapping[str, str | int]] = {}


@dataclass(frozen=True)
class Experiment:
    """One question with one moving axis: a folder with its applications, and cases per profile.

    `titles` maps a case's id to the declared title of what it serves, if there is one; expanding
    the cases fills it. Errors name `file`, and `raw` is its content.
    """

    name: str
    folder: Path
    file: str
    declaration: Declaration
    raw: Mapping[str, Any]
    interpreters: Mapping[str, InterpreterSpec]
    stacks: Mapping[str, StackSpec]
    titles: dict[str, str] = field(default_factory=dict)

    @cached_property
    def cases(self) -> Mapping[Profile, tuple[Case, ...]]:
        """All cases by profile; raises DeclarationError for an unknown name or a repeated id."""
        self._check_references()
        cases = {profile: self._cases(profile) for profile in PROFILES}
        self._check_one_meaning(cases)
        return cases

    def _check_references(self) -> None:
        """Refuse names that do not exist, and endpoints that no case uses."""
        allowed: dict[str, Collection[str]] = {
            "endpoint": [n for n, e in self.declaration.endpoints.items() if not e.verify_only],
            "python": self.interpreters,
            "stack": self.stacks,
            "server": SERVERS,
            "load": self.declaration.loads,
            "profiles": self.declaration.profiles,
        }
        for (index, block), axis in itertools.product(enumerate(self.declaration.cases), allowed):
            if axis == "python" and block.python in {ALL, OPTIONAL}:
                continue
            for place, name in enumerate(getattr(block, axis)):
                if name not in (names := allowed[axis]):
                    raise self._error(("cases", index, axis, place), name, ", ".join(names))
        loaded = {name for block in self.declaration.cases for name in block.endpoint}
        for name, endpoint in self.declaration.endpoints.items():
            if name not in loaded and not endpoint.verify_only:
                expected = "cases that load it, or verify_only = true"
                raise self._error(("endpoints", name), "no cases", expected)

    def _cases(self, profile: Profile) -> tuple[Case, ...]:
        """Expand the cases of one profile, and check that they resolve, fit and are unique."""
        cases: dict[str, Case] = {}
        owner: dict[str, int] = {}
        for index, block, axes in self._cells(profile):
            case = self._case(index, block, axes, self.declaration.profiles[profile])
            if case.id in owner:
                other = f"in profile {profile} cases[{owner[case.id]}] has it too"
                key = ("cases", index, "id")
                raise self._error(key, case.id, f"unique ids; {other}")
            owner[case.id] = index
            cases[case.id] = case
        return tuple(cases.values())

    def cases_with(
        self, profile: Profile, setting: Mapping[str, str | int], python: str | None
    ) -> tuple[Case, ...]:
        """Expand the cases with a setting instead of the declared values, each once.

        With a `python`, these are the cases of this interpreter, which may be an optional one.
        Cases that no server can serve like this are left out. A declared case keeps its id.
        """
        ids = {_content(case): case.id for cases in self.cases.values() for case in cases}
        cases: dict[str, Case] = {}
        for index, block, axes in self._cells(profile, python):
            with suppress(DeclarationError):
                parameters = self.declaration.profiles[profile]
                case = self._case(index, block, axes, parameters, setting)
                cases.setdefault(_content(case), case)
        end = "".join(f"/{name}-{value}" for name, value in setting.items())
        return tuple(
            case.model_copy(update={"id": ids.get(content, f"{case.id}{end}")})
            for content, case in cases.items()
        )

    def _cells(
        self, profile: Profile, python: str | None = None
    ) -> Iterator[tuple[int, CasesTable, dict[str, Value]]]:
        for index, block in enumerate(self.declaration.cases):
            if profile in block.profiles:
                for axes in self._combinations(index, block, python):
                    yield index, block, axes

    def _check_one_meaning(self, cases: Mapping[Profile, tuple[Case, ...]]) -> None:
        """Refuse an id that means different things in different profiles."""
        first: dict[str, tuple[Profile, Case]] = {}
        for profile, group in cases.items():
            for case in group:
                meaning = _meaning(case)
                elsewhere, other = first.setdefault(case.id, (profile, meaning))
                if meaning != other:
                    allowed = (
                        f"one meaning per id; in {profile} and {elsewhere} it differs in more than "
                        "duration and timeout: put the parameter into the id, as in wait{wait}"
                    )
                    raise self._error(("cases",), case.id, allowed)

    def _combinations(
        self, index: int, block: CasesTable, python: str | None
    ) -> Iterator[dict[str, Value]]:
        axes: dict[str, Collection[Value]] = {name: getattr(block, name) for name in _WORDS}
        if block.python in {ALL, OPTIONAL}:
            pythons = [self.stacks[name].interpreters for name in block.stack]
            axes["python"] = [
                name
                for name, spec in self.interpreters.items()
                if (python or spec.optional == (block.python == OPTIONAL))
                and all(name in names for names in pythons)
            ]
        if python:
            axes["python"] = [python] if python in axes["python"] else []
        for name in _COUNTS:
            if (values := getattr(block, name)) is not None:
                axes[name] = values
        for name, numbers in block.vary.items():
            self._check_free(("cases", index, "vary", name), name, axes)
            axes[name] = numbers
        pairs = block.pairs or ({},)
        for place, pair in enumerate(pairs):
            key = ("cases", index, "pairs", place)
            if pair.keys() != pairs[0].keys():
                raise self._error(key, ", ".join(pair), f"the keys {', '.join(pairs[0])} in each")
            for name in pair:
                self._check_free((*key, name), name, axes)
        for combination in itertools.product(*axes.values()):
            for pair in pairs:
                yield {**dict(zip(axes, combination, strict=True)), **pair}

    def _check_free(self, key: Place, name: str, axes: Collection[str]) -> None:
        taken = {*axes, *_WORDS, "gil", "slots", "floor", "rate", "duration", "timeout"}
        taken |= {name for profile in self.declaration.profiles.values() for name in profile}
        if name in taken or not _FREE_AXIS.fullmatch(name):
            raise self._error(key, name, f"a new name; taken: {', '.join(sorted(taken))}")

    def _case(
        self,
        index: int,
        block: CasesTable,
        axes: dict[str, Value],
        parameters: dict[str, float],
        setting: Mapping[str, str | int] = _AS_DECLARED,
    ) -> Case:
        axes = {"workers": 1, **axes}
        key = ("cases", index, "id")
        template = _texts(axes, parameters)
        identifier = self._render(key, block.id, template)
        if not _ID.fullmatch(identifier):
            raise self._error(key, identifier, "letters, digits and _ . - between single /")
        identifier = f"{self.name}/{identifier}"
        axes |= {name: setting[name] for name in (*_WORDS, *_COUNTS) if name in setting}
        word = {name: str(axes[name]) for name in _WORDS}
        gil = 0.0 if self.interpreters[word["python"]].free_threaded else 1.0
        numbers = {name: v for name, v in axes.items() if isinstance(v, int | float)}
        values = {**parameters, **numbers, "gil": gil}
        counts = {
            name: self._count(("cases", index, name), str(numbers[name]), {})
            for name in _COUNTS
            if name in numbers
        }
        table = self.declaration.endpoints[word["endpoint"]]
        if word["python"] not in (pythons := self.stacks[word["stack"]].interpreters):
            allowed = f"{', '.join(pythons)} (of stack {word['stack']})"
            raise self._error(("cases", index, "python"), word["python"], allowed)
        slots = self._slots(word["endpoint"], table, values)
        load = self._load(word["load"], self.declaration.loads[word["load"]], values, setting)
        template = _texts(axes, parameters)
        endpoint = "endpoints", word["endpoint"]
        if not setting:
            self.titles[identifier] = self._render((*endpoint, "title"), table.title, template)
        case = Case(
            id=identifier,
            experiment=self.name,
            endpoint=self._endpoint(word["endpoint"], table, values),
            python=word["python"],
            stack=word["stack"],
            server=word["server"],
            loop=word["loop"],
            workers=counts["workers"],
            threads=counts.get("threads"),
            slots=slots,
            load=load,
            cores=block.cores,
            env={
                name: self._render((*endpoint, "env", name), text, {**_OF_LAUNCHES, **template})
                for name, text in table.env.items()
            },
        )
        if fault := misfit(case):
            axis, actual, allowed = fault
            place = ("loads", word["load"]) if axis == "connections" else ("cases", index)
            raise self._error((*place, axis), actual, allowed)
        return case

    def _endpoint(self, name: str, table: EndpointTable, values: Mapping[str, float]) -> Endpoint:
        key = "endpoints", name
        floor = self._number((*key, "floor"), table.floor, values)
        takes = self._number((*key, "takes"), table.takes or "0", {**values, "floor": floor})
        try:
            first, *others = request_lines.paths((table.path, *table.paths), self.folder)
        except UsageError as error:
            raise self._error((*key, "path"), table.path, str(error)) from error
        return Endpoint(
            name=name,
            app=table.app,
            interface=table.interface,
            factory=table.factory,
            method=table.method,
            path=first,
            paths=tuple(others),
            body=table.body,
            headers={name.lower(): text for name, text in table.headers.items()},
            expect=table.expect,
            floor=floor,
            takes=max(floor, takes),
        )

    def _slots(self, name: str, table: EndpointTable, values: Mapping[str, float]) -> int | None:
        key = ("endpoints", name, "slots")
        number = self._number(key, table.slots, values)
        return None if math.isinf(number) else self._count(key, table.slots, values)

    def _load(
        self,
        name: str,
        table: LoadTable,
        values: Mapping[str, float],
        setting: Mapping[str, str | int],
    ) -> Load:
        numbers = {
            field: self._number(("loads", name, field), text, values)
            for field in ("rate", "duration", "timeout")
            if (text := getattr(table, field)) is not None
        }
        key = ("loads", name, "connections")
        connections = self._count(key, table.connections, {**values, **numbers})
        if "connections" in setting:
            if table.model == "open":
                raise self._error(key, setting["connections"], "the product of rate and duration")
            connections = int(setting["connections"])
        if (table.rate is None) != (table.model == "closed"):
            allowed = "a rate belongs to paced and open loads, and to them only"
            raise self._error(("loads", name), table.model, allowed)
        try:
            return Load(connections=connections, **numbers)
        except ValidationError as error:
            place, actual, allowed = mistake(error)
            raise self._error(("loads", name, *place), actual, allowed) from error

    def _evaluate(self, key: Place, formula: str, values: Mapping[str, float]) -> float:
        try:
            return evaluate(formula, values)
        except FormulaError as error:
            raise self._error(key, formula, f"{error.allowed} ({error.reason})") from error

    def _number(self, key: Place, formula: str, values: Mapping[str, float]) -> float:
        number = self._evaluate(key, formula, values)
        if number < 0:
            raise self._error(key, f"{formula} = {number:g}", "0 or more")
        return number

    def _count(self, key: Place, formula: str, values: Mapping[str, float]) -> int:
        number = self._number(key, formula, values)
        if number < 1 or not number.is_integer():
            raise self._error(key, f"{formula} = {number:g}", "a whole number, 1 or more")
        return int(number)

    def _render(self, key: Place, template: str, values: Mapping[str, str]) -> str:
        try:
            fields = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
        except ValueError as error:
            raise self._error(key, template, f"a template with {{names}} ({error})") from error
        for name, *rest in fields:
            if name not in values or any(rest):
                raise self._error(key, template, f"{{names}} of: {', '.join(values)}")
        return template.format_map(values)

    def _error(self, key: Place, value: object, allowed: str) -> DeclarationError:
        return DeclarationError(self.file, key_path(in_defaults(key, self.raw)), value, allowed)


def _texts(axes: Mapping[str, Value], parameters: Mapping[str, float]) -> dict[str, str]:
    """List the names that templates may use, with their values."""
    numbers = {**parameters, **{n: v for n, v in axes.items() if isinstance(v, int | float)}}
    return {name: str(axes[name]) for name in _WORDS} | {
        name: str(int(value) if float(value).is_integer() else value)
        for name, value in numbers.items()
    }


def _meaning(case: Case) -> Case:
    """Return a case without the fields that may differ between profiles."""
    constants = {"duration": 1.0, "timeout": 1.0}
    return case.model_copy(update={"load": case.load.model_copy(update=constants)})


def _content(case: Case) -> str:
    """Return a key that is equal for cases that differ only in their ids."""
    return _meaning(case).model_copy(update={"id": ""}).model_dump_json()


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
    document = read_toml(file)
    groups = document.get("dependency-groups", {})
    table = document.get("tool", {}).get("duetbench", {})
    declared = validate_table(_AppsSettings, table, str(file), table="tool.duetbench").stacks
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
    everything = StackSpec(interpreters=tuple(interpreters))
    specs = {name: declared.get(name, everything) for name in groups}
    return {
        name: spec if spec.interpreters else everything.model_copy(update={"title": spec.title})
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
        file, folder = path.relative_to(root).as_posix(), path.parent
        raw = read_toml(path, file)
        declaration = validate(Declaration, raw, file)
        experiments.append(
            Experiment(folder.name, folder, file, declaration, raw, interpreters, stacks)
        )
    # Expand them now, so that every reader gets the error.
    return tuple(experiment for experiment in experiments if experiment.cases)
