"""The processor's counters of a whole process tree: what its programs execute in user mode.

A thread opens each event on itself, inherited and disabled, and then starts a program. The kernel
counts that program from its exec on, with all its threads and child processes, ended ones included.
It does not count the opening thread itself. Inherited events cannot be read in a group, so each has
its own descriptor.

If there are more events than the processor has counters, the kernel takes turns. A count of part of
the time is discarded, not scaled; `EventCount.share` is that part.

Source: perf_event_open(2), Documentation/admin-guide/perf-security.rst.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CALLS: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "s390x": 331, "ppc64le": 319}
"""Numbers of the system call, as the C library has no function for it."""

_ATTRIBUTES: Final = struct.Struct("=IIQQQQQIIQ")  # struct perf_event_attr, its first version
_READING: Final = struct.Struct("=QQQ")
_TIMES: Final = 0b11  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_DISABLED, _INHERIT, _USER_MODE, _ON_EXEC = 1 << 0, 1 << 1, 1 << 5 | 1 << 6, 1 << 12
_CLOSE_ON_EXEC: Final = 1 << 3
_HARDWARE, _SOFTWARE = 0, 1

WHOLE: Final = 1 - 1e-4
"""Share of the time from which a count is complete."""

_PROBE_TURNS: Final = 10_000
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
_USER_ALLOWED: Final = 2  # its highest level at which a process may count itself in user mode


@dataclass(frozen=True, slots=True)
class HardwareEvent:
    """An event that the kernel can count: its kind, and its number in that kind."""

    kind: int
    number: int


EVENTS: Final[dict[str, HardwareEvent]] = {
    "instructions": HardwareEvent(_HARDWARE, 1),
    "cycles": HardwareEvent(_HARDWARE, 0),
}
"""The events that are counted for servers."""

TASK_CLOCK: Final = HardwareEvent(_SOFTWARE, 1)
"""Nanoseconds of core time, which the kernel counts in the same way on any machine."""


@dataclass(frozen=True, slots=True)
class EventCount:
    """A count, the ns in which its program ran, and the ns in which it was counted."""

    count: int
    enabled: int
    running: int

    def since(self, earlier: "EventCount") -> "EventCount":
        return EventCount(
            self.count - earlier.count,
            self.enabled - earlier.enabled,
            self.running - earlier.running,
        )

    @property
    def share(self) -> float:
        """Share of the time in which it was counted (0 to 1)."""
        return self.running / self.enabled if self.enabled > 0 else 1.0

    @property
    def whole(self) -> bool:
        return self.share >= WHOLE


class Counters:
    """Counts events of programs that the calling thread starts from now on.

    Events that the machine lacks are left out. `refused` is the error number of the first event
    that could not be opened; 0: all are open.
    """

    def __init__(
        self, events: Mapping[str, HardwareEvent], flags: int = _DISABLED | _ON_EXEC
    ) -> None:
        self._descriptors: dict[str, int] = {}
        self.refused = 0
        for name, event in events.items():
            try:
                self._descriptors[name] = _open(event, _INHERIT | _USER_MODE | flags)
            except OSError as error:
                self.refused = self.refused or error.errno or errno.EIO

    def read(self) -> dict[str, EventCount]:
        """Read each event, summed over all threads and processes."""
        return {
            name: EventCount(*_READING.unpack(os.read(descriptor, _READING.size)))
            for name, descriptor in self._descriptors.items()
        }

    def close(self) -> None:
        """Stop counting; a second call does nothing."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def availability(events: Mapping[str, HardwareEvent] = EVENTS) -> str:
    """Say in a sentence whether this process may count, or else what to change."""
    counters = Counters(events, flags=0)
    try:
        sum(range(_PROBE_TURNS))
        readings = counters.read()
    finally:
        counters.close()
    if counters.refused:
        return _refusal(counters.refused)
    if idle := [name for name, reading in readings.items() if not reading.count]:
        return f"none: {' and '.join(idle)} can be opened, but stay at 0"
    if shared := [name for name, reading in readings.items() if not reading.whole]:
        return f"{' and '.join(shared)} in use by another program (the NMI watchdog?)"
    return f"{' and '.join(events)} in user mode"


def _refusal(error: int) -> str:
    level = 0
    with suppress(OSError, ValueError):
        level = int(_PARANOID.read_text())
    if error in {errno.EACCES, errno.EPERM} and level > _USER_ALLOWED:
        remedy = f"sudo sysctl kernel.perf_event_paranoid={_USER_ALLOWED}"
        return f"none: kernel.perf_event_paranoid is {level}; to allow them: {remedy}"
    if error in {errno.EACCES, errno.EPERM}:
        return "none: the container forbids perf_event_open; allow it in its seccomp profile"
    if error == errno.ENOSYS:
        return "none: this kernel or processor architecture has no perf_event_open"
    return "none: the processor shows no counters; in a virtual machine, give it a virtual PMU"


def _open(event: HardwareEvent, flags: int) -> int:
    """Open an event on the calling thread, on any core; raises OSError."""
    call = _CALLS.get(platform.machine())
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    size = _ATTRIBUTES.size
    attributes = _ATTRIBUTES.pack(event.kind, size, event.number, 0, 0, _TIMES, flags, 0, 0, 0)
    arguments: Sequence[int] = (0, -1, -1, _CLOSE_ON_EXEC)  # this thread, any core, no group
    system = ctypes.CDLL(None, use_errno=True)
    descriptor = system.syscall(
        ctypes.c_long(call), attributes, *(ctypes.c_long(value) for value in arguments)
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(descriptor)
