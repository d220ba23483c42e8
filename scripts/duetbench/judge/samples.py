"""The samples of one case: duets as they come in, which are usable, and what they show."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from statistics import fmean
from typing import Final

import numpy as np

from duetbench.core import metrics
from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS, Situation
from duetbench.core.model import Case, Launch, LoadModel
from duetbench.core.text import ENDLESS
from duetbench.host.command import reason
from duetbench.judge import growth, statistics
from duetbench.judge.statistics import Logs
from duetbench.judge.wake_ups import Slope, at_equal_wake_ups, differences, kind
from duetbench.store.comparison import SIDES, Curve, Duet, Growth, Price, SideName

FAILURES: Final = 2
"""Failed duets of one side after which its case is void: one failure may be an accident.

An answer without end is none: more of them would only take more time."""

SHARE: Final = 0.8
"""Least share of the usable duets that must have a metric on both sides for it to be judged.

With fewer, whether a duet has the metric may depend on how the duet went."""

COMPUTED: Final = ("server_cpu_per_request", "throughput")
"""Metrics that move with the instructions executed (throughput where nothing else limits it). They
are not known while a side still gets faster."""

AGREED: Final = 4
"""Fewest duets whose common sign is a verdict though their size drifts: by chance, one in eight."""

DRIFT_RATE: Final = 0.01
"""Error rate of the test whether a case's duets drift in the same direction."""

POOLED: Final = 3
"""Fewest duets whose answers together have a p99: the scatter comes from leaving out each."""

_POOLED: Final = tuple(name for name in metrics.TAILS if name.endswith("_p99"))
"""Tails that duets with too few answers have together."""

_IDLE: Final = frozenset({FlagName.NOBODY_BUSY, FlagName.SMALL_POOL})

_SHARED: Final = DISTURBING - {FlagName.NOT_STEADY, FlagName.ENV_CHANGED}
"""Warnings about noise that may persist and affect both sides. A side that still gets faster is not
among them: its ratio does not last."""


class Mode(Enum):
    """How the samples of a case are measured: by duets, by launches of each side alone, or both."""

    FIRST = "duets, of which the first shows whether the sides keep each other from cores"
    DUET = "duets, which show all"
    BOTH = "a duet, and directly after it a launch of each side alone"
    PART = "duets, which show a part: there is no time for launches alone"
    TURN = "a launch of each side alone, since a duet would show nothing"
    START = "one start of each side alone, without load"

    @property
    def noun(self) -> str:
        """What a sample is called."""
        return "turn" if self in {Mode.TURN, Mode.START} else "duet"


