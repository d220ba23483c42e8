"""The program whose instructions are counted: one request or validation at a time.

`instructions.py` starts it under Valgrind, in the environment of the stack, as
`python -P -m benchmarks._counted`. Its targets are `request/<endpoint>`, by the names of
`handlers`, `pydantic/<what>/<size>/<form>`, the jobs of `pydantic_models`, `served/<name>`,
requests to the application that servers would be told to serve, and `import` of that.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from duetbench.measure.instructions.phases import Unit

# A JSON file that says what is asked of an application that is served: the fields of an `Ask`, and
# the status of a right answer.
REQUEST = "DUETBENCH_REQUEST"

# The folder in which an application is imported, and nothing of it before.
IMPORTED_IN = "DUETBENCH_IMPORTED_IN"

# What applications need and import, some of it with their first request. The applications come
# later, in a process of their own for each target.
_FRAMEWORKS = ("anyio._backends._asyncio", "fastapi.responses", "flask", "pydantic")

# How often in a phase: so often that a count has six digits.
_VALIDATIONS = {"1": 200, "20": 20}
_REQUESTS, _FEWEST = 30, 3

# Calls of all functions in a request up to which it is counted so often: some simple requests.
# Under Valgrind ten times as many take a second.
_CALLS = 3_000


def preload() -> None:
    """Import what the stack has of the frameworks, for all targets; an application is the only one.

    It imports what it needs itself: under Valgrind all the others would take seconds.
    """
    if not os.environ.keys().isdisjoint({IMPORTED_IN, REQUEST}):
        return
    importlib.import_module(f"{__package__}._requests")
    for module in _FRAMEWORKS:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)


def prepare(target: str) -> Unit:
    """Make what a target does once, and look at its result.

    Raises:
        ValueError: No such target, or it gives another result than it should.
    """
    from duetbench.measure.instructions.phases import Unit  # noqa: PLC0415 - not there when asv imports this

    kind, _, rest = target.partition("/")
    if kind == "import":
        os.chdir(os.environ[IMPORTED_IN])
        name = "duetbench_entry"  # which imports the application
        return Unit(lambda: importlib.import_module(name), n=1, warmup=0, threads=True, once=True)
    if kind == "request":
        from . import _requests  # noqa: PLC0415 - imported by preload

        return Unit(_requests.open_request(rest))
    if kind == "served":
        return _served(Unit)
    if kind != "pydantic":
        raise ValueError(
            f"expected request/<endpoint>, served/<name> or pydantic/<job>, found {target}"
        )
    from . import pydantic_models  # noqa: PLC0415 - imports the application

    kind, size, form = rest.split("/")
    jobs = {
        "valid": pydantic_models._validation,
        "refused": pydantic_models._refusal,
        "written": pydantic_models._serialisation,
    }
    n = _VALIDATIONS[size]
    return Unit(jobs[kind](int(size), form), n=n, warmup=n)


def _served(unit: type[Unit]) -> Unit:
    """Import the application that the environment names, in its folder, and ask for each path."""
    from duetbench.core.text import to_bytes  # noqa: PLC0415 - as `Unit` is
    from duetbench.measure.instructions.phases import SLOW  # noqa: PLC0415

    from . import _drivers, _project, _requests  # noqa: PLC0415 - no other target needs them all

    fields = json.loads(Path(os.environ[REQUEST]).read_text("utf-8"))
    status, body = fields.pop("status"), to_bytes(fields.pop("body"))
    ask = _drivers.Ask(**fields, body=body)
    os.chdir(_project.checkout())
    # Threads of the application take turns where one waits, and nowhere else: else the clock would
    # say how often they do.
    sys.setswitchinterval(60)
    import duetbench_entry as entry  # noqa: PLC0415 - it imports the application

    app = entry.application
    request: Callable[[], tuple[int, list[Any], bytes]]
    if os.environ[entry.INTERFACE] == "asgi":
        request = _drivers.asgi(app, ask, lifespan=True)
    else:
        request = _drivers.wsgi(app, ask)
    paths = (ask.path, *ask.paths)
    for path in paths:
        _requests.check_answer(f"{ask.method} {path}", {"status": status}, *request())
    requests, (seconds, work) = _FEWEST, _times(request, len(paths))
    if work < SLOW <= seconds:  # it waits, or another process had the core for an instant
        seconds, work = min((seconds, work), _times(request, len(paths)))
    if seconds < SLOW:
        calls = sum(_count_calls(request) for _ in paths) / len(paths)
        requests = max(_FEWEST, _REQUESTS // max(1, round(calls / _CALLS)))
    rounds = -(-requests // len(paths))  # whole ones: each path is as often in every phase
    n = rounds * len(paths)
    return unit(request, n=n, warmup=n, threads=True, least=len(paths), seconds=seconds, work=work)


def _count_calls(request: Callable[[], object]) -> int:
    """Count the calls of a request in this thread: as often on each side that has the same code."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        request()
    finally:
        sys.setprofile(None)
    return calls


def _times(request: Callable[[], object], calls: int) -> tuple[float, float]:
    """Wall and core time of a request, s, on average over so many calls."""
    wall, work = time.perf_counter(), time.process_time()
    for _ in range(calls):
        request()
    return (time.perf_counter() - wall) / calls, (time.process_time() - work) / calls


if __name__ == "__main__":
    from duetbench.measure.instructions.phases import run

    run(prepare, preload)
