"""The `[tool.duetbench]` tables of the two `pyproject.toml` files, as types."""

import functools
import hashlib
import re
from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.metrics import Concern
from duetbench.core.model import Frozen, Interface, InterpreterRecord
from duetbench.core.units import read_share, read_time
from duetbench.host import paths
from duetbench.project.schema import (
    Digest,
    EnvName,
    HeaderName,
    HeaderText,
    InterpreterSpec,
    OhaSpec,
    PatchVersion,
    Several,
    StackSpec,
    Text,
    read_toml,
    validate,
)

_Model = TypeVar("_Model", bound=BaseModel)

ANCHOR: Final = "anchor.toml"
FILE: Final = "duetbench.toml"
"""Takes precedence over `[tool.duetbench]` of `pyproject.toml`."""

STACK: Final = "project"
"""Name of the stack with the packages of a target."""

NOWHERE: Final = "nowhere"
"""Label of the packages of a target that names none."""

FOLDER: Final = ".duetbench-target"
"""Our folder in a copy: the lock, and the installed parts of the project itself."""


Origin = Literal["prebuilt", "source", "found"]
ORIGINS: Final[tuple[Origin, ...]] = ("prebuilt", "source", "found")


class SourceBuild(Frozen):
    """How to build an interpreter if no prebuilt one is available."""

    archive: str = Field(description="Path of the source archive below a Debian mirror's base.")
    sha256: Digest
    cflags: str
    configure: tuple[str, ...] = Field(description="Options of configure, the same for all builds.")
    llvm: tuple[str, ...] = Field(
        default=(), description="Versions of LLVM that can build its JIT, the best one first."
    )


class Settings(Frozen):
    """The harness's own `[tool.duetbench]`, without the keys of a target."""

    interpreters: dict[str, InterpreterSpec] = Field(min_length=1, title="A table for each.")
    source_build: dict[str, SourceBuild] = Field(
        default_factory=dict, alias="source-build", title="A table for each version."
    )
    oha: OhaSpec = Field(title="The load generator.")
    fleet: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Machine's id → globs of the cases that it measures."
    )
    cooldown_days: int = Field(
        default=3,
        ge=0,
        alias="cooldown-days",
        description="Days that a release has to be out before nights lock it.",
    )
    material: dict[Concern, Annotated[float, BeforeValidator(read_share)]] = Field(
        default_factory=dict, description="Sizes from which a change is material: memory = '5%'."
    )

    @property
    def usual(self) -> dict[str, InterpreterSpec]:
        """The interpreters that set-up installs: all but the optional ones."""
        return {name: spec for name, spec in self.interpreters.items() if not spec.optional}

    def adding(self, names: Collection[str]) -> "Settings":
        """Return a copy in which these optional interpreters are installed like the others."""
        specs = {
            name: spec.model_copy(update={"optional": spec.optional and name not in names})
            for name, spec in self.interpreters.items()
        }
        return self.model_copy(update={"interpreters": specs})


class Interpreter(InterpreterRecord):
    """An installed interpreter; the name is that in `pyproject.toml`: 3.14, 3.14t, ….

    In a free-threaded prefix, `bin/python3.14` also runs without the GIL. So only the absolute path
    of the executable is started, never a name on PATH.
    """

    executable: Path

    @property
    def identity(self) -> str:
        """The key of its environments and wheels."""
        build = self.version, str(self.free_threaded), self.origin, self.build, str(self.executable)
        return hashlib.sha256("\0".join(build).encode()).hexdigest()[:12]

    def record(self) -> InterpreterRecord:
        return InterpreterRecord.model_validate(self.model_dump(exclude={"executable"}))


class _AppsSettings(Frozen):
    stacks: dict[str, StackSpec] = Field(default_factory=dict)


def _seconds(value: object) -> object:
    """Read 90s or 2m as seconds, and leave a number as it is."""
    return (read_time(value) or value) if isinstance(value, str) else value


