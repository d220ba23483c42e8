"""asv's results for tests, written by asv's own classes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Final

from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult

COMMIT: Final = "3f2a9c17" * 5
SKIPPED: Final = math.nan

Value = float | Sequence[float] | None
"""A tracked figure, samples of a time, NaN for a skipped one, None for a failed one."""


@dataclass(frozen=True)
class Bench:
    """A benchmark as asv lists it."""

    name: str
    params: Mapping[str, Sequence[object]] = field(default_factory=dict)
    version: str = "1"

    def entry(self) -> dict[str, object]:
        """Return its entry in asv's list."""
        return {
            "name": self.name,
            "version": self.version,
            "unit": "seconds",
            "type": "time",
            "params": [[repr(value) for value in values] for values in self.params.values()],
            "param_names": list(self.params),
            "code": "",
        }


Figures = Sequence[tuple[Bench, Mapping[Any, Any]]]
"""By benchmark: values of its parameters → `Value`."""


def list_benchmarks(results: Path, benches: Sequence[Bench]) -> None:
    conf = Config()
    conf.results_dir = str(results)
    results.mkdir(parents=True, exist_ok=True)
    Benchmarks(conf, [bench.entry() for bench in benches]).save()


def write(
    results: Path,
    python: str,
    stack: str,
    figures: Figures,
    *,
    commit: str = COMMIT,
    hour: int = 9,
    committed: int = 1_700_000_000_000,
) -> None:
    """Write one environment's results; combinations without figures have failed."""
    record = Machine()
    record.__dict__.update(machine="synthetic-2c", num_cpu="2", cpu="A CPU", os="Linux")
    record.save(str(results))
    result = Results(
        {**record.__dict__, "python": python, "stack": stack},
        {"stack": stack},
        commit,
        committed,
        python,
        f"duetbench-py{python}-stack{stack}",
        {},
    )
    for bench, values in figures:
        arguments: list[Value] = [
            values.get(combination) for combination in product(*bench.params.values())
        ]
        sampled = [list(v) if isinstance(v, Sequence) else None for v in arguments]
        result.add_result(
            bench.entry(),
            BenchmarkResult(
                result=[True if isinstance(v, Sequence) else v for v in arguments],
                samples=sampled,
                number=[1 if samples else None for samples in sampled],
                errcode=0,
                stderr="",
                profile=None,
            ),
            started_at=datetime(2026, 11, 20, hour, tzinfo=UTC),
            record_samples=True,
        )
    result.save(str(results))
