"""What a repository declares: its target, an application to measure, and the harness's settings.

The keys are in `[tool.duetbench]` of `pyproject.toml`, or at the top of a `duetbench.toml`, which
takes precedence. Command-line options with the same names override those of a target.
"""

import functools
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from duetbench.app.declarations import (
    FILE,
    Application,
    EnvName,
    HeaderName,
    HeaderText,
    OhaSpec,
    Several,
    Text,
    key_path,
    mistake,
    read_table,
    validate,
)
from duetbench.app.servers import AUTO, LOOPS, SERVERS, misfit
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL, Concern
from duetbench.core.model import Case, Frozen, Interface
from duetbench.core.units import read_share, read_time
from duetbench.host import paths

STACK: Final = "project"
"""Name of the stack with the packages of a target."""

NOWHERE: Final = "nowhere"
"""Label of the packages of a target that names none."""

FOLDER: Final = ".duetbench-target"
"""Our folder in a copy: the lock, and the installed parts of the project itself."""


def _seconds(value: object) -> object:
    """Read 90s or 2m as seconds, and leave a number as it is."""
    return (read_time(value) or value) if isinstance(value, str) else value


_ASSIGNED: Final = re.compile(
    r"""\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(?:"([^"]*)"|'([^']*)'|(.*?))(?:\s+#.*)?\s*"""
)
"""A line of a file of variables."""

_FILES: Final = re.compile(r"\{@([^{}]+)\}|\s@(.+)")  # of requests


