"""Base and head of a comparison, the pairs of their cases, and the samples of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from duetbench.app.setting import SERVED, Contrast
from duetbench.app.subject import Subject
from duetbench.app.testbed import BothSides, SideCase, Testbed
from duetbench.core import metrics
from duetbench.core.comparison import (
    SIDES,
    Duet,
    Instructions,
    Missing,
    PackageChange,
    SideName,
    SideRecord,
)
from duetbench.core.effects import Effects, KeptMemory
from duetbench.core.errors import FlagName, UsageError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case
from duetbench.core.text import ENDLESS
from duetbench.core.units import student
from duetbench.host.command import reason
from duetbench.judge.statistics import Logs

_OF_SERVERS: Final = attrgetter(
    *("experiment", "stack", "python", "server", "loop", "workers", "threads", "cores"),
    *("server_args", "endpoint.app", "endpoint.interface", "endpoint.factory"),
    *("env_names", "before", "after"),
)

FAILURES: Final = 2
"""Failed duets of one side after which its case is void: one failure may be an accident.

An answer without end is none: more of them would only take more time."""

SHARE: Final = 0.8
"""Least share of the usable duets that must have a metric on both sides for it to be judged.

With fewer, whether a duet has the metric may depend on how the duet went."""


class Mode(Enum):
    """How the samples of a case are measured; decided before the first, from the declarations."""

    TOGETHER = "a duet: both sides at the same time"
    ALONE = "a turn: a launch of each side alone, one right after the other"
    START = "a turn: a start of each side alone, without load"


class CaseDuets:
    """What is known of one case: the duets as they come in, and what was seen without any.

    Attributes:
        seen: What one request does; None: not observed.
        counts: Instructions of both sides, or why there are none; None: they do not matter.
        leading: Metrics for which duets go on until they are decided.
        tails: Metrics judged from the same duets, but never a reason for more: latency tails
            scatter so much that they would take all the time, and imports are not the question.
        usable: Duets that decisions may use.
        overloaded: Whether most usable duets have two servers that do not keep up with the rate.
        metrics: Judged metrics that enough usable duets have, without memory that grows, and
            without the times of servers that do not keep up: they are those of a queue.
        failed: The sides that failed so often that the case cannot be compared.
        void: Why it cannot, by each side's first failure; empty if it can.
        mode: How its samples are measured.
        waits: Whether most usable duets leave cores idle, so that times show what handlers wait.
    """

    def __init__(self, case: Case, mode: Mode = Mode.TOGETHER) -> None:
        self.case, self.mode = case, mode
        self.seen: Effects | None = None
        self.counts: Instructions | str | None = None
        self.all: list[Duet] = []
        self.conclude()

    def add(self, duet: Duet) -> None:
        """Take another duet."""
        self.all.append(duet)
        self.conclude()

    @property
    def effects(self) -> Effects | None:
        """What one request does, and what load says of the memory that it keeps."""
        if self.seen is None:
            return None
        memories = {"base": self.seen.kept_base, "head": self.seen.kept_head}
        decided = {f"kept_{side}": decide(memories[side], self.all, side) for side in SIDES}
        return self.seen.model_copy(update=decided)

    def conclude(self) -> None:
        """Compute once what the duets show together, since every look at any case reads it."""
        self.usable = [duet for duet in self.all if duet.usable]
        self.overloaded = self._most(_overloads)
        self.waits = self._most(lambda duet: duet.wait is not None)
        self.leading, self.tails = choose_metrics(
            self.case, start=self.mode is Mode.START, waits=self.waits
        )
        names, enough = (*self.leading, *self.tails), SHARE * len(self.usable)
        self.metrics = tuple(n for n in names if self.count(n) >= enough and not self.unsettled(n))
        texts: dict[SideName, str] = {}
        for side in SIDES[::-1]:
            failed = [text for duet in self.all for text in duet.failures(side)[:1]]
            if failed and (len(failed) >= FAILURES or ENDLESS in failed[0]):
                texts[side] = failed[0]
        self.failed, self.void = tuple(texts), join_reasons(texts)

    def _most(self, shows: Callable[[Duet], bool]) -> bool:
        return sum(map(shows, self.usable)) > len(self.usable) / 2

    def count(self, metric: str) -> int:
        """Count the usable duets that have a metric on both sides."""
        return sum(_has(duet, metric) for duet in self.usable)

    def unsettled(self, metric: str) -> bool:
        """Whether a figure depends on how long the load lasts."""
        if METRICS[metric].concern in {"latency", "tail"}:
            return self.overloaded
        leaks = any(duet.grows for duet in self.usable)
        return METRICS[metric].unit == "B" and leaks

    def logs(self, metric: str) -> Logs:
        """Return the log ratios of a metric from the usable duets that have it."""
        having = [duet for duet in self.usable if _has(duet, metric)]
        figures = np.array([(duet.base[metric], duet.head[metric]) for duet in having])
        base, head = np.log(figures.reshape(-1, 2).T)
        return np.asarray(head - base)

    def mean(self, metric: str) -> float | None:
        """Average base's figure; None if head's server beside it has changed it, or there is none.

        Where handlers wait, it leaves the cores idle, and so changes no times.
        """
        untouched = {*metrics.judged_in({"start"}), metrics.CPU}
        waited = self.waits and METRICS[metric].concern == "latency"
        if not (self.alone or waited or metric in untouched or METRICS[metric].unit == "B"):
            return None
        figures = [figure for duet in self.usable if (figure := duet.base.get(metric))]
        return fmean(figures) if figures and metric in self.metrics else None

    @property
    def alone(self) -> bool:
        """Whether the samples are launches of each side alone, by turns."""
        return self.mode is not Mode.TOGETHER or any(duet.alone for duet in self.usable)

    def disturbances(self) -> str:
        """Name the flags that excluded duets."""
        return ", ".join(sorted({str(name) for duet in self.all for name in duet.disturbed}))


@dataclass(eq=False)
class Pair(CaseDuets):
    """One case as each side serves it, why the change can affect it, and what is known of it.

    `case` is as head defines it. With `start`, each sample is one start of each side. `alike`: both
    sides execute the same for a request, and differ only in how they are served.
    """

    base: SideCase
    head: SideCase
    reason: str = ""
    start: bool = False
    alike: bool = False

    def __post_init__(self) -> None:
        mode = Mode.START if self.start else Mode.ALONE if self._compete() else Mode.TOGETHER
        super().__init__(self.head.case, mode)

    @property
    def sides(self) -> tuple[SideCase, SideCase]:
        return self.base, self.head

    def _compete(self) -> bool:
        """Whether two servers at once would keep each other from cores that one could use.

        Several workers, or threads without the GIL, compute at once on several cores. Sides with
        unequal workers, threads or connections, or with other servers, share no core equally.
        """
        cases = [side.case for side in self.sides]
        computing = {case.workers * (case.threads or 1 if case.free_threaded else 1)
                     for case in cases}  # fmt: skip
        several = len(self.head.server_cores) > 1
        return (
            len({(case.workers, case.threads, case.load.connections) for case in cases}) > 1
            or len({case.server for case in cases}) > 1
            or len(computing) > 1
            or any(map(scales, cases))
            or (several and max(computing) > 1 and not self.head.case.endpoint.floor)
        )

    @property
    def server(self) -> Hashable:
        """Key that is equal for cases that one launch of each side can serve."""
        own = "" if self.mode is Mode.TOGETHER else self.case.id
        return (own, *(server_of(part.case) for part in self.sides))


def scales(case: Case) -> bool:
    """Whether parallel threads or workers compute on all cores, by declaration.

    A second server would take cores from it. If handlers wait, the cores are free.
    """
    parallel = case.slots or case.workers * (case.threads or 1)
    return case.cores == "shared" and not case.endpoint.floor and parallel > 1


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head, ready to be measured."""

    record: SideRecord
    testbed: Testbed  # for the cases that both sides have
    cases: tuple[Case, ...]
    tree: str = ""  # the git tree of `root`; empty if it is no revision

    @property
    def subject(self) -> Subject:
        """The copy that its applications are read from."""
        return self.testbed.subject

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
    missing: tuple[Missing, ...] = ()  # cases that one side lacks or defines differently
    cross: bool = False  # whether the sides are a choice of interpreters or settings, not a change
    notes: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    untouched: int = 0  # common cases that the change cannot affect
    empty_reason: str = ""  # a sentence on why there is nothing to judge, if so

    @property
    def to_observe(self) -> tuple[BothSides, ...]:
        """The pairs to judge, without those whose sides execute the same."""
        return tuple(pair.sides for pair in self.pairs if not pair.alike)


