"""Who listens on a port, and who holds its connections.

A server that is started beside a forgotten one shares the port with it (SO_REUSEPORT) and loses
connections to it, every answer right and every figure wrong. So a port is proven free before a
launch and after it, and proven ours in between.

Source: /proc/net/tcp and tcp6 (Documentation/networking/proc_net_tcp.rst): one line per socket;
inode 0 is a socket without owner, such as TIME_WAIT or a connection that nobody has accepted yet.
"""

from __future__ import annotations

import errno
import os
import random
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

import psutil

from servebench import procfs
from servebench.errors import LaunchError
from servebench.flags import FlagName
from servebench.process import Session

_HOST: Final = "127.0.0.1"
_TABLES: Final = ("tcp", "tcp6")
_ESTABLISHED: Final = 0x01
_LISTEN: Final = 0x0A
_FORGETTING: Final = "03"  # the timer of a connection that has ended
_TIME_WAIT: Final = 60.0  # s that it stays in the table: TCP_TIMEWAIT_LEN of the kernel
_POLL_SECONDS: Final = 0.01  # the kernel announces no closed listener; it has to be looked for
_LOWEST: Final = 10_000  # below it live well-known services
_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket.

    Attributes:
        inode: The socket's identity.
        address: Local address, as `127.0.0.1:8000` or `[::]:8000`.
        pid: A process that holds it; None if no readable process does.
        command: That process' command line.
    """

    inode: int
    address: str
    pid: int | None
    command: str | None

    def __str__(self) -> str:
        """Say who listens where."""
        if self.pid is None:
            return f"a process that this user may not see listens on {self.address}"
        return f"process {self.pid} ({self.command}) listens on {self.address}"


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One line of /proc/net/tcp or tcp6.

    Attributes:
        remote: The other side's port; 0 of a listener.
        ended: Seconds since its end; None while it is in use.
    """

    address: str
    port: int
    remote: int
    state: int
    inode: int
    ended: float | None = None


def parse_table(text: str) -> Iterator[TcpSocket]:
    """Parse /proc/net/tcp or /proc/net/tcp6."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        host, port = fields[1].split(":")
        remote = int(fields[2].rpartition(":")[2], 16)
        timer, left = fields[5].split(":")
        ended = _TIME_WAIT - int(left, 16) * procfs.TICK if timer == _FORGETTING else None
        state, inode = int(fields[3], 16), int(fields[9])
        yield TcpSocket(_address(host), int(port, 16), remote, state, inode, ended)


def free_port() -> int:
    """Choose a port of 127.0.0.1 that is free.

    It lies outside the range from which the kernel takes ports for outgoing connections, so that
    no connection of anybody can occupy it before the server does.
    """
    low, high = _ephemeral_range()
    below, above = range(_LOWEST, low), range(high + 1, 65_536)
    candidates = below if len(below) >= len(above) else above
    for _ in range(_TRIES):
        port = random.choice(candidates) if len(candidates) >= _TRIES else 0  # noqa: S311 - no secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_HOST, port))
            port = int(probe.getsockname()[1])
            if not _sockets(port, _LISTEN):
                return port
    raise LaunchError(
        FlagName.HARNESS_ERROR,
        f"expected a free port on {_HOST}, found none in {_TRIES} tries; close some servers",
    )


def listeners(port: int) -> list[Listener]:
    """List every socket that listens on `port`, at any local address, IPv4 or IPv6."""
    found = _sockets(port, _LISTEN)
    owners = _owners({item.inode for item in found}, _all_pids()) if found else {}
    result = []
    for item in found:
        pid = min(owners.get(item.inode, ()), default=None)
        address = f"{item.address}:{port}"
        result.append(Listener(item.inode, address, pid, None if pid is None else _command(pid)))
    return result


def require_free(port: int) -> None:
    """Refuse a port that is taken.

    Raises:
        LaunchError: foreign_listener, naming who listens.
    """
    if found := listeners(port):
        raise LaunchError(
            FlagName.FOREIGN_LISTENER,
            f"expected port {port} to be free, but {'; '.join(map(str, found))}; "
            "end it, or choose another port",
        )
    with socket.socket() as probe:
        # As servers do: connections of an earlier server that fade away (TIME_WAIT) don't matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise LaunchError(
                FlagName.FOREIGN_LISTENER,
                f"expected port {port} to be free, but a socket that does not listen yet, or an "
                "outgoing connection, is bound to it; choose another port",
            ) from error


def foreign_listeners(port: int, session: Session) -> list[str]:
    """Say, one sentence each, who listens on `port` without belonging to the session."""
    found = listeners(port)
    if not found:
        return []
    members = {process.pid for process in session.members()}
    ours = _owners({item.inode for item in found}, members)
    return [f"{item}, and is no part of the server" for item in found if item.inode not in ours]


def wait_free(port: int, timeout: float) -> None:
    """Wait until nothing listens on `port`.

    Raises:
        LaunchError: foreign_listener, naming who still listens after `timeout` seconds.
    """
    deadline, pause = time.monotonic() + timeout, Event()
    while _sockets(port, _LISTEN):
        if time.monotonic() >= deadline:
            require_free(port)
            return
        pause.wait(_POLL_SECONDS)


def connections_per_process(port: int, session: Session) -> dict[int, int]:
    """Count the accepted connections of the server on `port` per process of the session.

    Returns:
        Pid to connections; members without any are not listed. A socket that several processes
        hold counts for the youngest pid: a worker, rather than the master that it inherited from.
    """
    inodes = {item.inode for item in _sockets(port, _ESTABLISHED) if item.inode}
    members = {process.pid for process in session.members()}
    return dict(Counter(max(pids) for pids in _owners(inodes, members).values()))


def clients(port: int, seconds: float = -1.0) -> frozenset[int]:
    """Ports of those whose connections to `port` are in use, or ended in the last `seconds`.

    There may have been more: the kernel lists a connection for a minute after its end (TIME_WAIT),
    at the side that ended it, and until another one has the same client's port, which of some
    thousands in a minute some have.
    """
    return frozenset(
        other
        for socket in _table()
        if socket.ended is None or socket.ended <= seconds
        for here, other in ((socket.port, socket.remote), (socket.remote, socket.port))
        if here == port and other and socket.address == _HOST
    )


def _sockets(port: int, state: int) -> list[TcpSocket]:
    return [s for s in _table() if s.port == port and s.state == state]


def _table() -> Iterator[TcpSocket]:
    for table in _TABLES:
        with suppress(FileNotFoundError):  # a kernel without IPv6
            yield from parse_table((procfs.PROC / "net" / table).read_text("ascii"))


def _owners(inodes: set[int], pids: Iterable[int]) -> dict[int, set[int]]:
    owners: dict[int, set[int]] = {}
    for pid in pids:
        folder = procfs.PROC / str(pid) / "fd"
        with suppress(OSError):  # gone, or another user's
            for descriptor in os.scandir(folder):
                with suppress(OSError):
                    target = os.readlink(descriptor.path)  # noqa: PTH115 - no path, `socket:[1]`
                    if target.startswith("socket:["):
                        inode = int(target[8:-1])
                        if inode in inodes:
                            owners.setdefault(inode, set()).add(pid)
    return owners


def _all_pids() -> list[int]:
    return [item.pid for item in procfs.stats()]


def _command(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        return shlex.join(process.cmdline()) or process.name()
    except psutil.Error:
        return None


def _address(host: str) -> str:
    # The kernel prints each 32-bit word of the address in the machine's own byte order.
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]"


def _ephemeral_range() -> tuple[int, int]:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
    low, high = map(int, text.split())
    return low, high
