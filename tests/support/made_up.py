"""Made-up nights of one machine: with planted changes, gaps and failures; the same at each call.

They serve tests of detection, and sites with years of nights.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np

from detecting import MACHINE, night_of
from duetbench.core.metrics import METRICS
from duetbench.core.model import Missing
from duetbench.host import files
from observatory.trend.reading import Sources
from observatory.trend.reading import read as read_results
from observatory.trend.table import COLUMNS, Table

LAST: Final = datetime(2026, 11, 20, 3, tzinfo=UTC)
"""Start of the newest night."""
METRICS_OF_EACH: Final = COLUMNS[:20]

_SCATTER: Final = 0.01  # standard deviation of a figure's logarithm from night to night
_HALF_WIDTH: Final = 0.02  # of an interval, relative
_ABSENT, _FAILED = 0.02, 0.01  # shares of nights, and of their cases
_OUTAGE: Final = range(30, 39)  # nights in a row without any
_COMMIT: Final = "3f2a9c17" * 5
_FILE: Final = "made-up.pickle"  # of a results folder: its table


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
    blocks, nights = [], []
    for place, time in enumerate(times):
        if place and place == kernel_change:
            level *= _effect(1.08)
        for shift in planted:
            if shift.night == place:
                level[list(shift.cases)] *= _effect(shift.factor)
        figures = level * source.lognormal(0, _SCATTER, level.shape)
        widths = _HALF_WIDTH * source.uniform(0.5, 1.5, level.shape)
        failed = np.flatnonzero(source.random(number) < _FAILED).tolist()
        figures[failed] = np.nan
        counts = np.where(np.isnan(figures), 0, 3)
        blocks.append([figures, figures * (1 - widths), figures * (1 + widths), counts])
        minor = sum(shift.night <= place for shift in planted)
        lost = tuple(Missing(case=cases[row], reason="not_ready") for row in failed)
        name = files.result_id(time.isoformat(), "nightly", _COMMIT)
        nights.append(night_of(name, time, {"granian": f"1.{minor}.0"}, missing=lost))
    block = np.moveaxis(np.array(blocks, dtype=np.float32), 1, -1)
    planned = np.ones(block.shape[:2], dtype=bool)
    stacks = dict.fromkeys(cases, "current")
    return Table(MACHINE, tuple(nights), stacks, METRICS_OF_EACH, block, planned)


def _effect(factor: float) -> np.ndarray:
    """Return the ratio of each metric if a request costs `factor` times as much."""
    by_unit = {"1/s": 1 / factor, "s": factor}
    return np.array([by_unit.get(METRICS[name].unit, 1.0) for name in METRICS_OF_EACH])


def write(table: Table, results: Path) -> None:
    """Add a table to a results folder, from which `read` reads it."""
    results.mkdir(parents=True, exist_ok=True)
    (results / _FILE).write_bytes(pickle.dumps(table))


def read(results: Path) -> Sources:
    """Read results as `trend.reading.read` does, and add the made-up nights."""
    sources, path = read_results(results), results / _FILE
    if not path.is_file():
        return sources
    return replace(sources, tables=(*sources.tables, pickle.loads(path.read_bytes())))
