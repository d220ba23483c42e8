"""How far duets scatter, as known before the first duet of a comparison: priors of their variance.

The duets of one case on one machine scatter nearly alike in each comparison, while the variance of
three duets says little. So a test averages it with the variance of earlier comparisons, which
counts as `freedom` more duets: Smyth's moderated t (Statistical Applications in Genetics and
Molecular Biology 3(1), 2004, article 3). The more earlier variances differ from each other, the
less they are worth. A prior is that of the case on this machine; else of cases with its server and
interpreter; else of similar cases of the same comparison, if there are many: on the same cores, and
computing or waiting alike; else of duetbench's reference history, which is worth little. A case
that scatters more than its prior allows is judged only by its own duets.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
from scipy import special

from duetbench.core.metrics import CPU
from duetbench.core.model import Case
from duetbench.judge.samples import CaseDuets, Mode, explaining
from duetbench.judge.statistics import RESOLUTION, Logs, Prior, chance
from duetbench.judge.wake_ups import Slope, learn_slopes
from duetbench.store import files
from duetbench.store.comparison import METHOD_VERSION, Comparison
from duetbench.store.result_files import comparisons_by_id

FEWEST: Final = 2
"""Fewest comparisons of a case, or of its kind, for a prior."""

DIFFERENCES: Final = 2
"""Fewest differences between variances at the same level: they say how much a prior is worth."""

DUETS: Final = 4
"""Fewest duets of a stored comparison whose variance counts, as in the simulations of priors."""

TOGETHER: Final = 8
"""Fewest cases of a comparison for a prior from each other."""

OUTLIER: Final = 0.001
"""Chance of a variance at its level below which it is left out."""

MOST: Final = 12.0
"""Most duets that a prior counts as: with more, a noisy day would pass for a quiet one."""

METHODS: Final = range(3, METHOD_VERSION + 1)
"""Versions of the method whose duets scatter like today's: installations take turns."""

_NEWEST: Final = 40
"""Number of the newest comparisons that are read."""


class Variance(NamedTuple):
    """Sample variance of log ratios, with its degrees of freedom."""

    value: float
    freedom: int


def variance(logs: Logs) -> Variance:
    """Compute the variance of two or more log ratios, at least the resolution of the figures."""
    return Variance(max(float(logs.var(ddof=1)), RESOLUTION**2), len(logs) - 1)


def fit(variances: Sequence[Variance], *others: Sequence[Variance]) -> Prior | None:
    """Fit the prior that the true variances seem drawn from, by Smyth's moments; None if too few.

    The less the true ones differ, the more the prior is worth, up to the number of duets that it is
    fitted to. `others` are variances at other levels, which differ in the same way.
    """
    levels = [variances, *(level for level in others if len(level) > 1)]
    differences = sum(map(len, levels)) - len(levels)
    if len(variances) < FEWEST or differences < DIFFERENCES:
        return None
    logs = [_unbiased(level) for level in levels]
    squares = sum(float(level.var()) * len(level) for level in logs)
    freedom = np.array([v.freedom for level in levels for v in level])
    excess = squares / differences - special.polygamma(1, freedom / 2).mean()
    middle, own = float(logs[0].mean()), math.inf
    if excess > 0:
        own = 2 * _inverse_trigamma(excess)
        middle += float(special.digamma(own / 2)) - math.log(own / 2)
    worth = 1 / (1 / own + 1 / sum(v.freedom for v in variances))
    return Prior(math.exp(middle / 2), min(worth, MOST))


def _unbiased(variances: Sequence[Variance]) -> Logs:
    """Compute logs of variances whose mean is unbiased."""
    values, freedom = np.array(variances).T
    return np.asarray(np.log(values) - special.digamma(freedom / 2) + np.log(freedom / 2))


