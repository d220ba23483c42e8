"""What asv recorded, as values: one reading per benchmark, parameters, interpreter and stack.

The files are read through asv's own classes, which know their formats, old ones too, and which
results belong to which version of a benchmark.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from duetbench.core.errors import RecordError
from duetbench.store import files

if TYPE_CHECKING:
    from asv.results import Results

ReadingStatus = Literal["measured", "failed", "skipped"]
_MACHINE: Final = "machine.json"
LIST: Final = "benchmarks.json"
"""asv's list of benchmarks, beside the folders of its machines."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of one environment."""

    benchmark: str  # name, as asv gives it: module, class, function
    params: tuple[tuple[str, str], ...]  # parameter → value, as text
    python: str
    stack: str
    unit: str  # as asv names it: seconds, bytes, instructions, …
    status: ReadingStatus  # `skipped`: it does not apply there
    # The median of the samples, or the figure that was tracked; None unless measured.
    value: float | None = None
    # Ends of the middle half of the samples, which are not all independent; None if there is only
    # one.
    quartiles: tuple[float, float] | None = None
    samples: tuple[float, ...] = ()  # all of them, where they were recorded

    @property
    def param(self) -> dict[str, str]:
        return dict(self.params)

    @property
    def case(self) -> str:
        """Its name among the cases: `inprocess/<benchmark>(a=1, b=x)/py3.14/current`."""
        params = ", ".join(f"{key}={value}" for key, value in self.params)
        name = f"{self.benchmark}({params})" if params else self.benchmark
        return "/".join(("inprocess", name, f"py{self.python}", self.stack))

    @property
    def spread(self) -> float | None:
        """The larger distance of a quartile from the median, relative to the median."""
        if self.quartiles is None or not self.value:
            return None
        low, high = self.quartiles
        return max(high - self.value, self.value - low) / abs(self.value)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was measured of one commit on one machine."""

    machine: str
    cores: int | None  # how many it has; None if asv was not told
    described: str  # the machine in words
    commit: str  # 40 hex digits
    committed: int  # date of the commit, ms since 1970
    started: int  # start of the last benchmark, ms since 1970
    readings: tuple[Reading, ...]  # in asv's order of benchmarks and parameters

    def of(self, *prefixes: str) -> tuple[Reading, ...]:
        """The readings whose benchmark's name starts with one of these, whole words only."""
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

    RecordError: asv's list of benchmarks, or a file, cannot be read; with `problems` it is added to
    these, and the rest is read.
    """
    if not (results / LIST).is_file():
        return ()
    wrong: list[str] = []
    lists = files.attempted([results], benchmarks, wrong)
    paths = [path for path in sorted(results.glob("*/*.json")) if path.name != _MACHINE]
    readable = files.attempted(paths if lists else (), partial(_sound, lists), wrong)
    if problems is None and wrong:
        raise RecordError(wrong[0])
    if problems is not None:
        problems += wrong
    return snapshots(readable, lists[0]) if readable else ()


def _sound(lists: Sequence[Any], path: Path) -> Results:
    """Read one of asv's files, and prove that its figures can be had; RecordError if not."""
    result = load(path)
    with understood(path):
        snapshots([result], lists[0])
    return result


def load(path: Path) -> Results:
    """Read one of asv's files, with the description of its machine beside it; or RecordError."""
    from asv.machine import Machine  # noqa: PLC0415 - see `read`
    from asv.results import Results  # noqa: PLC0415
    from asv.util import load_json  # noqa: PLC0415

    with understood(path):
        machine = load_json(str(path.with_name(_MACHINE)), api_version=Machine.api_version)
        return Results.load(str(path), machine_name=machine["machine"])


def benchmarks(results: Path) -> Any:
    """Read asv's list of benchmarks, which has their names and units; raises RecordError."""
    from asv.benchmarks import Benchmarks  # noqa: PLC0415 - see `read`
    from asv.config import Config  # noqa: PLC0415

    conf = Config()
    conf.results_dir = str(results)
    with understood(results / LIST):
        return Benchmarks.load(conf)


