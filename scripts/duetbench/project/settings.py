"""The `[tool.duetbench]` tables of the two `pyproject.toml` files, validated."""

import functools
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, StringConstraints

from duetbench.core.errors import DeclarationError
from duetbench.core.model import Frozen
from duetbench.host import paths
from duetbench.project import target
from duetbench.project.schema import read_toml, validated

_Model = TypeVar("_Model", bound=BaseModel)
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PatchVersion = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+([abrc]+\d+)?$")]


class InterpreterSpec(Frozen):
    """One interpreter to measure with."""

    version: PatchVersion
    free_threaded: bool


class SourceBuild(Frozen):
    """How an interpreter is built where no prebuilt one can be reached."""

    archive: str = Field(description="Path of the source archive below a Debian mirror's base.")
    sha256: Digest
    cflags: str
    configure: tuple[str, ...] = Field(description="Options of configure, the same for all builds.")


class OhaSpec(Frozen):
    """The load generator."""

    version: PatchVersion
    sha256: Digest = Field(description="SHA-256 of the crate.")
    prebuilt: dict[str, Digest] = Field(
        default_factory=dict, description="File of the release → its SHA-256."
    )


class GoToolSpec(Frozen):
    """A program that Go builds, which checks its module against Go's checksum database."""

    package: str
    version: PatchVersion


class SetupSpec(Frozen):
    """What set-up asks of the machine."""

    disk_gb: float = Field(default=3.0, gt=0, description="Free space (10⁹ bytes) to build in.")


class Settings(Frozen):
    """The harness's own `[tool.duetbench]`, without the keys of a target."""

    interpreters: dict[str, InterpreterSpec] = Field(min_length=1)
    source_build: dict[str, SourceBuild] = Field(default_factory=dict, alias="source-build")
    oha: OhaSpec
    setup: SetupSpec = SetupSpec()
    go_tools: dict[str, GoToolSpec] = Field(default_factory=dict, alias="go-tools")
    fleet: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Machine's id → globs of the cases that it measures."
    )
    cooldown_days: int = Field(
        default=3, ge=0, alias="cooldown-days",
        description="Days that a release has to be out before nights lock it.",
    )  # fmt: skip
    cooldown_exempt: tuple[str, ...] = Field(
        default=(), alias="cooldown-exempt",
        description="Packages that nights lock at once: one's own.",
    )  # fmt: skip

    @property
    def gil(self) -> str | None:
        """The interpreter with the GIL that is measured where only one is: the first of them."""
        return next((n for n, spec in self.interpreters.items() if not spec.free_threaded), None)

    @property
    def free_threaded(self) -> str | None:
        """The interpreter without the GIL that is held against it: the first of them."""
        return next((n for n, spec in self.interpreters.items() if spec.free_threaded), None)


class _StackSpec(Frozen):
    title: str = Field(default="", description="For people; empty: nothing worth saying.")
    interpreters: tuple[str, ...] | None = Field(default=None, description="None: all declared.")


class _AppsSettings(Frozen):
    stacks: dict[str, _StackSpec] = Field(default_factory=dict)


@functools.cache
def load(root: Path) -> Settings:
    """Read and validate a repository's settings; DeclarationError: the table is wrong."""
    file, table = target.written(root)
    table = {key: value for key, value in table.items() if key not in target.KEYS}
    if root != paths.OWN and (paths.OWN / "pyproject.toml").is_file():
        # What a repository that has its own applications measured leaves out, it takes from us.
        table = {**target.written(paths.OWN)[1], **table}
    found = _validated(Settings, file, table)
    for name, spec in found.interpreters.items():
        key, base = f"tool.duetbench.interpreters.{name}", name.removesuffix("t")
        if name.endswith("t") != spec.free_threaded:
            allowed = "true where the interpreter's name ends in t, and false elsewhere"
            raise DeclarationError(str(file), f"{key}.free_threaded", spec.free_threaded, allowed)
        if not f"{spec.version}.".startswith(f"{base}."):
            allowed = f"a version of {base}, as its name says"
            raise DeclarationError(str(file), f"{key}.version", spec.version, allowed)
    return found


def _validated(kind: type[_Model], file: Path, table: dict[str, Any]) -> _Model:
    keys = "only the keys that CONTRIBUTING.md names"
    return validated(kind, table, str(file), table="tool.duetbench", keys=keys)


def stacks(root: Path) -> dict[str, tuple[str, ...]]:
    """Stack → the interpreters it is made for; one per dependency group of `apps/pyproject.toml`.

    Raises:
        DeclarationError: A table for a group or interpreter that does not exist, or a wrong key.
        UsageError: The checkout declares no stacks at all.
    """
    known = load(root).interpreters
    made_for = {name: spec.interpreters for name, spec in _stacks(root).items()}
    return {name: tuple(known) if some is None else some for name, some in made_for.items()}


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
    known = load(root).interpreters
    for name, spec in declared.items():
        key = f"tool.duetbench.stacks.{name}"
        if name not in groups:
            allowed = f"a dependency group: {', '.join(sorted(groups))}"
            raise DeclarationError(str(file), key, name, allowed)
        for python in spec.interpreters or ():
            if python not in known:
                allowed = f"one of {', '.join(sorted(known))}"
                raise DeclarationError(str(file), f"{key}.interpreters", python, allowed)
    return {name: declared.get(name, _StackSpec()) for name in groups}
