"""Instructions of one request to an application, counted without a server.

The application finds the surroundings of a launch. What counts is this checkout's, on both sides.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from duetbench.core.errors import CountError, LaunchError
from duetbench.core.model import Endpoint
from duetbench.host import paths, ports
from duetbench.measure.instructions import counting
from duetbench.measure.testbed import SideCase
from duetbench.measure.workspace import Workspace
from duetbench.store.comparison import Instructions

MOST_PATHS: Final = 30
"""Paths of one request that are asked for where there is no server; of more an even choice."""


def instructions(
    pairs: Sequence[tuple[SideCase, SideCase]],
    limit: float,
    *,
    switched: bool = False,
) -> tuple[Instructions | str, ...]:
    """Count both sides at the same time within `limit` s; the counter is this checkout's."""
    sides = zip(*pairs, strict=True)
    ends = time.monotonic() + limit
    try:
        with ExitStack() as stack:
            under_way = [stack.enter_context(_counting(side, switched)) for side in sides]
            base, head = (collect(ends - time.monotonic()) for collect in under_way)
    except CountError as error:
        return (str(error),) * len(pairs)
    return tuple(_together(base[unit(below)], head[unit(above)]) for below, above in pairs)


@dataclass(frozen=True, slots=True)
class Program:
    """A program that makes requests inside the process; `counting.count` explains its parts.

    `folder` is where it has the application: a copy of its own, if the application is a target.
    """

    python: Path
    payload: Sequence[str]
    env: Mapping[str, str]
    folder: Path


@contextmanager
def program(side: SideCase) -> Iterator[Program]:
    """The program that makes requests to a side's applications without a server.

    A target finds what it finds in a launch: a fresh copy of its files, and what is done before.
    CountError, also in place of one in between: without private values.
    """
    case, testbed = side.case, side.testbed
    python, payload = testbed.pythons[case.stack, case.python], ("-P", "-m", "benchmarks._counted")
    env = {
        "PYTHONPATH": str(paths.OWN),
        "DUETBENCH_CHECKOUT": str(testbed.apps.parent),
        "DUETBENCH_STACK": case.stack,
    }
    if not testbed.target:
        yield Program(python, payload, {**case.env, **env}, testbed.folder(case))
        return
    log = testbed.logs / f"counted-{uuid4().hex}.log"
    workspace = Workspace(testbed, case, ports.free_port(), log)
    try:
        workspace.open(None)
        served, request = workspace.environment(), workspace.folder.parent / "request.json"
        request.write_text(json.dumps(_asked(workspace.fill_in(case.endpoint))), "utf-8")
        env |= {
            "PYTHONPATH": os.pathsep.join((env["PYTHONPATH"], served["PYTHONPATH"])),
            "DUETBENCH_CHECKOUT": str(workspace.folder),
            "DUETBENCH_REQUEST": str(request),
        }
        yield Program(python, payload, {**served, **env}, workspace.folder)
        workspace.close()
    except (CountError, LaunchError) as problem:
        raise CountError(workspace.hide(str(problem))) from None
    finally:
        with suppress(LaunchError):  # it is the first failure that is told
            workspace.close()
        for file in testbed.logs.glob(f"{log.stem}.*"):
            file.unlink()


def _asked(endpoint: Endpoint) -> Mapping[str, Any]:
    """Describe a request for `benchmarks/_counted.py`; of many paths an even choice."""
    every = (endpoint.path, *endpoint.paths)
    n = min(len(every), MOST_PATHS)
    first, *others = (every[i * len(every) // n] for i in range(n))
    fields = endpoint.model_dump(include={"method", "headers", "body"})
    return {**fields, "path": first, "paths": others, "status": endpoint.expect.status}


@contextmanager
def _counting(side: Sequence[SideCase], switched: bool) -> Iterator[counting.Collect]:
    """Begin to count each case's request or job, in process and without a server."""
    targets = list(dict.fromkeys(map(unit, side)))
    with (
        program(side[0]) as counted,
        counting.started(
            counted.python,
            counted.payload,
            targets,
            env=counted.env,
            switched=switched,
        ) as collect,
    ):
        yield collect


def unit(side: SideCase) -> str:
    """The unit of work: the job, or one request to the case's endpoint."""
    case = side.case
    if side.job:
        return side.job
    if side.testbed.target:
        return f"served/{case.endpoint.name}"
    return f"request/{case.experiment}/{case.endpoint.name}"


def _together(
    base: counting.InstructionCount | counting.Uncounted,
    head: counting.InstructionCount | counting.Uncounted,
) -> Instructions | str:
    if isinstance(base, counting.Uncounted):
        return base.reason
    if isinstance(head, counting.Uncounted):
        return head.reason
    spread = max(base.spread, head.spread)
    return Instructions(base=base.per_unit, head=head.per_unit, spread=spread)
