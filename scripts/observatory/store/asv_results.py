"""asv's results as values: one reading per benchmark, parameters, interpreter and stack.

asv's own classes read the files. They know all its formats, and which results belong to which
version of a benchmark.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from duetbench.core.errors import RecordError
from duetbench.host import files
from observatory.store import kinds
from observatory.store.kinds import kind_of

if TYPE_CHECKING:
    from asv.results import Results

ReadingStatus = Literal["measured", "failed", "skipped"]
_MACHINE: Final = "machine.json"
LIST: Final = "benchmarks.json"  # asv's list of benchmarks, beside the folders of its machines


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of one environment."""

    benchmark: str  # asv's name: module, class, function
    params: tuple[tuple[str, str], ...]  # parameter → value, as text
    python: str
    stack: str
    unit: str  # asv's name: seconds, bytes, instructions, …
    status: ReadingStatus  # `skipped`: it does not apply there
    # The median of the samples, or the tracked figure; None unless measured.
    value: float | None = None
    # Ends of the middle half of the samples, which are not all independent; None for a single one.
    quartiles: tuple[float, float] | None = None
    samples: tuple[float, ...] = ()  # all of them, if they were recorded

    @property
    def param(self) -> dict[str, str]:
        return dict(self.params)

    @property
    def spread(self) -> float | None:
        """The larger distance of a quartile from the median, relative to the median."""
        if self.quartiles is None or not self.value:
            return None
        low, high = self.quartiles
        return max(high - self.value, self.value - low) / abs(self.value)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one commit on one machine."""

    machine: str
    cores: int | None  # None if asv does not know
    described: str  # the machine in words
    commit: str  # 40 hex digits
    committed: int  # date of the commit, ms since 1970
    started: int  # start of the last benchmark, ms since 1970
    readings: tuple[Reading, ...]  # in asv's order of benchmarks and parameters

    def of(self, *prefixes: str) -> tuple[Reading, ...]:
        """The readings of benchmarks whose names start with one of these, whole words only."""
        return tuple(
            reading
            for reading in self.readings
            if any(f"{reading.benchmark}.".startswith(f"{prefix}.") for prefix in prefixes)
        )

    def has(self, *prefixes: str) -> bool:
        """Whether any of them was measured."""
        return any(reading.status == "measured" for reading in self.of(*prefixes))


def read(results: Path, problems: list[str] | None = None) -> tuple[Snapshot, ...]:
    """Read all of asv's `results_dir`, the newest commit first.

    Unreadable files go to `problems`, and the rest is read; without `problems` the first of them
    raises RecordError.
    """
    if not (results / LIST).is_file():
        return ()
    faults: list[str] = []
    lists = kinds.read_each([results / LIST], _benchmarks, faults)
    loaded = kinds.read_each(_paths(results) if lists else (), partial(_load, lists), faults)
    if problems is None and faults:
        raise RecordError(faults[0])
    if problems is not None:
        problems += faults
    commits: dict[tuple[str, str], list[Results]] = {}
    for result in loaded:
        key = (str(result.params["machine"]), str(result.commit_hash))
        commits.setdefault(key, []).append(result)
    snapshots = (_snapshot(results, lists[0]) for results in commits.values())
    return tuple(sorted(snapshots, key=lambda s: (-s.committed, -s.started, s.commit)))


def copy_usable(results: Path, target: Path) -> tuple[str, ...]:
    """Link what asv can read of its `results_dir` to another folder; return why not the rest."""
    lists, problems = [_benchmarks(results / LIST)], list[str]()

    def check(path: Path) -> Path:
        _load(lists, path)
        return path

    usable = kinds.read_each(_paths(results), check, problems)
    for path in (results / LIST, *usable, *{path.with_name(_MACHINE) for path in usable}):
        place = target / path.relative_to(results)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path.resolve())
    return tuple(problems)


def _paths(results: Path) -> list[Path]:
    return [path for path in sorted(results.glob("*/*.json")) if path.name != _MACHINE]


def _load(lists: Sequence[Any], path: Path) -> Results:
    """Read one of asv's files with its machine's description; check that it yields readings."""
    from asv.results import Results  # noqa: PLC0415 - only readers of results wait for asv

    for file in (path.with_name(_MACHINE), path):
        below = f"asv/{file.parent.name}/{file.name}"
        if (kind := kind_of(below)) is None:
            raise RecordError(f"{file}: expected a name that duetbench gives to a file of asv's")
        kind.read(files.contents(file), below, str(file))
    result = Results.load(str(path), machine_name=path.parent.name)
    _snapshot([result], lists[0])
    return result


def _benchmarks(file: Path) -> Any:
    """Read asv's list of benchmarks, which has their names and units."""
    from asv.benchmarks import Benchmarks  # noqa: PLC0415 - see `_load`
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
        cores=int(cores) if cores.isdigit() else None,
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
    axes = benchmark["params"]
    figures = zip(
        product(*axes),
        result.get_result_value(name, axes),
        result.get_result_stats(name, axes),
        result.get_result_samples(name, axes),
        strict=True,
    )
    for combination, value, statistics, samples in figures:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        skipped = isinstance(value, float) and math.isnan(value)
        measured = number and not skipped
        several = measured and statistics and statistics.get("repeat", 2) >= 2
        low, high = (statistics.get(end) if several else None for end in ("q_25", "q_75"))
        yield Reading(
            benchmark=name,
            params=tuple(
                (key, _plain(text))
                for key, text in zip(benchmark["param_names"], combination, strict=True)
            ),
            python=str(result.params["python"]),
            stack=str(result.params.get("stack", "")),
            unit=str(benchmark.get("unit", "")),
            status="skipped" if skipped else "measured" if number else "failed",
            value=float(value) if measured else None,
            quartiles=None if low is None or high is None else (float(low), float(high)),
            samples=tuple(samples or ()) if measured else (),
        )


def _plain(text: str) -> str:
    """A parameter without the quotes that asv's `repr` puts around strings."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, str) else text