class CaseDuets:
    """The duets of one case as they come in: which are usable, and which metrics are judged.

    Attributes:
        leading: Metrics for which duets go on until they are decided.
        tails: Metrics judged from the same duets, but never a reason for more: latency tails
            scatter so much that they would take all the time, and imports are not the question.
        doubts: Standard errors of means, on the log scale, that more duets do not reduce.
        price: The CPU time of a wake-up, if it is asked for and known.
        usable: Duets that decisions may use.
        overloaded: Whether most usable duets have two servers that do not keep up with the rate.
        metrics: Judged metrics that enough usable duets have, without memory that grows, and
            without the times of servers that do not keep up: they are those of a queue.
        void: Why the case cannot be compared, by each side's first failure; empty if it can.
        mode: How its samples are measured; the first duet may decide it.
        waits: Whether most usable duets leave cores idle, so that times show what handlers wait.
    """

    def __init__(self, case: Case, mode: Mode = Mode.FIRST, *, timed: bool = False) -> None:
        self.case, self.mode = case, mode
        self._timed, self._explains, self.waits = timed, False, False
        self.doubts: dict[str, float] = {}
        self.price: Price | None = None
        self.all: list[Duet] = []
        self._soaks: dict[SideName, Growth] = {}
        self.conclude()

    def add(self, duet: Duet) -> None:
        """Take another duet."""
        self.all.append(with_noise(duet))
        self.conclude()

    def soak(self, side: SideName, curve: Curve) -> None:
        """Take the curve of a side that was loaded alone."""
        # Without the GIL, each thread has heaps of its own: they filled for 12,000 requests.
        free_threaded = self.case.python.removesuffix("-jit").endswith("t")
        self._soaks[side] = growth.of_curve(curve, fills_slowly=free_threaded)
        self.conclude()

    @property
    def growth(self) -> dict[SideName, Growth]:
        """Memory that each side keeps per request: by its soak, or by all duets without one."""
        growths = {side: figure for side in SIDES if (figure := growth.of_duets(self.all, side))}
        return growths | self._soaks

    def conclude(self) -> None:
        """Compute once what the duets show together, since every look at any case reads it."""
        self.usable = [duet for duet in self.all if duet.usable]
        self.overloaded = self._most(_overloaded)
        self.waits = self._most(lambda duet: duet.wait is not None)
        if not self._explains:
            self.leading, self.tails = choose_metrics(
                self.case,
                start=self.mode is Mode.START,
                timed=self._timed or self._most(_idle),
                waits=self.waits,
            )
        names, enough = (*self.leading, *self.tails), SHARE * len(self.usable)
        self._pooled = len(pooled_tail(self.usable))
        self.metrics = tuple(n for n in names if self.count(n) >= enough and not self._unsettled(n))
        failures = {
            side: [f for duet in self.all for f in duet.failures(side)[:1]] for side in SIDES
        }
        texts = {
            side: failed[0]
            for side in SIDES[::-1]
            if (failed := failures[side]) and (len(failed) >= FAILURES or ENDLESS in failed[0])
        }
        self.void = join_reasons(texts)

    def _most(self, shows: Callable[[Duet], bool]) -> bool:
        return sum(map(shows, self.usable)) > len(self.usable) / 2

    def explaining(self, slope: Slope) -> CaseDuets:
        """Return the same duets with only the explaining metrics: wake-ups, work and counts."""
        extra = copy.copy(self)
        extra._explains = True
        gaps, price = differences(self.usable), slope.price
        extra.leading, extra.tails = (), metrics.WITNESSES if len(gaps.cpu) else metrics.COUNTED
        # There is no price if a request would cost less than its wake-ups.
        if price and gaps.alike and price.seconds * gaps.often.mean() < 1:
            extra.price = price
            extra.all = [at_equal_wake_ups(duet, price.seconds) for duet in self.all]
            extra.doubts = {metrics.WORK: slope.error * abs(float(gaps.more.mean()))}
        extra.conclude()
        return extra

    @property
    def excluded(self) -> int:
        return len(self.all) - len(self.usable)

    @property
    def lost(self) -> tuple[str, ...]:
        """Metrics, including tails, that too few usable duets have."""
        # Older duets lack some figures, and most servers use no CPU without requests.
        names = (*self.leading, *(n for n in self.tails if n in _POOLED or self.count(n)))
        names = tuple(name for name in names if not METRICS[name].least)
        return tuple(n for n in names if n not in self.metrics and not self._unsettled(n))

    def count(self, metric: str) -> int:
        """Count the usable duets that have a metric on both sides, or all that share a tail."""
        having = sum(_has(duet, metric) for duet in self.usable)
        return max(having, self._pooled if metric in _POOLED else 0)

    @property
    def leak(self) -> str:
        """How head, unlike base, keeps memory for every request; empty if it does not."""
        if self._soaks:
            return growth.leak(self.growth)
        base, head = ([g for duet in self.usable if (g := duet.growth(side))] for side in SIDES)
        leaks = len(head) >= FAILURES > len(base)
        return f"head: {head[0].name}: {head[0].detail}" if leaks else ""

    def _unsettled(self, metric: str) -> bool:
        """Whether a figure depends on how long the load lasts."""
        if METRICS[metric].concern in {"latency", "tail"}:
            return self.overloaded
        flags = (duet.growth(side) for duet in self.usable for side in SIDES)
        leaks = any(soak.course == "constant" for soak in self._soaks.values())
        return METRICS[metric].unit == "B" and (leaks or any(flags))

    @property
    def computed(self) -> tuple[str, ...]:
        """Leading metrics that move with the instructions."""
        return tuple(metric for metric in COMPUTED if metric in self.leading)

    def logs(self, metric: str, first: int | None = None) -> Logs:
        """Return the log ratios of a metric from the (`first`) usable duets that have it."""
        usable = self.usable[:first]
        having = [duet for duet in usable if _has(duet, metric)]
        if metric in _POOLED and self._pooled and len(having) < SHARE * len(usable):
            return pooled_tail(usable)
        figures = np.array([(duet.base[metric], duet.head[metric]) for duet in having])
        least = metrics.row(metric).least
        base, head = np.log(np.maximum(figures.reshape(-1, 2), least).T)
        return np.asarray(head - base)

    def means(self, side: SideName) -> dict[str, float]:
        """Average the figures of a side that the other side's server beside it does not change."""
        starts = metrics.judged_in({"start"})
        names = [n for n in self.metrics if shown_by_duets(n) or self.alone(n) or n in starts]
        if self.waits:  # the other server leaves the cores idle
            names += [n for n in self.metrics if METRICS[n].concern == "latency"]
        names += metrics.WITNESSES
        lists = {n: [v for duet in self.usable if (v := duet.metrics(side).get(n))] for n in names}
        return {name: fmean(values) for name, values in lists.items() if values}

    def alone(self, metric: str) -> bool:
        """Whether a metric comes from launches of each side alone, by turns."""
        return self.mode.noun == "turn" or any(metric in duet.alone for duet in self.usable)

    def drift(self, metric: str) -> float:
        """Return how far a metric's log ratio moves from the first half of the load to the second.

        It is 0 unless that is sure, and more than the effect: else the figure counts as steady.
        """
        drifts = [duet.drift for duet in self.usable if duet.drift is not None]
        if metric not in COMPUTED or self.alone(metric) or len(drifts) < 2:
            return 0.0
        drift, effect = statistics.sample(np.asarray(drifts)), abs(self.logs(metric).mean())
        least = max(math.log1p(METRICS[metric].tolerance), effect)
        if abs(drift.mean) <= least or statistics.moved_p(drift, 0) > DRIFT_RATE:
            return 0.0
        # What serves more requests needs less of a core for each.
        return drift.mean if METRICS[metric].better == "higher" else -drift.mean

    def drifted(self, metric: str) -> str:
        """Explain why the duets do not show a metric's steady figure; empty if they do."""
        if not (drift := self.drift(metric)):
            return ""
        return (
            f"not steady: its ratio moved by {math.expm1(drift):+.1%} from the first half of the "
            f"load to the second, on average over {len(self.usable)} duets"
        )

    def agreed(self, metric: str) -> bool:
        """Whether all duets of a metric that drifts share its sign, which the second half keeps."""
        logs = self.logs(metric)
        floor, sign = math.log1p(METRICS[metric].floor), math.copysign(1, logs.mean())
        later = float(logs.mean()) + self.drift(metric) / 2
        return len(logs) >= AGREED and min(*(sign * logs), sign * later) > floor

    def disturbances(self) -> str:
        """Name the flags that excluded duets."""
        return ", ".join(sorted({str(name) for duet in self.all for name in duet.disturbed}))


