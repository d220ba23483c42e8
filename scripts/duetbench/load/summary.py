"""From launches to figures: means and intervals over the launches of a case.

The launch is the sample. Figures of time and rate scatter by a factor rather than by a sum, so
means and intervals are computed on the logarithms and transformed back: the geometric mean and
Student's t interval. If a metric was zero in some launch (errors, steal), plain values are used.
A failed launch has no figures and is left out.
"""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import CaseResult, Flag, Frozen, Run
from duetbench.core.units import Interval, student

ENOUGH_LAUNCHES: Final = 3


class CaseSummary(CaseResult):
    """One case over its launches, of which `expected` were planned."""

    expected: int
    metrics: dict[str, Interval]

    @property
    def id(self) -> str:
        return self.case.id

    @property
    def measured(self) -> int:
        """The number of usable launches."""
        return len(self.usable)

    @property
    def failures(self) -> tuple[str, ...]:
        """The reasons of launches without figures."""
        return tuple(filter(None, (launch.failure for launch in self.launches)))

    @property
    def warnings(self) -> tuple[Flag, ...]:
        """The flags of usable launches, the most frequent first, each of its first launch."""
        launches = [{f.name: f for f in reversed(launch.flags)} for launch in self.usable]
        counts = Counter(name for flags in launches for name in flags)
        first = {name: flag for flags in reversed(launches) for name, flag in flags.items()}
        warnings = [first[name] for name, _ in counts.most_common()]
        if 0 < self.measured < ENOUGH_LAUNCHES:
            detail = f"{self.measured} of at least {ENOUGH_LAUNCHES} launches"
            warnings.append(Flag(name=FlagName.FEW_LAUNCHES, detail=detail))
        return tuple(warnings)


class RunSummary(Frozen):
    """A run, case by case; everything else of it as recorded."""

    run: Run
    cases: dict[str, CaseSummary]

    @property
    def coverage(self) -> tuple[int, int]:
        """Launches measured and launches expected."""
        cases = self.cases.values()
        return sum(case.measured for case in cases), sum(case.expected for case in cases)


def summarise(run: Run) -> RunSummary:
    """Summarise all cases of a run."""
    cases = {result.case.id: summarise_case(result, run.launches) for result in run.results}
    return RunSummary(run=run, cases=cases)


def summarise_case(result: CaseResult, expected: int) -> CaseSummary:
    """Summarise one case of which `expected` launches were planned."""
    usable = [launch.metrics for launch in result.usable]
    figures = {name: [each[name] for each in usable if name in each] for name in METRICS}
    return CaseSummary(
        **dict(result),
        expected=max(expected, len(result.launches)),
        metrics={name: estimate(values) for name, values in figures.items() if values},
    )


def estimate(values: Sequence[float]) -> Interval:
    """Return mean and 95 % t interval of one figure per launch, of at least one launch."""
    number, logarithmic = len(values), min(values) > 0
    if number == 1:
        return Interval(values[0])
    scale = [math.log(value) for value in values] if logarithmic else values
    mean, half = fmean(scale), student(number - 1) * stdev(scale) / math.sqrt(number)
    known = mean, mean - half, mean + half
    mean, low, high = map(math.exp, known) if logarithmic else known
    return Interval(mean, low, high, number)
