"""Handlers inside the process: what one request takes without a server and without a socket.

`driver/asgi` and `driver/wsgi` answer at once: theirs is the cost of what sends the requests, which
every other figure includes.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

from duetbench.app.inside.drivers import DRIVERS, Ask, Driver

from . import _suite
from ._suite import load_module


async def _asgi(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def _wsgi(_environ: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


ARTICLE = "asgi-wsgi"
HANDLERS: dict[str, tuple[str, Any, str]] = {
    "driver/asgi": ("asgi", lambda: _asgi, "/"),
    "driver/wsgi": ("wsgi", lambda: _wsgi, "/"),
    "fastapi/json": ("asgi", lambda: load_module(ARTICLE, "asgi_app").app, "/json"),
    "fastapi/compute": ("asgi", lambda: load_module(ARTICLE, "asgi_app").app, "/cpu"),
    "fastapi/models": (
        "asgi", lambda: load_module("pydantic-v1-v2", "services").app, "/services?offset=0",
    ),
    "flask/json": ("wsgi", lambda: load_module(ARTICLE, "wsgi_app").app, "/json"),
    "flask/compute": ("wsgi", lambda: load_module(ARTICLE, "wsgi_app").app, "/cpu"),
}  # fmt: skip
"""Interface, application and path, by what answers. To time another handler, add a row."""

CLOCK = _suite.Clock(time.perf_counter)


class Handler:
    """Seconds from the request to the end of its answer."""

    params = tuple(HANDLERS)
    param_names = ("handler",)
    timer = CLOCK
    sample_time = 0.05
    # Seconds, long enough for asv to see that only the first call, which imports, is slow.
    warmup_time = 0.3
    # Raise it by hand when the driver changes.
    version = "2"

    def time_request(self, handler: str) -> None:
        """Send one request."""
        _open(handler)()


@functools.cache
@CLOCK.leaves_out
def _open(handler: str) -> Driver:
    _suite.require_stack("current")
    interface, load, path = HANDLERS[handler]
    return DRIVERS[interface](load(), Ask(path, status=200))