def explaining(
    samples: Mapping[str, CaseDuets], earlier: Mapping[Hashable, Slope], *, cross: bool = False
) -> dict[str, CaseDuets]:
    """Return each case's explaining metrics; all cases and `earlier` ones price a wake-up.

    If the sides `cross`, there is no price and so no work: with another server, event loop or
    interpreter a wake-up costs something else.
    """
    slopes = defaultdict(Slope, earlier)
    usable = {key: duets for key, duets in samples.items() if duets.usable and not duets.void}
    for duets in usable.values():
        slopes[kind(duets.case)] = slopes[kind(duets.case)].plus(Slope.of(duets.usable))
    return {
        key: duets.explaining(Slope() if cross else slopes[kind(duets.case)])
        for key, duets in usable.items()
    }


def by_turns(duet: Duet, base: Launch, head: Launch) -> Duet:
    """Fill a duet with what two servers at once cannot show, from a launch of each side alone.

    Memory and CPU per request stay the duet's; if no duet was run, all figures are the launches'.
    As in a duet, an unsteady launch is accepted, because the other side's launch just before or
    after it drifts alike.
    """

    def of_duet(name: str) -> bool:
        return bool(duet.base) and shown_by_duets(name)

    before, after = ([f for f in x.flags if f.name != FlagName.NOT_STEADY] for x in (base, head))
    flags = (*duet.flags_base, *before), (*duet.flags_head, *after)
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
    """Mark a duet as usable if only noise disturbed it that affects both sides.

    Ratios of such duets scatter 1.2 times as far as others (in eleven comparisons with both kinds),
    and no quieter machine or time may be available.
    """
    noisy = bool(duet.disturbed) and duet.disturbed <= _SHARED
    return duet.model_copy(update={"kept": True}) if noisy else duet


def without_prevented(duet: Duet) -> Duet:
    """Return the duet without the metrics that two servers at once cannot show."""
    update: dict[str, dict[str, float]] = {
        side: {name: value for name, value in duet.metrics(side).items() if shown_by_duets(name)}
        for side in SIDES
    }
    return duet.model_copy(update=update)


