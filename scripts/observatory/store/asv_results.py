"""asv's results as values: one reading per benchmark, parameters, interpreter and stack.

asv's own classes read the files. They know all its formats, and which results belong to which
version of a benchmark.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duetbench.core.errors import RecordError
from duetbench.host import files
from observatory.store import kinds
from observatory.store.kinds import AsvMachine, AsvResults

if TYPE_CHECKING:
    from asv.results import Results

_MACHINE: Final = "machine.json"
LIST: Final = "benchmarks.json"  # asv's list of benchmarks, beside the folders of its machines


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of one environment."""

    benchmark: str  # asv's name: module, class, function
    params: tuple[tuple[str, str], ...]  # parameter → value, as text
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
    def param(self) -> dict[str, str]:
        return dict(self.params)


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

    def has(self, *prefixes: str) -> bool:
        """Whether any of them was measured."""
        return any(reading.value is not None for reading in self.of(*prefixes))


def read(results: Path, problems: list[str] | None = None) -> tuple[Snapshot, ...]:
    """Read all of asv's `results_dir`, the newest commit first.

    Unreadable files go to `problems`, and the rest is read; without `problems` the first of them
    raises RecordError.
    """
    if not (results / LIST).is_file():
        return ()
    faults = [] if problems is None else problems
    groups = defaultdict[tuple[str, str], list["Results"]](list)
    benchmarks: Any = None
    for benchmarks in kinds.read_each([results / LIST], _benchmarks, faults):
        for _, result in _usable(results, benchmarks, faults):
            groups[str(result.params["machine"]), str(result.commit_hash)].append(result)
    if problems is None and faults:
        raise RecordError(faults[0])
    snapshots = (_snapshot(of_commit, benchmarks) for of_commit in groups.values())
    return tuple(sorted(snapshots, key=lambda s: (-s.committed, -s.started, s.commit)))


def copy_usable(results: Path, target: Path) -> tuple[str, ...]:
    """Link what asv can read of its `results_dir` to another folder; return why not the rest."""
    problems: list[str] = []
    usable = [path for path, _ in _usable(results, _benchmarks(results / LIST), problems)]
    for path in (results / LIST, *usable, *{path.with_name(_MACHINE) for path in usable}):
        place = target / path.relative_to(results)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path.resolve())
    return tuple(problems)


def _usable(results: Path, benchmarks: Any, problems: list[str]) -> Sequence[tuple[Path, Results]]:
    """Read asv's files with their machines' descriptions, as far as they yield readings."""
    from asv.results import Results  # noqa: PLC0415 - only readers of results wait for asv

    def load(path: Path) -> tuple[Path, Results]:
        for file in (path.with_name(_MACHINE), path):
            kind = AsvMachine if file.name == _MACHINE else AsvResults
            place = f"asv/{file.parent.name}/{file.name}"
            kinds.parse(kind, files.contents(file), place, str(file))
        result = Results.load(str(path), machine_name=path.parent.name)
        _snapshot([result], benchmarks)
        return path, result

    paths = (path for path in sorted(results.glob("*/*.json")) if path.name != _MACHINE)
    return kinds.read_each(paths, load, problems)


def _benchmarks(file: Path) -> Any:
    """Read asv's list of benchmarks, which has their names and units."""
    from asv.benchmarks import Benchmarks  # noqa: PLC0415 - see `_usable`
    from asv.config import Config  # noqa: PLC0415

    conf = Config()
    conf.results_dir = str(file.parent)
    return Benchmarks.load(conf)


def _snapshot(results: Sequence[Results], benchmarks: Any) -> Snapshot:
    """Combine the files of one commit on one machine, without old versions of benchmarks."""
    params = results[0].params
    cpu, cores, ram, system = (str(params.get(n) or "") for n in ("cpu", "num_cpu", "ram", "os"))
    started = (when for result in results for when in result.started_at.values() if when)
    return Snapshot(
        machine=str(params["machine"]),
        described=", ".join(filter(None, (cpu, cores and f"{cores} cores", ram, system))),
        commit=str(results[0].commit_hash),
        committed=int(results[0].date),
        started=max(map(int, started), default=0),
        readings=tuple(
            reading
            for name in sorted(benchmarks)
            for result in sorted(results, key=lambda result: str(result.env_name))
            if name in result.get_result_keys(benchmarks)
            for reading in _readings(result, name, benchmarks[name])
        ),
    )


def _readings(result: Results, name: str, benchmark: dict[str, Any]) -> Iterator[Reading]:
    """Yield a benchmark's readings, without combinations that do not apply, which are NaN."""
    axes = benchmark["params"]
    figures = zip(
        product(*axes),
        result.get_result_value(name, axes),
        result.get_result_stats(name, axes),
        result.get_result_samples(name, axes),
        strict=True,
    )
    for combination, value, statistics, samples in figures:
        measured = isinstance(value, int | float) and not isinstance(value, bool)
        if measured and math.isnan(value):
            continue
        spread = None
        if measured and value and statistics and statistics.get("repeat", 2) >= 2:
            ends = [statistics.get(end) for end in ("q_25", "q_75")]
            spread = None if None in ends else max(abs(end - value) for end in ends) / abs(value)
        yield Reading(
            benchmark=name,
            params=tuple(
                (key, _plain(text))
                for key, text in zip(benchmark["param_names"], combination, strict=True)
            ),
            python=str(result.params["python"]),
            stack=str(result.params.get("stack", "")),
            unit=str(benchmark.get("unit", "")),
            value=float(value) if measured else None,
            spread=spread,
            samples=tuple(samples or ()) if measured else (),
        )


def _plain(text: str) -> str:
    """A parameter without the quotes that asv's `repr` puts around strings."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, str) else text
