"""Instructions per request and per validation, counted by Valgrind: exact even on noisy machines.

A count repeats to 0.03 %, mostly exactly, if interpreter, processor, packages and code are equal.
It is the work of one thread, without waiting, contention and memory latency; handlers that run in
threads are left out. `setup_cache` counts everything of an environment at once.

duetbench counts: `measure/instructions` is the counter, `measure/inside` the counted program.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, TypedDict

from duetbench.app.inside import process
from duetbench.core.errors import CountError
from duetbench.counts import counting
from observatory.measure.inside import checkout, endpoints, requests

from . import _suite

unit = "instructions"

# Raise it by hand when the drivers, the jobs or the rounds change.
version = "4"

# Longest request without Valgrind, s; Valgrind takes 50 times as long and needs 120 requests.
LONGEST = 0.05
TIMEOUT_S = 1800
EXPERIMENT = "pydantic-v1-v2"
_MODELS = f"unit/{__package__}.pydantic_models"


class Counted(TypedDict):
    """Result of `setup_cache`.

    Attributes:
        figures: Target → instructions per unit.
        failures: Target → why counting failed.
        unfit: Target → why it is not counted here.
    """

    figures: dict[str, float]
    failures: dict[str, str]
    unfit: dict[str, str]


class Requests:
    """Instructions from a request to the end of its answer."""

    params = requests.names(_suite.tree())
    param_names = ("endpoint",)

    def track_request(self, counted: Counted, endpoint: str) -> float:
        """One request, as in `handlers`."""
        return _figure(counted, f"request/{endpoint}")


class Pydantic:
    """Instructions to validate, or to refuse and list the errors."""

    params = (["valid", "refused"], [1, 20], ["python", "json"])
    param_names = ("document", "size", "source")

    def track_validation(self, counted: Counted, document: str, size: int, source: str) -> float:
        """One document, as in `pydantic_models`."""
        return _figure(counted, f"{_MODELS}/{document}/{size}/{source}")


class Written:
    """Instructions to write a validated document."""

    params = ([1, 20], ["python", "json"])
    param_names = ("size", "target")

    def track_serialisation(self, counted: Counted, size: int, target: str) -> float:
        """To Python objects or to JSON text, as in `pydantic_models`."""
        return _figure(counted, f"{_MODELS}/written/{size}/{target}")


def targets() -> list[str]:
    """All targets that can be counted, on some stack."""
    documents = itertools.product(*Pydantic.params)
    texts = itertools.product(["written"], *Written.params)
    return [
        *(f"request/{name}" for name in Requests.params),
        *("/".join((_MODELS, *map(str, words))) for words in (*documents, *texts)),
    ]


def setup_cache() -> Counted:
    """Count all targets that this environment can, in one start of Valgrind.

    Raises:
        CountError: Nothing could be counted.
    """
    unfit = {name: reason for name in targets() if (reason := _unfit(name)) is not None}
    fit = [name for name in targets() if name not in unfit]
    counted = Counted(figures={}, failures={}, unfit=unfit)
    problem = counting.missing()
    if problem is not None:
        unfit |= dict.fromkeys(fit, problem)
        return counted
    program = process.Program(
        Path(sys.executable),
        ["-P", "-m", "observatory.measure.inside.program"],
        env={
            "PYTHONPATH": str(_suite.tree()),
            "DUETBENCH_CHECKOUT": str(checkout.checkout()),
            "DUETBENCH_STACK": checkout.stack(),
        },
    )
    with process.workspace({"functions": False, "ends": math.inf, "targets": fit}) as folder:
        late = _run(program, folder)
        for index, name in enumerate(fit):
            file = folder / f"{index}.json"
            if late and not file.exists():
                counted["failures"][name] = late
            else:
                _add(counted, name, process.report_of(file), folder)
    if late and not counted["figures"]:
        raise CountError(late)
    return counted


# asv reads it from the function.
setup_cache.timeout = TIMEOUT_S  # type: ignore[attr-defined]


def _run(program: process.Program, folder: Path) -> str:
    """Run the program under Valgrind to its end; say why it did not get there."""
    argv = process.command(program, folder, counting.counter)
    variables = process.environment(program.env, folder)
    log = folder / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            argv,
            env=variables,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = child.wait(TIMEOUT_S - 60)
    except subprocess.TimeoutExpired:
        return f"Valgrind did not finish in {TIMEOUT_S - 60} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    said = log.read_text("utf-8", "replace")[-500:]
    return f"Valgrind ended with exit code {code}; it said: {said}" if code else ""


def _add(counted: Counted, target: str, report: dict[str, Any], folder: Path) -> None:
    """Add the figure of a target, or the reason why there is none."""
    if "unfit" in report:
        counted["unfit"][target] = report["unfit"]
    elif "reason" in report:
        counted["failures"][target] = report["reason"]
    else:
        try:
            counted["figures"][target] = statistics.median(counting.read_rounds(folder, report))
        except CountError as error:
            counted["failures"][target] = str(error)


def _figure(counted: Counted, target: str) -> float:
    if target in counted["unfit"]:
        _suite.skip(counted["unfit"][target])
    if target in counted["failures"]:
        raise RuntimeError(f"{target}: {counted['failures'][target]}")
    return counted["figures"][target]


def _unfit(target: str) -> str | None:
    kind, _, name = target.partition("/")
    declared = endpoints.declared(checkout.checkout())
    if kind == "unit":
        stacks = {s for e in declared.values() if e.experiment == EXPERIMENT for s in e.stacks}
        return None if checkout.stack() in stacks else f"no models for stack {checkout.stack()}"
    reason = requests.missing(name)
    if reason is None and name in declared and _takes(name) > LONGEST:
        reason = f"{name} computes for longer than {LONGEST:g} s: that is no longer about serving"
    return reason


def _takes(name: str) -> float:
    """Declared seconds of a request to an endpoint that computes; 0 if undeclared."""
    experiment, _, endpoint = name.partition("/")
    file = checkout.checkout() / "apps" / experiment / "experiment.toml"
    takes = tomllib.loads(file.read_text("utf-8"))["endpoints"][endpoint].get("takes", 0)
    # A formula means that a parameter scales the work.
    return takes if isinstance(takes, int | float) else math.inf
