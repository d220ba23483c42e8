"""The program whose instructions benchmarks count: one request, or one unit of work, at a time.

Valgrind runs it in the environment of a stack. Its targets are `request/<endpoint>`, requests to
declared endpoints, and `unit/<module>/<words>`, units of work.

Everything is imported once, in a parent that forks for each target: importing takes most of the
time. No target is affected by what another leaves behind (specialised bytecode, filled caches, most
of the heap), so adding a target changes no other's count by more than 0.2 %.
"""

import contextlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from duetbench.app.inside import phases
from duetbench.app.inside.phases import UnfitError, Unit
from duetbench.app.inside.program import FEWEST, REQUESTS
from duetbench.app.inside.request import PLAN
from observatory.measure.inside import requests

# Packages that applications import, partly with their first request. The applications themselves
# are imported later, in a process for each target.
_FRAMEWORKS = ("anyio._backends._asyncio", "fastapi.responses", "flask", "pydantic")

# Seconds of a request from which on a few are enough: it executes millions of instructions.
_COMPUTING = 0.0005


def preload() -> None:
    """Import the stack's frameworks for all targets."""
    for module in _FRAMEWORKS:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)


def prepare(target: str) -> Unit:
    """Prepare a target's work, and check its result once; ValueError if that is wrong.

    UnfitError: it has no exact count in principle.
    """
    kind, _, rest = target.partition("/")
    if kind == "request":
        n = FEWEST if requests.seconds(rest) >= _COMPUTING else REQUESTS
        request = requests.open_request(rest)
        if threading.active_count() > 1:
            raise UnfitError(
                "it starts threads, and they never wait for each other in the same way"
            )
        return Unit(request, n=n, warmup=min(n, 20))
    module, _, words = rest.partition("/")
    unit: Unit = importlib.import_module(module).unit(words)
    return unit


def count(target: str, plan: Mapping[str, Any]) -> phases.Report:
    """Count a target; the report says if it is unfit for that."""
    try:
        return phases.measure(partial(prepare, target), plan)
    except UnfitError as error:
        return {"unfit": str(error)}


def main() -> None:
    """Count all planned targets, one process each, with one report each: `<index>.json`."""
    phases.die_with_parent()
    plan = Path(os.environ[PLAN]).absolute()
    preload()
    for index, target in enumerate(json.loads(plan.read_text("utf-8"))["targets"]):
        report = plan.with_name(f"{index}.json")
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            phases.run(partial(count, target), report.name)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not report.exists():
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            phases.write(report, {"reason": f"its process ended with {how}"})


if __name__ == "__main__":
    main()
