"""Both sides of a comparison: what each is, and the cases of both, with their duets.

A case is compared with itself only. An id that means something else on the other side (another
load, another path, another answer) is missing there, as is one that the other side does not have.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from duetbench.core import metrics
from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS, Situation
from duetbench.core.model import Case, Launch, LoadModel, Missing
from duetbench.core.text import short
from duetbench.host.command import reason
from duetbench.judge import growth, statistics
from duetbench.judge.statistics import Logs
from duetbench.judge.wake_ups import Slope, at_equal_wake_ups, differences, kind
from duetbench.measure.testbed import SideCase, Testbed, server_of
from duetbench.project.project import Project
from duetbench.project.setting import SERVED
from duetbench.project.stacks import Stack
from duetbench.store.comparison import (
    SIDES,
    Curve,
    Duet,
    Growth,
    PackageChange,
    Price,
    SideName,
    SideRecord,
)

FAILURES: Final = 2
"""Failed duets of one side that end a comparison: one may be an accident, two are an answer."""

SHARE: Final = 0.8
"""Share of the usable duets that must have a metric on both sides; it is judged from these.

Where fewer have it, whether they do may depend on how the duet went."""

COMPUTED: Final = ("server_cpu_per_request", "throughput")
"""Metrics of computing: they move with the instructions (throughput where nothing else limits it),
and are not known while a side still gets quicker."""

DRIFT_RATE: Final = 0.01
"""Error rate at which duets are said to drift alike."""

_SHARED: Final = DISTURBING - {FlagName.NOT_STEADY, FlagName.ENV_CHANGED}
"""Warnings of what may be there all the time, on both sides. Of a side that still gets quicker no
ratio lasts."""

BUSY: Final = 0.7
"""Share of their cores from which on two servers may keep each other from some."""

SEVERAL: Final = 1.5
"""Threads that compute, from which on one core is not enough: a second one that only reads and
writes sockets for a first is none (Granian's has a quarter of its time)."""

UNEQUAL: Final = 1.1
"""Times as much of one core as the other has: the kernel gives two that compute the same."""


class CaseDuets:
    """The duets of one case as they come in: which are usable, and which metrics are judged.

    Attributes:
        leading: Metrics that need more duets until they are decided.
        tails: Judged from the same duets, and never a reason for more: tails scatter so much that
            all time would go to them, and an import is not what is asked for.
        doubts: Standard errors of means, on the log scale, that more duets do not make smaller.
        price: That of a wake-up, where it is asked for and known.
        usable: Those that decisions may use.
        metrics: Judged metrics that enough of the usable duets have; not memory that grows.
        void: Why it cannot be compared, by a side's first failure; empty if it can.
        hurried: There is no time for the launches alone that some metrics take.
    """

    def __init__(self, case: Case, *, start: bool = False, timed: bool = False) -> None:
        self.case = case
        self.leading, self.tails = judged(case, start=start, timed=timed)
        self.doubts: dict[str, float] = {}
        self.price: Price | None = None
        self.all: list[Duet] = []
        self.hurried = False
        self._soaks: dict[SideName, Growth] = {}
        self.conclude()

    def add(self, duet: Duet) -> None:
        """Take another duet."""
        self.all.append(with_noise(duet))
        self.conclude()

    def soak(self, side: SideName, curve: Curve) -> None:
        """Take the curve of a side that was loaded alone."""
        self._soaks[side] = growth.of_curve(curve)
        self.conclude()

    @property
    def growth(self) -> dict[SideName, Growth]:
        """What each side keeps per request: by its soak, or by all duets where there is none."""
        duets = {side: found for side in SIDES if (found := growth.of_duets(self.all, side))}
        return duets | self._soaks

    def conclude(self) -> None:
        """Work out once what its duets say together: every look at any case asks for it."""
        self.usable = [duet for duet in self.all if duet.usable]
        names, enough = (*self.leading, *self.tails), SHARE * len(self.usable)
        self.metrics = tuple(n for n in names if self.count(n) >= enough and not self._grows(n))
        # Where somebody stopped the comparison the case has done nothing wrong.
        whole = [duet for duet in self.all if not duet.interrupted]
        failures = {side: [f for duet in whole for f in duet.failures(side)[:1]] for side in SIDES}
        many = {side: failures[side][0] for side in SIDES[::-1] if len(failures[side]) >= FAILURES}
        self.void = said_once(many)

    def explaining(self, slope: Slope) -> CaseDuets:
        """The same duets, asked for what explains alone: wake-ups, work and counts."""
        asked = copy.copy(self)
        found, price = differences(self.usable), slope.price
        asked.leading, asked.tails = (), metrics.WITNESSES if len(found.cpu) else metrics.COUNTED
        # Not where a request would cost less than its wake-ups.
        if price and found.alike and price.seconds * found.often.mean() < 1:
            asked.price = price
            asked.all = [at_equal_wake_ups(duet, price.seconds) for duet in self.all]
            asked.doubts = {metrics.WORK: slope.error * abs(float(found.more.mean()))}
        asked.conclude()
        return asked

    @property
    def excluded(self) -> int:
        return len(self.all) - len(self.usable)

    @property
    def lost(self) -> tuple[str, ...]:
        """Metrics, tails among them, that too few of the usable duets have."""
        # Duets before 2026-11-26 know nothing of imports.
        names = (*self.leading, *(n for n in self.tails if n in metrics.TAILS or self.count(n)))
        return tuple(n for n in names if n not in self.metrics and not self._grows(n))

    def count(self, metric: str) -> int:
        """Count the usable duets that have a metric on both sides."""
        return sum(_has(duet, metric) for duet in self.usable)

    @property
    def leak(self) -> str:
        """How head, and not base, keeps memory for every request; empty if it does not."""
        if self._soaks:
            return growth.leak(self.growth)
        base, head = ([g for duet in self.usable if (g := duet.growth(side))] for side in SIDES)
        leaks = len(head) >= FAILURES > len(base)
        return f"head: {head[0].name}: {head[0].detail}" if leaks else ""

    def _grows(self, metric: str) -> bool:
        flags = (duet.growth(side) for duet in self.usable for side in SIDES)
        leaks = any(soak.course == "constant" for soak in self._soaks.values())
        return METRICS[metric].unit == "B" and (leaks or any(flags))

    @property
    def computed(self) -> tuple[str, ...]:
        """Leading metrics that move with the instructions."""
        return tuple(metric for metric in COMPUTED if metric in self.leading)

    def logs(self, metric: str, first: int | None = None) -> Logs:
        """Log ratios of the usable duets, or of the first so many, as far as they have a metric."""
        having = [duet for duet in self.usable[:first] if _has(duet, metric)]
        both = np.log([[duet.metrics(side)[metric] for duet in having] for side in SIDES])
        logs: Logs = both[1] - both[0]
        return logs

    def means(self, side: SideName) -> dict[str, float]:
        """Mean figures of a side that the other one's server beside it leaves as they are."""
        starts = metrics.judged({"start"})
        names = [n for n in self.metrics if shown_by_duets(n) or self.alone(n) or n in starts]
        names += metrics.WITNESSES
        every = {n: [v for duet in self.usable if (v := duet.metrics(side).get(n))] for n in names}
        return {name: fmean(values) for name, values in every.items() if values}

    def alone(self, metric: str) -> bool:
        """Whether a metric is that of launches alone, by turns."""
        return any(metric in duet.alone for duet in self.usable)

    def drifted(self, metric: str) -> str:
        """Explain why its duets do not show a metric's lasting figure; empty if they do."""
        drifts = [duet.drift for duet in self.usable if duet.drift is not None]
        if metric not in COMPUTED or self.alone(metric) or len(drifts) < 2:
            return ""
        drift, effect = statistics.sample(np.asarray(drifts)), abs(self.logs(metric).mean())
        least = max(math.log1p(METRICS[metric].tolerance), effect)
        if abs(drift.mean) <= least or statistics.moved_p(drift, 0) > DRIFT_RATE:
            return ""
        return (
            f"not steady: head's throughput over base's moved by {math.expm1(drift.mean):+.1%} "
            f"from the first half of the load to the second, on average over {drift.n} duets"
        )

    def disturbances(self) -> str:
        """Name the flags for which duets were excluded."""
        return ", ".join(sorted({str(name) for duet in self.all for name in duet.disturbed}))


def explaining(
    samples: Mapping[str, CaseDuets], earlier: Mapping[Hashable, Slope], *, cross: bool = False
) -> dict[str, CaseDuets]:
    """What explains the cases; a wake-up's price is of all of them and of `earlier` comparisons.

    There is no price, and so no work, where the sides `cross`: a wake-up costs something else with
    another server, event loop or interpreter.
    """
    slopes = defaultdict(Slope, earlier)
    played = {key: one for key, one in samples.items() if one.usable and not one.void}
    for one in played.values():
        slopes[kind(one.case)] = slopes[kind(one.case)].plus(Slope.of(one.usable))
    return {
        key: one.explaining(Slope() if cross else slopes[kind(one.case)])
        for key, one in played.items()
    }


@dataclass(slots=True, eq=False)
class Pair:
    """One case as each side plays it, why the change can affect it, and its duets.

    `label` names head's stack, where several are measured against one base. `start`: a duet is a
    start of each side.
    """

    base: SideCase
    head: SideCase
    reason: str = ""
    label: str = ""
    duets: CaseDuets = field(init=False)
    apart: bool | None = None  # whether each side has to be launched alone; its first duet tells
    start: bool = False

    def __post_init__(self) -> None:
        loads = {part.case.load.connections for part in self.sides}
        self.duets = CaseDuets(self.case, start=self.start, timed=len(loads) > 1)

    @property
    def case(self) -> Case:
        """The case as head defines it."""
        return self.head.case

    @property
    def sides(self) -> tuple[SideCase, SideCase]:
        return self.base, self.head

    @property
    def unequal(self) -> bool:
        """Whether sides at once would not share cores, or a load, equally: by declaration."""
        parts = [(part.case.workers, part.case.threads, part.case.load) for part in self.sides]
        (workers, threads, load), (others, other, another) = parts
        return (workers, threads, load.connections) != (others, other, another.connections)

    @property
    def alone(self) -> bool:
        """Whether two servers at once would show nothing: there are launches by turns, no duets."""
        scales = any(part.case.scales for part in self.sides)
        return (self.unequal or scales) and not self.start

    @property
    def executes_alike(self) -> bool:
        """Whether the sides differ in how they are served alone: they execute the same."""
        base, head = (_flat(part.case) for part in self.sides)
        differ = {name for name in head.keys() - DERIVED if base[name] != head[name]}
        return bool(differ) and differ <= SERVED

    @property
    def wide(self) -> bool:
        """Whether several threads or processes of a side may compute, as far as it is declared."""
        return any(part.case.workers * (part.case.threads or 1) > 1 for part in self.sides)

    def held_back(self, duet: Duet) -> bool:
        """Whether the sides of a duet may have kept each other from cores that they could use.

        No core was idle, and there are several, of which one alone could have had more; or one, of
        which more went to a side that has more to run at once.
        """
        used = [side.get("server_cores", 0.0) for side in (duet.base, duet.head)]
        busy = sum(used)
        cores = len(duet.server_cores or self.head.testbed.server_cores(self.case))
        # What others took of the machine was not idle either.
        busy += max(side.get("host_other", 0.0) for side in (duet.base, duet.head))
        if self.case.cores == "shared":
            busy += sum(side.get("client_cores", 0.0) for side in (duet.base, duet.head))
        # Threads of a pool are in no declaration.
        threads = max(side.get("threads_computing", 1.0) for side in (duet.base, duet.head))
        # Nor are those of a server, of which another one may have more.
        served = {part.case.server for part in self.sides}
        several = self.wide or threads >= SEVERAL or len(served) > 1
        shares = [_share(side) for side in (duet.base, duet.head)]
        # What threads have under way at the deadline is nobody's answer yet.
        under_way = threads / min(_in_time(side) for side in (duet.base, duet.head))
        apart = cores > 1 or max(shares) > UNEQUAL * (1 + under_way) * min(shares)
        return several and apart and busy >= BUSY * cores

    @property
    def server(self) -> Hashable:
        """Equal of cases that one launch of each side can serve."""
        return self.label, self.alone, server_of(self.base.case), server_of(self.head.case)


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head, ready to be measured."""

    record: SideRecord
    testbed: Testbed  # for the cases that both sides have
    cases: tuple[Case, ...]
    project: Project  # the copy that its applications (and benchmarks) are read from
    tree: str | None = None  # the git tree of `root`; None: it is no revision's
    lent: frozenset[str] = frozenset()  # files in `root` that are not its own; see `lending`
    declared: bool = True  # whether it declares itself what is measured of it

    @property
    def root(self) -> Path:
        return self.project.root


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, and the cases of both: all that they have in common, or what is to be judged.

    What is to be judged, and all from `packages` on, is found by `affected`.
    """

    base: Side
    head: Side
    repository: Path  # the checkout around us
    pairs: tuple[Pair, ...]
    missing: tuple[Missing, ...]  # cases of one side only, or defined otherwise
    cross: bool = False  # whether it is a choice: of interpreters, or of settings
    notes: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    untouched: int = 0  # cases that both have, and that the change cannot affect
    nothing: str = ""  # why there is nothing to judge, in a sentence; empty: there is something


def by_turns(duet: Duet, base: Launch, head: Launch) -> Duet:
    """The duet with what two servers at once cannot show: of a launch of each side alone.

    Memory and core time per request stay those of the duet, if it was played: else it has no
    figures, and all are those of launches. Whether a launch was steady decides nothing here, as in
    a duet: its neighbour in time went the same way.
    """

    def of_duet(name: str) -> bool:
        return bool(duet.base) and shown_by_duets(name)

    ours, theirs = ([f for f in x.flags if f.name != FlagName.NOT_STEADY] for x in (base, head))
    flags = (*duet.flags_base, *ours), (*duet.flags_head, *theirs)
    void = any(flag.severity == "fail" for side in flags for flag in side)
    figures = [
        {name: value for name, value in together.items() if of_duet(name)}
        | {name: value for name, value in alone.items() if not of_duet(name)}
        for together, alone in ((duet.base, base.metrics), (duet.head, head.metrics))
    ]
    return duet.model_copy(
        update={
            "base": {} if void else figures[0],
            "head": {} if void else figures[1],
            "flags_base": flags[0],
            "flags_head": flags[1],
            "alone": () if void else tuple(sorted(n for n in figures[1] if not of_duet(n))),
            "seconds": duet.seconds + base.seconds + head.seconds,
        }
    )


def with_noise(duet: Duet) -> Duet:
    """The duet, which counts if no more than noise disturbed it that both sides meet.

    Ratios of such duets scatter a little wider than others (1.2 times as far, in eleven comparisons
    that had both kinds), and no other machine or time may be to be had.
    """
    noisy = bool(duet.disturbed) and duet.disturbed <= _SHARED
    return duet.model_copy(update={"kept": True}) if noisy else duet


def without_prevented(duet: Duet) -> Duet:
    """The duet without what two servers at once cannot show."""
    update: dict[str, dict[str, float]] = {
        side: {name: value for name, value in duet.metrics(side).items() if shown_by_duets(name)}
        for side in SIDES
    }
    return duet.model_copy(update=update)


def shown_by_duets(metric: str) -> bool:
    """Whether a metric is the same beside another server, or nearly: it never takes turns."""
    return metric in {metrics.CPU, *metrics.WITNESSES} or METRICS[metric].unit == "B"


def _share(figures: Mapping[str, float]) -> float:
    """Cores that a side used while it was loaded: afterwards the slower one has them alone."""
    sending = figures.get("throughput", 0.0) * figures.get(metrics.CPU, 0.0)
    return sending or figures.get("server_cores", 0.0)


def _in_time(figures: Mapping[str, float]) -> float:
    """Answers of a side before the deadline; inf if nobody counted them."""
    return figures.get("throughput", 0.0) * figures.get("window", 0.0) or math.inf


def _has(duet: Duet, metric: str) -> bool:
    return 0 < duet.base.get(metric, 0) < math.inf and 0 < duet.head.get(metric, 0) < math.inf


def said_once(reasons: Mapping[SideName, str]) -> str:
    """Join the reasons of sides: what is the same on both is said once, with one log."""
    if len(reasons) == len(SIDES) and len({*map(reason, reasons.values())}) == 1:
        return f"both sides: {next(iter(reasons.values()))}"
    return "; ".join(f"{side}: {words}" for side, words in reasons.items())


def judged(
    case: Case, *, start: bool = False, timed: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose the metrics that are judged of a case, leading ones and tails: those that can move.

    More judged pairs are a stricter correction for all of them, so each has to earn its place.

    - The throughput of a closed loop that waits for nothing is what the server can do.
    - Where handlers wait, throughput stands at its ceiling until concurrency is lost. Efficiency
      sees that, the median latency the rest. (A ceiling that contains the measured single request
      would move with the change, and hide it.)
    - A paced or open load gives the throughput itself: latency and CPU show the cost.
    - Starts alone have no load.
    - Between loads with other connections (`timed`) the latency is no mirror of the throughput.
    """
    if start:
        return metrics.judged({"start", "start alone"}), ()
    times = case.load.times
    situations: set[Situation] = {"always", times}
    if case.load.model is LoadModel.CLOSED and case.endpoint.floor == 0:
        situations = {"always", "unlimited"}
    elif case.load.model is LoadModel.CLOSED and "unit" not in (case.ceiling or "unit"):
        situations |= {"ceiling"}
    situations |= {case.load.times} if timed else set()
    tail: Situation = "response tail" if times == "response" else "service tail"
    return metrics.judged(situations), metrics.judged({tail, "start"})


_MAY_DIFFER: Final = frozenset({"endpoint.app", "endpoint.takes", "load.duration", "load.timeout"})
"""Fields that a case may define differently and stay the same question: where its application is,
and what planning knows of its duration (a duet has its own)."""

DERIVED: Final = frozenset({"id", "slots", "endpoint.overlap", "env_names"})
"""Fields that follow from others, in which sides differ on purpose."""

_CELL: Final = (
    *("experiment", "endpoint.name", "python", "stack", "server", "loop", "workers", "threads"),
    *("load.model", "load.connections", "load.rate", "cores", "env"),
)
"""Fields that tell which case one is, without its id."""

_LONGEST: Final = 40  # characters of a value in a sentence


def paired(
    base: Sequence[Case], head: Sequence[Case], crossing: Collection[str] = ()
) -> tuple[tuple[tuple[Case, Case], ...], tuple[Missing, ...]]:
    """Match the cases of the two sides, in head's order, and tell what has no partner.

    Between sides that differ in fields on purpose, such as two interpreters (`crossing`), a case
    belongs to the one that differs in nothing else.
    """
    partners = {_key(case, crossing): case for case in base}
    pairs: list[tuple[Case, Case]] = []
    missing: list[Missing] = []
    for case in head:
        other = partners.pop(_key(case, crossing), None)
        if other is None:
            missing.append(Missing(case=case.id, reason="only head has it"))
        elif different := _differences(other, case, crossing):
            reason = f"defined otherwise on head: {'; '.join(different)}"
            missing.append(Missing(case=case.id, reason=reason))
        else:
            pairs.append((other, case))
    missing += [Missing(case=case.id, reason="only base has it") for case in partners.values()]
    return tuple(pairs), tuple(missing)


def starting(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The first case of each server, of which starts are compared."""
    first: dict[Hashable, Pair] = {}
    for pair in (replace(one, start=True) for one in pairs):
        first.setdefault(pair.server, pair)
    return tuple(first.values())


def _differences(base: Case, head: Case, crossing: Collection[str]) -> list[str]:
    """In what two cases are defined otherwise: `load.connections 128 → 256`."""
    before, after = _flat(base), _flat(head)
    ignored = _MAY_DIFFER | (DERIVED.union(crossing) if crossing else frozenset())
    return [
        f"{name} {short(str(before[name]), _LONGEST)} → {short(str(after[name]), _LONGEST)}"
        for name in sorted(after.keys() - ignored)
        if before[name] != after[name]
    ]


def _key(case: Case, crossing: Collection[str]) -> Hashable:
    if not crossing:
        return case.id
    fields = _flat(case)
    return tuple(repr(fields[name]) for name in _CELL if name not in crossing)


def _flat(case: Case) -> dict[str, object]:
    """A case's fields; those of endpoint and load by their path, an expected body as one value."""
    fields = case.model_dump()
    for part in ("endpoint", "load"):
        fields |= {f"{part}.{name}": value for name, value in fields.pop(part).items()}
    return fields


def package_changes(
    base: Mapping[str, Stack], head: Mapping[str, Stack]
) -> tuple[PackageChange, ...]:
    """List what differs between locks of the stacks that both sides have, files included."""
    changes = []
    for name in sorted(base.keys() & head.keys()):
        if base[name].digest == head[name].digest:
            continue
        before, after = base[name].packages, head[name].packages
        files = base[name].files(), head[name].files()
        changes += [
            PackageChange(stack=name, package=one, base=before.get(one), head=after.get(one))
            for one in sorted(before.keys() | after.keys())
            if before.get(one) != after.get(one) or files[0].get(one) != files[1].get(one)
        ]
    return tuple(changes)
