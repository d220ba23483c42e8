"""The program whose instructions are counted: one request or validation at a time.

`instructions.py` starts it under Valgrind, in the environment of the stack, as
`python -P -m benchmarks._counted`. Its targets are `request/<endpoint>`, by the names of
`handlers`, `pydantic/<what>/<size>/<source>`, the jobs of `pydantic_models`, and `served/<path>`,
a request to the application that servers would be told to serve.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from servebench.measure.instructions.phases import Unit

STATUS = "SERVEBENCH_STATUS"  # of a right answer of what is served

# What applications need and import, some of it with their first request. The applications come
# later, in a process of their own for each target.
_FRAMEWORKS = ("anyio._backends._asyncio", "fastapi.responses", "flask", "pydantic")

# How often in a phase: so often that a count has six digits.
_VALIDATIONS = {"1": 200, "20": 20}


def preload() -> None:
    """Import what the stack has of the frameworks."""
    importlib.import_module(f"{__package__}._requests")
    for module in _FRAMEWORKS:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)


def prepare(target: str) -> Unit:
    """Make what a target does once, and look at its result.

    Raises:
        ValueError: No such target, or it gives another result than it should.
    """
    from servebench.measure.instructions.phases import Unit  # noqa: PLC0415 - not there when asv imports this

    kind, _, rest = target.partition("/")
    if kind == "request":
        from . import _requests  # noqa: PLC0415 - imported by preload

        return Unit(_requests.open_request(rest))
    if kind == "served":
        return Unit(_served(f"/{rest}"))
    if kind != "pydantic":
        raise ValueError(
            f"expected request/<endpoint>, served/<path> or pydantic/<job>, found {target}"
        )
    from . import pydantic_models  # noqa: PLC0415 - imports the application

    what, size, source = rest.split("/")
    jobs = {"valid": pydantic_models._validation, "refused": pydantic_models._refusal}
    n = _VALIDATIONS[size]
    return Unit(jobs[what](int(size), source), n=n, warmup=n)


def _served(path: str) -> Callable[[], object]:
    """Import the application that the environment names, in its folder, and ask it once."""
    import servebench_entry as entry  # noqa: PLC0415 - on the search path of what is served

    from . import _drivers, _project, _requests  # noqa: PLC0415 - imported by preload

    os.chdir(_project.checkout())
    app = entry.load(os.environ[entry.APP], factory=bool(os.environ[entry.FACTORY]))
    drive = _drivers.asgi if os.environ[entry.INTERFACE] == "asgi" else _drivers.wsgi
    request: Callable[[], tuple[int, list[Any], bytes]] = drive(app, path)
    _requests.check_answer(path, {"status": int(os.environ[STATUS])}, *request())
    return request


if __name__ == "__main__":
    from servebench.measure.instructions.phases import run

    run(prepare, preload)
