"""A target: an application that options or a few keys declare, without an experiment.

The keys are in `[tool.duetbench]` of `pyproject.toml`, or at the top of a `duetbench.toml`, which
takes precedence. Command-line options with the same names override them. Each request of a target
is a case.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from duetbench.core.errors import UsageError
from duetbench.core.model import (
    Case,
    Endpoint,
    Expectation,
    Interface,
    Load,
    LoadModel,
    Profile,
)
from duetbench.project import requests
from duetbench.project.schema import (
    key_path,
    mistake,
    validate,
)
from duetbench.project.servers import SERVERS, blocks, misfit
from duetbench.project.settings import (
    FILE,
    KEYS,
    STACK,
    Target,
    project_name,
    read_table,
    read_variables,
)

_THREADS: Final = 8
"""Default number of blocking threads of a WSGI server."""

_SECONDS: Final[Mapping[Profile, float]] = {"quick": 2.0, "nightly": 22.0, "published": 30.0}
"""Durations of load, as in the repository's own experiments."""

_TIMEOUT_S: Final = 30.0
_LONGEST: Final = 40  # characters of a request in a case's id
_WORD: Final = re.compile(r"[^a-z0-9]+")


def of(root: Path, options: Mapping[str, Any]) -> Target | None:
    """Return a repository's target, from its keys and from options, which win; None: it has none.

    `options` are spelled like the keys; an option that is None or empty was not given.

    Raises DeclarationError for an invalid key, and UsageError for an invalid option, or for options
    without an application.
    """
    file, table = read_table(root)
    keys = {key: value for key, value in table.items() if key in KEYS}
    values = {key: value for key, value in options.items() if was_given(value)}
    if "app" not in {**keys, **values}:
        if stray := list(map(option, values)):
            raise UsageError(
                f"{' and '.join(stray)}: expected --app module:attribute as well, or the key app "
                f"in [tool.duetbench] of {root}, which `duetbench init` writes"
            )
        return None
    try:
        target = Target.model_validate({**keys, **values})
    except ValidationError as error:
        place, actual, allowed = mistake(error)
        if place and place[0] in values:
            name, *rest = place
            label = key_path((option(str(name)), *rest))
            raise UsageError(f"{label} {actual}: expected {allowed}") from error
        where = "" if file.name == FILE else "tool.duetbench"
        target = validate(Target, keys, str(file), table=where)
    if target.server is not None and target.server not in SERVERS:
        raise UsageError(f"server {target.server!r}: expected one of {', '.join(SERVERS)}")
    return target.model_copy(update={"env": private(target, root)})


def was_given(value: object) -> bool:
    """Whether an option has a value, and not the one that stands for its absence."""
    return value is not None and value is not False and value not in ((), [], {})


def option(key: str) -> str:
    """Spell a key as its command-line option."""
    return {"requests": "--path or --request", "headers": "--header"}.get(key, f"--{key}")


def private(target: Target, folder: Path) -> dict[str, str]:
    """Read the variables of a target from its files, then from its own values.

    Raises as `read_variables`, for files in `folder`.
    """
    variables: dict[str, str] = {}
    for name in target.env_file:
        variables |= read_variables(folder / name, name)
    return variables | target.env


def cases(
    target: Target,
    folder: Path,
    *,
    interface: Interface,
    server: str,
    pythons: Sequence[str],
) -> dict[Profile, tuple[Case, ...]]:
    """Create the cases of a target, one per request and interpreter, for every profile.

    `folder` contains the files that requests name.

    Raises UsageError for an invalid request, or if the server cannot serve it.
    """
    rate = "" if target.rate is None else f"-r{target.rate:g}"
    name = project_name(folder)
    endpoints = _endpoints(target, folder, interface)
    by_profile = {
        profile: tuple(
            Case(
                id=f"{name}/{endpoint.name}/py{python}/c{target.connections}{rate}",
                experiment=name,
                endpoint=endpoint,
                python=python,
                stack=STACK,
                server=server,
                loop=target.loop,
                workers=target.workers,
                threads=target.threads or (_THREADS if blocks(interface, target.loop) else None),
                load=Load(
                    model=LoadModel.CLOSED if target.rate is None else LoadModel.PACED,
                    connections=target.connections,
                    rate=target.rate,
                    duration=seconds,
                    timeout=_TIMEOUT_S,
                ),
                cores="split",
                ceiling=None if target.rate is None else "rate",
                env_names=tuple(sorted(target.env)),
                before=target.before,
                after=target.after,
                ready_timeout=target.ready_timeout,
            )
            for endpoint in endpoints
            for python in pythons
        )
        for profile, seconds in _SECONDS.items()
    }
    if fault := misfit(by_profile["quick"][0]):
        key, actual, allowed = fault
        raise UsageError(f"--{key} {actual}: expected {allowed}")
    return by_profile


def _endpoints(target: Target, folder: Path, interface: Interface) -> list[Endpoint]:
    endpoints: list[Endpoint] = []
    uses: Counter[str] = Counter()
    for line in target.requests:
        request = requests.read(line, folder)
        slug = _WORD.sub("-", request.title.lower()).strip("-")[:_LONGEST].strip("-")
        uses[slug] += 1
        endpoints.append(
            Endpoint(
                name=slug if uses[slug] == 1 else f"{slug}--{uses[slug]}",
                app=target.app,
                interface=interface,
                factory=target.factory,
                method=request.method,
                path=request.paths[0],
                paths=request.paths[1:],
                # A name that applications allow, as Django's ALLOWED_HOSTS does by default.
                headers={"host": "localhost", **request.headers, **target.headers},
                body=request.body,
                expect=Expectation(status=target.expect_status),
                floor=0.0,
            )
        )
    return endpoints
