"""From launches to figures: means and intervals over the launches of a case.

The launch is the sample. Figures of time and rate scatter by a factor rather than by a sum, so
means and intervals are computed on the logarithms and transformed back: the geometric mean and
Student's t interval. If a metric was zero in some launch (errors, steal), plain values are used.
A failed launch has no figures and is left out.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final, Literal

import numpy as np

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


def too_few(launches: int) -> str:
    """Return why so few launches have no interval; empty: they are enough."""
    if launches >= ENOUGH_LAUNCHES:
        return ""
    return "one launch" if launches == 1 else f"{launches} launches"


def summarise_case(result: CaseResult, expected: int) -> CaseSummary:
    """Summarise one case of which `expected` launches were planned."""
    good = result.usable
    failures = tuple(
        Failure(
            round=launch.round,
            reason="; ".join(
                f"{flag.name}: {flag.detail}" for flag in launch.flags if flag.severity == "fail"
            ),
        )
        for launch in result.launches
        if launch.status is Status.FAILED
    )
    figures = {
        name: [launch.metrics[name] for launch in good if name in launch.metrics]
        for name in METRICS
    }
    return CaseSummary(
        case=result.case,
        status="measured" if good else "failed" if failures else "not measured",
        expected=max(expected, len(result.launches)),
        measured=len(good),
        metrics={name: estimate(samples) for name, samples in figures.items() if samples},
        warnings=_warnings(result, len(good)),
        failures=failures,
        commands=result.commands,
        missing=result.missing,
    )


def estimate(values: Sequence[float]) -> Interval:
    """Return mean and 95 % t interval of one figure per launch, of at least one launch."""
    sample = np.asarray(values, dtype=float)
    logarithmic = bool((sample > 0).all())
    scale = np.log(sample) if logarithmic else sample
    mean = float(scale.mean())
    if len(sample) < 2:
        return Interval(float(sample[0]))
    half = student(len(sample) - 1) * float(scale.std(ddof=1)) / math.sqrt(len(sample))
    low, high = mean - half, mean + half
    if logarithmic:
        mean, low, high = math.exp(mean), math.exp(low), math.exp(high)
    return Interval(mean, low, high, len(sample))


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
