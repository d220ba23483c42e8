"""How far duets scatter, as known before the first of a comparison: priors of their variance.

How far duets of one case scatter on one machine is nearly the same in each comparison, while the
variance of three duets says little. So a test averages it with that of earlier comparisons, which
counts as `freedom` duets more: Smyth's moderated t (Statistical Applications in Genetics and
Molecular Biology 3(1), 2004, article 3). How much earlier variances are worth follows from how far
they differ from each other. Priors are of the case on this machine; else of cases with its server
and interpreter; else of the cases of the same comparison, where these are many; else of the
reference history of duetbench, which is worth little. A case that scatters more than its prior
allows is judged by its own duets alone.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
from scipy import special

from duetbench.core.metrics import CPU
from duetbench.core.model import Case
from duetbench.judge.pairs import CaseDuets, explaining
from duetbench.judge.statistics import RESOLUTION, Logs, Prior
from duetbench.judge.wake_ups import Slope, learned
from duetbench.store import files
from duetbench.store.comparison import Comparison
from duetbench.store.kinds import comparisons_by_id

FEWEST: Final = 3
"""Comparisons of a case, or of its kind, that make a prior."""

TOGETHER: Final = 8
"""Cases of a comparison that make a prior for each other."""

MOST: Final = 12.0
"""Most duets that a prior counts as: with more, a noisier day would pass for a quiet one."""

SINCE: Final = 3
"""The first method whose duets scatter as those of today: installations take turns."""

_NEWEST: Final = 40
"""Comparisons that are read, the newest."""


class Variance(NamedTuple):
    """Sample variance of log ratios, with its degrees of freedom."""

    value: float
    freedom: int


def variance(logs: Logs) -> Variance:
    """Variance of two or more log ratios, not below what figures resolve."""
    return Variance(max(float(logs.var(ddof=1)), RESOLUTION**2), len(logs) - 1)


def fit(variances: Sequence[Variance]) -> Prior | None:
    """The prior from which true variances seem to be drawn, by Smyth's moments; None: too few.

    Sample variances differ by their own chance, and by that of their true ones; the less these do,
    the more the prior is worth. It is worth no more than all duets that it is from.
    """
    if len(variances) < FEWEST:
        return None
    values, freedom = np.array(variances).T
    half = freedom / 2
    logs = np.log(values) - special.digamma(half) + np.log(half)
    excess = float(logs.var(ddof=1) - special.polygamma(1, half).mean())
    middle, own = float(logs.mean()), math.inf
    if excess > 0:
        own = 2 * _inverse_trigamma(excess)
        middle += float(special.digamma(own / 2)) - math.log(own / 2)
    worth = 1 / (1 / own + 1 / float(freedom.sum()))
    return Prior(math.exp(middle / 2), min(worth, MOST))


def _inverse_trigamma(value: float) -> float:
    from scipy import optimize  # noqa: PLC0415 - as in `statistics.likeliest`

    # Between 1/x and 1/x + 1/x².
    ends = 1 / value, 1 / value + 1 / math.sqrt(value)
    return float(optimize.brentq(lambda x: float(special.polygamma(1, x)) - value, *ends))


@dataclass(frozen=True, slots=True)
class Priors:
    """Priors of a machine, by what a case and metric is; `comparisons` made them.

    `slopes` say what a wake-up costs, by the kind of case (`wake_ups`).
    """

    by_kind: Mapping[Hashable, Prior] = field(default_factory=dict)
    comparisons: int = 0
    slopes: Mapping[Hashable, Slope] = field(default_factory=dict)

    @classmethod
    def of_machine(cls, machine: str, results: Path) -> Self:
        """Learn from the newest comparisons that this machine has made, here and in `results`."""
        newest = [path for _, path in sorted(comparisons_by_id(results).items())[-_NEWEST:]]
        # What cannot be read says nothing here; `history` and `site` tell of it.
        comparisons = files.attempted(newest, partial(files.read, Comparison), problems=[])
        return cls.learned(machine, comparisons)

    @classmethod
    def learned(cls, machine: str, comparisons: Iterable[Comparison]) -> Self:
        """Learn from comparisons of one thing's states on this machine; others say nothing here."""
        variances: defaultdict[Hashable, list[Variance]] = defaultdict(list)
        ours = [
            one
            for one in comparisons
            if one.machine.id == machine and _version(one) >= SINCE and not one.cross
        ]
        slopes = learned(ours)
        for comparison in ours:
            for measured in comparison.cases:
                duets = CaseDuets(measured.case, start=comparison.start)
                duets.all = list(measured.duets)
                duets.conclude()
                for asked in (duets, *explaining({"": duets}, slopes).values()):
                    for metric in asked.metrics:
                        if len(logs := asked.logs(metric)) > FEWEST:
                            for kind in kinds(measured.case, metric, alone=asked.alone(metric)):
                                variances[kind].append(variance(logs))
        fits = {kind: fit(many) for kind, many in variances.items()}
        return cls({kind: prior for kind, prior in fits.items() if prior}, len(ours), slopes)

    def of(self, duets: CaseDuets, metric: str, others: Iterable[CaseDuets]) -> Prior | None:
        """The prior of a metric of a case, beside whose duets are those of `others`."""
        for kind in kinds(duets.case, metric, alone=duets.alone(metric)):
            if kind in self.by_kind:
                return self.by_kind[kind]
        near = [
            variance(logs)
            for other in others
            if metric in other.metrics and len(logs := other.logs(metric)) > 1
        ]
        if len(near) >= TOGETHER and (prior := fit(near)):
            return prior
        return None if duets.alone(metric) else SHIPPED.get(metric)

    def __str__(self) -> str:
        """Where the priors are from, for the record of a comparison."""
        return f"{self.comparisons} comparisons of this machine" if self.by_kind else "shipped"


def kinds(case: Case, metric: str, *, alone: bool) -> Iterator[Hashable]:
    """What a case is with a metric, the narrowest kind first."""
    yield case.id, metric, alone
    yield case.server, case.python, case.workers, case.threads, metric, alone


def _version(comparison: Comparison) -> float:
    """The version of the method of a comparison; 0 of the oldest."""
    number = comparison.method.get("version")
    return number if isinstance(number, int | float) else 0


SHIPPED: Final[Mapping[str, Prior]] = {
    CPU: Prior(0.02, 2),
    "throughput": Prior(0.02, 2),
    "pss_steady": Prior(0.003, 2),
    "response_p99": Prior(0.04, 2),
}
"""For a machine without comparisons of its own: louder, and worth less, than what fits over all
cases of 65 comparisons on two machines give (1.3, 1.4, 0.2 and 3.5 %, worth 3.2 to 4.9 duets)."""
