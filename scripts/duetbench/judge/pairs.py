"""Base and head of a comparison, and the pairs of their cases."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from duetbench.core import metrics
from duetbench.core.model import Case, Missing
from duetbench.judge.matching import DERIVED, flat
from duetbench.judge.samples import CaseDuets, Mode
from duetbench.measure.testbed import SideCase, Testbed, server_of
from duetbench.project.setting import SERVED
from duetbench.project.subject import Subject
from duetbench.store.comparison import Duet, PackageChange, SideRecord

BUSY: Final = 0.7
"""Share of the server cores in use from which two servers may take cores from each other."""

SEVERAL: Final = 1.5
"""Computing threads from which one core is too few. A second thread that only reads and writes
sockets for the first does not count (Granian's has a quarter of the first's time)."""

UNEQUAL: Final = 1.1
"""Ratio of the sides' core time from which it is unequal: the kernel splits a core evenly."""


@dataclass(slots=True, eq=False)
class Pair:
    """One case as each side serves it, why the change can affect it, and its duets.

    `label` names head's stack if several are measured against one base. With `start`, each sample
    is one start of each side.
    """

    base: SideCase
    head: SideCase
    reason: str = ""
    label: str = ""
    duets: CaseDuets = field(init=False)
    start: bool = False

    def __post_init__(self) -> None:
        mode = Mode.FIRST
        if self.start:
            mode = Mode.START
        elif self.unequal or any(part.case.scales for part in self.sides):
            mode = Mode.TURN
        loads = {part.case.load.connections for part in self.sides}
        self.duets = CaseDuets(self.case, mode, timed=len(loads) > 1)

    @property
    def mode(self) -> Mode:
        return self.duets.mode

    @property
    def case(self) -> Case:
        """The case as head defines it."""
        return self.head.case

    @property
    def sides(self) -> tuple[SideCase, SideCase]:
        return self.base, self.head

    @property
    def unequal(self) -> bool:
        """Whether the declarations give the sides unequal workers, threads or connections."""
        parts = [(part.case.workers, part.case.threads, part.case.load) for part in self.sides]
        (workers, threads, load), (others, other, another) = parts
        return (workers, threads, load.connections) != (others, other, another.connections)

    @property
    def executes_alike(self) -> bool:
        """Whether the sides execute the same code and differ only in how they are served."""
        base, head = (flat(part.case) for part in self.sides)
        differ = {name for name in head.keys() - DERIVED if base[name] != head[name]}
        return bool(differ) and differ <= SERVED

    @property
    def wide(self) -> bool:
        """Whether a side declares several threads or processes that may compute."""
        return any(part.case.workers * (part.case.threads or 1) > 1 for part in self.sides)

    def held_back(self, duet: Duet) -> bool:
        """Whether the sides of a duet may have kept each other from cores that they could use.

        No core was idle. Of several cores, one side alone could have used more; of one core, the
        side with more to run at once got more.
        """
        busy = sum(side.get("server_cores", 0.0) for side in (duet.base, duet.head))
        cores = len(duet.server_cores or self.head.testbed.server_cores(self.case))
        # Cores that other processes used were not idle either.
        busy += max(side.get("host_other", 0.0) for side in (duet.base, duet.head))
        if self.case.cores == "shared":
            busy += sum(side.get("client_cores", 0.0) for side in (duet.base, duet.head))
        # No declaration lists the threads of a pool.
        threads = max(side.get("threads_computing", 1.0) for side in (duet.base, duet.head))
        # Nor does it list a server's own threads, of which another server may have more.
        served = {part.case.server for part in self.sides}
        several = self.wide or threads >= SEVERAL or len(served) > 1
        shares = [_share(side) for side in (duet.base, duet.head)]
        # At the deadline each thread may have a request that is not answered yet.
        under_way = threads / min(_in_time(side) for side in (duet.base, duet.head))
        apart = cores > 1 or max(shares) > UNEQUAL * (1 + under_way) * min(shares)
        return several and apart and busy >= BUSY * cores

    @property
    def server(self) -> Hashable:
        """Key that is equal for cases that one launch of each side can serve."""
        apps = self.base.testbed.apps, self.head.testbed.apps  # the canary has the anchor's twice
        return (
            self.label,
            self.mode is Mode.TURN,
            apps,
            server_of(self.base.case),
            server_of(self.head.case),
        )


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head, ready to be measured."""

    record: SideRecord
    testbed: Testbed  # for the cases that both sides have
    cases: tuple[Case, ...]
    subject: Subject  # the copy that its applications (and benchmarks) are read from
    tree: str | None = None  # the git tree of `root`; None if it is no revision
    lent: frozenset[str] = frozenset()  # files in `root` that are not its own; see `lending`
    declared: bool = True  # whether its own declarations say what is measured

    @property
    def root(self) -> Path:
        return self.subject.root


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides and their pairs of cases: all common ones, or those to judge.

    `affected` selects the pairs to judge, and sets the fields from `packages` on.
    """

    base: Side
    head: Side
    repository: Path  # the checkout that the command runs in
    pairs: tuple[Pair, ...]
    missing: tuple[Missing, ...]  # cases that one side lacks or defines differently
    cross: bool = False  # whether the sides are a choice of interpreters or settings, not a change
    notes: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    untouched: int = 0  # common cases that the change cannot affect
    empty_reason: str = ""  # a sentence on why there is nothing to judge, if so


def starting(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Choose the first case of each server, to compare starts."""
    first: dict[Hashable, Pair] = {}
    for start in (replace(pair, start=True) for pair in pairs):
        first.setdefault(start.server, start)
    return tuple(first.values())


def _share(figures: Mapping[str, float]) -> float:
    """Compute the cores that a side used under load: afterwards the slower side has them alone."""
    sending = figures.get("throughput", 0.0) * figures.get(metrics.CPU, 0.0)
    return sending or figures.get("server_cores", 0.0)


def _in_time(figures: Mapping[str, float]) -> float:
    """Count a side's answers before the deadline; inf if they were not counted."""
    return figures.get("throughput", 0.0) * figures.get("window", 0.0) or math.inf
