"""Send requests to an application without a socket: the least that ASGI and WSGI need of a server.

Standard library only. `asgi(app, Ask(path))` and `wsgi(app, Ask(path))` return a callable that
sends one request and returns (status, headers, body). Both check that the application follows the
rules: otherwise a broken application could look faster.

Sources: ASGI 3.0, HTTP message format 2.5, lifespan protocol 2.0; PEP 3333.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import unquote, unquote_to_bytes

from duetbench.core.text import LARGEST_ANSWER, endless
from duetbench.measure.instructions.phases import UnfitError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

AsgiAnswer = tuple[int, list[tuple[bytes, bytes]], bytes]
WsgiAnswer = tuple[int, list[tuple[str, str]], bytes]

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

    def refuse(self, status: int, number: int) -> UnfitError:
        """Say which request, by its number, was not answered with the right status."""
        paths = (self.path, *self.paths)
        turn, place = divmod(number - 1, len(paths))
        which = f" for request {turn + 1} in a row" if turn else ""
        return UnfitError(
            f"{self.method} {paths[place]}: expected status {self.status}, found {status}{which}"
        )


def asgi(app: AsgiApp, ask: Ask, *, lifespan: bool = False) -> AsgiDriver:
    """Drive an ASGI application, with its lifespan or without.

    ProtocolError: the application reports that it cannot start.
    """
    return AsgiDriver(app, ask, lifespan=lifespan)


class AsgiDriver:
    """Sends the same request again and again, on its own event loop.

    As in a server, the loop and the serving task outlive the request: frameworks keep threads for
    `def` handlers as long as that task lives, and would otherwise start one per request. The loop
    stands still between requests.
    """

    def __init__(self, app: AsgiApp, ask: Ask, *, lifespan: bool) -> None:
        self._app = app
        self.take(ask)
        self._state: dict[str, Any] = {}
        self.loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="asyncio")
        self.loop.set_default_executor(self._pool)
        self._living: asyncio.Task[None] | None = None
        if lifespan:
            started: asyncio.Future[None] = self.loop.create_future()
            self._living = self.loop.create_task(self._live(started))
            self.loop.run_until_complete(started)
        self._next: asyncio.Future[_Exchange] = self.loop.create_future()
        self.server = self.loop.create_task(self._serve())
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()  # until the task waits for its first request
        # A framework's threads end with that task, and the interpreter waits for them before it
        # calls `atexit` functions. The standard library has this hook for its own pools.
        threading._register_atexit(self.close)  # type: ignore[attr-defined]

    def take(self, ask: Ask) -> None:
        """Send this request from now on."""
        self._ask, self._body, self._right = ask, ask.body, ask.status
        self._headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in ask.all_headers().items()
        ]
        paths = (ask.path, *ask.paths)
        scopes = [(f"{ask.method} {path}", _scope(ask.method, path)) for path in paths]
        self._scopes = enumerate(itertools.cycle(scopes))

    def __call__(self) -> AsgiAnswer:
        """Send one request; return status, the application's headers, and body.

        Raises ProtocolError if the application breaks ASGI, or the exception that it lets escape.
        """
        exchange = _Exchange(self._body)
        self._next.set_result(exchange)
        self.loop.run_forever()
        answer = exchange.answer()
        if self._right not in (None, answer[0]):
            raise self._ask.refuse(answer[0], next(self._scopes)[0])
        return answer

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
        tasks = [task for task in (self.server, self._living) if task is not None]
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    async def _serve(self) -> None:
        while True:
            exchange = await self._next
            self._next = self.loop.create_future()
            _, (exchange.body.where, plain) = next(self._scopes)
            scope = {**plain, "headers": [*self._headers]}
            if self._living is not None:
                scope["state"] = self._state.copy()
            try:
                await self._app(scope, exchange.receive, exchange.send)
            except (Exception, asyncio.CancelledError) as error:  # the caller raises it
                exchange.failure = error
            self.loop.stop()

    async def _live(self, started: asyncio.Future[None]) -> None:
        """Announce the server's start to the application, which may fail if it has no lifespan."""
        events: Iterator[Message] = iter([{"type": "lifespan.startup"}])

        async def receive() -> Message:
            for begin in events:
                return begin
            # There is no shutdown: the process ends.
            event: Message = await self.loop.create_future()
            return event

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


def _scope(method: str, path: str) -> dict[str, Any]:
    raw, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.5"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw),
        "raw_path": raw.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "client": (_HOST, _CLIENT_PORT),
        "server": (_HOST, _PORT),
    }


