"""Tables with steps, dismissals and records of changes, for tests of detection."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from duetbench.core.comparison import PackageChange
from duetbench.core.metrics import CPU
from duetbench.core.model import StackRecord, Verdict
from duetbench.host import files
from observatory.store.change import Change, SeriesName, StackState, Step
from observatory.store.points import Points
from observatory.trend import candidates
from observatory.trend.table import Table
from synthetic import a_file, change_record, of, ratio

FIRST = datetime(2026, 11, 1, 3, tzinfo=UTC)
MACHINE = "alpha-2c-000001"
COMMIT = "3f2a9c17" * 5
BUMPED = ["1"] * 20 + ["2"] * 6


def run_of(number: int) -> str:
    """Name of a night's run."""
    return files.result_id((FIRST + timedelta(days=number)).isoformat(), "nightly", COMMIT)


def ratios(*pairs: tuple[int, float], scatter: float = 0.003) -> list[float]:
    """So many points on each level, in turn a little above and below it."""
    levels = [level for count, level in pairs for _ in range(count)]
    return [level * math.exp(scatter * (-1) ** n) for n, level in enumerate(levels)]


def night_of(id_: str, when: datetime, packages: Mapping[str, str], **changes: Any) -> Points:
    """A night against the anchor, by default without points, of the stack `current`."""
    digest = hashlib.sha256(repr(sorted(packages.items())).encode()).hexdigest()
    lock = StackRecord(name="current", digest=digest, packages=dict(packages))
    fields: dict[str, Any] = {"when": when, "started": when, "commit": COMMIT, "stacks": (lock,)}
    return a_file(1, id=id_, origin="night", machine=MACHINE, **{**fields, **changes})


def digest(version: str) -> str:
    """Digest of the lock in which granian has this version."""
    (stack,) = night_of("x", FIRST, {"granian": version, "fastapi": "1"}).stacks
    return stack.digest


def table(
    figures: Mapping[str, Sequence[float]],
    versions: Sequence[str],
    *,
    metric: str = CPU,
    error: float = 0.004,
) -> Table:
    """The nights of one machine, against its anchor.

    Args:
        figures: By case, one per night; NaN: the night has none.
        versions: Of the package `granian` in the stack `current`, one per night.
        metric: Of the figures.
        error: Standard error of the logarithms.
    """
    nights = []
    for n, version in enumerate(versions):
        measured = {case: values[n] for case, values in figures.items()}
        cases = tuple(
            of(case, ratio(value, error, duets=1, metric=metric))
            for case, value in measured.items()
            if not math.isnan(value)
        )
        packages = {"granian": version, "fastapi": "1"}
        nights.append(night_of(run_of(n), FIRST + timedelta(days=n), packages, cases=cases))
    return Table("", "A", tuple(nights))


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


def recorded(status: str, ratio: float, night: int, case: str = "x/a") -> Change:
    """The record of a change of CPU per request."""
    return change_record(
        id=f"change-{night}-{case[2:]}",
        status=status,
        series=SeriesName(machine=MACHINE, case=case, metric=CPU),
        when=FIRST + timedelta(days=night),
        before_run=run_of(night - 1),
        after_run=run_of(night),
        base=StackState(stack="current", digest=digest("1")),
        head=StackState(stack="current", digest=digest("2")),
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        verdict=Verdict.WORSE if ratio > 1 else Verdict.BETTER,
        packages=(),
        culprit=None,
    )


def moves(*names: str) -> tuple[PackageChange, ...]:
    """Packages that moved."""
    return tuple(PackageChange(stack="current", package=name, base="1", head="2") for name in names)
