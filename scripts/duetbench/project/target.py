"""A target: an application that its repository declares by no experiment, in options or few keys.

The keys stand in `[tool.duetbench]` of `pyproject.toml`, or at the top of a `duetbench.toml` that
takes its place; options of the command line of the same names win over them. Measured is a copy of
the repository in which a `duetbench.toml` of ours says what both came to, as an experiment: there
(`laid_out`) everything is declared as anywhere else.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, ValidationError

from duetbench.core.errors import UsageError
from duetbench.core.model import Frozen, Interface
from duetbench.project import requests
from duetbench.project.schema import (
    EnvName,
    HeaderName,
    HeaderText,
    Several,
    Text,
    key_path,
    mistake,
    read_toml,
    validated,
)
from duetbench.project.servers import SERVERS

FILE: Final = "duetbench.toml"
"""Stands instead of `[tool.duetbench]`, in anybody's repository as well as in our copies."""

STACK: Final = "project"
"""What the packages of a target are called."""

FOLDER: Final = ".duetbench-target"
"""What is ours in a copy, beside `FILE`: the lock, and what is installed of the project itself."""

LAID_OUT: Final = "laid-out"
"""The key of `FILE` that our copies alone have."""

_THREADS: Final = 8
"""Blocking threads of a WSGI server, if nobody says how many."""

_SECONDS: Final = {"quick": 2, "nightly": 22, "published": 30}
"""Durations of load, as of the repository's own experiments."""

_LONGEST: Final = 40  # characters of a request in a case's id
_WORD: Final = re.compile(r"[^a-z0-9]+")


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
    python: Text | None = Field(default=None, description="Such as 3.13t; None: see `pythons`.")
    groups: Several = Field(default=(), description="Dependency groups that it needs, too.")
    extras: Several = ()
    results: Text | None = Field(default=None, description="Folder of the repository for results.")


KEYS: Final = frozenset(info.alias or name for name, info in Target.model_fields.items())
"""As `[tool.duetbench]` spells them."""


class LaidOut(Frozen):
    """What a copy says of itself.

    Attributes:
        imports: Folders, from its root, on the search path of the application.
        packages: Where its packages come from, for people: `uv.lock`.
    """

    name: str
    imports: tuple[str, ...]
    packages: str
    experiment: dict[str, Any]


def written(root: Path) -> tuple[Path, dict[str, Any]]:
    """The table of a repository, and the file that it stands in; DeclarationError: it is no TOML.

    Without a file it is empty.
    """
    own, file = root / FILE, root / "pyproject.toml"
    if own.is_file():
        return own, read_toml(own)
    table = read_toml(file).get("tool", {}).get("duetbench", {}) if file.is_file() else {}
    return file, table


def of(root: Path, options: Mapping[str, Any]) -> Target | None:
    """The target of a repository, by its keys and by options, which win; None: it has none.

    `options` are spelled as the keys are; one that is None or empty was not given.

    Raises:
        DeclarationError: A key is wrong.
        UsageError: An option is, or there are options and no application.
    """
    file, table = written(root)
    keys = {key: value for key, value in table.items() if key in KEYS}
    given = {key: value for key, value in options.items() if was_given(value)}
    if "app" not in {**keys, **given}:
        if stray := list(map(option, given)):
            raise UsageError(
                f"{' and '.join(stray)}: expected --app module:attribute beside it, or the key app "
                f"in [tool.duetbench] of {root}, which `duetbench init` writes"
            )
        return None
    try:
        target = Target.model_validate({**keys, **given})
    except ValidationError as error:
        place, found, allowed = mistake(error)
        if place and place[0] in given:
            name, *rest = place
            shown = key_path((option(str(name)), *rest))
            raise UsageError(f"{shown} {found}: expected {allowed}") from error
        where = "" if file.name == FILE else "tool.duetbench"
        target = validated(Target, keys, str(file), table=where)
    if target.server is not None and target.server not in SERVERS:
        raise UsageError(f"server {target.server!r}: expected one of {', '.join(SERVERS)}")
    return target


def was_given(value: object) -> bool:
    """Whether an option's value is one, and not what stands where nobody gave any."""
    return value is not None and value is not False and value not in ((), [], {})


def option(key: str) -> str:
    """What a key is called on the command line."""
    return {"requests": "--path or --request", "headers": "--header"}.get(key, f"--{key}")


