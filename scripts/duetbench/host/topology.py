"""Which cores two pairs of servers get, of which no physical one serves both.

Hyper-threads of one core share its units and caches, and NUMA nodes their memory. So a place for a
pair has whole physical cores, if possible of one node. Two places are equally large: a case must
not find other cores in its next duet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.host import machine
from duetbench.host.machine import Cores

STARTS: Final = 4
"""Physical cores from which on a pair can start while another one is loaded."""

APART: Final = 8
"""Physical cores from which on two pairs are loaded at once."""

_SYSTEM: Final = Path("/sys/devices/system")


@dataclass(frozen=True, slots=True)
class Physical:
    """One physical core: its hyper-threads, as the kernel numbers them, and its NUMA node."""

    threads: tuple[int, ...]
    node: int = 0


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Places for pairs, and in how many of them there may be load at the same time."""

    places: tuple[Cores, ...]
    loaded: int = 1

    @property
    def lanes(self) -> tuple[Cores, ...]:
        """Places whose pairs are measured side by side; none: each pair has the whole machine."""
        return self.places if self.loaded > 1 else ()

    def __str__(self) -> str:
        if len(self.places) == 1:
            return f"no: it takes {STARTS} physical cores"
        places = " or ".join(
            f"server {_listed(place.server)}, generator {_listed(place.client)}"
            for place in self.places
        )
        if self.lanes:
            return f"room for two pairs under load, and comparisons use it: {places}"
        return (
            f"room for a pair that starts beside one: {places}; comparisons measure two pairs side "
            f"by side from {APART} physical cores on"
        )


def here() -> PairPlan:
    """Plan the cores that this process may use."""
    return plan(read(machine.allocate().all), machine.limits()[0])


def plan(cores: Sequence[Physical], limit: float | None = None) -> PairPlan:
    """Place pairs on a machine's physical cores; `limit` is the core time per time that it gives.

    In each place the last core is the generator's, as `machine.allocate` has it.
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
    """Read the physical cores behind the cores that this process may use."""
    nodes = {
        core: int(path.parent.name.removeprefix("node"))
        for path in (system / "node").glob("node[0-9]*/cpulist")
        for core in machine.listed(path)
    }
    cores = set()
    for core in allowed:
        siblings = machine.listed(system / f"cpu/cpu{core}/topology/thread_siblings_list") | {core}
        cores.add(Physical(tuple(sorted(siblings & set(allowed))), nodes.get(core, 0)))
    return tuple(sorted(cores, key=lambda core: core.threads))


def _threads(cores: Sequence[Physical]) -> tuple[int, ...]:
    return tuple(sorted(thread for core in cores for thread in core.threads))


def _listed(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))
