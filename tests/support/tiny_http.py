"""A small HTTP server on loopback whose answers a test decides."""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """The answer to a request, after `delay` s; `chunked`: in two chunks.

    Status 0 closes the connection instead. With `endless` the body comes again and again, with as
    many seconds between.
    """

    status: int = 200
    body: bytes = b"hello"
    media: str = "text/plain; charset=utf-8"
    delay: float = 0.0
    chunked: bool = False
    encoding: str = "identity"
    endless: float | None = None


Behaviour = Callable[[str, int], Answer | Awaitable[Answer]]
"""Path and number of the request (from 0) to its answer."""


class TinyServer:
    """The server of one test; `url` has no path."""

    def __init__(self, behaviour: Behaviour):
        self.url, self.port = "", 0
        self.requests = 0
        self.connections = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self._behaviour = behaviour
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    def _die(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"(?i)content-length: (\d+)", head)
                self.bodies.append(await reader.readexactly(int(length[1]) if length else 0))
                self.heads.append(head)
                number, self.requests = self.requests, self.requests + 1
                result = self._behaviour(head.split(" ")[1], number)
                answer = result if isinstance(result, Answer) else await result
                if answer.delay:
                    await asyncio.sleep(answer.delay)
                if not answer.status:
                    break
                body, size = answer.body, f"content-length: {len(answer.body)}"
                if answer.chunked:
                    chunks = (body[:2], body[2:], b"")
                    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
                    size = "transfer-encoding: chunked"
                if answer.endless is not None:
                    body, size = b"", "transfer-encoding: chunked"
                writer.write(
                    f"HTTP/1.1 {answer.status} X\r\ncontent-type: {answer.media}\r\n"
                    f"content-encoding: {answer.encoding}\r\n{size}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
                while answer.endless is not None:
                    writer.write(b"%x\r\n%b\r\n" % (len(answer.body), answer.body))
                    await writer.drain()
                    await asyncio.sleep(answer.endless)
        self._writers.discard(writer)
        writer.close()

    def run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._listener = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        ready.set()
        self._loop.run_forever()
        self._die()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def finish(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextmanager
def serving(behaviour: Behaviour | Answer) -> Iterator[TinyServer]:
    """Serve an answer, or the answers of a behaviour, in a thread."""
    server = TinyServer(
        (lambda _path, _n: behaviour) if isinstance(behaviour, Answer) else behaviour
    )
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(ready,))
    thread.start()
    try:
        assert ready.wait(30)
        yield server
    finally:
        server.finish()
        thread.join()
