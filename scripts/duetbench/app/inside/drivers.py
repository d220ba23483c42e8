"""Send requests to an application without a socket: the least that ASGI and WSGI need of a server.

Standard library only. Calling a driver sends one request and returns (status, headers, body). It
checks that the application follows the rules: otherwise a broken application could look faster.

Sources: ASGI 3.0, HTTP message format 2.5, lifespan protocol 2.0; PEP 3333.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from duetbench.app.inside.phases import UnfitError
from duetbench.app.programs import Answer, Headers
from duetbench.core.text import LARGEST_ANSWER, endless

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_HOST, _PORT, _CLIENT_PORT = "127.0.0.1", 80, 50_000

_THREADS = min(32, (os.cpu_count() or 1) + 4)  # of a loop's pool, as asyncio has them


class ProtocolError(RuntimeError):
    """An application broke the rules of its interface, or gave an incomplete answer."""


@dataclass(frozen=True)
class Ask:
    """A request.

    Attributes:
        path: With its query, percent-encoded.
        paths: Further paths: requests take all in turn.
        headers: By name; they extend or replace host and accept.
        status: Of a right answer; None: any. Another one raises UnfitError.
    """

    path: str
    paths: tuple[str, ...] = ()
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    status: int | None = None

    def all_headers(self) -> dict[str, str]:
        """All headers of the request, by lower-case names."""
        length = {"content-length": str(len(self.body))} if self.body else {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        return {"host": _HOST, "accept": "*/*", **length, **headers}


class Driver(ABC):
    """Sends the requests of an `Ask` in turn, each after the answer to the one before."""

    def __init__(self, ask: Ask) -> None:
        self.take(ask)

    def take(self, ask: Ask) -> None:
        """Send these requests from now on."""
        self._ask, self.paths = ask, (ask.path, *ask.paths)
        scopes = [(f"{ask.method} {path}", self._scope(ask, path)) for path in self.paths]
        self._turns = enumerate(itertools.cycle(scopes))

    def __call__(self) -> Answer:
        """Send one request; return status, the application's headers, and body.

        Raises ProtocolError if the application breaks its interface, UnfitError for a wrong status
        and an answer without end, or the exception that the application lets escape.
        """
        number, (self._where, scope) = next(self._turns)
        self._pieces: list[bytes] = []
        self._size, self._began = 0, time.monotonic()
        status, headers = self._exchange(scope)
        right = self._ask.status
        if right not in (None, status):
            turn = number // len(self.paths)
            which = f" for request {turn + 1} in a row" if turn else ""
            raise UnfitError(f"{self._where}: expected status {right}, found {status}{which}")
        return status, headers, b"".join(self._pieces)

    def endless(self) -> str:
        """Say that an answer has not ended."""
        return endless(self._where, time.monotonic() - self._began, self._size)

    def start_threads(self) -> None:  # noqa: B027 - only a loop has a pool
        """Start all threads of a pool that the driver has, if the application has used it."""

    def _add(self, piece: bytes) -> None:
        """Take a piece of a body; UnfitError if the answer seems to have no end."""
        self._size += len(piece)
        if self._size > LARGEST_ANSWER:
            raise UnfitError(self.endless(), "endless")
        self._pieces.append(bytes(piece))  # it may be a buffer that is used again

    @abstractmethod
    def _scope(self, ask: Ask, path: str) -> dict[str, Any]:
        """Describe the request for a path to the application."""

    @abstractmethod
    def _exchange(self, scope: dict[str, Any]) -> tuple[int, Headers]:
        """Send a request, and take the whole answer."""


class AsgiDriver(Driver):
    """Sends requests to an ASGI application with its lifespan, on an event loop of its own.

    As in a server, the loop and the serving task outlive the request: frameworks keep threads for
    `def` handlers as long as that task lives, and would otherwise start one per request. The loop
    stands still between requests. ProtocolError: the application reports that it cannot start.
    """

    def __init__(self, app: AsgiApp, ask: Ask) -> None:
        super().__init__(ask)
        self._app = app
        self._state: dict[str, Any] = {}
        self.loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="asyncio")
        self.loop.set_default_executor(self._pool)
        started: asyncio.Future[None] = self.loop.create_future()
        self._living = self.loop.create_task(self._live(started))
        self.loop.run_until_complete(started)
        self._next: asyncio.Future[_Exchange] = self.loop.create_future()
        self.server = self.loop.create_task(self._serve())
        # A framework's threads end with that task, and the interpreter waits for them before it
        # calls `atexit` functions. The standard library has this hook for its own pools.
        threading._register_atexit(self.close)  # type: ignore[attr-defined]

    def start_threads(self) -> None:
        """Start all threads of the loop's pool, if the application has used it.

        The pool starts another one whenever none is free yet, which the machine's load decides.
        Each waits for all others, or 1 s: the pool may take a busy one for free, and start fewer.
        """
        if any(thread.name.startswith("asyncio") for thread in threading.enumerate()):
            meeting = threading.Barrier(_THREADS, timeout=1)
            for future in [self._pool.submit(meeting.wait) for _ in range(_THREADS)]:
                future.exception()

    def close(self) -> None:
        """End the serving task, with the application's threads and the loop."""
        if self.loop.is_closed():
            return
        tasks = self.server, self._living
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def _scope(self, ask: Ask, path: str) -> dict[str, Any]:
        raw, _, query = path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.5"},
            "http_version": "1.1",
            "method": ask.method,
            "scheme": "http",
            "path": unquote(raw),
            "raw_path": raw.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1"))
                for name, value in ask.all_headers().items()
            ],
            "client": (_HOST, _CLIENT_PORT),
            "server": (_HOST, _PORT),
        }

    def _exchange(self, scope: dict[str, Any]) -> tuple[int, Headers]:
        fresh = {"headers": [*scope["headers"]], "state": self._state.copy()}
        exchange = _Exchange({**scope, **fresh}, self._ask.body, self._add)
        self._next.set_result(exchange)
        self.loop.run_forever()
        if exchange.failure is not None:
            raise exchange.failure
        if exchange.start is None or not exchange.complete.is_set():
            raise ProtocolError("the application returned before its answer was complete")
        return exchange.start["status"], list(exchange.start.get("headers", ()))

    async def _serve(self) -> None:
        while True:
            exchange = await self._next
            self._next = self.loop.create_future()
            try:
                await self._app(exchange.scope, exchange.receive, exchange.send)
            except (Exception, asyncio.CancelledError) as error:  # the caller raises it
                exchange.failure = error
            self.loop.stop()

    async def _live(self, started: asyncio.Future[None]) -> None:
        """Announce the server's start to the application, which may fail if it has no lifespan."""
        events = iter([{"type": "lifespan.startup"}])

        async def receive() -> Message:
            # There is no shutdown: the process ends.
            return next(events, None) or await self.loop.create_future()

        async def send(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                reason = message.get("message", "")
                started.set_exception(ProtocolError(f"the application does not start: {reason}"))
            elif not started.done():
                started.set_result(None)

        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}}
        with contextlib.suppress(Exception):  # servers, too, take that for "no lifespan"
            await self._app({**scope, "state": self._state}, receive, send)
        if not started.done():
            started.set_result(None)


