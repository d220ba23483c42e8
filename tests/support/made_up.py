"""Synthetic histories: nights with planted changes, gaps, breaks and failures.

They serve tests, and trials of the site with years of nights. Figures scatter like those of a small
virtual machine; change records describe what was planted. The same seed always gives the same
history.
"""

import hashlib
import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from detecting import MACHINE, night_of
from duetbench.core.change import Release
from duetbench.core.comparison import PackageChange
from duetbench.core.metrics import METRICS
from duetbench.core.model import Missing, Verdict
from duetbench.host import files
from observatory.store.change import Change, SeriesName, StackState
from observatory.store.points import Points
from observatory.trend.reading import Sources
from observatory.trend.reading import read as read_results
from observatory.trend.table import COLUMNS, Table

STACK: Final = "current"
LAST: Final = datetime(2026, 11, 20, 3, tzinfo=UTC)
"""Start of the newest night."""

_PER_CASE: Final = 20  # metrics; fewer for the last case, as the number of series is given
_SCATTER: Final = 0.01  # standard deviation of a figure's logarithm from night to night
_HALF_WIDTH: Final = 0.02  # of an interval, relative
_EXPERIMENTS: Final = ("gil-endpoints", "asgi-wsgi", "pydantic-v1-v2", "await-patterns")
_PACKAGES: Final = ("fastapi", "granian", "pydantic", "starlette", "uvicorn", "uvloop")
_MISSING, _FAILED = 0.02, 0.01
_REASON: Final = "not_ready: the server was not ready in 60 s"
_FILE: Final = "made-up.pickle"  # of a results folder: its table
_OUTAGE: Final = 9  # nights, once a year
_BUMPED: Final = 0.05  # share of nights before which a package had a release
_MARGIN: Final = 20  # nights at either end without a change
_CASES_PER_CHANGE: Final = 25  # number of cases that have one change a year
_MOVED: Final = (*(round(1 + n / 100, 2) for n in (3, 5, 8, 12, 20)), 0.95, 0.9, 0.8)


@dataclass(frozen=True, slots=True)
class Shift:
    """From this night on, requests of these cases cost `factor` times as much."""

    night: int
    cases: tuple[int, ...]
    factor: float
    package: str


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A history without its figures, which `generate` draws night by night.

    Attributes:
        times: Starts of the nights that took place, oldest first.
        cases: Ids.
        metrics: Names.
        levels: First figures, cases × metrics; NaN if there is no such series.
        planted: Changes; `night` is an index of `times`.
        kernel_change: First night with another kernel, from which everything costs 8 % more.
        versions: Per night, package → minor version.
        seed: Determines everything.
    """

    times: tuple[datetime, ...]
    cases: tuple[str, ...]
    metrics: tuple[str, ...]
    levels: npt.NDArray[np.float64]
    planted: tuple[Shift, ...]
    kernel_change: int
    versions: tuple[dict[str, int], ...]
    seed: int


def imagine(years: float, series: int, seed: int) -> History:
    source = np.random.default_rng(seed)
    times = _times(max(1, round(365 * years)), source)
    metrics = COLUMNS[: min(_PER_CASE, series)]
    number = math.ceil(series / len(metrics))
    cases = tuple(
        f"{_EXPERIMENTS[n % 4]}/endpoint{n // 8}/py3.14{'t' if n // 4 % 2 else ''}/w1/c128"
        for n in range(number)
    )
    levels = source.lognormal(0, 0.1, (number, len(metrics)))
    levels.reshape(-1)[series:] = math.nan
    planted = tuple(_plant(len(times), years, number, source))
    versions = tuple(_versions(len(times), planted, source))
    moved = round(0.6 * len(times))
    return History(times, cases, metrics, levels, planted, moved, versions, seed)


def generate(history: History) -> Table:
    source = np.random.default_rng((history.seed, 1))
    level, blocks, nights = history.levels.copy(), list[npt.NDArray[np.float32]](), list[Points]()
    for place, time in enumerate(history.times):
        if place and place == history.kernel_change:
            level = level * _effect(history.metrics, 1.08)
        for change in history.planted:
            if change.night == place:
                level[list(change.cases)] *= _effect(history.metrics, change.factor)
        figures = level * source.lognormal(0, _SCATTER, level.shape)
        widths = _HALF_WIDTH * source.uniform(0.5, 1.5, level.shape)
        failed = np.flatnonzero(source.random(len(level)) < _FAILED).tolist()
        figures[failed] = math.nan
        counts = np.where(np.isnan(figures), 0, 3)
        block = np.stack([figures, figures * (1 - widths), figures * (1 + widths), counts], axis=2)
        blocks.append(block.astype(np.float32))
        packages = {name: f"1.{minor}.0" for name, minor in history.versions[place].items()}
        missing = [Missing(case=history.cases[row], reason=_REASON) for row in failed]
        id_, commit = _run(history, place), _commit(place)
        nights.append(night_of(id_, time, packages, commit=commit, missing=tuple(missing)))
    whole = np.stack(blocks)
    cases = dict.fromkeys(history.cases, STACK)
    machine, planned = MACHINE, np.ones(whole.shape[:2], dtype=bool)
    return Table(machine, tuple(nights), cases, history.metrics, whole, planned)


def records(history: History) -> tuple[Change, ...]:
    """A record of each planted change; those of the last year are open."""
    return tuple(_record(history, number, entry) for number, entry in enumerate(history.planted))


def _record(history: History, number: int, change: Shift) -> Change:
    when, name = history.times[change.night], change.package
    before, after = history.versions[change.night - 1 : change.night + 1]
    series, *others = (
        SeriesName(machine=MACHINE, case=history.cases[case], metric="server_cpu_per_request")
        for case in change.cases
    )
    return Change(
        id=f"{when:%Y%m%d}-{name}-{number}",
        status="open" if LAST - when < timedelta(days=365) else "closed",
        series=series,
        others=tuple(others),
        when=when,
        before_run=_run(history, change.night - 1),
        after_run=_run(history, change.night),
        base=StackState(stack=STACK, digest="a" * 64),
        head=StackState(stack=STACK, digest="b" * 64),
        packages=tuple(
            PackageChange(
                stack=STACK, package=entry, base=f"1.{before[entry]}.0", head=f"1.{now}.0"
            )
            for entry, now in after.items()
            if before[entry] != now
        ),
        ratio=change.factor,
        low=change.factor * 0.994,
        high=change.factor * 1.006,
        verdict=Verdict.WORSE if change.factor > 1 else Verdict.BETTER,
        culprit=Release(package=name, version=f"1.{after[name]}.0", previous=f"1.{before[name]}.0"),
        method="Planted by the generator of synthetic histories.",
    )


def write(history: History, folder: Path) -> None:
    """Write a history as a results folder that `read` can read, with records of the changes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _FILE).write_bytes(pickle.dumps(generate(history)))
    for record in records(history):
        files.save(folder, record)