class Body:
    """The body of an answer, in the pieces that the application sends."""

    __slots__ = ("_began", "_pieces", "_size", "where")

    latest: ClassVar[Body]  # of this process

    def __init__(self, where: str = "") -> None:
        self.where, self._size = where, 0
        self._pieces: list[bytes] = []
        self._began = time.monotonic()
        Body.latest = self

    def add(self, piece: bytes) -> None:
        """Take a piece; UnfitError if the answer seems to have no end."""
        self._size += len(piece)
        if self._size > LARGEST_ANSWER:
            raise UnfitError(self.endless())
        self._pieces.append(bytes(piece))  # it may be a buffer that is used again

    def endless(self, limit: float = math.inf) -> str:
        """Say that it has not ended, at most `limit` s after its request."""
        return endless(self.where, min(limit, time.monotonic() - self._began), self._size)

    def whole(self) -> bytes:
        return b"".join(self._pieces)

    def __bool__(self) -> bool:
        return self._size > 0


class _Exchange:
    """One request and its answer."""

    __slots__ = ("_asked", "_complete", "_gone", "_headers", "_sent", "_status", "body", "failure")

    def __init__(self, sent: bytes) -> None:
        self.failure: BaseException | None = None
        self._sent = sent
        self._status: int | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self.body = Body()
        self._complete = False
        self._asked = False
        self._gone: asyncio.Event | None = None

    async def receive(self) -> Message:
        """Return the whole request at once; after the answer, report that the client is gone."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._sent, "more_body": False}
        if not self._complete:
            # The client waits for its answer.
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the start of the answer, then its body in pieces."""
        kind = message["type"]
        if kind == "http.response.start" and self._status is None:
            self._status = message["status"]
            self._headers = list(message.get("headers", ()))
        elif kind == "http.response.body" and self._status is not None and not self._complete:
            self.body.add(message.get("body", b""))
            if not message.get("more_body", False):
                self._complete = True
                if self._gone is not None:
                    self._gone.set()
        else:
            raise ProtocolError(
                "expected one http.response.start, then http.response.body until one has no "
                f"more_body; found {kind} with status {self._status}, complete: {self._complete}"
            )

    def answer(self) -> AsgiAnswer:
        if self.failure is not None:
            raise self.failure
        if self._status is None or not self._complete:
            raise ProtocolError("the application returned before its answer was complete")
        return self._status, self._headers, self.body.whole()


def wsgi(app: WsgiApp, ask: Ask) -> Callable[[], WsgiAnswer]:
    """Drive a WSGI application.

    The callable sends one request and returns status, headers and body. It raises ProtocolError if
    the application breaks WSGI, or the exception that it lets escape.
    """
    paths, right = (ask.path, *ask.paths), ask.status
    plain = [(f"{ask.method} {path}", _environ(ask, path)) for path in paths]
    environs = enumerate(itertools.cycle(plain), 1)

    def request() -> WsgiAnswer:
        number, (where, environ) = next(environs)
        reply = _Reply(where)
        environ = {**environ, "wsgi.input": io.BytesIO(ask.body), "wsgi.errors": sys.stderr}
        chunks = app(environ, reply.start)
        try:
            for chunk in chunks:
                reply.write(chunk)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        answer = reply.answer()
        if right not in (None, answer[0]):
            raise ask.refuse(answer[0], number)
        return answer

    return request


def _environ(ask: Ask, path: str) -> dict[str, Any]:
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


class _Reply:
    """The answer of a WSGI application."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, where: str) -> None:
        self._status: str | None = None
        self._headers: list[tuple[str, str]] = []
        self._body = Body(where)

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """Be `start_response`; ProtocolError if it is called again without an error."""
        if exc_info is not None and self._body:
            raise exc_info[1].with_traceback(exc_info[2])  # too late for another status
        if exc_info is None and self._status is not None:
            raise ProtocolError(
                f"expected one start_response, found a second one ({status}) without exc_info"
            )
        self._status, self._headers = status, list(headers)
        return self.write

    def write(self, chunk: bytes) -> None:
        """Take a piece of the body; ProtocolError if it comes before the status."""
        if chunk and self._status is None:
            raise ProtocolError("expected start_response before the body, found the body first")
        self._body.add(chunk)

    def answer(self) -> WsgiAnswer:
        """Return the complete answer; ProtocolError if there is none."""
        if self._status is None:
            raise ProtocolError("the application returned without calling start_response")
        return int(self._status[:3]), self._headers, self._body.whole()
