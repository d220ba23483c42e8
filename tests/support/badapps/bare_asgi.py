"""ASGI without a framework, so that a misbehaving application starts at once and hides nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

Answer = tuple[int, str]
Handler = Callable[["App"], Awaitable[Answer]]


class App:
    """Serves the handlers by path; counts requests, and those that have no answer yet.

    `port` is where they come in, `joined` when the newest connection had its first one (monotonic).
    """

    def __init__(
        self,
        handlers: dict[str, Handler],
        at_the_end: Callable[[App], Awaitable[None]] | None = None,
    ) -> None:
        self.served = 0
        self.in_flight = 0
        self.port = 0
        self.joined = 0.0
        self._clients: set[tuple[str, int]] = set()
        self._handlers = handlers
        self._at_the_end = at_the_end

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.port = scope["server"][1]
        if tuple(scope["client"]) not in self._clients:
            self._clients.add(tuple(scope["client"]))
            self.joined = time.monotonic()
        self.served += 1
        self.in_flight += 1
        try:
            status, body = await self._handlers[scope["path"]](self)
        finally:
            self.in_flight -= 1
        media, content = b"text/plain; charset=utf-8", body.encode()
        headers = [(b"content-type", media), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._at_the_end is not None:
            await self._at_the_end(self)
        await send({"type": "lifespan.shutdown.complete"})
