"""Runs and asv's snapshots → nights. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import numpy as np

from servebench.flags import DISTURBING
from servebench.inprocess.readings import Snapshot
from servebench.metrics import HEADLINES, METRICS
from servebench.model import CaseResult, Machine, Run, Status
from servebench.site.nights import Figures, Header, Night, Odd, empty
from servebench.summary import CaseSummary, Estimate, summarise_case

TRENDS: Final = (
    *HEADLINES,
    *(name for name, row in METRICS.items() if row.better != "neither" and name not in HEADLINES),
)
"""Metrics that have a trend: those of which one direction is better."""

LOAD_RUNS: Final = "load_runs"
"""asv's suite that repeats the load runs, which have trends of their own."""

VERSIONS: Final = "guard.Packages.track_version"
"""asv's benchmark that records the versions of the packages in each stack."""

_MOST: Final = 255
_PYTHON: Final = "python"
_LARGEST: Final = float(np.finfo(np.float32).max)
"""Two launches that have nothing in common give an interval without end."""


def of_run(run: Run, source: str = "") -> Night:
    """The columns of a run; figures and intervals as everywhere (`summary`)."""
    results = run.results
    summaries = [summarise_case(result, run.launches) for result in results]
    header = Header(
        run=run.id,
        kind="load",
        profile=run.profile,
        time=int(datetime.fromisoformat(run.started).timestamp()),
        commit=run.commit,
        machine=run.machine.id,
        fingerprint=_fingerprint(run.machine),
        interpreters={
            record.name: f"{record.version}; {record.origin}; {record.build}"
            for record in run.interpreters
        },
        stacks={stack.name: stack.digest for stack in run.stacks},
        packages={stack.name: stack.packages for stack in run.stacks},
        cases=tuple(result.case.id for result in results),
        groups=tuple(result.case.id for result in results),
        definitions=tuple(_digest(result.case.model_dump_json()) for result in results),
        pythons=tuple(result.case.python for result in results),
        stack_of=tuple(result.case.stack for result in results),
        metrics=TRENDS,
        odd={
            place: odd
            for place, (result, summary) in enumerate(zip(results, summaries, strict=True))
            if (odd := _odd(result, summary)) is not None
        },
    )
    mean, low, high, launches = empty(header)
    for row, summary in enumerate(summaries):
        for column, name in enumerate(TRENDS):
            if (estimate := summary.metrics.get(name)) is not None:
                _put(estimate, row, column, (mean, low, high))
                launches[row, column] = min(estimate.n, _MOST)
    return Night(header, mean, low, high, launches, source)


def of_snapshot(snapshot: Snapshot, source: str = "") -> Night:
    """The columns of all that asv measured of a commit. Intervals are its quartiles.

    The night's time is the commit's, as on asv's own pages: an old stack that is measured today
    stands where it belongs. The night's name says when it was measured.
    """
    readings = [r for r in snapshot.readings if r.module != LOAD_RUNS and r.status != "skipped"]
    units = tuple(sorted({reading.unit for reading in readings}))
    moment = datetime.fromtimestamp(snapshot.started / 1000, UTC)
    packages = _packages(snapshot)
    header = Header(
        run=f"{moment:%Y%m%dT%H%M%SZ}-asv-{snapshot.commit[:8]}",
        kind="inprocess",
        profile="asv",
        time=snapshot.committed // 1000,
        commit=snapshot.commit,
        machine=snapshot.machine,
        fingerprint=snapshot.described,
        interpreters={reading.python: reading.python for reading in readings},
        stacks={stack: _digest(json.dumps(locked)) for stack, locked in packages.items()},
        packages=packages,
        cases=tuple(reading.case for reading in readings),
        groups=tuple(f"inprocess/{reading.benchmark}" for reading in readings),
        definitions=("",) * len(readings),
        pythons=tuple(reading.python for reading in readings),
        stack_of=tuple(reading.stack for reading in readings),
        metrics=units,
        odd={
            place: Odd("failed", reason="asv recorded that the benchmark failed")
            for place, reading in enumerate(readings)
            if reading.status == "failed"
        },
    )
    mean, low, high, launches = empty(header)
    for row, reading in enumerate(readings):
        if reading.value is not None:
            column = units.index(reading.unit)
            mean[row, column] = reading.value
            if reading.quartiles is not None:
                low[row, column], high[row, column] = reading.quartiles
            launches[row, column] = min(max(len(reading.samples), 1), _MOST)
    return Night(header, mean, low, high, launches, source)


def _packages(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """Stack → package → version, of the packages that the suite `guard` recorded.

    It writes versions as figures: 2.014003 is 2.14.3.
    """
    found: dict[str, dict[str, str]] = {}
    for reading in snapshot.of(VERSIONS):
        name = reading.param.get("package", "").strip("'")
        if reading.value is not None and name not in {"", _PYTHON}:
            parts = divmod(round(reading.value * 1_000_000), 1_000_000)
            version = ".".join(map(str, (parts[0], *divmod(parts[1], 1000))))
            found.setdefault(reading.stack, {})[name] = version
    return {stack: dict(sorted(locked.items())) for stack, locked in found.items()}


def _put(estimate: Estimate, row: int, column: int, blocks: tuple[Figures, ...]) -> None:
    for block, value in zip(blocks, (estimate.mean, estimate.low, estimate.high), strict=True):
        if value is not None:
            block[row, column] = min(max(value, -_LARGEST), _LARGEST)


def _odd(result: CaseResult, summary: CaseSummary) -> Odd | None:
    """What is to be said of a case; None if it was measured and no flag was raised."""
    flags = tuple(sorted({str(flag.name) for launch in result.launches for flag in launch.flags}))
    if not summary.measured:
        reason = "; ".join(dict.fromkeys(failure.reason for failure in summary.failures))
        failed = summary.status == "failed"
        return Odd(
            "failed" if failed else "not measured",
            flags,
            reason if failed else "the run ended before it came to this case",
        )
    disturbed = sum(
        any(flag.name in DISTURBING for flag in launch.flags)
        for launch in result.launches
        if launch.status is Status.OK
    )
    if 2 * disturbed >= summary.measured:
        return Odd("disturbed", flags)
    return Odd("measured", flags) if flags else None


def _fingerprint(machine: Machine) -> str:
    """What makes it this machine; not the memory, of which kernels show a little less or more."""
    parts = machine.model_dump(exclude={"id", "memory"})
    return "; ".join(f"{key} {value}" for key, value in parts.items() if value is not None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def together(texts: Iterable[str]) -> str:
    """A digest of many texts in their order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