class Target(Frozen):
    """An application and how to measure it; missing values are detected, or have defaults.

    Each key with a description is also an option of the commands that measure, with the same name.
    """

    app: Annotated[str, StringConstraints(pattern=r"^\w+(\.\w+)*:\w+(\.\w+)*$")] = Field(
        description="ASGI or WSGI application, e.g. shop.main:app."
    )
    factory: bool = Field(False, description="The attribute is a function that returns the app.")
    interface: Interface | None = Field(None, description="Default: detected by importing it.")
    requests: Several = Field(
        ("GET /",),
        description="A request: 'POST /orders @order.json'. Or several paths with their shares: "
        "'GET /items/{1..100} 3 /search?q={@words.txt} 1'. Each is a case.",
    )
    headers: dict[HeaderName, HeaderText] = Field(
        {},
        description="Header of every request, e.g. 'Authorization: Bearer {TOKEN}', with the "
        "private value of TOKEN; repeatable.",
    )
    expect_status: int = Field(
        200,
        ge=100,
        le=599,
        alias="expect-status",
        description="Status that every response must have (200).",
    )
    server: str | None = Field(
        None, description="Default: the one that the project has locked, or granian."
    )
    workers: int = Field(1, gt=0, description="Worker processes of the server (1).")
    threads: int | None = Field(None, gt=0, description="Blocking threads per worker (WSGI: 8).")
    loop: Text = Field("asyncio", description="Event loop (asyncio).")
    connections: int = Field(64, gt=0, description="Connections that send without pause (64).")
    rate: float | None = Field(
        None, gt=0, description="Requests per second; default: as fast as connections allow."
    )
    env: dict[EnvName, str] = Field(
        {},
        description="Variable of the server; its value is never recorded. {tmp} is a fresh folder "
        "per launch. Without a value, the current one is used. Repeatable.",
    )
    env_file: Several = Field(
        (), alias="env-file", description="File with lines NAME=VALUE, as private as --env."
    )
    before: Several = Field(
        (), description="Command before each start of the server, e.g. 'python -m shop.seed'."
    )
    after: Several = Field((), description="Command after each stop of the server.")
    # None: see `target_python`. Two only where it is compared.
    python: Annotated[Several, Field(max_length=1)] = Field((), title="Interpreter, e.g. 3.13t.")
    packages: Text | None = Field(
        None, description="File with the packages, e.g. requirements/web.txt; default: detected."
    )
    ready_timeout: Annotated[float, BeforeValidator(_seconds)] = Field(
        30.0,
        gt=0,
        le=3600,
        alias="ready-timeout",
        description="Time that the server may take to start, e.g. 90s or 2m (30s).",
    )
    groups: Several = Field((), description="Dependency group that the app needs; repeatable.")
    extras: Several = Field((), description="Extra of the project that it needs; repeatable.")
    results: Text | None = Field(None, title="Folder of the repository for results.")


KEYS: Final = frozenset(info.alias or name for name, info in Target.model_fields.items())
"""The keys of a target in `[tool.duetbench]`."""


def read_pyproject(root: Path) -> dict[str, Any]:
    """Read a repository's `pyproject.toml`, if any; raises DeclarationError if it is no TOML."""
    file = root / "pyproject.toml"
    return read_toml(file) if file.is_file() else {}


def read_table(root: Path) -> tuple[Path, dict[str, Any]]:
    """Read a repository's table and the file that has it; the table is empty without a file.

    Raises DeclarationError if the file is no TOML.
    """
    if (file := root / FILE).is_file():
        return file, read_toml(file)
    return root / "pyproject.toml", read_pyproject(root).get("tool", {}).get("duetbench", {})


@functools.cache
def load(root: Path) -> Settings:
    """Read and validate a repository's settings; raises DeclarationError if they are invalid."""
    file, table = read_table(root)
    table = {key: value for key, value in table.items() if key not in KEYS}
    table = {**read_table(paths.PINS)[1], **table}
    settings = _validate(Settings, file, table)
    for name, spec in settings.interpreters.items():
        key, base = f"tool.duetbench.interpreters.{name}", re.sub("(-jit|t)$", "", name)
        for field, end in (("free_threaded", "t"), ("jit", "-jit")):
            if (name == base + end) != (value := getattr(spec, field)):
                allowed = f"true where the interpreter's name ends in {end}, and false elsewhere"
                raise DeclarationError(str(file), f"{key}.{field}", value, allowed)
        if not f"{spec.version}.".startswith(f"{base}."):
            allowed = f"a version of {base}, as its name says"
            raise DeclarationError(str(file), f"{key}.version", spec.version, allowed)
    return settings


