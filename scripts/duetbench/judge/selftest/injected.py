"""Slowdowns planted on purpose, to learn whether a comparison finds them.

Each plant changes a copy of the applications (or of an environment) and nothing else, so that what
a comparison then reports has exactly one cause, of known kind and size.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Case

Kind = Literal["busy", "cache", "dependency", "memory", "queue", "wait"]
"""`busy`: the handler itself computes longer. `cache`: it runs the same instructions, and waits for
memory. `dependency`: the framework computes longer. `memory`: the process holds more. `queue`:
fewer requests are served at once. `wait`: the handler sleeps longer."""

FAR: Final = 2**27
NEAR: Final = 2**12
"""Bytes that a walk is scattered over: more than caches hold, and a part of the nearest one."""

DEPENDENCIES: Final = {
    "asgi": ("starlette/routing.py", "Route", "matches"),
    "wsgi": ("flask/app.py", "Flask", "full_dispatch_request"),
}
"""Where each interface's framework passes once per request: file, class, method."""


def into_handler(apps: Path, case: Case, loops: int) -> None:
    """Let the case's handler, in a copy of the applications, run an empty loop of so many steps.

    Raises:
        UsageError: The application has no handler for the case's path.
    """
    _change(apps, case, lambda handler: handler.body.insert(0, _loop(loops)))


def into_queue(apps: Path, case: Case, at_once: int) -> None:
    """Let at most so many requests into the case's handler at once; errors as `into_handler`."""

    def enclose(handler: _Function) -> None:
        waits = isinstance(handler, ast.AsyncFunctionDef)
        kind, block = ("asyncio", ast.AsyncWith) if waits else ("threading", ast.With)
        gate = ast.parse(f"_gate(__import__('{kind}').Semaphore)", mode="eval").body
        handler.body = [block(items=[ast.withitem(gate)], body=handler.body)]

    gate = (
        "import functools as _functools\n"
        "@_functools.cache\n"
        "def _gate(kind):\n"
        f"    return kind({at_once})\n"
    )
    _change(apps, case, enclose, before=ast.parse(gate).body)


def into_memory(apps: Path, case: Case, size: int) -> None:
    """Let the application hold so many bytes more, all of them touched."""
    path = _module(apps, case)
    ballast = f"\n_BALLAST = bytearray(b'x') * {size}\n"
    path.write_text(path.read_text("utf-8") + ballast, "utf-8")


def into_walk(apps: Path, case: Case, steps: int, region: int = FAR) -> None:
    """Let the handler read so many bytes of a table, one after the other, scattered over a region.

    Where the next one is depends on the last, so that none is read ahead. The instructions, and the
    memory that is held, are the same for every region: no index is one of the small integers that
    Python does not have to make.
    """
    walk = (
        "_at = _PLACE[0]\n"
        f"for _ in {bytes(steps)!r}:\n"
        f"    _at = 5 * _at + _TABLE[(_at << 6 | 1024) & {region - 1}] & {FAR // 64 - 1}\n"
        "_PLACE[0] = _at\n"
    )
    table = f"_TABLE = bytearray(b'\\1') * {FAR}\n_PLACE = [1]\n"

    def enclose(handler: _Function) -> None:
        handler.body[:0] = ast.parse(walk).body

    _change(apps, case, enclose, before=ast.parse(table).body)


def into_wait(apps: Path, case: Case, longer: int) -> None:
    """Let the handler sleep longer, by so many ten-thousandths; UsageError if it does not sleep."""

    def enclose(handler: _Function) -> None:
        sleeps = [
            node for node in ast.walk(handler)
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "sleep"
        ]  # fmt: skip
        if not sleeps:
            raise UsageError(f"{case.id}: expected a handler that calls sleep")
        for call in sleeps:
            factor = ast.Constant(1 + longer / 10_000)
            call.args[0] = ast.BinOp(call.args[0], ast.Mult(), factor)

    _change(apps, case, enclose)


def into_dependency(environment: Path, case: Case, loops: int) -> None:
    """Let the framework in a copy of an environment run an empty loop per request.

    Raises:
        SetupError: The framework has no such place (any more).
    """
    file, klass, method = DEPENDENCIES[case.endpoint.interface]
    found = sorted(environment.glob(f"lib/python*/site-packages/{file}"))
    if not found:
        raise SetupError(f"expected {file} in {environment}, found none: see DEPENDENCIES")
    (path,) = found
    tree = ast.parse(path.read_text("utf-8"))
    places = [
        node
        for owner in tree.body
        if isinstance(owner, ast.ClassDef) and owner.name == klass
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == method
    ]
    if not places:
        raise SetupError(f"expected {klass}.{method} in {path}, found none: see DEPENDENCIES")
    places[0].body.insert(0, _loop(loops))
    path.write_text(ast.unparse(tree) + "\n", "utf-8")


INTO: Final[Mapping[str, Callable[[Path, Case, int], None]]] = {
    "busy": into_handler, "cache": into_walk, "memory": into_memory, "queue": into_queue,
    "wait": into_wait,
}  # fmt: skip
"""What changes a copy of the applications."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _loop(steps: int) -> ast.stmt:
    # Not `range`: numbers from 257 on are objects that are made and thrown away, so that a long
    # loop's step costs three times as much as a short one's. A constant costs nothing to make.
    return ast.parse(f"for _ in {bytes(steps)!r}:\n    pass").body[0]


def _module(apps: Path, case: Case) -> Path:
    return apps / case.experiment / f"{case.endpoint.app.partition(':')[0]}.py"


def _change(
    apps: Path, case: Case, edit: Callable[[_Function], None], before: Iterable[ast.stmt] = ()
) -> None:
    path = _module(apps, case)
    tree = ast.parse(path.read_text("utf-8"))
    route = case.endpoint.path.partition("?")[0]
    for index, node in enumerate(tree.body):
        decorators = node.decorator_list if isinstance(node, _Function) else []
        arguments = [d.args[0] for d in decorators if isinstance(d, ast.Call) and d.args]
        if isinstance(node, _Function) and route in [getattr(a, "value", None) for a in arguments]:
            edit(node)
            tree.body[index:index] = before
            path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n", "utf-8")
            return
    raise UsageError(f"{path}: expected a function decorated with the route {route!r}")