class _Exchange:
    """One request to an ASGI application, and its answer."""

    def __init__(self, scope: Message, body: bytes, add: Callable[[bytes], None]) -> None:
        self.scope, self._add = scope, add
        self._requests = [{"type": "http.request", "body": body, "more_body": False}]
        self.start: Message | None = None
        self.complete = asyncio.Event()
        self.failure: BaseException | None = None

    async def receive(self) -> Message:
        """Return the whole request at once; after the answer, report that the client is gone."""
        if self._requests:
            return self._requests.pop()
        await self.complete.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the start of the answer, then its body in pieces."""
        kind = message["type"]
        if kind == "http.response.start" and self.start is None:
            self.start = message
        elif kind == "http.response.body" and self.start and not self.complete.is_set():
            self._add(message.get("body", b""))
            if not message.get("more_body", False):
                self.complete.set()
        else:
            raise ProtocolError(
                "expected one http.response.start, then http.response.body until one has no "
                f"more_body; found {kind} after {self.start}, complete: {self.complete.is_set()}"
            )


class WsgiDriver(Driver):
    """Sends requests to a WSGI application."""

    def __init__(self, app: WsgiApp, ask: Ask) -> None:
        super().__init__(ask)
        self._app = app

    def _scope(self, ask: Ask, path: str) -> dict[str, Any]:
        raw, _, query = path.partition("?")
        headers = {name.upper().replace("-", "_"): text for name, text in ask.all_headers().items()}
        names = ("CONTENT_TYPE", "CONTENT_LENGTH")
        content = {name: headers.pop(name) for name in names if name in headers}
        return {
            "REQUEST_METHOD": ask.method,
            "SCRIPT_NAME": "",
            # WSGI text represents bytes: each character is one byte.
            "PATH_INFO": unquote_to_bytes(raw).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": _HOST,
            "SERVER_PORT": str(_PORT),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": _HOST,
            **content,
            **{f"HTTP_{name}": text for name, text in headers.items()},
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }

    def _exchange(self, scope: dict[str, Any]) -> tuple[int, Headers]:
        begun: list[tuple[str, Headers]] = []

        def start(status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], None]:
            if begun and exc_info is None:
                raise ProtocolError(
                    f"expected one start_response, found a second one ({status}) without exc_info"
                )
            begun.append((status, list(headers)))
            return self._add

        streams = {"wsgi.input": io.BytesIO(self._ask.body), "wsgi.errors": sys.stderr}
        chunks = self._app({**scope, **streams}, start)
        try:
            for chunk in chunks:
                self._add(chunk)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        if not begun:
            raise ProtocolError("the application returned without calling start_response")
        status, headers = begun[-1]
        return int(status[:3]), headers


DRIVERS: dict[str, type[AsgiDriver | WsgiDriver]] = {"asgi": AsgiDriver, "wsgi": WsgiDriver}
"""By the interface of the application."""
