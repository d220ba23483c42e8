"""Tables with steps, dismissals and records of changes, for tests of detection."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from duetbench.core.comparison import PackageChange
from duetbench.core.model import Verdict
from duetbench.host import result_files
from histories import FIRST
from observatory.store.change import Change, SeriesName, StackState, Step
from observatory.trend import candidates
from observatory.trend import table as history
from observatory.trend.table import COLUMNS, Night, NightCase, Table
from synthetic import change_record

MACHINE = "alpha-2c-000001"
CPU = "server_cpu_per_request"
COMMIT = "3f2a9c17" * 5
BUMPED = ["1"] * 20 + ["2"] * 6


def run_of(number: int) -> str:
    """Name of a night's run."""
    return result_files.result_id((FIRST + timedelta(days=number)).isoformat(), "nightly", COMMIT)


def digest(version: str) -> str:
    """Digest of the lock in which a package has this version."""
    return hashlib.sha256(version.encode()).hexdigest()


def pieces(*pairs: tuple[int, float], scatter: float = 0.005, seed: int = 1) -> list[float]:
    """Figures for some nights on each level, with scatter."""
    source = np.random.default_rng(seed)
    figures = np.concatenate([np.full(nights, level) for nights, level in pairs])
    return [float(value) for value in figures * source.lognormal(0, scatter, len(figures))]


def night_of(number: int, cases: Mapping[str, NightCase], **changes: Any) -> Night:
    """A night of some cases, without a figure yet."""
    block = np.full((len(cases), len(COLUMNS), 4), math.nan, dtype=np.float32)
    block[..., 3] = 0
    values: dict[str, Any] = {
        "run": run_of(number),
        "anchor": "A",
        "commit": COMMIT,
        "time": int((FIRST + timedelta(days=number)).timestamp()),
        "machine": MACHINE,
        "stacks": {},
        "packages": {},
        "cases": cases,
        "metrics": COLUMNS,
        "figures": block,
    }
    return Night(**{**values, **changes})


def table(
    figures: Mapping[str, Sequence[float]],
    versions: Sequence[str],
    *,
    metric: str = CPU,
    error: float = 0.004,
) -> Table:
    """The nights of one machine, against its anchor.

    Args:
        figures: By case, one per night.
        versions: Of the package `granian` in the stack `current`, one per night.
        metric: Of the figures.
        error: Standard error of the logarithms.
    """
    nights = []
    for number, version in enumerate(versions):
        night = night_of(
            number,
            dict.fromkeys(figures, NightCase("3.14", "current")),
            stacks={"current": digest(version)},
            packages={"current": {"granian": version, "fastapi": "1"}},
        )
        block = night.figures[:, COLUMNS.index(metric)]
        for place, z in enumerate((0.0, -1.96, 1.96)):
            block[:, place] = [many[number] * math.exp(z * error) for many in figures.values()]
        nights.append(night)
    (result,) = history.tables(nights)
    return result


def moved_at(
    *series: SeriesName,
    ratios: Sequence[float] = (),
    packages: Sequence[PackageChange] = (),
    tries: int = 0,
) -> Change:
    """A candidate of these series, which moved by 5 % or `ratios` when the stack was renewed."""
    place: dict[str, Any] = {
        "before_run": run_of(19),
        "after_run": run_of(20),
        "when": FIRST + timedelta(days=20),
    }
    steps = [
        Step(series=name, ratio=ratio, strength=9.0, nights=(20, 6), **place)
        for name, ratio in zip(series, ratios or [1.05] * len(series), strict=True)
    ]
    return Change(
        id="20261121-current-abc123",
        status="candidate",
        verdict=Verdict.UNKNOWN,
        base_commit=COMMIT,
        head_commit=COMMIT,
        packages=tuple(packages),
        tries=tries,
        base=StackState(stack="current", digest=digest("1")),
        head=StackState(stack="current", digest=digest("2")),
        **candidates.figures_of(tuple(steps)),
        **place,
    )


def recorded(
    status: str, ratio: float, night: int, case: str = "x/a", *others: str, evidence: str = ""
) -> Change:
    """The record of a change."""
    name = SeriesName(machine=MACHINE, case=case, metric=CPU)
    return change_record(
        id=f"change-{night}-{case[2:]}",
        status="open" if status == "open" else "closed",
        series=name,
        others=tuple(name.model_copy(update={"case": other}) for other in others),
        when=FIRST + timedelta(days=night),
        before_run=run_of(night - 1),
        after_run=run_of(night),
        base=StackState(stack="current", digest=digest("1")),
        head=StackState(stack="current", digest=digest("2")),
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        verdict=Verdict.WORSE if ratio > 1 else Verdict.BETTER,
        evidence=evidence or None,
        packages=(),
        culprit=None,
    )


def moves(*names: str) -> tuple[PackageChange, ...]:
    """Packages that moved."""
    return tuple(PackageChange(stack="current", package=name, base="1", head="2") for name in names)
