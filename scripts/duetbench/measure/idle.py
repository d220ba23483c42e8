"""What a server has and does without requests: connections that idle, and the CPU that it uses.

duetbench itself opens and holds the connections, so they cost the load generator nothing.
"""

import socket
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from typing import Final

from duetbench.core.errors import FlagName, LaunchError
from duetbench.host import tree_usage
from duetbench.measure import reading
from duetbench.measure.entry.duetbench_entry import PATH

_ANSWER_SECONDS: Final = 10.0
_SETTLE_SECONDS: Final = 0.3
_IDLE_SECONDS: Final = 1.0  # a thread that wakes every half second shows in it


def cpu(*servers: tree_usage.Members, wait: Callable[[float], object]) -> list[float]:
    """Measure the CPU time per second of idle servers, all at once, after they have settled.

    `servers` list the processes of each; `wait` sleeps.
    """
    wait(_SETTLE_SECONDS)
    before = [tree_usage.edge(members) for members in servers]
    wait(_IDLE_SECONDS)
    edges = zip(before, map(tree_usage.edge, servers), strict=True)
    return [tree_usage.between(*pair).cores for pair in edges]


class IdleConnections:
    """Connections to a port of this machine that were answered once, and then send nothing."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def open(self, port: int, number: int) -> None:
        """Open them one after the other; the application sees no request. LaunchError."""
        for _ in range(number):
            connection = HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
            try:
                connection.request("GET", PATH)
                reading.receive(connection, f"GET {PATH}", _ANSWER_SECONDS)
                if connection.sock is None:
                    raise ConnectionResetError("the server closed it after an answer")
            except (OSError, HTTPException) as error:
                raise LaunchError(
                    FlagName.NO_ANSWER,
                    f"expected {number} idle connections, found {len(self._open)}, then "
                    f"{type(error).__name__}: {error}; see the server's log",
                ) from error
            connection.sock.setblocking(False)
            self._open.append(connection.sock)

    @property
    def ports(self) -> frozenset[int]:
        """Their ports on this side."""
        return frozenset(connection.getsockname()[1] for connection in self._open)

    def lost(self) -> int:
        """Count those that the server has closed."""
        return sum(map(_is_closed, self._open))

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


def _is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
