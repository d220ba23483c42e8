"""Which processes listen on a port.

A server that starts beside a forgotten one shares its port (SO_REUSEPORT) and loses connections to
it: every answer is right and every figure wrong. So duetbench checks that a port is free before and
after a launch, and that only its own server listens in between.
"""

import os
import random
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

import psutil

from duetbench.core.errors import FlagName, LaunchError
from duetbench.host.process_session import describe

_LISTEN: Final = "0A"
IPV4: Final = "tcp"
"""The table of IPv4's sockets: our servers listen on no other."""
_POLL_SECONDS: Final = 0.01  # the kernel does not announce that a listener is closed
_PORTS: Final = (10_000, 32_768)  # well-known services have lower ones


def free_port() -> int:
    """Choose a free port of 127.0.0.1, on which nothing listens at any other local address.

    It lies below Linux's ports for outgoing connections, so none of them can occupy it before the
    server does.
    """
    while True:
        port = random.randrange(*_PORTS)  # noqa: S311 - no secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if not listening(port):
                return port


def require_free(port: int, within: float = 0.0) -> None:
    """Refuse a port that something listens on for `within` s, by LaunchError stray_process."""
    deadline = time.monotonic() + within
    while listening(port) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if others := listeners(port):
        raise LaunchError(
            FlagName.STRAY_PROCESS,
            f"expected port {port} to be free, but {'; '.join(others)}; end it",
        )


def listeners(port: int, members: Iterable[psutil.Process] = ()) -> list[str]:
    """Name what listens on `port`, at any local address, and is no member of a session."""
    pids = {process.pid for process in members}
    # Reading the sockets of every process takes 0.1 s.
    if listening(port) <= {socket for pid in pids for socket in _sockets(pid)}:
        return []
    sockets = {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
        and (address := connection.laddr)
        and address.port == port
    }
    hidden = "a process that this user may not see"
    names = (describe(pid) if pid else hidden for pid in sockets if pid not in pids)
    return [f"{name} listens on it" for name in names]


def listening(port: int, tables: Iterable[str] = (IPV4, "tcp6")) -> set[int]:
    """Inodes of all sockets that listen on `port`, of any process; takes 2 ms, and IPv4 0.2 ms.

    The kernel walks through its table of connections until it has a page of a kind.
    """
    inodes = set()
    for table in tables:
        with suppress(FileNotFoundError), Path("/proc/net", table).open(encoding="ascii") as lines:
            # The listeners come first, before thousands of ended connections (proc_net_tcp.rst).
            for line in takewhile(lambda line: f" {_LISTEN} " in line, islice(lines, 1, None)):
                _, local, *_, inode = line.split()[:10]
                if int(local.rpartition(":")[2], 16) == port:
                    inodes.add(int(inode))
    return inodes


def _sockets(pid: int) -> set[int]:
    """List the inodes of a process's sockets; empty if the process cannot be read."""
    inodes = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                kind, _, inode = os.readlink(entry.path).partition(":")  # noqa: PTH115 - no path
                if kind == "socket":
                    inodes.add(int(inode.strip("[]")))
    return inodes
