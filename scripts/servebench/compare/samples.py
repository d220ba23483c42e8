"""From the duets of a case to its samples: what is usable, what was excluded, what failed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from servebench.compare.judged import judged
from servebench.compare.model import Duet, SideName
from servebench.compare.statistics import Logs, log_ratios
from servebench.flags import DISTURBING, Flag, FlagName
from servebench.metrics import METRICS
from servebench.model import Case

FAILURES: Final = 2
"""Failed duets of one side that end a case: one may be an accident, two are an answer."""


@dataclass(slots=True)
class CaseDuets:
    """The duets of one case and stage as they come in."""

    case: Case
    duets: list[Duet] = field(default_factory=list)
    usable: list[Duet] = field(default_factory=list)

    def add(self, duet: Duet) -> None:
        """Take another duet.

        Raises:
            ValueError: It is another case's.
        """
        if duet.case != self.case.id:
            raise ValueError(f"expected a duet of {self.case.id}, found one of {duet.case}")
        self.duets.append(duet)
        if is_usable(duet):
            self.usable.append(duet)

    @property
    def excluded(self) -> int:
        """Duets that nothing is decided from: disturbed or failed."""
        return len(self.duets) - len(self.usable)

    @property
    def leading(self) -> tuple[str, ...]:
        """Leading metrics that every usable duet has."""
        return self._present(judged(self.case).leading)

    @property
    def metrics(self) -> tuple[str, ...]:
        """All judged metrics that every usable duet has."""
        both = judged(self.case)
        return self._present((*both.leading, *both.tails))

    @property
    def lost(self) -> tuple[str, ...]:
        """Leading metrics that some usable duet lacks: never judged from the others."""
        found = self.leading
        return tuple(name for name in judged(self.case).leading if name not in found)

    def logs(self, metric: str) -> Logs:
        """Log ratios of the usable duets."""
        return logs(self.usable, metric)

    def seconds(self) -> float | None:
        """Mean wall time of a duet, s; None before the first."""
        return float(np.mean([duet.seconds for duet in self.duets])) if self.duets else None

    def _present(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(n for n in names if all(_has(duet, n) for duet in self.usable))


def is_usable(duet: Duet) -> bool:
    """Whether decisions may use it: both sides valid, and nothing besides the case was measured."""
    return duet.usable


def logs(duets: Iterable[Duet], metric: str) -> Logs:
    """Log ratios of one metric, in the order of the duets.

    Raises:
        ValueError: A duet lacks the metric, or has a figure that has no ratio.
    """
    pairs = [(duet.base.get(metric, math.nan), duet.head.get(metric, math.nan)) for duet in duets]
    return log_ratios([base for base, _ in pairs], [head for _, head in pairs])


def broken(duets: Iterable[Duet]) -> str:
    """Why a case cannot be compared: the first failure of the side that failed again and again.

    Returns:
        Empty where no side failed twice: "head: not_concurrent: …" otherwise.
    """
    failures: dict[SideName, list[Flag]] = {"base": [], "head": []}
    for duet in duets:
        if FlagName.INTERRUPTED in {flag.name for flag in (*duet.flags_base, *duet.flags_head)}:
            continue  # somebody stopped the comparison; the case has done nothing wrong
        for side in duet.failed:
            flags = duet.flags_base if side == "base" else duet.flags_head
            failures[side].append(next(flag for flag in flags if flag.severity == "fail"))
    reasons = [
        f"{side}: {flags[0].name}: {flags[0].detail}"
        for side, flags in reversed(failures.items())
        if len(flags) >= FAILURES
    ]
    return "; ".join(reasons)


def disturbances(duets: Iterable[Duet]) -> tuple[str, ...]:
    """Names of the flags for which duets were excluded, sorted."""
    return tuple(
        sorted(
            {
                str(flag.name)
                for duet in duets
                for flag in (*duet.flags_base, *duet.flags_head)
                if flag.name in DISTURBING or flag.severity == "fail"
            }
        )
    )


def _has(duet: Duet, metric: str) -> bool:
    """Whether the metric has a ratio in this duet; all judged metrics are positive."""
    if metric not in METRICS:
        return False
    return all(
        metric in side and math.isfinite(side[metric]) and side[metric] > 0
        for side in (duet.base, duet.head)
    )
