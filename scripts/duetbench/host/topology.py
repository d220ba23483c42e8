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

STARTS: Final = 4
"""Fewest physical cores with which a pair can start while another one is loaded."""

APART: Final = 8
"""Fewest physical cores with which two pairs are loaded at once."""

_SYSTEM: Final = Path("/sys/devices/system")


@dataclass(frozen=True, slots=True)
class Physical:
    """One physical core: its hyper-threads, by the kernel's numbers, and its NUMA node."""

    threads: tuple[int, ...]
    node: int = 0


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Places for pairs, and the number of them that may be loaded at the same time."""

    places: tuple[Cores, ...]
    loaded: int = 1

    @property
    def lanes(self) -> tuple[Cores, ...]:
        """Places of pairs that are measured side by side; empty: each pair has the machine."""
        return self.places if self.loaded > 1 else ()

    def __str__(self) -> str:
        if len(self.places) == 1:
            return f"no: it needs {STARTS} physical cores"
        places = " or ".join(
            f"server {_listed(place.server)}, generator {_listed(place.client)}"
            for place in self.places
        )
        if self.lanes:
            return f"room for two pairs under load, and comparisons use it: {places}"
        return (
            f"room to start a pair beside one: {places}; with {APART} physical cores, comparisons "
            "measure two pairs side by side"
        )


def here() -> PairPlan:
    """Plan the cores that this process may use."""
    return plan(read(machine.allocate().all), machine.limits()[0])


def plan(cores: Sequence[Physical], limit: float | None = None) -> PairPlan:
    """Place pairs on a machine's physical cores; `limit` is the allowed core time per time.

    In each place the last core is the generator's, as in `machine.allocate`.
    """
    ordered = sorted(cores, key=lambda core: (core.node, core.threads))
    most = len(ordered) if limit is None else min(len(ordered), int(limit))
    if most < STARTS:
        return PairPlan((machine.allocate(_threads(ordered)),))
    middle = len(ordered) / 2
    borders = [
        border
        for border in range(STARTS // 2, len(ordered) - STARTS // 2 + 1)
        if ordered[border - 1].node != ordered[border].node
    ]
    border = min(borders, key=lambda border: abs(border - middle), default=int(middle))
    size = min(border, len(ordered) - border)
    halves = ordered[border - size : border], ordered[border : border + size]
    places = (Cores(_threads(half[:-1]), half[-1].threads, pinned=True) for half in halves)
    return PairPlan(tuple(places), loaded=2 if min(most, 2 * size) >= APART else 1)


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


def _listed(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))