def _validate(kind: type[_Model], file: Path, table: dict[str, Any]) -> _Model:
    keys = "only the keys that CONTRIBUTING.md names"
    return validate(kind, table, str(file), table="tool.duetbench", keys=keys)


def stacks(root: Path) -> dict[str, StackSpec]:
    """Read what is declared of each stack, one per dependency group of `apps/pyproject.toml`.

    Raises DeclarationError for a wrong key, or a table for an unknown group or interpreter, and
    UsageError if the checkout declares no stacks at all.
    """
    file = root / "apps" / "pyproject.toml"
    if not file.exists():
        raise paths.undeclared(root, "no apps/pyproject.toml")
    document = read_toml(file)
    groups = document.get("dependency-groups", {})
    table = document.get("tool", {}).get("duetbench", {})
    declared = _validate(_AppsSettings, file, table).stacks
    interpreters = load(root).interpreters
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


def read_variables(file: Path, name: str = "") -> dict[str, str]:
    """Read lines NAME=VALUE; UsageError if the file cannot be read, or a line sets nothing."""
    variables: dict[str, str] = {}
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"env-file {name}: it cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.strip().removeprefix("export ").strip()
        if not plain or plain.startswith("#"):
            continue
        key, sign, value = plain.partition("=")
        if not sign or not re.fullmatch(r"[A-Za-z_]\w*", key.strip()):
            # Do not show the line, which may have a private value.
            raise UsageError(f"env-file {name}, line {number}: expected NAME=value")
        variables[key.strip()] = _unquote(value.strip())
    return variables


def _unquote(value: str) -> str:
    if value[:1] in {'"', "'"} and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    return value.partition(" #")[0].rstrip()


def project_name(root: Path) -> str:
    """Return the name of a repository's project, in characters that an id may have."""
    document = read_pyproject(root)
    poetry = document.get("tool", {}).get("poetry", {})
    name = document.get("project", {}).get("name") or poetry.get("name") or root.name
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(name)).strip("-.") or "project"


_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")]


class Anchor(Frozen):
    """A frozen state of applications, locks and interpreters, to which points are relative.

    It is a commit of this repository, with the digests of its contents. `observatory anchor renew`
    makes a new one and measures it against the one before, so that the series continues.
    """

    name: _Name
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    since: date
    protocol: int = Field(gt=0, description="Version of the duets' protocol that it began with.")
    previous: _Name | None = Field(default=None, description="The anchor that it continues.")
    canary: str | None = Field(
        default=None,
        description="Id of a case that nights also measure, anchor against anchor: 1 is right.",
    )
    interpreters: dict[str, PatchVersion] = Field(min_length=1)
    stacks: dict[str, Digest] = Field(min_length=1, description="SHA-256 of each lock.")


def anchor_file(root: Path) -> Path:
    """Return the file that declares a checkout's anchor."""
    return root / "apps" / ANCHOR


def load_anchor(root: Path) -> Anchor:
    """Read a checkout's anchor.

    Raises UsageError if it has none, and DeclarationError if the file is invalid.
    """
    file = anchor_file(root)
    if not file.is_file():
        raise UsageError(
            f"{file}: expected the anchor that points are measured against, found none: declare "
            "the present state as one with `observatory anchor renew NAME`"
        )
    return validate(Anchor, read_toml(file), str(file))


def anchor_text(anchor: Anchor) -> str:
    """Write the anchor as TOML."""
    fields = anchor.model_dump(mode="json", exclude_none=True)
    tables = {name: fields.pop(name) for name in ("interpreters", "stacks")}
    fields["since"] = anchor.since  # a date in TOML, as it prints
    lines = ["# What all trend points are measured against; made by `observatory anchor renew`."]
    lines += [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in fields.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f'"{key}" = "{value}"' for key, value in table.items())]
    return "\n".join(lines) + "\n"
