"""Samples of what is compared: which are usable or excluded, and which metrics are judged."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from duetbench.core import metrics
from duetbench.core.flags import FlagName
from duetbench.core.metrics import METRICS, Metric, Situation
from duetbench.core.model import Case, LoadModel
from duetbench.judge import statistics
from duetbench.judge.inprocess import THRESHOLD, TOLERANCE
from duetbench.judge.statistics import Logs
from duetbench.store.comparison import Duet, SideName

FAILURES: Final = 2
"""Failed samples of one side that end a comparison: one may be an accident, two are an answer."""

COMPUTED: Final = ("server_cpu_per_request", "throughput")
"""Metrics of computing: they move with the instructions (throughput where nothing else limits it),
and are not known while a side still gets quicker."""

DRIFT_RATE: Final = 0.01
"""Error rate at which duets are said to drift alike."""

SIDES: Final[tuple[SideName, SideName]] = ("base", "head")


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """What one process gave: median s of CPU per call, or the reason for none.

    `absent`: there is nothing to measure on this side, which is no failure.
    """

    value: float | None = None
    version: str = ""
    reason: str = ""
    absent: bool = False

    @property
    def failed(self) -> bool:
        """Whether it should have given a value, and has not."""
        return self.value is None and not self.absent


@dataclass(frozen=True, slots=True)
class ProcessPair:
    """One process of each side: the sample."""

    base: ProcessReading
    head: ProcessReading
    seconds: float

    @property
    def usable(self) -> bool:
        return self.base.value is not None and self.head.value is not None


_Sample = TypeVar("_Sample", Duet, ProcessPair)


class CallTime(NamedTuple):
    """What matters of the time of a call, relative, as a row of the metric registry has it."""

    floor: float = THRESHOLD
    tolerance: float = TOLERANCE
    better: Literal["lower"] = "lower"


class Samples(ABC, Generic[_Sample]):
    """The samples of one thing as they come in.

    Attributes:
        leading: Metrics that it is sampled for, until they are decided.
        tails: Judged from the same samples where all have the figure, and never a reason for more:
            tails scatter so much that all time would go to them.
        usable: Those that decisions may use.
    """

    noun: ClassVar[str]  # what several samples are called
    nothing: ClassVar[str]  # said where there is none
    scales: ClassVar[Mapping[str, Metric] | Mapping[str, CallTime]]  # by metric

    def __init__(self, leading: tuple[str, ...], tails: tuple[str, ...] = ()) -> None:
        self.leading, self.tails = leading, tails
        self.all: list[_Sample] = []
        self.usable: list[_Sample] = []

    def add(self, sample: _Sample) -> None:
        """Take another sample."""
        self.all.append(sample)
        if sample.usable:
            self.usable.append(sample)

    def settle(self) -> None:
        """Say which samples are usable, now that there will be no other."""

    @property
    def excluded(self) -> int:
        return len(self.all) - len(self.usable)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Judged metrics that every usable sample has."""
        return self._present((*self.leading, *self.tails))

    @property
    def lost(self) -> tuple[str, ...]:
        """Leading metrics that some usable sample lacks: never judged from the others."""
        found = self._present(self.leading)
        return tuple(name for name in self.leading if name not in found)

    def logs(self, metric: str) -> Logs:
        """Log ratios of the usable samples.

        Raises:
            ValueError: One lacks the metric, or has a figure that has no ratio.
        """
        base, head = (
            [self.figures(one, side).get(metric, math.nan) for one in self.usable] for side in SIDES
        )
        return statistics.log_ratios(base, head)

    def _present(self, names: Iterable[str]) -> tuple[str, ...]:
        def has(sample: _Sample, name: str) -> bool:
            return all(0 < self.figures(sample, side).get(name, 0) < math.inf for side in SIDES)

        return tuple(name for name in names if all(has(one, name) for one in self.usable))

    @abstractmethod
    def figures(self, sample: _Sample, side: SideName) -> Mapping[str, float]:
        """A side's figures by metric."""

    def missing(self) -> str:
        """Why a side does not have it at all; empty if both do."""
        return ""

    def drifted(self, _metric: str) -> str:
        """Why its samples do not tell a metric's lasting figure; empty if they do."""
        return ""

    def void(self) -> str:
        """Why it cannot be compared at all, as by a side's first failure; empty if it can."""
        reasons = []
        for side in reversed(SIDES):
            failures = [self.failure(one, side) for one in self.all]
            found = [failure for failure in failures if failure is not None]
            if len(found) >= FAILURES:
                reasons.append(f"{side}: {found[0]}")
        return self.missing() or "; ".join(reasons)

    @abstractmethod
    def failure(self, sample: _Sample, side: SideName) -> str | None:
        """How a side failed, in words; None if it did not."""

    @abstractmethod
    def disturbances(self) -> str:
        """Why samples were excluded, in words."""


