"""What a server process says about itself, so that no figure is filed under a wrong name.

Every application serves it at `/_identity`, outside the measured path. Standard library only: it
runs under every stack.
"""

import asyncio
import functools
import importlib.metadata
import os
import platform
import re
import sys
import sysconfig
import threading
from typing import Any


@functools.cache
def _packages() -> dict[str, str]:
    """Name every installed distribution, spelled as in a lock file, with its version."""
    return {
        re.sub(r"[-_.]+", "-", distribution.name).lower(): distribution.version
        for distribution in importlib.metadata.distributions()
    }


@functools.cache
def _build() -> str:
    """Describe the build: compiler, flags, and whether it was made without the GIL."""
    flags = sysconfig.get_config_var("CFLAGS") or ""
    optimisation = " ".join(re.findall(r"-O\S+", flags))
    gil_disabled = int(sysconfig.get_config_var("Py_GIL_DISABLED") or 0)
    return f"{platform.python_compiler()} {optimisation} Py_GIL_DISABLED={gil_disabled}"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _http_parser() -> str | None:
    """Tell which code parses HTTP: uvicorn loads one of two, Granian brings its own."""
    for parser in ("httptools", "h11"):
        if f"uvicorn.protocols.http.{parser}_impl" in sys.modules:
            return parser
    return "hyper" if "granian" in sys.modules else None


def _thread_limit(loop: asyncio.AbstractEventLoop | None) -> float | None:
    """Read how many `def` handlers the framework runs at once; null without an event loop."""
    to_thread = sys.modules.get("anyio.to_thread")
    if loop is None or to_thread is None:
        return None
    return float(to_thread.current_default_thread_limiter().total_tokens)


def identity() -> dict[str, Any]:
    """Describe the process, interpreter, packages, event loop and worker that answer.

    Call it in the handler itself: loop and thread limit are those of the caller.
    """
    loop = _running_loop()
    pid = os.getpid()
    return {
        "pid": pid,
        "thread": threading.get_native_id(),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "build": _build(),
        "gil_enabled": sys._is_gil_enabled(),
        "packages": _packages(),
        "loop": loop and f"{type(loop).__module__}.{type(loop).__qualname__}",
        # On 3.14t the ASGI workers of one process differ by their event loop; WSGI workers have
        # nothing of their own that an application could see.
        "worker": f"{pid}-{id(loop):x}" if loop else str(pid),
        "http_parser": _http_parser(),
        "thread_limit": _thread_limit(loop),
    }