def _one_of(names: Iterable[str]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in names:
            raise ValueError(f"one of {', '.join(sorted(names))}")
        return text

    return AfterValidator(check)


class Target(Frozen):
    """An application and how to measure it; missing values are detected, or have defaults.

    Each key is also an option of the commands that measure, or a word of their `--with`.
    """

    app: Application = Field(description="ASGI or WSGI application, e.g. shop.main:app.")
    factory: bool = Field(
        False, description="Call the attribute to get the app; default: if it takes no arguments."
    )
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
    login: Text | None = Field(
        None,
        description="Request that logs in, once per start: 'POST /login @login.json'. Its cookie "
        "is sent with all others, and its token (token=…); nothing of it is recorded.",
    )
    token: Text = Field(
        "", description="Field of its answer with a token to send as bearer, e.g. access_token."
    )
    expect_status: int = Field(
        200,
        ge=100,
        le=599,
        alias="expect-status",
        description="Status that every response must have (200).",
    )
    server: Annotated[str, _one_of(SERVERS)] | None = Field(
        None, description="Default: the one that is locked, or granian."
    )
    workers: int = Field(1, gt=0, description="Worker processes of the server (1).")
    threads: int | None = Field(None, gt=0, description="Blocking threads per worker (WSGI: 8).")
    loop: Annotated[str, _one_of(LOOPS)] = Field(
        AUTO, description="Event loop (auto: what the server takes; uvloop if it is installed)."
    )
    server_args: Several = Field(
        (),
        alias="server-arg",
        description="Argument of the server, e.g. arg=--no-access-log. Repeatable.",
    )
    connections: int = Field(32, gt=0, description="Connections that send without pause (32).")
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
    copy_database: Text | None = Field(
        None,
        alias="copy-database",
        description="Variable with the address of a PostgreSQL or SQLite database, of which each "
        "start gets a copy, e.g. DATABASE_URL.",
    )
    before: Several = Field(
        (),
        description="Command that runs once for each side, e.g. 'python -m shop.seed'. Each "
        "start gets a copy of its files, also in {tmp}, and of the copied database.",
    )
    after: Several = Field((), description="Command after each stop of the server.")
    # None: see `interpreters`. Two only where they are compared.
    python: Annotated[Several, Field(max_length=1)] = Field(
        (), description="Interpreter, e.g. 3.13t; default: what the project requires."
    )
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


FIELDS: Final = {info.alias or name: info for name, info in Target.model_fields.items()}
"""The keys of a target in `[tool.duetbench]`, and what each is."""


def read_value(key: str, text: str) -> Any:
    """Read a key's value from a word of a command line; raises UsageError for a wrong one."""
    try:
        target = Target.model_validate({"app": "module:attribute", key: text})
    except ValidationError as error:
        raise UsageError(f"{key}={text}: expected {mistake(error)[2]}") from error
    return target.model_dump(by_alias=True)[key]


_SELECTING: Final = {
    *("--app", "--path", "--request", "--header", "--tests", "--select", "--only", "--limit"),
    *("--budget", "--profile", "--seed"),
}
"""Options with one value that select what is measured. None of them runs, writes or installs."""

_WORDS: Final = {
    *("python", "as-of", "arg", "server", "workers", "threads", "loop", "connections", "rate"),
    *("interface", "factory", "token", "expect-status", "ready-timeout"),
}
"""Words of sides that neither. A lock is none: who wrote the record could have chosen a file."""

_SPELLED: Final = {"requests": "request", "headers": "header"}
"""Keys whose options have another name."""

_LINE: Final = re.compile("[!-,.-~][ -~]{0,999}")
"""A text on one line that is no option."""

_PLAIN: Final = re.compile(r"\w[\w.:+=-]{0,199}", re.ASCII)
"""A word without a path, which could name a program or library."""


def is_harmless(option: str, value: str) -> bool:
    """Whether an option with a value may be copied from an untrusted report."""
    if option in {"--base", "--head", "--with"}:
        key, _, text = value.partition("=")
        known = key in _WORDS or key.startswith("env.") or text.startswith("=")
        return known and _PLAIN.fullmatch(value) is not None
    return option in _SELECTING and _LINE.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Setting:
    """What one side has otherwise than its files declare.

    Attributes:
        values: Of the options that differ by side, by name.
        env: Variables of its servers.
        arguments: Of its servers, after the declared ones.
        python: Its interpreter.
        lock: A lock file: FILE, or FILE@REV as of a revision.
        day: The packages of this day.
        pins: Packages in other versions, such as `granian==2.7.8`.
    """

    values: Mapping[str, str | int] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    python: str | None = None
    lock: str | None = None
    day: date | None = None
    pins: tuple[str, ...] = ()

    @property
    def packages(self) -> bool:
        """Whether it says which packages it has."""
        return bool(self.lock or self.day or self.pins)

    @property
    def served(self) -> bool:
        """Whether it says how the application is served."""
        return bool(self.values or self.env or self.arguments)

    def apply(self, case: Case) -> Case:
        """Return a case with the setting's variables, which override private ones, and arguments.

        Raises UsageError if its server cannot serve it like that.
        """
        private = tuple(name for name in case.env_names if name not in self.env)
        served = case.model_copy(
            update={
                "env": {**case.env, **self.env},
                "env_names": private,
                "server_args": (*case.server_args, *self.arguments),
            }
        )
        if fault := misfit(served):
            key, actual, allowed = fault
            raise UsageError(f"{key}={actual}: expected {allowed}")
        return served


AS_DECLARED: Final = Setting()


def of(root: Path, options: Mapping[str, Any]) -> Target:
    """Return a repository's target, from its keys and from options, which win.

    `options` are spelled like the keys; an option that is None or empty was not given.

    Raises DeclarationError for an invalid key, and UsageError for an invalid option, without an
    application, or for a file in a key that is not in the repository.
    """
    file, table = read_table(root)
    keys = {key: value for key, value in table.items() if key in FIELDS}
    values = {key: value for key, value in options.items() if was_given(value)}
    if "app" not in {**keys, **values}:
        raise UsageError(
            f"{root} declares nothing to measure (no --app, no [tool.duetbench] with an app): "
            "name its application, as in `--app shop.main:app --path /items/7`, or keep that "
            "in [tool.duetbench] of pyproject.toml, which `duetbench init` writes"
        )
    try:
        target = Target.model_validate({**keys, **values})
    except ValidationError as error:
        place, actual, allowed = mistake(error)
        if place and place[0] in values:
            option = _SPELLED.get(str(place[0]), str(place[0]))
            label = key_path((f"--{option}", *place[1:]))
            raise UsageError(f"{label} {actual}: expected {allowed}") from error
        where = "" if file.name == FILE else "tool.duetbench"
        target = validate(Target, keys, str(file), table=where)
    if target.token and not target.login:
        raise UsageError(f"token={target.token}: expected --login as well")
    lines = () if "requests" in values else target.requests
    lines += () if "login" in values else (target.login or "",)
    for pair in _FILES.findall("\n".join(lines)):
        paths.inside(root, "".join(pair))
    return target.model_copy(update={"env": private(target, root)})


def was_given(value: object) -> bool:
    """Whether an option has a value, and not the one that stands for its absence."""
    return value is not None and value is not False and value not in ((), [], {})


def private(target: Target, folder: Path) -> dict[str, str]:
    """Read the variables of a target from its files, then from its own values.

    Raises as `read_variables`, for files in `folder`.
    """
    variables: dict[str, str] = {}
    for name in target.env_file:
        variables |= read_variables(folder / name, name)
    return variables | target.env


def read_variables(file: Path, label: str = "") -> dict[str, str]:
    """Read lines NAME=VALUE; UsageError if the file cannot be read, or a line sets nothing."""
    variables: dict[str, str] = {}
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"env-file {label}: it cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _ASSIGNED.fullmatch(line):
            name, *values = match.groups()
            variables[name] = next(value for value in values if value is not None)
        elif line.strip() and not line.strip().startswith("#"):
            # Do not show the line, which may have a private value.
            raise UsageError(f"env-file {label}, line {number}: expected NAME=value")
    return variables


def find_variables(folders: Sequence[Path]) -> dict[str, str]:
    """Find files of variables in some folders: variable → file, as a path from the first folder."""
    own: dict[str, str] = {}
    for file in (file for folder in folders for file in sorted(folder.glob("*env*"))):
        with suppress(OSError, UsageError):
            place = shlex.quote(os.path.relpath(file, folders[0]))
            own = {key: place for key, text in read_variables(file).items() if text} | own
    return own


def _read_limits(table: object) -> object:
    if not isinstance(table, dict):
        return table
    return {key: read_share(v) if key in MATERIAL else v for key, v in table.items()}


class Configuration(Frozen):
    """The harness's own `[tool.duetbench]`, without the keys of a target."""

    oha: OhaSpec = Field(title="The load generator.")
    limits: Annotated[
        dict[Concern, Annotated[float, Field(ge=0)]], BeforeValidator(_read_limits)
    ] = Field(
        default_factory=dict, description="What is worse: a change by a share, memory = '5%'."
    )

    tests: Several = Field(
        default=(), description="Files and folders of tests to compare by, without an application."
    )


@functools.cache
def configuration(root: Path) -> Configuration:
    """Read and validate a repository's settings; raises DeclarationError if they are invalid."""
    file, table = read_table(root)
    table = {key: value for key, value in table.items() if key not in FIELDS}
    table = {**read_table(paths.PINS)[1], **table}
    return validate(Configuration, table, str(file), table="tool.duetbench")