def private(target: Target, folder: Path) -> dict[str, str]:
    """The variables of a target, from its files and then from what it says itself.

    UsageError: a file (from `folder`) cannot be read, or has a line that sets nothing.
    """
    found: dict[str, str] = {}
    for name in target.env_file:
        try:
            text = (folder / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"env-file {name}: it cannot be read: {error}") from error
        for number, line in enumerate(text.splitlines(), start=1):
            plain = line.strip().removeprefix("export ").strip()
            if not plain or plain.startswith("#"):
                continue
            key, sign, value = plain.partition("=")
            if not sign or not re.fullmatch(r"[A-Za-z_]\w*", key.strip()):
                # Not the line: it may hold what nobody is to read.
                raise UsageError(f"env-file {name}, line {number}: expected NAME=value")
            found[key.strip()] = _unquoted(value.strip())
    return found | target.env


def _unquoted(value: str) -> str:
    if value[:1] in {'"', "'"} and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    return value.partition(" #")[0].rstrip()


def threads(target: Target, interface: Interface) -> int | None:
    """Blocking threads of its server: of WSGI alone; UsageError: the others have none."""
    if interface == "wsgi":
        return target.threads or _THREADS
    if target.threads is not None:
        raise UsageError(
            f"--threads {target.threads}: {target.app} is an ASGI application, whose servers have "
            "no blocking threads: leave it out"
        )
    return None


def experiment(
    target: Target,
    folder: Path,
    *,
    interface: Interface,
    server: str,
    pythons: Sequence[str],
    names: Sequence[str],
) -> dict[str, Any]:
    """A target as an experiment's table; files of its requests are in `folder`.

    `names` are those of its private variables. UsageError: a request is wrong.
    """
    endpoints: dict[str, Any] = {}
    for line in target.requests:
        request = requests.read(line, folder)
        asked = request.fields()
        slug = _WORD.sub("-", request.title.lower()).strip("-")[:_LONGEST].strip("-")
        same = sum(re.sub(r"--\d+$", "", name) == slug for name in endpoints)
        endpoints[f"{slug}--{same + 1}" if same else slug] = {
            "title": request.title.replace("{", "{{").replace("}", "}}"),
            "app": target.app,
            "interface": interface,
            "factory": target.factory,
            **asked,
            "headers": {**asked["headers"], **target.headers},
            "expect": {"status": target.expect_status},
            "env_names": tuple(names),
            "before": target.before,
            "after": target.after,
        }
    load = {"model": "closed", "connections": target.connections}
    if target.rate is not None:
        load = {"model": "paced", "connections": target.connections, "rate": target.rate}
    rate = f"-r{target.rate:g}" if target.rate is not None else ""
    count = threads(target, interface)
    return {
        "question": f"How fast is {target.app}?",
        "source": {"title": "This repository", "date": "now"},
        "profiles": {name: {"seconds": seconds} for name, seconds in _SECONDS.items()},
        "endpoints": endpoints,
        "loads": {"load": {**load, "duration": "seconds", "timeout": 30}},
        "cases": [
            {
                "id": f"{{endpoint}}/py{{python}}/c{target.connections}{rate}",
                "profiles": list(_SECONDS),
                "cores": "split",
                "endpoint": list(endpoints),
                "python": list(pythons),
                "stack": STACK,
                "server": server,
                "loop": target.loop,
                "load": "load",
                "workers": target.workers,
                **({"threads": count} if count else {}),
            }
        ],
    }


def laid_out(root: Path) -> LaidOut | None:
    """What a copy says of itself; None of any other folder."""
    if not is_laid_out(root):
        return None
    file, table = written(root)
    found = table.get(LAID_OUT)
    return None if found is None else validated(LaidOut, found, str(file), table=LAID_OUT)


def is_laid_out(root: Path) -> bool:
    """Whether a folder is a copy of ours, whose packages are those of a target."""
    return (root / FOLDER).is_dir()


def lay_out(root: Path, interpreters: Mapping[str, Any], found: LaidOut | None = None) -> None:
    """Write `FILE` into a copy: its interpreters (fields of an `InterpreterSpec`), and the rest."""
    (root / FOLDER).mkdir(exist_ok=True)
    table: dict[str, Any] = {"interpreters": dict(interpreters)}
    if found is not None:
        table[LAID_OUT] = found.model_dump()
    (root / FILE).unlink(missing_ok=True)  # it may be a link to elsewhere
    (root / FILE).write_text("".join(f"{_key(k)} = {toml(v)}\n" for k, v in table.items()), "utf-8")


def project_name(root: Path) -> str:
    """What a repository's project is called, in letters that an id may have."""
    file = root / "pyproject.toml"
    document = read_toml(file) if file.is_file() else {}
    name = document.get("project", {}).get("name") or root.name
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(name)).strip("-.") or "project"


def toml(value: Any) -> str:
    """A value in TOML, on one line; None has no place in it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON escapes all that TOML does but for DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(k)} = {toml(v)}" for k, v in value.items() if v is not None)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)
