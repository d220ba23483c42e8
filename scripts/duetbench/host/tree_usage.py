"""What a process tree, and the machine around it, used between two moments.

CPU is a difference between two edges, from the CPU clock of each process (ns, ended threads
included) if the kernel offers it, else from the ticks of /proc/<pid>/stat.

Source: proc(5); clock_getcpuclockid(3); Documentation/filesystems/proc.rst on smaps_rollup.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

COURSE_SECONDS: Final = 0.2
"""Seconds between two readings of anonymous memory."""

Members = Callable[[], Sequence[psutil.Process]]
_CPUCLOCK_SCHED: Final = 2  # clock_getcpuclockid(3): the precise clock of a whole process
_INTERVAL: Final = 1.0  # s between two samples of memory
_COST_SHARE: Final = 0.01  # of the time, at most, for sampling memory


@dataclass(frozen=True, slots=True)
class Edge:
    """A process tree at one moment of the monotonic clock (s).

    `cpu` are the CPU seconds of its processes so far, and of the children that they have waited
    for: who starts or ends between two edges counts in their difference.
    """

    at: float
    cpu: float
    pids: frozenset[int]


@dataclass(frozen=True, slots=True)
class MemorySample:
    """PSS of a process tree (bytes) and its threads at one moment of the monotonic clock (s)."""

    at: float
    pids: tuple[int, ...]
    pss: int
    threads: int


def edge(members: Members) -> Edge:
    """Read the CPU of a session's processes now."""
    living, cpu = members(), 0.0
    # The clocks come first and close together: the moment refers to them.
    at = time.monotonic()
    clocks = [cpu_clock(process.pid) for process in living]
    at = (at + time.monotonic()) / 2
    for process, clock in zip(living, clocks, strict=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            cpu += times.user + times.system if clock is None else clock
            cpu += times.children_user + times.children_system
    return Edge(at, cpu, frozenset(process.pid for process in living))


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


class TreeSampler:
    """Samples all processes of a session, as `Session.members` lists them: at once, and by `look`.

    `look` is to be called often; it takes a sample a second, with at most 1 % of the time: reading
    a process's page tables holds a lock that its mmap calls need. Five times a second it adds the
    anonymous bytes of all processes to the `course`, each with its moment.
    """

    def __init__(self, members: Members) -> None:
        self._members, self._due = members, 0.0
        self.samples: list[MemorySample] = []
        self.course: list[tuple[float, int]] = []
        self.look()

    def look(self) -> None:
        """Take a memory sample, if it is time."""
        began = time.monotonic()
        if self.samples and (not self.course or began >= self.course[-1][0] + COURSE_SECONDS):
            self.course.append((began, anonymous(self.samples[-1].pids)))
        if began < self._due:
            return
        sample = memory_of(self._members)
        if sample.pids:  # the memory of an ended tree means nothing
            self.samples.append(sample)
        self._due = began + max(_INTERVAL, (time.monotonic() - began) / _COST_SHARE)

    def metrics(self, start: float, end: float) -> dict[str, float]:
        """Compute the metrics of memory and threads between two moments of the monotonic clock.

        Idle is the first sample of all, taken before the load. The others are those within the
        window, or the last one before its end if there are none.
        """
        first, *_ = self.samples
        last = [s for s in self.samples if s.at <= end] or [first]
        inside = [s for s in last if s.at >= start] or last[-1:]
        return {
            "threads_peak": max(sample.threads for sample in inside),
            "pss_idle": first.pss,
            "pss_steady": statistics.median(sample.pss for sample in inside),
        }


def anonymous(pids: Sequence[int]) -> int:
    """Sum up the memory of processes without mapped files, bytes; those that have ended have none.

    It is the kernel's own count, which lags by some pages per core, and delays nothing.
    """
    size = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            memory = psutil.Process(pid).memory_info()
            size += memory.rss - memory.shared
    return size


def memory_of(members: Members) -> MemorySample:
    """Read the memory of a session's processes now."""
    pids, pss, threads = list[int](), 0, 0
    for process in members():
        with suppress(psutil.NoSuchProcess):
            pss += process.memory_full_info().pss
            threads += process.num_threads()
            pids.append(process.pid)
    return MemorySample(time.monotonic(), tuple(pids), pss, threads)
