"""What a server is told to serve: an application, and in front of it who it is that answers.

The application is named by the environment: `DUETBENCH_APP` (module:attribute, called if it takes
no arguments), and `DUETBENCH_INTERFACE` (asgi or wsgi; found out if it is not said).
`GET /_duetbench/identity` is answered here, so that no figure is filed under a wrong name; all
else goes to the application as it came, for the price of a call and a comparison. `?collect` makes
it collect garbage first. With `?routes` it also names the application's routes.

Standard library only, for any CPython from 3.11 on. As a program it prints the interface, and
whether the attribute was called.
"""

import asyncio
import contextlib
import functools
import gc
import importlib
import importlib.metadata
import inspect
import os
import platform
import re
import sys
import sysconfig
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from json import dumps  # as it is before the application is imported, which may replace it
from typing import Any

from duetbench_names import APP, COLLECT, FACTORY, INTERFACE, PATH, ROUTES  # type: ignore[import-not-found]

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@functools.cache
def _packages() -> dict[str, str]:
    """Name every installed distribution, spelled as in a lock file, with its version."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        if name := distribution.metadata["Name"]:
            # Of two, the first on the search path is the one that is imported.
            versions.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    return versions


_imported = 0.0  # core time of importing the application, or making it, s
_collected = [-1]  # young collections before the last full one that was asked for


def _collect() -> None:
    """Collect all garbage, unless the application has switched that off, or it was just done."""
    young = gc.get_stats()[0]["collections"]
    if gc.isenabled() and young != _collected[0]:
        gc.collect()
        _collected[0] = young


def routes() -> list[str]:
    """List the application's paths; none if its framework gives them in another way."""
    with contextlib.suppress(Exception):
        paths: list[str] = importlib.import_module("duetbench_routes").routes(application)
        return paths
    return []


def identity(query: str = "") -> dict[str, Any]:
    """Describe the process, interpreter, packages, event loop and worker that answer."""
    if query == COLLECT:
        _collect()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    pid = os.getpid()
    return {
        "pid": pid,
        "python": platform.python_version(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "jit_enabled": hasattr(sys, "_jit") and sys._jit.is_enabled(),
        "packages": _packages(),
        "loop": loop and f"{type(loop).__module__}.{type(loop).__qualname__}",
        # On 3.14t the ASGI workers of one process differ by their event loop; WSGI workers have
        # nothing of their own that could be seen from here.
        "worker": f"{pid}-{id(loop):x}" if loop else str(pid),
        "imported": _imported,
        "tasks": len(asyncio.all_tasks(loop)) if loop else 0,
        "routes": routes() if query == ROUTES else [],
    }


def load(target: str, *, factory: bool = False) -> tuple[Any, bool]:
    """Import an application, or call what makes it, and tell which.

    ImportError, AttributeError: there is none.
    """
    module, _, attribute = target.partition(":")
    __import__(module)  # `-X importtime` does not see `importlib.import_module`
    loaded: Any = sys.modules[module]
    for name in attribute.split("."):
        loaded = getattr(loaded, name)
    called = factory or makes_one(loaded)
    return (loaded() if called else loaded), called


def makes_one(candidate: Any) -> bool:
    """Whether an attribute has to be called: a function or class that takes no arguments."""
    if inspect.iscoroutinefunction(candidate) or not (
        inspect.isroutine(candidate) or inspect.isclass(candidate)
    ):
        return False
    try:
        signature = inspect.signature(candidate)
        signature.bind()
    except (TypeError, ValueError):
        return False
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL not in kinds


def interface_of(application: Any) -> str:
    """Find out whether an application speaks asgi or wsgi; TypeError: neither can be told."""
    problem = f"expected an ASGI or WSGI application, found {type(application).__qualname__}"
    if not callable(application):
        raise TypeError(f"{problem}, which cannot be called")
    called = getattr(application, "__call__", None)  # noqa: B004 - what a coroutine function is, it tells
    if inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(called):
        return "asgi"
    try:
        parameters = inspect.signature(application).parameters.values()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{problem}, whose parameters cannot be seen: say asgi or wsgi") from error
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.kind in places and p.default is p.empty]
    if len(needed) in (2, 3):
        return "wsgi" if len(needed) == 2 else "asgi"
    raise TypeError(f"{problem}, which takes {', '.join(needed) or 'none'}: say asgi or wsgi")


def in_front_of(application: Any, interface: str) -> Callable[..., Any]:
    """Give what answers for an application when it is asked who it is, and is it otherwise."""
    if not callable(application):
        raise TypeError(f"expected an application, found {type(application).__qualname__}")
    # Looked up once, and not at every request.
    plain = inspect.isroutine(application) or inspect.isclass(application)
    call = application if plain else application.__call__

    def asgi(scope: MutableMapping[str, Any], receive: Any, send: Send) -> Any:
        try:
            if scope["path"] == PATH:
                return _answer(send, scope["query_string"].decode("ascii", "replace"))
        except KeyError:  # the lifespan has none
            pass
        return call(scope, receive, send)

    def wsgi(environ: MutableMapping[str, Any], start_response: Any) -> Any:
        if environ.get("PATH_INFO") == PATH:
            body = dumps(identity(environ.get("QUERY_STRING", ""))).encode()
            length = str(len(body))
            start_response(
                "200 OK", [("content-type", "application/json"), ("content-length", length)]
            )
            return [body]
        return call(environ, start_response)

    if interface == "wsgi":
        return wsgi
    # It gives a coroutine, as servers want to know of an ASGI application.
    mark = getattr(inspect, "markcoroutinefunction", None)  # from 3.12 on
    return mark(asgi) if mark else asgi


async def _answer(send: Send, query: str) -> None:
    body = dumps(identity(query)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _named() -> tuple[Any, bool]:
    return load(os.environ[APP], factory=bool(os.environ.get(FACTORY)))


if __name__ == "__main__":
    # The application may replace both, and close the file above the descriptor.
    write, leave = os.write, os._exit
    # At once: an interpreter that ends would wait for the application's threads.
    try:
        application, called = _named()
        write(1, f"\n{INTERFACE}={interface_of(application)}{'()' * called}\n".encode())
        leave(0)
    except BaseException:
        traceback.print_exc()
        leave(1)
elif APP in os.environ:
    _imported = -time.process_time()
    application, _ = _named()
    _imported += time.process_time()
    app = in_front_of(application, os.environ.get(INTERFACE) or interface_of(application))
