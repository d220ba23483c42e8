"""Instructions per request and per validation, counted by Valgrind: exact where clocks are noisy.

A count repeats to 0.03 %, most of them exactly, whatever else the machine does, as long as
interpreter, processor, packages and code are the same; without a C compiler (see
`duetbench.measure.instructions.counting`) to 0.1 % where code draws random numbers, as Pydantic's
JSON parser does. It says what one thread executes: no waiting, no contention, no memory latency;
handlers that run in threads are left out. Everything of an environment is counted once, by
`setup_cache`.

What is counted is in `_counted.py`, how in `scripts/duetbench/measure/instructions`.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import sys
import tomllib
from pathlib import Path
from typing import Any, TypedDict

from . import _endpoints, _project, _requests

unit = "instructions"

# By hand: raise it when the drivers, the jobs or the phases change.
version = "2"

# s a request may take without Valgrind, which takes 50 times as long and needs 120 of them.
LONGEST = 0.05
TIMEOUT_S = 1800
EXPERIMENT = "pydantic-v1-v2"


class Counted(TypedDict):
    """What `setup_cache` found.

    Attributes:
        figures: Target → instructions per unit.
        failures: Target → why counting it went wrong.
        unfit: Target → why it is not to be counted here.
        seeded: Whether the figures were counted with the same random numbers as ever.
    """

    figures: dict[str, float]
    failures: dict[str, str]
    unfit: dict[str, str]
    seeded: bool


class Requests:
    """Instructions from a request to the end of its answer."""

    params = _requests.names()
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
        return _figure(counted, f"pydantic/{document}/{size}/{source}")


class Written:
    """Instructions to write a document that was validated."""

    params = ([1, 20], ["python", "json"])
    param_names = ("size", "target")

    def track_serialisation(self, counted: Counted, size: int, target: str) -> float:
        """To Python objects or to JSON text, as in `pydantic_models`."""
        return _figure(counted, f"pydantic/written/{size}/{target}")


def targets() -> list[str]:
    """Name all that can be counted, on some stack."""
    documents = itertools.product(*Pydantic.params)
    texts = itertools.product(["written"], *Written.params)
    return [
        *(f"request/{name}" for name in Requests.params),
        *("/".join(("pydantic", *map(str, job))) for job in (*documents, *texts)),
    ]


def setup_cache() -> Counted:
    """Count all that this environment can, in one start of Valgrind.

    Raises:
        CountError: Nothing could be counted.
    """
    counting = _counting()
    unfit = {name: reason for name in targets() if (reason := _unfit(name)) is not None}
    fit = [name for name in targets() if name not in unfit]
    counted = Counted(figures={}, failures={}, unfit=unfit, seeded=True)
    lacking = counting.missing()
    if lacking is not None:
        unfit |= dict.fromkeys(fit, lacking)
        return counted
    results = counting.count(
        Path(sys.executable),
        ["-P", "-m", f"{__package__}._counted"],
        fit,
        env={
            "PYTHONPATH": str(_project.tree()),
            "DUETBENCH_CHECKOUT": str(_project.checkout()),
            "DUETBENCH_STACK": _project.stack(),
        },
        timeout=TIMEOUT_S - 60,
    )
    for name, result in results.items():
        if isinstance(result, counting.InstructionCount):
            counted["figures"][name] = result.per_unit
            counted["seeded"] &= result.seeded
        else:
            counted["unfit" if result.unfit else "failures"][name] = result.reason
    return counted


# asv takes it from the function.
setup_cache.timeout = TIMEOUT_S  # type: ignore[attr-defined]


def _figure(counted: Counted, target: str) -> float:
    if target in counted["unfit"]:
        _project.skip(counted["unfit"][target])
    if target in counted["failures"]:
        raise RuntimeError(f"{target}: {counted['failures'][target]}")
    if not counted["seeded"]:
        sys.stderr.write("without a C compiler: random numbers may have moved it by 0.1 %\n")
    return counted["figures"][target]


def _unfit(target: str) -> str | None:
    kind, _, name = target.partition("/")
    declared = _endpoints.declared(_project.checkout())
    if kind == "pydantic":
        stacks = {s for e in declared.values() if e.experiment == EXPERIMENT for s in e.stacks}
        return None if _project.stack() in stacks else f"no models for stack {_project.stack()}"
    reason = _requests.missing(name)
    if reason is None and name in declared and _takes(name) > LONGEST:
        reason = f"{name} computes for longer than {LONGEST:g} s: that is no longer about serving"
    return reason


def _takes(name: str) -> float:
    """Seconds that a request to an endpoint takes, if it does not just wait, as declared."""
    experiment, _, endpoint = name.partition("/")
    file = _project.checkout() / "apps" / experiment / "experiment.toml"
    takes = tomllib.loads(file.read_text("utf-8"))["endpoints"][endpoint].get("takes", 0)
    # A formula belongs to work that a parameter makes larger.
    return takes if isinstance(takes, int | float) else math.inf


def _counting() -> Any:
    """Import the counter from this tree: it is no package of the stack's."""
    scripts = os.fspath(_project.tree() / "scripts")
    if scripts not in sys.path:
        sys.path.append(scripts)
    return importlib.import_module("duetbench.measure.instructions.counting")
