"""Run one benchmark once, in the interpreter that this program is given to.

    python -P single.py BENCHMARKS NAME PARAMETERS ATTRIBUTES RESULT

It runs in a stack's environment (see `suite_runs`): standard library and `asv_runner` only. What
asv's own `run` mode lacks is here: parameters are named by their values and not by their place in a
list that may differ between two commits, a benchmark that says it has nothing to measure is told
from one that fails, and the version of the benchmark is written down. Whatever the benchmark's own
clock is, its time is the CPU time of the process: the core may be shared with another one.

RESULT becomes a JSON object: `samples` (s of CPU per call) and `version`, or `absent` with the
reason why there is nothing to measure. A failure is an exit code with a traceback.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from asv_runner.benchmarks.mark import SkipNotImplemented
from asv_runner.discovery import get_benchmark_from_name


class _CpuTime:
    """Attributes of a benchmark that JSON cannot name."""

    timer = staticmethod(time.process_time)


def measure(
    folder: str, name: str, parameters: list[Any], attributes: dict[str, Any]
) -> dict[str, Any]:
    """Run it with one value per axis, and with `attributes` (`repeat`, …) instead of its own."""
    try:
        benchmark = get_benchmark_from_name(folder, name, extra_params=attributes)
    except ValueError as error:
        return {"absent": str(error)}
    place = 0
    for axis, value in zip(benchmark.params, parameters, strict=True):
        if repr(value) not in axis:
            return {"absent": f"{name} has no parameter {value!r}"}
        place = place * len(axis) + axis.index(repr(value))
    if parameters:
        benchmark.set_param_idx(place)
    benchmark.set_cache(None)
    benchmark._attr_sources.insert(0, _CpuTime)  # as asv_runner does with the attributes
    try:
        if benchmark.do_setup():
            return {"absent": f"{name} skips itself"}
        found = benchmark.do_run()
    except SkipNotImplemented as reason:
        return {"absent": str(reason) or f"{name} skips itself"}
    finally:
        benchmark.do_teardown()
    return {"samples": found["samples"], "version": str(benchmark.version)}


def main(folder: str, name: str, parameters: str, attributes: str, result: str) -> None:
    """Run it and write the result."""
    found = measure(folder, name, json.loads(parameters), json.loads(attributes))
    Path(result).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
