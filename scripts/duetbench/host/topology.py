"""The cores for two pairs of servers, which share no physical core.

Hyper-threads of one core share its units and caches, and NUMA nodes their memory. So each place for
a pair has whole physical cores, if possible of one node. Both places have the same size, so a case
has as many cores in every duet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.host import machine
from duetbench.host.machine import Cores

APART: Final = 8
"""Fewest physical cores of both places: with four each, a server has three."""

_SYSTEM: Final = Path("/sys/devices/system")


@dataclass(frozen=True, slots=True)
class Physical:
    """One physical core: its hyper-threads, by the kernel's numbers, and its NUMA node."""

    threads: tuple[int, ...]
    node: int = 0


def here() -> tuple[Cores, ...]:
    """Place pairs on the cores that this process may use; see `plan`."""
    return plan(read(machine.allocate().all), machine.limits()[0])


def plan(cores: Sequence[Physical], limit: float | None = None) -> tuple[Cores, ...]:
    """Place two pairs on a machine's physical cores; none if there are too few for both.

    `limit` is the allowed core time per time. In each place the last core is the generator's, as in
    `machine.allocate`.
    """
    ordered = sorted(cores, key=lambda core: (core.node, core.threads))
    middle = len(ordered) / 2
    borders = [
        border
        for border in range(2, len(ordered) - 1)
        if ordered[border - 1].node != ordered[border].node
    ]
    border = min(borders, key=lambda border: abs(border - middle), default=int(middle))
    size = min(border, len(ordered) - border)
    if min(2 * size, len(ordered) if limit is None else int(limit)) < APART:
        return ()
    halves = ordered[border - size : border], ordered[border : border + size]
    return tuple(Cores(_threads(half[:-1]), half[-1].threads, pinned=True) for half in halves)


def read(allowed: Sequence[int], system: Path = _SYSTEM) -> tuple[Physical, ...]:
    """Read the physical cores of the cores that this process may use."""
    nodes = {
        core: int(path.parent.name.removeprefix("node"))
        for path in (system / "node").glob("node[0-9]*/cpulist")
        for core in machine.cpu_set(path)
    }
    cores = set()
    for core in allowed:
        siblings = machine.cpu_set(system / f"cpu/cpu{core}/topology/thread_siblings_list") | {core}
        cores.add(Physical(tuple(sorted(siblings & set(allowed))), nodes.get(core, 0)))
    return tuple(sorted(cores, key=lambda core: core.threads))


def _threads(cores: Sequence[Physical]) -> tuple[int, ...]:
    return tuple(sorted(thread for core in cores for thread in core.threads))
