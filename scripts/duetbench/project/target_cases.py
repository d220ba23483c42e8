"""The cases of a target: one per request and interpreter."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.core.model import (
    Case,
    Endpoint,
    Expectation,
    Interface,
    Load,
    LoadModel,
)
from duetbench.host.ports import most_connections
from duetbench.project import request_lines
from duetbench.project.pyproject import project_name
from duetbench.project.servers import blocks, misfit
from duetbench.project.target import STACK, Target

_THREADS: Final = 8
"""Default number of blocking threads of a WSGI server."""

_SECONDS: Final = 2.0  # of load

_TIMEOUT_S: Final = 30.0
_LONGEST: Final = 40  # characters of a request in a case's id
_WORD: Final = re.compile(r"[^a-z0-9]+")


def cases(
    target: Target,
    folder: Path,
    *,
    interface: Interface,
    server: str,
    pythons: Sequence[str],
) -> tuple[Case, ...]:
    """Create the cases of a target, one per request and interpreter.

    `folder` contains the files that requests name.

    Raises UsageError for an invalid request, or if the server cannot serve it.
    """
    rate = "" if target.rate is None else f"-r{target.rate:g}"
    rate += f"-i{target.idle}" if target.idle else ""
    name = project_name(folder)
    endpoints = _endpoints(target, folder, interface)
    found = tuple(
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
                idle=target.idle,
                duration=_SECONDS,
                timeout=_TIMEOUT_S,
            ),
            cores="split",
            ceiling=None if target.rate is None else "rate",
            env_names=tuple(sorted(target.env)),
            before=target.before,
            after=target.after,
            server_args=target.server_args,
            ready_timeout=target.ready_timeout,
        )
        for endpoint in endpoints
        for python in pythons
    )
    if target.idle > (most := most_connections()):
        raise UsageError(
            f"--idle {target.idle}: expected at most {most}, as a process may open few files here; "
            "see ulimit -Hn"
        )
    if fault := misfit(found[0]):
        key, actual, allowed = fault
        raise UsageError(f"--{key} {actual}: expected {allowed}")
    return found


def _endpoints(target: Target, folder: Path, interface: Interface) -> list[Endpoint]:
    endpoints: list[Endpoint] = []
    uses: Counter[str] = Counter()
    for line in target.requests:
        endpoint = _endpoint(line, target, folder, interface)
        uses[endpoint.name] += 1
        if (number := uses[endpoint.name]) > 1:
            endpoint = endpoint.model_copy(update={"name": f"{endpoint.name}--{number}"})
        endpoints.append(endpoint)
    return endpoints


def _endpoint(line: str, target: Target, folder: Path, interface: Interface) -> Endpoint:
    request = request_lines.read(line, folder)
    return Endpoint(
        name=_WORD.sub("-", request.title.lower()).strip("-")[:_LONGEST].strip("-"),
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


def login(target: Target, folder: Path) -> Endpoint | None:
    """Read the request that logs in, with its file in a folder; UsageError if it is invalid."""
    return _endpoint(target.login, target, folder, "asgi") if target.login else None
