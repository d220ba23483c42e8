"""Small readers of /proc; signals to, and scratch folders of, exactly one process.

A pid alone names nobody: it is given to the next process once its owner has been reaped. Pid and
start time do: signals go through a pidfd, and a scratch folder's name says who made it, so that the
next duetbench removes what a killed one has left. Standard library alone: what counts instructions
in the environments of stacks uses it.

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
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICK: Final[float] = 1 / os.sysconf("SC_CLK_TCK")
"""Length of a clock tick in seconds: the resolution of the times in /proc/<pid>/stat."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED: Final = 2  # clock_getcpuclockid(3): the precise clock of a whole process
_GONE: Final = (ProcessLookupError, FileNotFoundError)
_KILL_SECONDS: Final = 10.0  # for processes to end after SIGKILL: they may sit in a system call


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/<pid>/stat that duetbench uses; times in ticks.

    `children_ticks` are those of the children that it has waited for; `start` counts since boot.
    """

    pid: int
    state: str
    parent: int
    session: int
    ticks: int
    children_ticks: int
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
        ticks=int(fields[11]) + int(fields[12]),
        children_ticks=int(fields[13]) + int(fields[14]),
        threads=int(fields[17]),
        start=int(fields[19]),
    )


def stat(pid: int) -> Stat | None:
    """Read one process; None if there is none of that pid."""
    try:
        # The name is bytes of the program's choice, hence no strict decoding.
        return parse_stat((PROC / str(pid) / "stat").read_text("utf-8", errors="replace"))
    except _GONE:
        return None


def own() -> Stat:
    """Read this process."""
    return parse_stat((PROC / "self" / "stat").read_text("utf-8", errors="replace"))


def describe(pid: int) -> str:
    """Name a process and its command, as far as it is there."""
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
    """Tell whether the process of that pid and start time is still alive."""
    process = stat(pid)
    return process is not None and process.alive and process.start == start


def carries(pid: int, variable: str, value: str) -> bool:
    """Tell whether the process was executed with `variable=value` in its environment.

    Forked children share it. A process of another user, which cannot be read, does not count.
    """
    try:
        environ = (PROC / str(pid) / "environ").read_bytes()
    except OSError:  # gone, or not ours to read
        return False
    return f"{variable}={value}".encode() in environ.split(b"\0")


def pid_namespace() -> str:
    """Give the identity of the pid namespace: pids of another container mean nothing here."""
    return "".join(filter(str.isdigit, str((PROC / "self/ns/pid").readlink())))


def cpu_clock(pid: int) -> float | None:
    """Give the CPU seconds of a whole process so far, ns resolution; None where unavailable.

    The clock contains ended threads, which the sum over /proc/<pid>/task/*/schedstat loses. Of a
    running thread it may lag by one scheduler tick. clock_getcpuclockid(3) computes the same id.
    """
    try:
        nanoseconds = time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None
    return nanoseconds / 1e9 if nanoseconds else None  # a zombie's clock stands at 0


def anonymous(pid: int, *, exact: bool = False) -> int | None:
    """Read the memory of a process that no file is behind, bytes; None: there is no such process.

    Mapped files are shared, and come and go as the kernel likes. What the kernel has counted lags
    behind by some pages per core; `exact` reads all page tables, which holds up the process.
    """
    try:
        if exact:
            text = (PROC / str(pid) / "smaps_rollup").read_bytes()
            return int(text.partition(b"\nAnonymous:")[2].split()[0]) * 1024
        resident, shared = (PROC / str(pid) / "statm").read_bytes().split()[1:3]
        return (int(resident) - int(shared)) * _PAGE
    except _GONE:
        return None


def threads(pid: int) -> list[int]:
    """List the ids of a process's threads; none if there is no process of that pid."""
    try:
        return [int(tid) for tid in os.listdir(PROC / str(pid) / "task")]  # noqa: PTH208 - names
    except _GONE:
        return []


def switches(pid: int) -> dict[int, tuple[int, int]]:
    """Read voluntary and involuntary context switches per live thread id."""
    counts: dict[int, tuple[int, int]] = {}
    for tid in threads(pid):
        with suppress(*_GONE):
            text = (PROC / str(pid) / "task" / str(tid) / "status").read_bytes()
            _, _, tail = text.rpartition(b"\nvoluntary_ctxt_switches:")
            voluntary, _, involuntary = tail.partition(b"nonvoluntary_ctxt_switches:")
            counts[tid] = (int(voluntary), int(involuntary))
    return counts


def clocks(pid: int) -> dict[int, float]:
    """Read the core time so far of each live thread, s; none where the kernel counts none."""
    found: dict[int, float] = {}
    for tid in threads(pid):
        with suppress(*_GONE):
            text = (PROC / str(pid) / "task" / str(tid) / "schedstat").read_bytes()
            found[tid] = int(text.split()[0]) / 1e9
    return found


def sockets(pid: int) -> set[int]:
    """List the inodes of the sockets that a process holds; none of one that cannot be read."""
    inodes = set()
    with suppress(*_GONE, PermissionError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with suppress(*_GONE):
                kind, _, inode = os.readlink(entry.path).partition(":")  # noqa: PTH115 - no path
                if kind == "socket":
                    inodes.add(int(inode.strip("[]")))
    return inodes


def kill(pid: int, start: int) -> bool:
    """Send SIGKILL to exactly the live process of that pid and start time; False: there is none."""
    with suppress(ProcessLookupError), ExitStack() as stack:
        descriptor = os.pidfd_open(pid)
        stack.callback(os.close, descriptor)
        # The descriptor holds one process, so what is checked now is what the signal reaches.
        if lives(pid, start):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return True
    return False


def kill_all(find: Callable[[], list[Stat]], killed: set[int]) -> list[Stat]:
    """Kill what `find` finds until it finds nothing, adding to `killed`; who is left after 10 s."""
    deadline = time.monotonic() + _KILL_SECONDS
    # Again until none is found: a process may fork between the listing and its end.
    while (left := find()) and time.monotonic() < deadline:
        killed |= {item.pid for item in left if kill(item.pid, item.start)}
        wait_ended((item.pid for item in left), max(0.0, deadline - time.monotonic()))
    return left


def wait_ended(pids: Iterable[int], timeout: float) -> bool:
    """Wait until all of the processes have ended, reaped or not; False after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    with ExitStack() as stack:
        poll, waiting = select.poll(), set()
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
                poll.register(descriptor, select.POLLIN)
                waiting.add(descriptor)
        while waiting:
            # Rounded up: a poll of 0 ms would spin through the last millisecond.
            left = max(0.0, deadline - time.monotonic())
            ended = poll.poll(int(left * 1e3) + (left > 0))
            if not ended and time.monotonic() >= deadline:
                return False
            for descriptor, _ in ended:
                poll.unregister(descriptor)
                waiting.discard(descriptor)
    return True


def make_scratch(prefix: str, base: Path) -> Path:
    """Make an empty folder below `base`, for the caller to remove; its path has a fixed length."""
    me = own()
    owner = f"{pid_namespace()}-{me.pid:07}-{me.start:012}"
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-{owner}-", dir=base))


def sweep_scratch(prefix: str, base: Path) -> None:
    """Remove the folders of that prefix whose owners are dead."""
    for folder in base.glob(f"{prefix}-*-*-*-*"):
        with suppress(ValueError):
            namespace, pid, start, _ = folder.name.removeprefix(f"{prefix}-").split("-")
            # Of another container nobody here can tell who lives.
            if namespace == pid_namespace() and not lives(int(pid), int(start)):
                shutil.rmtree(folder, ignore_errors=True)
