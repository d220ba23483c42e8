"""Readers of /proc, and signals to and scratch folders of exactly one process.

A pid alone identifies no process: after its owner has been reaped, the next process gets it. Pid
and start time do. So signals go through a pidfd, and the name of a scratch folder contains its
owner; the next duetbench removes the folders of a killed one. Only the standard library is used:
the program that counts instructions in the stacks' environments imports this module.

Source: proc(5), pidfd_open(2), clock_getcpuclockid(3), Documentation/filesystems/proc.rst.
"""

import os
import select
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICK: Final[float] = 1 / os.sysconf("SC_CLK_TCK")
"""Length of a clock tick in seconds: the resolution of the times in /proc/<pid>/stat."""

_CPUCLOCK_SCHED: Final = 2  # clock_getcpuclockid(3): the precise clock of a whole process
_GONE: Final = (ProcessLookupError, FileNotFoundError)
_SCRATCH: Final = "duetbench-scratch"  # begins names of folders
_KILL_SECONDS: Final = 10.0  # for processes to end after SIGKILL; they may be in a system call


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/<pid>/stat that duetbench uses.

    `cpu` is in seconds, and so is `children`, of those that it has waited for; `start` is in ticks
    since boot. Pid and start identify it.
    """

    pid: int
    state: str
    parent: int
    session: int
    cpu: float
    children: float
    threads: int
    start: int

    @property
    def alive(self) -> bool:
        """Whether it can still run: neither a zombie nor dead.

        A main thread that has ended looks like a zombie while other threads still run.
        """
        return self.state not in "ZXx" or self.threads > 1


def parse_stat(text: str) -> Stat:
    """Parse one line of /proc/<pid>/stat; the name in brackets may contain anything."""
    pid, rest = text.split(" ", 1)
    fields = rest[rest.rindex(")") + 2 :].split()
    return Stat(
        pid=int(pid),
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu=(int(fields[11]) + int(fields[12])) * TICK,
        children=(int(fields[13]) + int(fields[14])) * TICK,
        threads=int(fields[17]),
        start=int(fields[19]),
    )


def stat(pid: int) -> Stat | None:
    """Read one process; None if no process has that pid."""
    try:
        text = (PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except _GONE:
        return None
    return parse_stat(text)  # the name may be any bytes


def own() -> Stat:
    """Read this process."""
    return parse_stat((PROC / "self" / "stat").read_text("utf-8", errors="replace"))


def describe(pid: int) -> str:
    """Name a process and its command, if it still exists."""
    try:
        words = (PROC / str(pid) / "cmdline").read_text("utf-8", errors="replace").split("\0")
    except _GONE:
        return f"process {pid} (it has just ended)"
    return f"process {pid} ({shlex.join(words[:-1])})"


def stats() -> Iterator[Stat]:
    """Read every live process of this pid namespace."""
    for entry in os.scandir(PROC):
        if entry.name.isdigit() and (process := stat(int(entry.name))) and process.alive:
            yield process


def lives(pid: int, start: int) -> bool:
    """Whether the process of that pid and start time is still alive."""
    process = stat(pid)
    return process is not None and process.alive and process.start == start


def lock_limit(process: Stat) -> int | None:
    """The soft limit RLIMIT_LOCKS of a process, of any user; None: unlimited, or gone.

    Processes inherit it and keep it, so each is read once.
    """
    return _read_lock_limit(process.pid, process.start)


@lru_cache(maxsize=10_000)
def _read_lock_limit(pid: int, _start: int) -> int | None:
    try:
        text = (PROC / str(pid) / "limits").read_text("utf-8")
    except OSError:
        return None
    limit, *_ = (*text.partition("\nMax file locks")[2].split(maxsplit=1), "")
    return int(limit) if limit.isdigit() else None


def pid_namespace() -> str:
    """The identity of the pid namespace; pids of another container mean nothing here."""
    return "".join(filter(str.isdigit, str((PROC / "self/ns/pid").readlink())))


def cpu_clock(pid: int) -> float | None:
    """The CPU seconds of a whole process so far, ns resolution; None if unavailable.

    The clock includes ended threads, which the sum over /proc/<pid>/task/*/schedstat loses. For a
    running thread it may lag by one scheduler tick. clock_getcpuclockid(3) computes the same id.
    """
    try:
        nanoseconds = time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None
    return nanoseconds / 1e9 if nanoseconds else None  # a zombie's clock stands at 0


def sockets(pid: int) -> set[int]:
    """List the inodes of a process's sockets; empty if the process cannot be read."""
    inodes = set()
    with suppress(*_GONE, PermissionError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with suppress(*_GONE):
                kind, _, inode = os.readlink(entry.path).partition(":")  # noqa: PTH115 - no path
                if kind == "socket":
                    inodes.add(int(inode.strip("[]")))
    return inodes


def kill(pid: int, start: int) -> bool:
    """Send SIGKILL to exactly the live process of that pid and start time; False if it is gone."""
    with suppress(ProcessLookupError), ExitStack() as stack:
        descriptor = os.pidfd_open(pid)
        stack.callback(os.close, descriptor)
        # The descriptor pins the process, so the signal reaches the one that is checked here.
        if lives(pid, start):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return True
    return False


def kill_all(find: Callable[[], list[Stat]], killed: set[int]) -> list[Stat]:
    """Kill what `find` lists until it lists nothing, adding to `killed`; return survivors."""
    deadline = time.monotonic() + _KILL_SECONDS
    # Repeated, as a process may fork between the listing and its end.
    while (survivors := find()) and time.monotonic() < deadline:
        killed |= {item.pid for item in survivors if kill(item.pid, item.start)}
        wait_ended((item.pid for item in survivors), max(0.0, deadline - time.monotonic()))
    return survivors


def wait_ended(pids: Iterable[int], timeout: float) -> bool:
    """Wait until all processes have ended, reaped or not; False after `timeout` seconds."""
    deadline, descriptors = time.monotonic() + timeout, list[int]()
    with ExitStack() as stack:
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(pid))
                stack.callback(os.close, descriptors[-1])
        for descriptor in descriptors:
            left = min(max(0.0, deadline - time.monotonic()), 1e6)  # no select is endless
            if not select.select([descriptor], [], [], left)[0]:
                return False
    return True


@contextmanager
def scratch(base: Path | None = None) -> Iterator[Path]:
    """Provide a folder as of `make_scratch`; remove those of dead processes."""
    sweep_scratch(base)
    folder = make_scratch(base)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_scratch(base: Path | None = None) -> Path:
    """Make an empty folder; its path has a fixed length. The caller removes it.

    It is below `base`, or the folder for temporary files.
    """
    return Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}-{owner()}-", dir=base))


def owner() -> str:
    """Name this process, in a text of a fixed length without underscores."""
    me = own()
    return f"{pid_namespace()}-{me.pid:07}-{me.start:012}"


def is_dead(owner: str) -> bool:
    """Whether a process that `owner` named is dead. Those of other containers are invisible."""
    namespace, pid, start = owner.split("-")
    return namespace == pid_namespace() and not lives(int(pid), int(start))


def sweep_scratch(base: Path | None = None) -> None:
    """Remove the folders of `make_scratch` whose owners are dead."""
    for folder in (base or Path(tempfile.gettempdir())).glob(f"{_SCRATCH}-*-*-*-*"):
        with suppress(ValueError):
            if is_dead(folder.name.removeprefix(f"{_SCRATCH}-").rpartition("-")[0]):
                shutil.rmtree(folder, ignore_errors=True)
