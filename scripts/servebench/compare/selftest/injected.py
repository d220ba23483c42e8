"""Slowdowns planted on purpose, to learn whether a comparison finds them.

Each plant changes a copy of the applications (or of an environment) and nothing else, so that what
a comparison then reports has exactly one cause, of known kind and size.
"""

import ast
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from servebench.core.errors import SetupError, UsageError
from servebench.core.model import Case

Kind = Literal["busy", "dependency", "memory", "queue"]
"""`busy`: the handler itself computes longer. `dependency`: the framework does. `memory`: the
process holds more. `queue`: fewer requests are served at once."""

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


def into_dependency(environment: Path, case: Case, loops: int, target: Path) -> Path:
    """Copy an environment, and let the framework in it run an empty loop per request.

    The copy in `target` has hard links, except for what differs.

    Returns:
        The copy's Python executable.

    Raises:
        SetupError: The framework has no such place (any more).
    """
    file, klass, method = DEPENDENCIES[case.endpoint.interface]
    shutil.copytree(environment, target, copy_function=_link, symlinks=True)
    found = sorted(target.glob(f"lib/python*/site-packages/{file}"))
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
    path.unlink()  # the link, not the original's content
    path.write_text(ast.unparse(tree) + "\n", "utf-8")
    return target / "bin" / "python"


INTO: Final[Mapping[str, Callable[[Path, Case, int], None]]] = {
    "busy": into_handler, "memory": into_memory, "queue": into_queue,
}  # fmt: skip
"""What changes a copy of the applications."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _link(source: str, target: str) -> str:
    """Link a file; copy it where the file system cannot."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _loop(steps: int) -> ast.stmt:
    # Not `range`: numbers from 257 on are objects that are made and thrown away, so that a long
    # loop's step costs three times as much as a short one's.
    return ast.parse(f"for _ in bytes({steps}):\n    pass").body[0]


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
