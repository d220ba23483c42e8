"""Run ↔ the bytes of a run file: strict JSON of `model.Run`, described by `results/schema.json`.

Measured values are rounded to `DIGITS` significant digits, a relative error of at most 5e-6, which
is a thousand times below the noise of any launch. Counts and declared values are kept exactly.
Files of format 1 are read too, and stay as they are.
"""

from __future__ import annotations

import math
from typing import Final

from servebench.core import units
from servebench.core.errors import RecordError
from servebench.core.metrics import METRICS
from servebench.core.model import FORMAT_VERSION, Launch, Run
from servebench.record import files
from servebench.record.files import Document

DIGITS: Final = 6


def encode(run: Run) -> bytes:
    """Turn a run into the bytes of its file.

    Raises:
        RecordError: A figure is not finite, which strict JSON cannot say.
    """
    try:
        return files.encode(rounded(run))
    except ValueError as problem:
        raise RecordError(
            f"run {run.id}: every figure must be a finite number, found one that is not "
            f"({problem}); this is a fault of the launch that made it"
        ) from problem


def decode(data: bytes, name: str) -> Run:
    """Turn the bytes of a run file into a run; `name` is what errors call the file.

    Raises:
        RecordError: Not a run file, a format this version does not read, or damaged.
    """
    return files.parse(Run, data, name, _UPGRADES)


def rounded(run: Run) -> Run:
    """The run as it is read back: measured values rounded as in the file.

    Raises:
        ValueError: A figure is not finite.
    """
    results = tuple(
        result.model_copy(update={"launches": tuple(map(_rounded, result.launches))})
        for result in run.results
    )
    wall = _figure("wall_seconds", run.wall_seconds)
    return run.model_copy(update={"wall_seconds": wall, "results": results})


def schema() -> str:
    """The JSON Schema (2020-12) of run files, as text."""
    return files.describe(Run, f"servebench run file, format {FORMAT_VERSION}")


def _rounded(launch: Launch) -> Launch:
    measured = {name: _figure(name, getattr(launch, name)) for name in ("seconds", "load_seconds")}
    metrics = {n: _figure(n, launch.metrics[n]) for n in METRICS if n in launch.metrics}
    return launch.model_copy(update={**measured, "metrics": metrics})


def _figure(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    if name in METRICS and METRICS[name].format is units.count and value.is_integer():
        return value
    return float(f"{value:.{DIGITS}g}")


def _from_format_1(document: Document) -> Document:
    """Format 1 named endpoints by key, and stored the launches of a case as columns."""
    endpoints = document.pop("endpoints")
    for result in document["results"]:
        case, columns = result["case"], result["launches"]
        if case["endpoint"] not in endpoints:
            raise ValueError(f"case {case['id']} names the unknown endpoint {case['endpoint']!r}")
        case["endpoint"] = endpoints[case["endpoint"]]
        metrics = columns.pop("metrics")
        lengths = {len(column) for column in (*columns.values(), *metrics.values())}
        if len(lengths) != 1:
            raise ValueError(f"case {case['id']}: columns of launches differ in length")
        result["launches"] = [
            {name: column[place] for name, column in columns.items()}
            | {
                "case": case["id"],
                "metrics": {n: c[place] for n, c in metrics.items() if c[place] is not None},
            }
            for place in range(lengths.pop())
        ]
    return {**document, "format": 2}


_UPGRADES: Final = {1: _from_format_1}
