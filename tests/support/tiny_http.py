"""A small HTTP server on loopback whose answers a test decides."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The answer to a request, after `delay` s; `chunked`: in two chunks.

    With `endless` the body comes again and again, with as many seconds between.
    """

    status: int = 200
    body: bytes = b"hello"
    media: str = "text/plain; charset=utf-8"
    delay: float = 0.0
    chunked: bool = False
    encoding: str = "identity"
    endless: float | None = None


Behaviour = Callable[[str, int], Answer]
"""Path and number of the request (from 0) to its answer."""


class TinyServer(ThreadingHTTPServer):
    """The server of one test, with what it has been asked; `url` has no path."""

    request_queue_size = 1024

    def __init__(self, behaviour: Behaviour):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.connections = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.behaviour = behaviour
        self.numbers = itertools.count()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: TinyServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        lines = (f"{name}: {value}" for name, value in self.headers.items())
        self.server.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.server.heads.append("\r\n".join((self.requestline, *lines, "", "")))
        answer = self.server.behaviour(self.path, next(self.server.numbers))
        time.sleep(answer.delay)
        endless = answer.endless is not None
        body, size = answer.body, f"content-length: {len(answer.body)}"
        if answer.chunked or endless:
            size = "transfer-encoding: chunked"
            parts = (body,) if endless else (body[:2], body[2:], b"")
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        self.wfile.write(
            f"HTTP/1.1 {answer.status} X\r\ncontent-type: {answer.media}\r\n"
            f"content-encoding: {answer.encoding}\r\n{size}\r\n\r\n".encode()
            + body
        )
        while answer.endless is not None:
            time.sleep(answer.endless)
            self.wfile.write(body)

    do_DELETE = do_HEAD = do_POST = do_GET  # noqa: N815 - the names that it looks up


@contextmanager
def serving(behaviour: Behaviour | Answer) -> Iterator[TinyServer]:
    """Serve an answer, or the answers of a behaviour, in threads."""
    answers = (lambda _path, _n: behaviour) if isinstance(behaviour, Answer) else behaviour
    with TinyServer(answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield server
        finally:
            server.shutdown()