def without_outliers(levels: Mapping[Hashable, list[Variance]]) -> dict[Hashable, list[Variance]]:
    """Leave out variances far above their level: at most a fifth, the largest ones.

    Otherwise, one disturbed case would make the variances of all others worthless. It leaves out as
    many as possible such that the smallest of them is improbable beside the rest, so that two
    outliers do not hide each other (Rosner's generalized test).
    """
    middle = {name: np.median([v.value for v in level]) for name, level in levels.items()}
    ratios = [(v.value / middle[name], name, v) for name, level in levels.items() for v in level]
    ratios.sort(key=lambda entry: entry[0])
    for number in range(len(ratios) // 5, 0, -1):
        rest: dict[Hashable, list[Variance]] = {name: [] for name in levels}
        for _, name, quiet in ratios[:-number]:
            rest[name].append(quiet)
        _, name, loud = ratios[-number]
        if (prior := prior_of(rest, name)) and chance(*loud, prior) < OUTLIER:
            return rest
    return dict(levels)


def prior_of(levels: Mapping[Hashable, Sequence[Variance]], name: Hashable) -> Prior | None:
    """Fit the prior of one level, beside the others; None if it has too few variances."""
    return fit(levels.get(name, ()), *(level for other, level in levels.items() if other != name))


def _inverse_trigamma(value: float) -> float:
    from scipy import optimize  # noqa: PLC0415 - as in `statistics.likeliest`

    # The solution is between 1/x and 1/x + 1/x².
    ends = 1 / value, 1 / value + 1 / math.sqrt(value)
    return float(optimize.brentq(lambda x: float(special.polygamma(1, x)) - value, *ends))


@dataclass(frozen=True, slots=True)
class Priors:
    """Priors of a machine by kind of case and metric, learned from a number of `comparisons`.

    `slopes` are the costs of a wake-up, by kind of case (`wake_ups`).
    """

    by_kind: Mapping[Hashable, Prior] = field(default_factory=dict)
    comparisons: int = 0
    slopes: Mapping[Hashable, Slope] = field(default_factory=dict)

    @classmethod
    def of_machine(cls, machine: str, results: Path) -> Self:
        """Learn from this machine's newest comparisons, here and in `results`."""

        def own(path: Path) -> Comparison | None:
            # Parsing the files of other machines would take half a second.
            return files.read(Comparison, path) if machine.encode() in path.read_bytes() else None

        newest = [path for _, path in sorted(comparisons_by_id(results).items())[-_NEWEST:]]
        # Unreadable files are ignored here; `history` and `site` report them.
        comparisons = files.read_each(newest, own, problems=[])
        return cls.learned(machine, filter(None, comparisons))

    @classmethod
    def learned(cls, machine: str, comparisons: Iterable[Comparison]) -> Self:
        """Learn from this machine's comparisons of two states of the same thing; ignore others."""
        # Cases of one metric differ from one comparison to the next in the same way.
        levels: dict[Any, dict[Any, list[Variance]]] = defaultdict(lambda: defaultdict(list))
        own = [
            record
            for record in comparisons
            if record.machine.id == machine and not record.cross
            if record.method.get("version") in METHODS
        ]
        slopes = learn_slopes(own)
        for comparison in own:
            for measured in comparison.cases:
                duets = CaseDuets(measured.case, Mode.START if comparison.start else Mode.FIRST)
                duets.all = list(measured.duets)
                duets.conclude()
                for samples in (duets, *explaining({"": duets}, slopes).values()):
                    for metric in samples.metrics:
                        if len(logs := samples.logs(metric)) >= DUETS:
                            for kind in kinds(measured.case, metric, alone=samples.alone(metric)):
                                levels[len(kind), *kind[-2:]][kind].append(variance(logs))
        fits = {kind: prior_of(level, kind) for level in levels.values() for kind in level}
        return cls({kind: prior for kind, prior in fits.items() if prior}, len(own), slopes)

    def of(self, duets: CaseDuets, metric: str, others: Iterable[CaseDuets]) -> Prior | None:
        """Find the prior of a case's metric; `others` are the duets of the other cases."""
        for kind in kinds(duets.case, metric, alone=duets.alone(metric)):
            if kind in self.by_kind:
                return self.by_kind[kind]
        near: defaultdict[Hashable, list[Variance]] = defaultdict(list)
        for other in others:
            if metric in other.metrics and len(logs := other.logs(metric)) > 1:
                near[level(other.case)].append(variance(logs))
        many = sum(map(len, near.values())) >= TOGETHER
        if many and (prior := prior_of(without_outliers(near), level(duets.case))):
            # Level and worth are from these few duets themselves: as if they were certain, one
            # family in ten had a false verdict.
            return replace(prior, freedom=prior.freedom / 2)
        return None if duets.alone(metric) else SHIPPED.get(metric)

    def __str__(self) -> str:
        """Name the source of the priors, for the record of a comparison."""
        return f"{self.comparisons} comparisons of this machine" if self.by_kind else "shipped"


def kinds(case: Case, metric: str, *, alone: bool) -> Iterator[tuple[Hashable, ...]]:
    """List the kinds of a case and metric, the narrowest first."""
    yield case.id, metric, alone
    yield case.server, case.python, case.workers, case.threads, metric, alone


def level(case: Case) -> Hashable:
    """Return a key that is equal for cases of one comparison that scatter about as much."""
    return case.cores, case.endpoint.floor > 0, case.load.rate is not None


SHIPPED: Final[Mapping[str, Prior]] = {
    CPU: Prior(0.02, 2),
    "throughput": Prior(0.02, 2),
    "pss_steady": Prior(0.003, 2),
    "response_p99": Prior(0.04, 2),
    "import_time": Prior(0.1, 2),
}
"""For a machine without comparisons of its own. They are wider and worth less than the fit to all
cases of 65 comparisons on two machines (1.3, 1.4, 0.2 and 3.5 %, worth 3.2 to 4.9 duets). That of
imports is from five cases (13 %, as servers of a duet start beside each other on two cores)."""
