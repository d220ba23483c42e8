"""The program that makes requests to an application without a server, in a launch's workspace."""

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from duetbench.app.inside import request
from duetbench.app.inside.process import Program
from duetbench.app.testbed import SideCase
from duetbench.app.workspace import Workspace
from duetbench.core.errors import CountError, LaunchError
from duetbench.core.model import Endpoint
from duetbench.host import ports

MOST_PATHS: Final = 30
"""Most paths of one request that are counted: of more, evenly spaced ones are chosen."""


@contextmanager
def program(side: SideCase, name: str = request.PROGRAM) -> Iterator[Program]:
    """Provide the program that makes requests to a side's applications without a server.

    `name` is its module. It has the workspace of a launch: a fresh copy of the files, after its own
    preparations. Raises CountError, also in place of one from inside the block, without private
    values.
    """
    testbed = side.testbed
    log = testbed.logs / f"counted-{uuid4().hex}.log"
    workspace = Workspace(side, ports.free_port(), log)
    try:
        with workspace:
            workspace.open()
            served, file = workspace.environment(), workspace.request
            fields = {
                **_fields(workspace.fill_in(side.case.endpoint)),
                "secrets": workspace.secrets,
            }
            if workspace.login:
                token = testbed.subject.target.token
                fields["login"] = {**_fields(workspace.login), "token": token}
            file.write_text(json.dumps(fields), "utf-8")
            env = {request.REQUEST: str(file), request.WORKSPACE: str(workspace.folder)}
            env[request.CHECKOUT] = str(workspace.root)
            variables, payload = {**served, **env}, ["-P", "-m", name]
            yield Program(side.python, payload, variables, workspace.folder, workspace.hide)
    except (CountError, LaunchError) as problem:
        raise CountError(workspace.hide(str(problem)), getattr(problem, "kind", "")) from None
    finally:
        for file in testbed.logs.glob(f"{log.stem}.*"):
            file.unlink()


def _fields(endpoint: Endpoint) -> dict[str, Any]:
    """Describe a request for the counted program, with evenly chosen paths if it has many."""
    all_paths = (endpoint.path, *endpoint.paths)
    n = min(len(all_paths), MOST_PATHS)
    first, *others = (all_paths[i * len(all_paths) // n] for i in range(n))
    fields = endpoint.model_dump(include={"method", "headers", "body"})
    return {**fields, "path": first, "paths": others, "status": endpoint.expect.status}


def code_of(side: SideCase) -> tuple[Hashable, ...]:
    """Return a key that is equal for cases whose requests run the same code on any server."""
    case = side.case
    return (
        *(case.python, case.stack, case.experiment, case.endpoint.name),
        *sorted(case.env.items()),
    )
