"""The `[tool.duetbench]` tables of the two `pyproject.toml` files, validated."""

import functools
import re
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Field, StringConstraints

from duetbench.core.errors import DeclarationError
from duetbench.core.model import Frozen, Interface
from duetbench.host import paths
from duetbench.project.schema import (
    EnvName,
    HeaderName,
    HeaderText,
    Several,
    Text,
    read_toml,
    validated,
)
from duetbench.project.types import Settings

_Model = TypeVar("_Model", bound=BaseModel)

FILE: Final = "duetbench.toml"
"""Stands instead of `[tool.duetbench]` of `pyproject.toml`."""

STACK: Final = "project"
"""What the packages of a target are called."""

FOLDER: Final = ".duetbench-target"
"""What is ours in a copy: the lock, and what is installed of the project itself."""


class _StackSpec(Frozen):
    title: str = Field(default="", description="For people; empty: nothing worth saying.")
    interpreters: tuple[str, ...] | None = Field(default=None, description="None: all declared.")


class _AppsSettings(Frozen):
    stacks: dict[str, _StackSpec] = Field(default_factory=dict)


class Target(Frozen):
    """An application and how it is measured; what is not said is found out, or is usual."""

    app: Annotated[str, StringConstraints(pattern=r"^\w+(\.\w+)*:\w+(\.\w+)*$")]
    factory: bool = False
    interface: Interface | None = Field(default=None, description="None: found out.")
    requests: Several = ("GET /",)
    headers: dict[HeaderName, HeaderText] = Field(default_factory=dict)
    expect_status: int = Field(default=200, ge=100, le=599, alias="expect-status")
    server: str | None = Field(default=None, description="None: the first of ours that is locked.")
    workers: int = Field(default=1, gt=0)
    threads: int | None = Field(default=None, gt=0)
    loop: Text = "asyncio"
    connections: int = Field(default=64, gt=0)
    rate: float | None = Field(default=None, gt=0, description="Requests/s; None: a closed loop.")
    env: dict[EnvName, str] = Field(default_factory=dict)
    env_file: Several = Field(default=(), alias="env-file")
    before: Several = ()
    after: Several = ()
    python: Annotated[Several, Field(max_length=1)] = Field(
        default=(), description="Such as 3.13t; none: see `pythons`. Two only where it is compared."
    )
    groups: Several = Field(default=(), description="Dependency groups that it needs, too.")
    extras: Several = ()
    results: Text | None = Field(default=None, description="Folder of the repository for results.")


KEYS: Final = frozenset(info.alias or name for name, info in Target.model_fields.items())
"""As `[tool.duetbench]` spells them."""


def read_table(root: Path) -> tuple[Path, dict[str, Any]]:
    """The table of a repository, and the file that it stands in; DeclarationError: it is no TOML.

    Without a file it is empty.
    """
    overriding, file = root / FILE, root / "pyproject.toml"
    if overriding.is_file():
        return overriding, read_toml(overriding)
    table = read_toml(file).get("tool", {}).get("duetbench", {}) if file.is_file() else {}
    return file, table


@functools.cache
def load(root: Path) -> Settings:
    """Read and validate a repository's settings; DeclarationError: the table is wrong."""
    file, table = read_table(root)
    table = {key: value for key, value in table.items() if key not in KEYS}
    if root != paths.OWN and (paths.OWN / "pyproject.toml").is_file():
        # What a repository that has its own applications measured leaves out, it takes from us.
        table = {**read_table(paths.OWN)[1], **table}
    settings = _validated(Settings, file, table)
    for name, spec in settings.interpreters.items():
        key, base = f"tool.duetbench.interpreters.{name}", name.removesuffix("t")
        if name.endswith("t") != spec.free_threaded:
            allowed = "true where the interpreter's name ends in t, and false elsewhere"
            raise DeclarationError(str(file), f"{key}.free_threaded", spec.free_threaded, allowed)
        if not f"{spec.version}.".startswith(f"{base}."):
            allowed = f"a version of {base}, as its name says"
            raise DeclarationError(str(file), f"{key}.version", spec.version, allowed)
    return settings


def _validated(kind: type[_Model], file: Path, table: dict[str, Any]) -> _Model:
    keys = "only the keys that CONTRIBUTING.md names"
    return validated(kind, table, str(file), table="tool.duetbench", keys=keys)


def stacks(root: Path) -> dict[str, tuple[str, ...]]:
    """Stack → the interpreters it is made for; one per dependency group of `apps/pyproject.toml`.

    Raises:
        DeclarationError: A table for a group or interpreter that does not exist, or a wrong key.
        UsageError: The checkout declares no stacks at all.
    """
    interpreters = load(root).interpreters
    made_for = {name: spec.interpreters for name, spec in _stacks(root).items()}
    return {name: tuple(interpreters) if some is None else some for name, some in made_for.items()}


def stack_titles(root: Path) -> dict[str, str]:
    """Stack → what people call it, of those that have a title; errors as `stacks`."""
    declared = _stacks(root)
    return {name: spec.title for name, spec in declared.items() if spec.title}


def _stacks(root: Path) -> dict[str, _StackSpec]:
    file = root / "apps" / "pyproject.toml"
    if not file.exists():
        raise paths.undeclared(root, "no apps/pyproject.toml")
    document = read_toml(file)
    groups = document.get("dependency-groups", {})
    table = document.get("tool", {}).get("duetbench", {})
    declared = _validated(_AppsSettings, file, table).stacks
    interpreters = load(root).interpreters
    for name, spec in declared.items():
        key = f"tool.duetbench.stacks.{name}"
        if name not in groups:
            allowed = f"a dependency group: {', '.join(sorted(groups))}"
            raise DeclarationError(str(file), key, name, allowed)
        for python in spec.interpreters or ():
            if python not in interpreters:
                allowed = f"one of {', '.join(sorted(interpreters))}"
                raise DeclarationError(str(file), f"{key}.interpreters", python, allowed)
    return {name: declared.get(name, _StackSpec()) for name in groups}


def project_name(root: Path) -> str:
    """What a repository's project is called, in letters that an id may have."""
    file = root / "pyproject.toml"
    document = read_toml(file) if file.is_file() else {}
    name = document.get("project", {}).get("name") or root.name
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(name)).strip("-.") or "project"