def read(results: Path, *, with_runs: bool = True) -> Sources:
    """Read results as `trend.reading.read` does, and add the synthetic nights."""
    sources = read_results(results, with_runs=with_runs)
    path = results / _FILE
    if not path.is_file():
        return sources
    return replace(sources, tables=(*sources.tables, pickle.loads(path.read_bytes())))


def _times(days: int, source: np.random.Generator) -> tuple[datetime, ...]:
    """Draw the nights: some are missing, once a year several in a row, but never the last."""
    there = source.random(days) >= _MISSING
    for start in range(days % 365 + 100, days - _OUTAGE, 365):
        there[start : start + _OUTAGE] = False
    there[-1] = True
    return tuple(LAST - timedelta(days=days - 1 - int(day)) for day in np.flatnonzero(there))


def _plant(nights: int, years: float, cases: int, source: np.random.Generator) -> Iterator[Shift]:
    if nights <= 2 * _MARGIN:
        return
    number = max(1, round(years * cases / _CASES_PER_CHANGE))
    when = np.sort(source.choice(np.arange(_MARGIN, nights - _MARGIN), number, replace=True))
    for night in when.tolist():
        first, group = int(source.integers(cases)), int(source.integers(1, 6))
        moved = tuple(range(first, min(first + group, cases)))
        factor = float(source.choice(_MOVED))
        yield Shift(night, moved, factor, str(source.choice(_PACKAGES)))


def _versions(
    nights: int, planted: tuple[Shift, ...], source: np.random.Generator
) -> Iterator[dict[str, int]]:
    """Minor versions per night: a release before some nights, and before every planted change."""
    now = dict.fromkeys(_PACKAGES, 0)
    for night in range(nights):
        released = {change.package for change in planted if change.night == night}
        if source.random() < _BUMPED:
            released.add(str(source.choice(_PACKAGES)))
        now = {name: minor + (name in released) for name, minor in now.items()}
        yield now


def _effect(metrics: tuple[str, ...], factor: float) -> npt.NDArray[np.float64]:
    """Return the ratio of each metric if a request costs `factor` times as much."""
    faster = {name for name in metrics if METRICS[name].unit == "1/s"} | {"efficiency"}
    slower = {name for name in metrics if METRICS[name].unit == "s"}
    return np.array(
        [1 / factor if name in faster else factor if name in slower else 1.0 for name in metrics]
    )


def _run(history: History, place: int) -> str:
    return files.result_id(history.times[place].isoformat(), "nightly", _commit(place))


def _commit(place: int) -> str:
    return hashlib.sha256(f"commit {place}".encode()).hexdigest()[:40]