def shown_by_duets(metric: str) -> bool:
    """Whether a metric is (nearly) the same beside another server, and needs no launch alone."""
    names = {metrics.CPU, metrics.CPU_IDLE, *metrics.WITNESSES}
    return metric in names or METRICS[metric].unit == "B"


def _has(duet: Duet, metric: str) -> bool:
    values = [duet.metrics(side).get(metric, math.nan) for side in SIDES]
    if least := metrics.row(metric).least:
        return max(values) > least and all(map(math.isfinite, values))
    return all(0 < value < math.inf for value in values)


def _overloaded(duet: Duet) -> bool:
    return all(any(f.name == FlagName.OVERLOADED for f in duet.flags(side)) for side in SIDES)


def _idle(duet: Duet) -> bool:
    """Whether requests of a side wait while nobody computes."""
    return any(flag.name in _IDLE for side in SIDES for flag in duet.flags(side))


def pooled_tail(duets: Sequence[Duet]) -> Logs:
    """Compute samples of the log ratio of the p99 of all duets' answers together; of few, none.

    Duets with too few answers for a p99 keep their longest times. The samples are the jackknife's
    pseudo-values, n * all - (n - 1) * all without one duet (Tukey 1958), one per duet. There are
    none with fewer than `POOLED` duets, or if all together have too few answers.
    """
    least = {name: fewest for name, _, fewest in metrics.PERCENTILES}["p99"]
    tails = [duet for duet in duets if all(duet.tails.get(side) for side in SIDES)]
    counts = [[duet.metrics(side).get("good", 0.0) for duet in tails] for side in SIDES]
    if len(tails) < POOLED or len(tails) < SHARE * len(duets) or min(map(sum, counts)) < least:
        return np.empty(0)

    def ratio(without: int | None) -> float:
        some = [duet for place, duet in enumerate(tails) if place != without]
        base, head = (_p99(some, side) for side in SIDES)
        return math.log(head / base)

    count, whole = len(tails), ratio(None)
    return np.array([count * whole - (count - 1) * ratio(place) for place in range(count)])


def _p99(duets: Sequence[Duet], side: SideName) -> float:
    """Compute the p99 of several duets' answers from the longest times of each."""
    answers = int(sum(duet.metrics(side)["good"] for duet in duets))
    longest = sorted((time for duet in duets for time in duet.tails[side]), reverse=True)
    return longest[min(answers - math.ceil(0.99 * answers), len(longest) - 1)]


def join_reasons(reasons: Mapping[SideName, str]) -> str:
    """Join the sides' reasons; a reason that both share appears once, with one log."""
    if len(reasons) == len(SIDES) and len({*map(reason, reasons.values())}) == 1:
        return f"both sides: {next(iter(reasons.values()))}"
    return "; ".join(f"{side}: {words}" for side, words in reasons.items())


def choose_metrics(
    case: Case, *, start: bool = False, timed: bool = False, waits: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose a case's judged metrics that can move: the leading ones, and the tails.

    Each judged metric makes the correction of all others stricter, so each must earn its place.

    - In a closed loop whose handlers do not wait, throughput is what the server can do.
    - Where handlers wait, throughput stays at its ceiling until concurrency is lost. Efficiency
      shows that, the median latency the rest. (A ceiling that contains the measured single request
      would move with the change and hide it.)
    - A paced or open load fixes the throughput: latency and CPU show the cost.
    - If a load leaves cores idle because its handlers wait (`waits`), the median latency shows it,
      and throughput follows from that.
    - Starts alone have no load.
    - If the sides' connections differ, or nobody computes (`timed`), latency is judged as well.
    - CPU without requests is judged if a side needs any, so that it costs other metrics nothing.
    """
    if start:
        return metrics.judged_in({"start", "start alone"}), ()
    times = case.load.times
    situations: set[Situation] = {"always", times}
    if case.load.model is LoadModel.CLOSED and case.endpoint.floor == 0:
        situations = {"always", times if waits else "unlimited"}
    elif case.load.model is LoadModel.CLOSED and "unit" not in (case.ceiling or "unit"):
        situations |= {"ceiling"}
    situations |= {case.load.times} if timed else set()
    tail: Situation = "response tail" if times == "response" else "service tail"
    return metrics.judged_in(situations), metrics.judged_in({tail, "start", "idle"})
