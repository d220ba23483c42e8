"""From launches to figures: means and intervals over the launches of a case.

The launch is the sample. Figures of time and rate scatter by a factor rather than by a sum, so
means and intervals are computed on the logarithms and transformed back: the geometric mean and
Student's t interval. If a metric was zero in some launch (errors, steal), plain values are used.
A failed launch has no figures and is left out.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, CaseResult, Commands, Frozen, Launch, Run, Status
from duetbench.core.units import Interval, student

ENOUGH_LAUNCHES: Final = 3


class WarningCount(Frozen):
    """A warn flag of a case: in how many of its launches, with one of the details."""

    name: FlagName
    launches: int
    detail: str


class Failure(Frozen):
    """A launch without figures, and why."""

    round: int
    reason: str


class CaseSummary(Frozen):
    """One case over its launches."""

    case: Case
    status: Literal["measured", "failed", "not measured"]
    expected: int
    measured: int
    metrics: dict[str, Interval]
    warnings: tuple[WarningCount, ...]
    failures: tuple[Failure, ...]
    commands: Commands | None
    missing: str = ""  # why it was never launched

    @property
    def id(self) -> str:
        return self.case.id


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


def too_few(launches: int) -> str:
    """Return why so few launches have no interval; empty: they are enough."""
    if launches >= ENOUGH_LAUNCHES:
        return ""
    return "one launch" if launches == 1 else f"{launches} launches"


def summarise_case(result: CaseResult, expected: int) -> CaseSummary:
    """Summarise one case of which `expected` launches were planned."""
    good = result.usable
    failures = tuple(
        Failure(round=launch.round, reason=launch.failure)
        for launch in result.launches
        if launch.status is Status.FAILED
    )
    figures = zip(METRICS, estimates(samples_of([good], METRICS))[0].tolist(), strict=True)
    return CaseSummary(
        case=result.case,
        status=result.status,
        expected=max(expected, len(result.launches)),
        measured=len(good),
        metrics={name: _interval(*figure) for name, figure in figures if figure[-1]},
        warnings=_warnings(result, len(good)),
        failures=failures,
        commands=result.commands,
        missing=result.missing,
    )


def estimate(values: Sequence[float]) -> Interval:
    """Return mean and 95 % t interval of one figure per launch, of at least one launch."""
    return _interval(*estimates(np.array(values, dtype=float)).tolist())


def _interval(mean: float, low: float, high: float, number: float) -> Interval:
    return Interval(mean, low, high, int(number)) if number > 1 else Interval(mean)


def samples_of(
    cases: Sequence[Sequence[Launch]], metrics: Collection[str]
) -> npt.NDArray[np.float64]:
    """Return the figures of the launches of cases: launches × cases × metrics, NaN for none."""
    block = np.full((max(map(len, cases), default=0) or 1, len(cases), len(metrics)), math.nan)
    for row, launches in enumerate(cases):
        for place, launch in enumerate(launches):
            block[place, row] = [launch.metrics.get(name, math.nan) for name in metrics]
    return block


def estimates(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return mean, ends of the 95 % t interval, and number of many figures at once.

    The first axis of `samples` are launches, NaN where they have no such figure; the last one of
    the result are the four. Ends are NaN for a single launch, and a mean for none.
    """
    known = ~np.isnan(samples)
    number = known.sum(axis=0)
    logarithmic = ((samples > 0) | ~known).all(axis=0)
    students = np.array([math.nan, math.nan, *map(student, range(1, len(samples)))])
    with np.errstate(all="ignore"):
        scale = np.where(logarithmic, np.log(samples), samples)
        mean = np.where(known, scale, 0).sum(axis=0) / number
        squares = np.where(known, (scale - mean) ** 2, 0).sum(axis=0)
        half = students[number] * np.sqrt(squares / (number - 1) / number)
        low, high = mean - half, mean + half
        mean, low, high = np.where(logarithmic, np.exp((mean, low, high)), (mean, low, high))
    mean = np.where(number == 1, np.where(known, samples, 0).sum(axis=0), mean)
    return np.stack((mean, low, high, number), axis=-1)


def values(run: Run, case: str, metric: str) -> list[float]:
    """Return the figures of one metric, one per good launch of a case; empty if there are none."""
    return [
        launch.metrics[metric]
        for result in run.results
        if result.case.id == case
        for launch in result.usable
        if metric in launch.metrics
    ]


def _warnings(result: CaseResult, good: int) -> tuple[WarningCount, ...]:
    launches = [
        {flag.name: flag.detail for flag in reversed(launch.flags)}
        for launch in result.launches
        if launch.status is Status.OK
    ]
    details = {name: text for flags in reversed(launches) for name, text in flags.items()}
    warnings = [
        WarningCount(name=name, launches=count, detail=details[name])
        for name, count in Counter(chain(*map(reversed, launches))).most_common()
        if name is not FlagName.FEW_LAUNCHES
    ]
    if 0 < good < ENOUGH_LAUNCHES:
        detail = f"{good} of at least {ENOUGH_LAUNCHES} launches"
        warnings.append(WarningCount(name=FlagName.FEW_LAUNCHES, launches=good, detail=detail))
    return tuple(warnings)
