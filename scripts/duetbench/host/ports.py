"""Which processes listen on a port, and which hold its connections.

A server that starts beside a forgotten one shares its port (SO_REUSEPORT) and loses connections to
it: every answer is right and every figure wrong. So duetbench checks that a port is free before and
after a launch, and that only its own server listens in between.
"""

import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final

import psutil

from duetbench.core.errors import FlagName, LaunchError
from duetbench.host import proc

_HOST: Final = "127.0.0.1"
_HEX_HOST: Final = f"{int.from_bytes(socket.inet_aton(_HOST), sys.byteorder):08X}"
_LISTEN: Final = "0A"
_POLL_SECONDS: Final = 0.01  # the kernel does not announce that a listener is closed
_LOWEST: Final = 10_000  # well-known services have lower ports
_TRIES: Final = 100


def free_port() -> int:
    """Choose a free port of 127.0.0.1.

    It lies outside the range of ports for outgoing connections, so no connection can occupy it
    before the server does.
    """
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
    low, high = map(int, text.split())
    below, above = range(_LOWEST, low), range(high + 1, 65_536)
    candidates = below if len(below) >= len(above) else above
    for _ in range(_TRIES):
        port = random.choice(candidates) if len(candidates) >= _TRIES else 0  # noqa: S311 - no secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_HOST, port))
            port = int(probe.getsockname()[1])
            if not listeners(port):
                return port
    raise LaunchError(
        FlagName.HARNESS_ERROR,
        f"expected a free port on {_HOST}, found none in {_TRIES} tries; close some servers",
    )


def listeners(port: int) -> dict[int | None, str]:
    """The processes that listen on `port`, at any local address, IPv4 or IPv6: a sentence by pid.

    If several processes hold a socket, the youngest counts; None: this user may not see it.
    """
    if not listening(port):  # the usual case: reading the sockets of every process takes 0.1 s
        return {}
    sentences = {}
    for connection in psutil.net_connections("tcp"):
        local = connection.laddr
        if connection.status == psutil.CONN_LISTEN and local and local.port == port:
            pid, host = connection.pid, local.ip
            who = "a process that this user may not see" if pid is None else proc.describe(pid)
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            sentences[pid] = f"{who} listens on {address}"
    return sentences


def require_free(port: int, within: float = 0.0) -> None:
    """Refuse a port that something listens on for `within` s, by LaunchError stray_process."""
    deadline = time.monotonic() + within
    while listening(port) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if open_listeners := listeners(port):
        raise LaunchError(
            FlagName.STRAY_PROCESS,
            f"expected port {port} to be free, but {'; '.join(open_listeners.values())}; "
            "end it, or choose another port",
        )


def foreign_listeners(port: int, members: Iterable[proc.Stat]) -> list[str]:
    """Name the listeners on `port` that are no members of a session, one sentence each."""
    pids = {process.pid for process in members}
    if listening(port) <= {socket for pid in pids for socket in proc.sockets(pid)}:
        return []
    return [
        f"{sentence}, and does not belong to the server"
        for pid, sentence in listeners(port).items()
        if pid not in pids
    ]


def listening(port: int) -> set[int]:
    """Inodes of all sockets that listen on `port`, of any process; takes 0.05 ms."""
    inodes = set()
    for table in ("net/tcp", "net/tcp6"):
        with suppress(FileNotFoundError), (proc.PROC / table).open(encoding="ascii") as lines:
            # The listeners come first, before thousands of ended connections (proc_net_tcp.rst).
            for line in takewhile(lambda line: f" {_LISTEN} " in line, islice(lines, 1, None)):
                _, local, *_, inode = line.split()[:10]
                if int(local.rpartition(":")[2], 16) == port:
                    inodes.add(int(inode))
    return inodes


def connections_per_process(port: int, members: Iterable[proc.Stat]) -> dict[int, int]:
    """Count the accepted connections on `port` of each of these processes that has any.

    A socket of several processes counts for the youngest pid: a worker, not the master that it
    inherited the socket from.
    """
    holders: dict[Any, int] = {}
    for process in members:  # one by one: reading all of the machine's takes ten times as long
        with suppress(psutil.Error):
            for connection in psutil.Process(process.pid).net_connections("tcp"):
                if connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == port:
                    holders[connection.raddr] = max(process.pid, holders.get(connection.raddr, 0))
    return dict(Counter(holders.values()))


def clients(port: int) -> frozenset[int]:
    """Client ports of connections to `port` that are open, or ended in the last minute.

    The kernel lists a connection for so long after its end (TIME_WAIT), unless another connection
    uses the same client port.
    """
    server, others = f"{_HEX_HOST}:{port:04X}", set()
    with (proc.PROC / "net/tcp").open(encoding="ascii") as table:  # proc_net_tcp.rst
        for line in table:
            if f":{port:04X} " in line:
                _, local, remote = line.split()[:3]
                if server in {local, remote}:
                    other = remote if local == server else local
                    others.add(int(other.rpartition(":")[2], 16))
    return frozenset(others - {0})  # a listener's remote port is 0
