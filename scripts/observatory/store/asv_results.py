"""asv's results as values: one reading per benchmark, parameters, interpreter and stack."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product, repeat
from pathlib import Path
from typing import Any, Final

from duetbench.host import result_files
from observatory.store import kinds
from observatory.store.asv_files import AsvResults, AsvRow

LIST: Final = "asv/benchmarks.json"  # asv's list of benchmarks, beside the folders of its machines


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of one environment."""

    benchmark: str  # asv's name: module, class, function
    params: Mapping[str, str]  # parameter → value, as text
    python: str
    stack: str
    unit: str  # asv's name: seconds, bytes, …
    # The median of the samples, or the tracked figure; None: it failed.
    value: float | None = None
    # Larger distance of a quartile of the samples, which are not all independent, from the median,
    # relative to it; None for a single one.
    spread: float | None = None
    samples: tuple[float, ...] = ()  # all of them, if they were recorded

    @property
    def id(self) -> str:
        """Its benchmark, parameters, interpreter and stack: `gil.Cpu.time_tasks/4/py3.14/x`."""
        values = self.params.values()
        return "/".join((self.benchmark, *values, f"py{self.python}", self.stack))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one commit on one machine."""

    machine: str
    described: str  # the machine in words
    commit: str  # 40 hex digits
    committed: int  # date of the commit, ms since 1970
    started: int  # start of the last benchmark, ms since 1970
    readings: tuple[Reading, ...]  # in asv's order of benchmarks and parameters

    def of(self, *prefixes: str) -> tuple[Reading, ...]:
        """The readings of benchmarks whose names start with one of these, whole words only."""
        names = tuple(f"{prefix}." for prefix in prefixes)
        return tuple(r for r in self.readings if f"{r.benchmark}.".startswith(names))


def read(results: Path, problems: list[str] | None = None) -> tuple[Snapshot, ...]:
    """Read all that asv has measured, the newest commit first.

    Unreadable files go to `problems`, and the rest is read; without `problems` the first of them
    raises RecordError. Only results of the listed benchmarks' versions count.
    """
    if not (results / LIST).is_file():
        return ()
    listed = json.loads(result_files.contents(results / LIST))
    benchmarks = {name: about for name, about in listed.items() if isinstance(about, dict)}
    groups = defaultdict[tuple[str, str], list[AsvResults]](list)
    for result in kinds.read_all(AsvResults, results, problems):
        groups[result.params["machine"], result.commit_hash].append(result)
    snapshots = []
    for (machine, commit), files in groups.items():
        params = files[0].params
        cpu, cores, ram, os = (params.get(name, "") for name in ("cpu", "num_cpu", "ram", "os"))
        started = (row.started_at for file in files for row in file.results.values())
        readings = (
            reading
            for file in sorted(files, key=lambda file: file.env_name)
            for name, row in file.results.items()
            if name in benchmarks and row.version in {None, benchmarks[name].get("version")}
            for reading in _readings(file, name, row, benchmarks[name])
        )
        snapshot = Snapshot(
            machine=machine,
            described=", ".join(filter(None, (cpu, cores and f"{cores} cores", ram, os))),
            commit=commit,
            committed=files[0].date,
            started=max(filter(None, started), default=0),
            readings=tuple(sorted(readings, key=lambda reading: reading.benchmark)),
        )
        snapshots.append(snapshot)
    return tuple(sorted(snapshots, key=lambda s: (-s.committed, -s.started, s.commit)))


def _readings(
    result: AsvResults, name: str, row: AsvRow, about: Mapping[str, Any]
) -> Iterator[Reading]:
    """Yield a benchmark's readings, without combinations that do not apply, which are NaN."""
    lists = (row.result, row.stats_q_25, row.stats_q_75, row.stats_repeat, row.samples)
    columns = [column or repeat(None) for column in lists]
    for combination, value, low, high, often, samples in zip(
        product(*(row.params or ())), *columns, strict=False
    ):
        if value is not None and math.isnan(value):
            continue
        spread = None
        if value and low is not None and high is not None and (often or 2) >= 2:
            spread = max(abs(low - value), abs(high - value)) / abs(value)
        yield Reading(
            benchmark=name,
            # Without the quotes that asv's `repr` puts around strings.
            params={
                name: text.strip("\"'")
                for name, text in zip(about["param_names"], combination, strict=True)
            },
            python=result.params["python"],
            stack=result.params.get("stack", ""),
            unit=about.get("unit", ""),
            value=value,
            spread=spread,
            samples=tuple(samples or ()) if value is not None else (),
        )
