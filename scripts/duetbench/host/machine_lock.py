"""One measurement per machine: two at once would each measure the other.

The lock is an abstract Unix socket: all users of a machine share it, nobody can remove it, it is
free as soon as its holder ends, and the kernel says who holds it. Containers with a network of
their own have a lock of their own.
"""

import errno
import os
import pwd
import shlex
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import psutil

from duetbench.core.errors import BusyError
from duetbench.core.text import visible

HOLDER: Final = "DUETBENCH_MEASURING"
"""Variable in which a holder tells its number to the measuring programs that it starts."""

LOCK: Final = "DUETBENCH_LOCK"
"""Variable that names another lock than the machine's, for tests, several of which run at once."""

_NAME: Final = "duetbench-measuring"
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
_LONGEST: Final = 200  # characters of a command line


@contextmanager
def measuring() -> Iterator[None]:
    """Hold the machine, unless an ancestor holds it for us; BusyError says who else does."""
    if held_for_us():
        yield
        return
    address = b"\0" + os.environ.get(LOCK, _NAME).encode()
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise BusyError(
                "expected this machine for itself, but another duetbench is measuring on it"
                f"{_holder(address)}: each would be the other's noise. Wait for it, or stop it"
            ) from error
        lock.listen()  # nobody is answered; but who connects is told by the kernel who we are
        yield


def held_for_us() -> bool:
    """Whether one of our ancestors holds the machine and has started us to measure."""
    holder = os.environ.get(HOLDER, "")
    return holder in {str(ancestor.pid) for ancestor in psutil.Process().parents()}


def _holder(address: bytes) -> str:
    with suppress(OSError, psutil.Error), socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        asking.connect(address)
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(credentials)
        user = f"user {uid}"
        with suppress(KeyError):
            user = pwd.getpwuid(uid).pw_name
        process = psutil.Process(pid)
        since = datetime.fromtimestamp(process.create_time()).astimezone()
        _, program, *arguments = [*process.cmdline(), "", ""]
        command = shlex.join([Path(program).name, *filter(None, arguments)])
        command = " ".join(command.split())[:_LONGEST]
        return f" (pid {pid} of {user}, since {since:%Y-%m-%d %H:%M}: {visible(command)})"
    return ""
