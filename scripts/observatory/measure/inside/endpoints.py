"""The endpoints that `apps/*/experiment.toml` declare, with the fields that one request needs.

Standard library only, and lenient: the harness checks declarations, this only reads them.
"""

from __future__ import annotations

import ast
import functools
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

_NOT_PLAIN = ("paths", "headers", "body", "body_file", "factory", "before", "env_names")
_AXES = ("endpoint", "python", "stack", "server", "loop", "load", "workers", "threads")
_OF_LAUNCHES = {name: f"{{{name}}}" for name in ("tmp", "port")}  # filled in by each launch


@dataclass(frozen=True)
class DeclaredEndpoint:
    """One declared handler; `id` is experiment/name, `app` is module:attribute.

    Waits that `env` sets are 0 s; `waits`: the handler still waits, so wall time says nothing.
    `stacks` are those of the cases that load it, or else all of the experiment's. `plain`: a single
    GET that needs no preparation. `takes`: declared seconds of one request; 0: less than matters.
    """

    id: str
    experiment: str
    app: str
    interface: str
    path: str
    expect: Mapping[str, Any]
    env: Mapping[str, str]
    waits: bool
    stacks: frozenset[str]
    plain: bool
    takes: float


@functools.cache
def declared(root: Path) -> dict[str, DeclaredEndpoint]:
    """Read all endpoints of a checkout, by id."""
    endpoints = (
        endpoint
        for file in sorted((root / "apps").glob("*/experiment.toml"))
        for endpoint in _of_experiment(file.parent.name, tomllib.loads(file.read_text("utf-8")))
    )
    return {endpoint.id: endpoint for endpoint in endpoints}


def _of_experiment(experiment: str, document: Mapping[str, Any]) -> Iterable[DeclaredEndpoint]:
    profiles = document["profiles"]
    parameters = profiles.get("quick") or next(iter(profiles.values()))
    blocks = [{**document.get("defaults", {}), **block} for block in document["cases"]]
    for name, table in document["endpoints"].items():
        loaded = [block for block in blocks if name in _several(block["endpoint"])] or blocks
        templates = table.get("env", {})
        floor = str(table.get("floor", 0))
        # A parameter of the floor that reaches the application is a wait: cut it to zero.
        cut = dict.fromkeys(_names(floor) & _fields(templates) & parameters.keys(), 0)
        values = {**_axes(loaded[0]), **parameters, **cut}
        yield DeclaredEndpoint(
            id=f"{experiment}/{name}",
            experiment=experiment,
            app=table["app"],
            interface=table["interface"],
            path=table["path"],
            expect=table["expect"],
            env={key: text.format(**_plain(values)) for key, text in templates.items()},
            waits=_waits(floor, values),
            stacks=frozenset(stack for block in loaded for stack in _several(block["stack"])),
            plain=table.get("method", "GET") == "GET"
            and "{" not in table["path"]
            and not any(table.get(key) for key in _NOT_PLAIN),
            takes=table.get("takes", 0.0),
        )


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _axes(block: Mapping[str, Any]) -> dict[str, Any]:
    """The first value of every axis of a block of cases."""
    axes = {"workers": 1, **{name: block[name] for name in _AXES if name in block}}
    axes |= block.get("vary", {})
    axes |= block.get("pairs", [{}])[0]
    return {name: _several(value)[0] for name, value in axes.items()}


def _names(formula: str) -> set[str]:
    tree = ast.parse(formula, mode="eval")
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _fields(templates: Mapping[str, str]) -> set[str]:
    parts = (part for text in templates.values() for part in Formatter().parse(text))
    return {field for _, field, _, _ in parts if field}


def _plain(values: Mapping[str, Any]) -> dict[str, str]:
    filled = {n: f"{v:g}" if isinstance(v, int | float) else str(v) for n, v in values.items()}
    return {**filled, **_OF_LAUNCHES}


def _waits(floor: str, values: Mapping[str, Any]) -> bool:
    """Whether the floor is above 0 s; a floor that cannot be evaluated counts as a wait."""
    names = {"min": min, "max": max, "inf": math.inf, **values}
    try:
        # Arithmetic from a file of this repository, as the harness has checked.
        return bool(eval(floor, {"__builtins__": {}}, names) > 0)  # noqa: S307
    except NameError:
        return True
