"""The site on this machine: served on the loopback interface, and built again when results change.

For looking at it before it is published. It serves files below the folder only, lists no folders,
and listens on loopback only.
"""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Final

from duetbench.core.errors import UsageError

HOST: Final = "127.0.0.1"
PERIOD: Final = 1.0
"""Seconds between two looks at the results."""

Stamp = frozenset[tuple[str, int, int]]

_TYPES: Final = {
    ".atom": "application/atom+xml",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **_TYPES}  # noqa: RUF012 - as there

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")  # the next build is what is wanted
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - as there
        self.send_error(HTTPStatus.NOT_FOUND)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory) / "404.html"
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are no news."""


@contextmanager
def served(folder: Path, port: int) -> Iterator[str]:
    """Serve a folder while the context is open, and yield its address with a slash at its end.

    UsageError: the port is taken, or may not be used.
    """
    handler = partial(_Handler, directory=str(folder))
    try:
        server = ThreadingHTTPServer((HOST, port), handler)
    except OSError as problem:
        reason = {
            errno.EADDRINUSE: "something else listens there",
            errno.EACCES: "ports below 1024 are for root",
        }.get(problem.errno or 0, str(problem.strerror))
        raise UsageError(
            f"port {port}: {reason}; choose another one with --port, or 0 for any"
        ) from problem
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def stamp(*folders: Path) -> Stamp:
    """What stands in the folders: names, sizes and dates. Another one means that files changed."""
    entries = set()
    for path in (path for folder in folders for path in folder.rglob("*")):
        with suppress(OSError):  # gone between the two
            status = path.stat()
            if not S_ISDIR(status.st_mode):
                entries.add((str(path), status.st_size, status.st_mtime_ns))
    return frozenset(entries)


def watch(
    look: Callable[[], Stamp],
    changed: Callable[[], None],
    stopped: threading.Event,
    *,
    built: Stamp,
    period: float = PERIOD,
) -> None:
    """Call `changed` whenever what `look` sees has changed and then stayed for one period.

    `built` is what was seen before the build that there is: what changed since is not in it.
    """
    last = built
    while not stopped.wait(period):
        now = look()
        # While files are still being written, building would only see half of them.
        if now != built and now == last:
            changed()
            built = now
        last = now
