"""The way from the sandbox to the hosts of packages, and to nothing else.

An installer asks for a host by CONNECT. Where it asks is a socket of the sandbox's own network; the
sandbox hands that socket out, so that this process answers.
"""

import os
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

HOSTS: Final = "DUETBENCH_PACKAGES"
"""The variable with the hosts (port 443, or as HOST:PORT), with commas."""

DOOR: Final = ("127.0.0.1", 3128)
"""Where the sandbox asks."""

_SILENCE_S: Final = 120.0  # longest of a connection
_POLL_S: Final = 0.05  # between looks for the end


def hand_out() -> None:
    """In the sandbox, send the socket through standard input, which becomes empty."""
    with socket.socket(fileno=0) as out, socket.create_server(DOOR) as door:
        socket.send_fds(out, [b"."], [door.fileno()])
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)


@contextmanager
def tunnels(doors: Sequence[int]) -> Iterator[None]:
    """Answer at these sockets, of which each is a file descriptor."""
    with ExitStack() as stack:
        for door in doors:
            server = ThreadingHTTPServer(DOOR, _Tunnel, bind_and_activate=False)
            server.socket.close()
            server.socket = stack.enter_context(socket.socket(fileno=door))
            Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True).start()
            stack.callback(server.shutdown)
        yield


class _Tunnel(BaseHTTPRequestHandler):
    def do_CONNECT(self) -> None:
        hosts = filter(None, os.environ.get(HOSTS, "").split(","))
        if self.path not in {host if ":" in host else f"{host}:443" for host in hosts}:
            self.send_error(403)
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), _SILENCE_S) as far:
            self.send_response(200)
            self.end_headers()
            others = {self.connection: far, far: self.connection}
            while ready := select.select(list(others), [], [], _SILENCE_S)[0]:
                for end in ready:
                    if not (data := end.recv(65_536)):
                        return
                    others[end].sendall(data)

    def handle(self) -> None:
        with suppress(OSError):  # an end is gone, or a host is not reached
            super().handle()

    def log_message(self, *_: object) -> None:
        """Print nothing."""