def require_code(option: str, contrast: Contrast) -> None:
    """Refuse an option about the code if both sides execute the same; raises UsageError."""
    if contrast.kinds == {"setting"} and contrast.crossing <= SERVED:
        raise UsageError(f"{option}: both sides execute the same for a request: leave it out")


def _has(duet: Duet, metric: str) -> bool:
    return all(0 < duet.metrics(side).get(metric, 0.0) < math.inf for side in SIDES)


def _overloads(duet: Duet) -> bool:
    return all(any(f.name is FlagName.OVERLOADED for f in duet.flags(side)) for side in SIDES)


def decide(memory: KeptMemory | None, duets: Sequence[Duet], side: SideName) -> KeptMemory | None:
    """Decide by the load of duets whether requests in process, which were fewer, showed a leak.

    Each duet has what a side keeps per request in the second half of its load. A cache keeps as
    much for each until it is full. What load neither shows nor refutes stays open, such as a few
    bytes that scatter covers.
    """
    metrics = (duet.metrics(side) for duet in duets)
    # What a duet prevents has no figures of it, and no number of requests.
    figures = [row for row in metrics if {"memory_per_request", "requests"} <= row.keys()]
    if memory is None or memory.course != "constant" or len(figures) < 2:
        return memory
    rates = np.array([row["memory_per_request"] for row in figures])
    requests = int(sum(row["requests"] for row in figures)) // len(duets)
    half = student(len(rates) - 1) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    shows, refutes = rates.mean() - half > memory.bytes / 2, rates.mean() + half < memory.bytes / 2
    if requests <= memory.requests or not (shows or refutes):
        return memory
    course = "constant" if shows else "fills"
    return memory.model_copy(update={"course": course, "requests": requests, "loaded": True})


