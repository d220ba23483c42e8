"""What a look at one case and metric shows, as far as it is entitled to see."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from servebench.compare import statistics
from servebench.compare.method import CONFIDENCE_RATE
from servebench.compare.samples import CaseDuets
from servebench.compare.statistics import Direction, Logs, Looks, Sample
from servebench.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the latest look at one case and metric shows.

    Attributes:
        sample: The log ratios that it saw; None before the first look.
        share: Share of the error rate that it spends.
        moved: P value of the minimal-effect test, paid for its share; not yet for other pairs.
        same: P value of the equivalence test, paid for its share.
    """

    sample: Sample | None = None
    share: float = 1.0
    moved: float = 1.0
    same: float = 1.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval on the log scale: 95 % coverage whenever one stops; None without look."""
        if self.sample is None:
            return None
        return statistics.interval(self.sample, CONFIDENCE_RATE * self.share)

    def figures(
        self,
        floor: float,
        power: float,
        rate: float,
        settled: Looks | None = None,
        then: tuple[int, float] | None = None,
    ) -> dict[str, Any]:
        """Ratio, interval and detectable change as a judgement has them; empty without look.

        Args:
            floor: Relevance floor, relative.
            power: For which the detectable change is given.
            rate: Error rate, on both sides together, that this test had alone among all of its
                stage (`alone`); the look's share of it counts.
            settled: Looks of the stage where this one said "no change": had it moved, the looks
                would have gone on to the last of them, which is what the detectable change is of.
            then: What a verdict takes besides (`statistics.detectable`); None: nothing.
        """
        ends = self.interval
        if self.sample is None or ends is None:
            return {}
        seen, share = self.sample, self.share
        if settled is not None:
            seen, share = replace(seen, n=max(seen.n, settled.last)), settled.shares[-1]
        return {
            "ratio": math.exp(self.sample.mean),
            "low": math.exp(ends[0]),
            "high": math.exp(ends[1]),
            "detectable": statistics.detectable(
                seen, floor, alpha=rate * share, power=power, then=then
            ),
        }


def alone(rate: float, tests: int) -> float:
    """Error rate left to one test of many where nothing else moved: the least that it can have.

    Benjamini-Hochberg gives the smallest of `tests` p values rate / tests (see `statistics`).
    """
    return rate / max(1, tests)


def look(logs: Logs, share: float, metric: str, *, direction: Direction = 0) -> Evidence:
    """Look at the log ratios of one case and metric.

    Args:
        logs: Log ratios of the duets that the look sees; at least two.
        share: Share of the error rate that the look may spend.
        metric: Key of the metric registry: its floor and tolerance are meant.
        direction: Where a change is looked for; 0: either.
    """
    kind = METRICS[metric]
    return weigh(logs, share, kind.floor, kind.tolerance, direction=direction)


def weigh(
    logs: Logs, share: float, floor: float, tolerance: float, *, direction: Direction = 0
) -> Evidence:
    """Look at log ratios of whatever has this relevance floor and tolerance; else as `look`."""
    found = statistics.sample(logs)
    return Evidence(
        sample=found,
        share=share,
        moved=min(1.0, statistics.moved_p(found, floor, direction) / share),
        same=min(1.0, statistics.same_p(found, tolerance) / share),
    )


@dataclass(slots=True)
class Looking:
    """The looks of one stage, each taken once: what a look sees never changes afterwards."""

    looks: Looks
    taken: dict[tuple[str, str, int, float], Evidence] = field(default_factory=dict)

    def latest(
        self, duets: CaseDuets, metric: str, *, direction: Direction = 0, final: bool
    ) -> Evidence:
        """The latest look at one case and metric; `final`: no further duets will come."""
        due = self.looks.latest(len(duets.usable), final=final)
        if due is None:
            return Evidence()
        count, share = due
        key = duets.case.id, metric, count, share
        if key not in self.taken:
            logs = duets.logs(metric)[:count]
            self.taken[key] = look(logs, share, metric, direction=direction)
        return self.taken[key]
