"""Made-up nights of one machine: with planted changes, gaps and failures; the same at each call."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from anchored_files import of, ratio
from detecting import night_of
from duetbench.core.metrics import METRICS
from duetbench.core.model import Missing
from duetbench.host import files
from observatory.store.points import AnchoredPoint
from observatory.trend.table import COLUMNS, Table

LAST: Final = datetime(2026, 11, 20, 3, tzinfo=UTC)
"""Start of the newest night."""
METRICS_OF_EACH: Final = COLUMNS[:10]

_SCATTER: Final = 0.01  # standard deviation of a figure's logarithm from night to night
_ERROR: Final = 0.01  # standard error of a figure's logarithm
_ABSENT, _FAILED = 0.02, 0.01  # shares of nights, and of their cases
_OUTAGE: Final = range(30, 39)  # nights in a row without any
_COMMIT: Final = "3f2a9c17" * 5


@dataclass(frozen=True, slots=True)
class Shift:
    """From this night on, requests of these cases cost `factor` times as much, by a release."""

    night: int
    cases: tuple[int, ...]
    factor: float


def make(days: int, number: int, planted: Sequence[Shift] = (), kernel_change: int = 0) -> Table:
    """Make the nights of some days and cases; from a kernel's change on all costs 8 % more."""
    source = np.random.default_rng(days)
    cases = [f"asgi-wsgi/endpoint{n // 2}/py3.14{'t' * (n % 2)}/w1/c128" for n in range(number)]
    there = source.random(days) >= _ABSENT
    there[_OUTAGE] = False
    there[-1] = True
    times = [LAST - timedelta(days=days - 1 - int(day)) for day in np.flatnonzero(there)]
    level = source.lognormal(0, 0.1, (number, len(METRICS_OF_EACH)))
    nights = []
    for place, time in enumerate(times):
        if place and place == kernel_change:
            level *= _effect(1.08)
        for shift in planted:
            if shift.night == place:
                level[list(shift.cases)] *= _effect(shift.factor)
        figures = level * source.lognormal(0, _SCATTER, level.shape)
        errors = _ERROR * source.uniform(0.5, 1.5, level.shape)
        failed = source.random(number) < _FAILED
        minor = sum(shift.night <= place for shift in planted)
        measured = tuple(
            of(case, *map(_point, METRICS_OF_EACH, figures[row], errors[row]))
            for row, case in enumerate(cases)
            if not failed[row]
        )
        lost = (case for row, case in enumerate(cases) if failed[row])
        missing = tuple(Missing(case=case, reason="not_ready") for case in lost)
        name = files.result_id(time.isoformat(), "nightly", _COMMIT)
        locked = {"granian": f"1.{minor}.0"}
        nights.append(night_of(name, time, locked, cases=measured, missing=missing))
    return Table("", "A", tuple(nights))


def _point(metric: str, figure: float, error: float) -> AnchoredPoint:
    return ratio(float(f"{figure:.5g}"), float(f"{error:.3g}"), duets=1, metric=metric)


def _effect(factor: float) -> np.ndarray:
    """Return the ratio of each metric if a request costs `factor` times as much."""
    by_unit = {"1/s": 1 / factor, "s": factor}
    return np.array([by_unit.get(METRICS[name].unit, 1.0) for name in METRICS_OF_EACH])
