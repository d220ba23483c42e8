"""The load runs as asv benchmarks: names, versions and units, kept in `benchmarks/load_cases.json`.

asv shows what its list of benchmarks knows, and every `asv run` makes that list anew from what it
discovers. So each case of the nightly profile is declared by `track_` stubs, which
`benchmarks/load_runs.py` makes from the file that is generated here.

A case loses its interpreter and stack on the way: asv keeps them as keys of its graphs, so that one
benchmark has a line for each. asv knows no figure of which more is better; throughput becomes
seconds per request.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from servebench.errors import DeclarationError, RecordError
from servebench.metrics import PERCENTILES
from servebench.model import Case, Profile

MODULE: Final = "load_runs"
"""The module of `benchmarks/` that makes the stubs: the first part of their names."""

PROFILE: Final[Profile] = "nightly"
"""The profile whose runs make history."""

_DIGITS: Final = 6
_VERSION_DIGITS: Final = 16

Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """What is shown of a case.

    Attributes:
        key: Ends the benchmark's name.
        title: For people.
        unit: One that asv knows how to print.
        of: Takes a good launch's metrics (SI units); None where the launch has no such figure.
        answers: The fewest answers that a launch must have for it.
    """

    key: str
    title: str
    unit: Literal["seconds", "bytes"]
    of: Callable[[Metrics], float | None]
    answers: int = 1


def _per_request(metrics: Metrics) -> float | None:
    rate = metrics.get("throughput", 0.0)
    return float(f"{1 / rate:.{_DIGITS}g}") if rate > 0 else None


def _service_p99(metrics: Metrics) -> float | None:
    # A closed loop schedules nothing: its runs have the same figures under "response" only.
    return metrics.get("service_p99" if "service_mean" in metrics else "response_p99")


_P99_FROM: Final = next(fewest for name, _, fewest in PERCENTILES if name == "p99")

FIGURES: Final = (
    Figure("cpu", "server CPU per request", "seconds", lambda m: m.get("server_cpu_per_request")),
    Figure("time", "time per request (1 / throughput)", "seconds", _per_request),
    Figure("p99", "service time, p99", "seconds", _service_p99, _P99_FROM),
    Figure("pss", "memory under load (PSS)", "bytes", lambda m: m.get("pss_steady")),
)


@dataclass(frozen=True, slots=True)
class Stub:
    """A benchmark of asv that stands for one figure of one case.

    Attributes:
        name: As asv knows it: `load_runs.<experiment>.track_<case>_<figure>`.
        version: Changes when the case's definition does; asv then starts a new line.
        unit: `seconds` or `bytes`.
        pretty_name: For people.
    """

    name: str
    version: str
    unit: str
    pretty_name: str


def figures(case: Case) -> tuple[Figure, ...]:
    """What a case can show: a load of few requests has no p99."""
    offered = math.inf if case.load.rate is None else case.load.rate * case.load.duration
    return tuple(figure for figure in FIGURES if offered >= figure.answers)


def stub(case: Case, figure: Figure) -> Stub:
    """The benchmark that a figure of a case belongs to."""
    shown = title(case)
    experiment, _, rest = shown.partition("/")
    return Stub(
        name=f"{MODULE}.{_slug(experiment)}.track_{_slug(rest)}_{figure.key}",
        version=_version(case, figure),
        unit=figure.unit,
        pretty_name=f"{shown}: {figure.title}",
    )


def title(case: Case) -> str:
    """A case's id without its interpreter and stack: `asgi-wsgi/asgi-json/w1/c128`."""
    experiment, *parts = case.id.split("/")
    keys = {f"py{case.python}", case.stack}
    return "/".join((experiment, *(part for part in parts if part not in keys)))


def declare(cases: Iterable[Case]) -> tuple[Stub, ...]:
    """All benchmarks of some cases, sorted by name.

    Raises:
        DeclarationError: Two cases differ in more than interpreter and stack, and not in their id.
    """
    found: dict[str, Stub] = {}
    for case in cases:
        for figure in figures(case):
            made = stub(case, figure)
            if found.setdefault(made.name, made) != made:
                raise DeclarationError(
                    f"apps/{case.experiment}/experiment.toml",
                    "id",
                    case.id,
                    "one definition for every interpreter and stack: put what differs into the id",
                )
    return tuple(found[name] for name in sorted(found))


def place(root: Path) -> Path:
    """Where a checkout keeps the stubs."""
    return root / "benchmarks" / "load_cases.json"


def render(stubs: Iterable[Stub]) -> str:
    """The file's text: one line per benchmark."""
    lines = ",\n".join(" " + json.dumps(asdict(each), ensure_ascii=False) for each in stubs)
    return f"[\n{lines}\n]\n"


def write(root: Path, stubs: Iterable[Stub]) -> bool:
    """Write the file; whether that changed it.

    Raises:
        RecordError: It cannot be written.
    """
    file, text = place(root), render(stubs)
    if file.exists() and file.read_text("utf-8") == text:
        return False
    try:
        file.write_text(text, "utf-8")
    except OSError as problem:
        raise RecordError(f"{file}: cannot be written: {problem.strerror}") from problem
    return True


def check(root: Path, stubs: Iterable[Stub]) -> None:
    """Compare the file with what it should be.

    Raises:
        RecordError: It says something else.
    """
    file = place(root)
    if not file.exists() or file.read_text("utf-8") != render(stubs):
        raise RecordError(
            f"{file} is not what the declarations say; renew it with `servebench asv stubs` and "
            "commit it"
        )


def read(root: Path) -> tuple[Stub, ...]:
    """The stubs of a checkout, as its file has them.

    Raises:
        RecordError: There is no such file, or it is no list of stubs.
    """
    file = place(root)
    try:
        return tuple(Stub(**written) for written in json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as problem:
        raise RecordError(
            f"{file}: expected the stubs of the load runs, found {problem}; make it with "
            "`servebench asv stubs`"
        ) from problem


def _version(case: Case, figure: Figure) -> str:
    """Digest of all that is done to measure; not of what judges it, such as the right answer."""
    definition = {
        "app": case.endpoint.app,
        "interface": case.endpoint.interface,
        "path": case.endpoint.path,
        "env": case.env,
        "server": case.server,
        "loop": case.loop,
        "workers": case.workers,
        "threads": case.threads,
        "load": case.load.model_dump(mode="json"),
        "cores": case.cores,
        "figure": figure.key,
    }
    text = json.dumps(definition, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_VERSION_DIGITS]


def _slug(text: str) -> str:
    """Only letters, digits and underscores: asv cuts names at points and hyphens."""
    return re.sub(r"\W+", "_", text)
