"""From launches to figures: means and intervals over the launches of a case.

The launch is the sample. Figures of time and rate scatter by a factor rather than by a sum, so
means and intervals are computed on the logarithms and transformed back: the geometric mean and
Student's t interval. If a metric was zero in some launch (errors, steal), plain values are used.
A failed launch has no figures and is left out.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, CaseResult, Commands, Frozen, Run, Status
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


def summarise_case(result: CaseResult, expected: int) -> CaseSummary:
    """Summarise one case of which `expected` launches were planned."""
    good = result.usable
    failures = tuple(
        Failure(round=launch.round, reason=launch.failure)
        for launch in result.launches
        if launch.status is Status.FAILED
    )
    figures = {
        name: [launch.metrics[name] for launch in good if name in launch.metrics]
        for name in METRICS
    }
    return CaseSummary(
        case=result.case,
        status=result.status,
        expected=max(expected, len(result.launches)),
        measured=len(good),
        metrics={name: estimate(known) for name, known in figures.items() if known},
        warnings=_warnings(result, len(good)),
        failures=failures,
        commands=result.commands,
        missing=result.missing,
    )


def estimate(values: Sequence[float]) -> Interval:
    """Return mean and 95 % t interval of one figure per launch, of at least one launch."""
    mean, low, high, number = estimates(np.array(values, dtype=float)).tolist()
    return Interval(mean, low, high, int(number)) if number > 1 else Interval(mean)


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


def _warnings(result: CaseResult, good: int) -> tuple[WarningCount, ...]:
    counts = Counter[FlagName]()
    details: dict[FlagName, str] = {}
    for launch in result.launches:
        if launch.status is Status.OK:
            counts.update({flag.name: 1 for flag in launch.flags})
            details = {**{flag.name: flag.detail for flag in reversed(launch.flags)}, **details}
    warnings = [
        WarningCount(name=name, launches=number, detail=details[name])
        for name, number in counts.most_common()
        if name is not FlagName.FEW_LAUNCHES
    ]
    if 0 < good < ENOUGH_LAUNCHES:
        detail = f"{good} of at least {ENOUGH_LAUNCHES} launches"
        warnings.append(WarningCount(name=FlagName.FEW_LAUNCHES, launches=good, detail=detail))
    return tuple(warnings)