def snapshots(results: Iterable[Results], listed: Any) -> tuple[Snapshot, ...]:
    """Put together what belongs to one commit on one machine, the newest commit first.

    Args:
        results: asv's files; those that are not as asv wrote them raise anything (`understood`).
        listed: asv's `benchmarks`; results of other versions of them do not count.
    """
    groups: dict[tuple[str, str], list[Results]] = {}
    for result in results:
        key = (str(result.params["machine"]), str(result.commit_hash))
        groups.setdefault(key, []).append(result)
    return newest_first(
        _snapshot(machine, commit, group, listed) for (machine, commit), group in groups.items()
    )


def newest_first(snapshots: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """By the commit's date, then by the measurement's."""
    return tuple(sorted(snapshots, key=lambda s: (-s.committed, -s.started, s.commit)))


@contextmanager
def understood(source: Path) -> Iterator[None]:
    """Whatever goes wrong with files that are not as asv wrote them, as a RecordError."""
    try:
        yield
    except Exception as problem:  # asv's own code may stumble over anything
        raise RecordError(
            f"{source}: expected asv's results, found {type(problem).__name__}: {problem}; "
            "run `asv update`, or remove the file that is wrong"
        ) from problem


def newest(snapshots: Iterable[Snapshot], *prefixes: str) -> Snapshot | None:
    """The newest commit in which one of these benchmarks gave a figure."""
    return next((snapshot for snapshot in snapshots if snapshot.has(*prefixes)), None)


def environments(readings: Iterable[Reading]) -> list[tuple[str, str]]:
    """Interpreters and stacks with at least one figure, sorted by stack."""
    return sorted(
        {(r.python, r.stack) for r in readings if r.status == "measured"},
        key=lambda environment: (environment[1], environment[0]),
    )


def _snapshot(machine: str, commit: str, group: Sequence[Results], benchmarks: Any) -> Snapshot:
    params = group[0].params
    cpu, cores, ram, system = (str(params.get(n) or "") for n in ("cpu", "num_cpu", "ram", "os"))
    facts = (cpu, cores and f"{cores} cores", ram, system)
    return Snapshot(
        machine=machine,
        cores=int(cores) if cores.isdigit() else None,
        described=", ".join(filter(None, facts)),
        commit=commit,
        committed=int(group[0].date),
        started=max(
            (int(when) for result in group for when in result.started_at.values() if when),
            default=0,
        ),
        readings=tuple(
            reading
            for name in sorted(benchmarks)
            for result in sorted(group, key=lambda result: str(result.env_name))
            if name in result.get_result_keys(benchmarks)
            for reading in _readings(result, name, benchmarks[name])
        ),
    )


def _readings(result: Results, name: str, benchmark: dict[str, Any]) -> Iterator[Reading]:
    params = benchmark["params"]
    values = result.get_result_value(name, params)
    statistics = result.get_result_stats(name, params)
    samples = result.get_result_samples(name, params)
    for place, combination in enumerate(product(*params)):
        value = values[place]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        skipped = isinstance(value, float) and math.isnan(value)
        status: ReadingStatus = "skipped" if skipped else "measured" if number else "failed"
        measured = status == "measured"
        statistic = statistics[place] if measured else None
        spread = statistic if statistic and statistic.get("repeat", 2) >= 2 else {}
        low, high = spread.get("q_25"), spread.get("q_75")
        yield Reading(
            benchmark=name,
            params=tuple(
                (key, _plain(text))
                for key, text in zip(benchmark["param_names"], combination, strict=True)
            ),
            python=str(result.params["python"]),
            stack=str(result.params.get("stack", "")),
            unit=str(benchmark.get("unit", "")),
            status=status,
            value=float(value) if measured else None,
            quartiles=None if low is None or high is None else (float(low), float(high)),
            samples=tuple(samples[place] or ()) if measured else (),
        )


def _plain(text: str) -> str:
    """A parameter without the quotes that asv's `repr` puts around strings."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, str) else text