class CaseDuets(Samples[Duet]):
    """The duets of one case."""

    noun = "duets"
    nothing = "no time for a duet"
    scales = METRICS

    def __init__(self, case: Case) -> None:
        super().__init__(*judged(case))
        self.case = case

    @classmethod
    def of(cls, cases: Iterable[Case]) -> dict[str, CaseDuets]:
        """Those of several cases, by id; none has a duet yet."""
        return {case.id: cls(case) for case in cases}

    def add(self, sample: Duet) -> None:
        """Take another duet; `ValueError`: it is another case's."""
        if sample.case != self.case.id:
            raise ValueError(f"expected a duet of {self.case.id}, found one of {sample.case}")
        super().add(sample)

    def settle(self) -> None:
        """Use duets that the host alone has disturbed, where these are most of them.

        Such noise is no exception, but how the machine is. Both sides had it, it says nothing about
        the ratio, and ratios of such duets scatter no wider than others of the same comparison.
        """
        noisy = [one.disturbed == {FlagName.HOST_NOISE} for one in self.all]
        if 2 * sum(noisy) > len(noisy):
            self.all = [
                one.model_copy(update={"kept": True}) if kept else one
                for one, kept in zip(self.all, noisy, strict=True)
            ]
            self.usable = [one for one in self.all if one.usable]

    @property
    def computed(self) -> tuple[str, ...]:
        """Leading metrics that move with the instructions."""
        return tuple(metric for metric in COMPUTED if metric in self.leading)

    def drifted(self, metric: str) -> str:
        drifts = [duet.drift for duet in self.usable if duet.drift is not None]
        if metric not in COMPUTED or len(drifts) < 2:
            return ""
        found, effect = statistics.sample(np.asarray(drifts)), abs(self.logs(metric).mean())
        least = max(math.log1p(METRICS[metric].tolerance), effect)
        if abs(found.mean) <= least or statistics.moved_p(found, 0) > DRIFT_RATE:
            return ""
        return (
            f"not steady: head's throughput over base's moved by {math.expm1(found.mean):+.1%} "
            f"from the first half of the load to the second, on average over {found.n} duets"
        )

    def figures(self, sample: Duet, side: SideName) -> Mapping[str, float]:
        return sample.base if side == "base" else sample.head

    def failure(self, sample: Duet, side: SideName) -> str | None:
        if any(f.name == FlagName.INTERRUPTED for f in (*sample.flags_base, *sample.flags_head)):
            return None  # somebody stopped the comparison: the case has done nothing wrong
        flags = sample.flags_base if side == "base" else sample.flags_head
        return next((f"{f.name}: {f.detail}" for f in flags if f.severity == "fail"), None)

    def disturbances(self) -> str:
        return ", ".join(sorted({str(name) for duet in self.all for name in duet.disturbed}))


class ProcessPairs(Samples[ProcessPair]):
    """The processes of one benchmark; its only metric, the time of a call, has no name."""

    noun = "processes"
    nothing = "no time for a process of each side"
    scales: ClassVar = {"": CallTime()}

    def __init__(self) -> None:
        super().__init__(leading=("",))

    def missing(self) -> str:
        for one in self.all:
            for side, reading in (("base", one.base), ("head", one.head)):
                if reading.absent:
                    return f"nothing to measure on {side}: {reading.reason}"
            versions = one.base.version, one.head.version
            if one.usable and versions[0] != versions[1]:
                return f"another benchmark on head: version {versions[0]} → {versions[1]}"
        return ""

    def failure(self, sample: ProcessPair, side: SideName) -> str | None:
        reading: ProcessReading = getattr(sample, side)
        return reading.reason if reading.failed else None

    def figures(self, sample: ProcessPair, side: SideName) -> Mapping[str, float]:
        value = getattr(sample, side).value
        return {} if value is None else {"": value}

    def disturbances(self) -> str:
        readings = (reading for one in self.all for reading in (one.base, one.head))
        return "; ".join(dict.fromkeys(reading.reason for reading in readings if reading.failed))


def judged(case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which metrics of a case are judged, leading ones and tails: those that a change could move.

    More judged pairs are a stricter correction for all of them, so each has to earn its place.

    - The throughput of a closed loop that waits for nothing is what the server can do.
    - Where handlers wait, throughput stands at its ceiling whatever the change costs, until
      concurrency is lost. Efficiency sees that, and the median latency sees the rest. (A ceiling
      that contains the measured single request would move with the change, and hide it.)
    - A paced or open load gives the throughput itself: latency and CPU show the cost.
    - p99 exists from 1,000 requests on, in each duet.
    """
    times = case.load.times
    situations: set[Situation] = {"always", times}
    if case.load.model is LoadModel.CLOSED and case.endpoint.floor == 0:
        situations = {"always", "unlimited"}
    elif case.load.model is LoadModel.CLOSED and "unit" not in (case.ceiling or "unit"):
        situations |= {"ceiling"}
    tail: Situation = "response tail" if times == "response" else "service tail"
    return metrics.judged(situations), metrics.judged({tail})
