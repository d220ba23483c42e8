"""The program whose instructions benchmarks count: one request, or one unit of work, at a time.

Valgrind runs it in the environment of a stack. Its targets are `request/<endpoint>`, requests to
declared endpoints, and `unit/<module>/<words>`, units of work.
"""

import contextlib
import importlib

from duetbench.measure.inside.program import FEWEST, REQUESTS
from duetbench.measure.instructions.phases import Unit, run
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
    """Prepare a target's work, and check its result once; ValueError if that is wrong."""
    kind, _, rest = target.partition("/")
    if kind == "request":
        n = FEWEST if requests.seconds(rest) >= _COMPUTING else REQUESTS
        return Unit(requests.open_request(rest), n=n, warmup=min(n, 20))
    module, _, words = rest.partition("/")
    unit: Unit = importlib.import_module(module).unit(words)
    return unit


if __name__ == "__main__":
    run(prepare, preload)