def join_reasons(reasons: Mapping[SideName, str]) -> str:
    """Join the sides' reasons; a reason that both share appears once, with one log."""
    if len(reasons) == len(SIDES) and len({*map(reason, reasons.values())}) == 1:
        return f"both sides: {next(iter(reasons.values()))}"
    return "; ".join(f"{side}: {words}" for side, words in reasons.items())


def choose_metrics(
    case: Case, *, start: bool = False, waits: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose a case's judged metrics that can move: the leading ones, and the tails.

    Each judged metric makes the correction of all others stricter, so each must earn its place.

    - In a closed loop whose handlers do not wait, throughput is what the server can do.
    - Where handlers wait, throughput stays at its ceiling until concurrency is lost. Efficiency
      shows that, the median latency the rest.
    - A rate fixes the throughput: latency and CPU show the cost.
    - If a load leaves cores idle because its handlers wait (`waits`), the median latency shows it,
      and throughput follows from that.
    - Starts alone have no load.
    """
    if start:
        return metrics.judged_in({"start", "start alone"}), metrics.judged_in(
            {"memory after start"}
        )
    times = case.load.times
    situations: set[str] = {"always", times}
    if case.load.rate is None and case.endpoint.floor == 0:
        situations = {"always", times if waits else "unlimited"}
    elif case.load.rate is None:
        situations |= {"ceiling"}
    return metrics.judged_in(situations), metrics.judged_in({f"{times} tail", "start"})


def server_of(case: Case) -> Hashable:
    """The key of a case's server; cases with equal keys can share one."""
    return *_OF_SERVERS(case), tuple(sorted(case.env.items()))
