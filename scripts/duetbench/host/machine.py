"""The machine: its fingerprint, the roles of its cores, what disturbs it, and its lock.

Two measurements at once would disturb each other, so each takes the machine's lock: an abstract
Unix socket, which all users of a machine share and nobody can remove. The kernel frees it when its
holder ends, and names the holder. Containers with their own network have their own lock.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import psutil

from duetbench.core.errors import BusyError
from duetbench.core.model import Machine
from duetbench.host.console import duration

_CPUS: Final = Path("/sys/devices/system/cpu")

STEAL: Final = 0.01
"""Share of the core time that a hypervisor may take: the smallest change that is reported."""

OTHER_CORES: Final = 0.1
"""Cores that processes other than server and generator may use."""

_VENDOR_WORDS: Final = re.compile(
    r"\((r|tm)\)|@.*|\b(intel|amd|cpu|processor|\d+-core|with .*)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """Seconds of core time since boot, summed over cores, at a moment of the monotonic clock.

    `harness`: the CPU seconds of this process.
    """

    total: float
    busy: float
    steal: float
    at: float
    harness: float

    def since(self, earlier: CoreTimes) -> CoreTimes:
        """The difference to an earlier reading; its `at` is the seconds between them."""
        pairs = zip(astuple(self), astuple(earlier), strict=True)
        return CoreTimes(*(now - then for now, then in pairs))

    @property
    def steal_share(self) -> float:
        """Share of the core time that the hypervisor took (0 to 1)."""
        return self.steal / self.total if self.total > 0 else 0.0


def allocate(allowed: Iterable[int] | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Assign the cores of the server and of the generator: the last one to the latter.

    A single core serves both, unpinned. If `allowed` is None, it is what affinity and cpuset leave
    the process, whatever this thread is pinned to.
    """
    cores = tuple(sorted(os.sched_getaffinity(os.getpid()) if allowed is None else allowed))
    return cores[:-1] or cores, cores[-1:]


def fingerprint() -> Machine:
    """Describe this machine.

    Figures of machines with different ids must not be compared. The id contains neither the
    kernel's version nor the host's name, which do not make figures incomparable.
    """
    (server, client), cpu, virtual = allocate(), cpu_model(), hypervisor()
    cores, memory = tuple(sorted({*server, *client})), psutil.virtual_memory().total
    count = len(cores)
    system = {"ID": platform.system().lower(), "PRETTY_NAME": platform.system()}
    with suppress(OSError):
        system |= platform.freedesktop_os_release()
    parts = (cpu, str(count), str(round(memory / 2**30)), system["ID"], virtual or "")
    rest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Machine(
        id=f"{slug(cpu)}-{count}c-{rest[:6]}",
        cpu=cpu,
        cores=count,
        server_cores=server,
        client_cores=client,
        memory=memory,
        kernel=platform.release(),
        os=system["PRETTY_NAME"],
        virtual=virtual,
        governor=governor(cores),
        pinned=server != client,
    )


def slug(cpu: str) -> str:
    """Shorten a CPU's marketing name to its distinctive words: "epyc-7763", "xeon"."""
    words = re.findall(r"[a-z0-9]+", _VENDOR_WORDS.sub(" ", cpu).lower())
    return "-".join(words[:4]) or "cpu"


def cpu_model() -> str:
    """Read the CPU's name, or the architecture if the kernel gives no name (some ARM)."""
    fields = _cpuinfo()
    return fields.get("model name") or fields.get("hardware") or platform.machine()


def hypervisor() -> str | None:
    """Name the hypervisor if one is visible; None on bare metal."""
    if "hypervisor" not in _cpuinfo().get("flags", "").split():
        return None
    names = [_read(Path("/sys/class/dmi/id", name)) for name in ("sys_vendor", "product_name")]
    return " ".join(name for name in names if name) or "unnamed"


def governor(cores: Sequence[int]) -> str | None:
    """Name the frequency governors of cores, comma-separated; None if there are none."""
    governors = {_read(_CPUS / f"cpu{core}" / "cpufreq" / "scaling_governor") for core in cores}
    return ", ".join(sorted(governors - {""})) or None


def core_times() -> CoreTimes:
    """Read how all cores have spent their time since boot."""
    times, harness = psutil.cpu_times(), time.process_time()
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    total = sum(times) - guests
    idle = times.idle + getattr(times, "iowait", 0.0)
    steal = getattr(times, "steal", 0.0)
    return CoreTimes(total, total - idle - steal, steal, time.monotonic(), harness)


def _cpuinfo() -> dict[str, str]:
    """The kernel's description of the cores; of the first one if they differ."""
    lines = [line.partition(":") for line in reversed(_read(Path("/proc/cpuinfo")).splitlines())]
    return {key.strip().lower(): value.strip() for key, colon, value in lines if colon}


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


LOCK: Final = "DUETBENCH_LOCK"
"""Variable that replaces the machine's lock: for programs that measure for its holder, and for
tests, several of which run at once."""

_LOCK_NAME: Final = "duetbench-measuring"
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
_POLL_SECONDS: Final = 0.5


@contextmanager
def measuring(wait: float = 0.0, say: Callable[[str], object] = len) -> Iterator[None]:
    """Hold the machine, unless this process does.

    With `wait`, first wait up to so many seconds until no other holds it, which `say` is told.
    BusyError names who still holds it then.
    """
    address = b"\0" + os.environ.get(LOCK, _LOCK_NAME).encode()
    if _holder(address) == os.getpid():
        yield
        return
    ends, announced = time.monotonic() + wait, False
    with socket.socket(socket.AF_UNIX) as lock:
        while not _take(lock, address):
            left = ends - time.monotonic()
            holder = f"another duetbench is measuring on it{_describe(_holder(address))}"
            if left <= 0:
                raise BusyError(
                    f"expected this machine for itself, but {holder}: they would disturb each "
                    "other. Wait for it, as --wait 10m does, or stop it"
                )
            if not announced:
                say(f"waiting for this machine, at most {duration(left)}: {holder}")
            announced = True
            time.sleep(min(left, _POLL_SECONDS))
        yield


def _take(lock: socket.socket, address: bytes) -> bool:
    """Try to hold the machine until the socket closes."""
    try:
        lock.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    lock.listen(4096)  # clients get no answer, and stay, but the kernel tells them our pid
    return True


def _holder(address: bytes) -> int | None:
    """Return the process that holds the machine; None if it is unknown, or nobody does."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        client.connect(address)
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(credentials)[0]
        return pid
    return None


def _describe(pid: int | None) -> str:
    with suppress(psutil.Error):
        if pid:
            process = psutil.Process(pid)
            since = datetime.fromtimestamp(process.create_time()).astimezone()
            return f" (pid {pid} of {process.username()}, since {since:%Y-%m-%d %H:%M})"
    return ""
