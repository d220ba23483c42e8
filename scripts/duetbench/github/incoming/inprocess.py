"""Checks asv's result files of a night against its plan and the checkout. Pure.

There is one per interpreter and stack, of the machine whose run came with it. asv's list of
benchmarks is not taken over, and its description of the machine is written anew. A machine can lie
about its figures, but cannot speak for another machine or commit, or bring anything but figures.
"""

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from duetbench.core.errors import ArtifactError
from duetbench.core.model import Frozen, Machine, Run
from duetbench.core.text import require_plain, shown
from duetbench.github.incoming.facts import Checkout, problem, require, require_time
from duetbench.github.incoming.folder import ArtifactFile
from duetbench.host.machine import asv_profile
from duetbench.store.night import NightPlan

FOLDER: Final = "asv"
"""Below a results folder."""

_LIST: Final = f"{FOLDER}/benchmarks.json"
_MACHINE: Final = "machine.json"
_ARCHITECTURES: Final = frozenset({"x86_64", "aarch64"})
_BENCHMARK: Final = re.compile(r"(?P<suite>[a-z]\w*)(\.[A-Za-z_]\w*)+", re.ASCII)
_MOST_COMBINATIONS: Final = 5_000
_MOST_SAMPLES: Final = 10_000
_SMALLEST, _LARGEST = 1e-15, 1e15


def _possible(value: float) -> float:
    """Figures are times, sizes, counts and versions: 0, or within these bounds."""
    if value and not _SMALLEST <= abs(value) <= _LARGEST:
        raise ValueError(f"the figure {value:g}")
    return value


def _result(value: float) -> float:
    """A figure from zero on, or NaN, which asv writes where a combination does not apply."""
    if value < 0:
        raise ValueError(f"the figure {value:g}")
    return value if math.isnan(value) else _possible(value)


_Duration = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
_Figure = Annotated[float, Field(ge=0), AfterValidator(_possible)]
_Signed = Annotated[float, AfterValidator(_possible)]
_Figures = list[_Figure | None] | None
_Samples = Annotated[list[_Figure | None], Field(max_length=_MOST_SAMPLES)]


class BenchmarkColumns(Frozen):
    """What asv 0.6 stores of a benchmark, column by column; null: it failed."""

    result: list[Annotated[float, AfterValidator(_result)] | None] | None
    params: list[list[str]]
    version: str
    started_at: int
    duration: _Duration | None = None
    stats_ci_99_a: list[_Signed | None] | None = None
    stats_ci_99_b: list[_Signed | None] | None = None
    stats_q_25: _Figures = None
    stats_q_75: _Figures = None
    stats_number: _Figures = None
    stats_repeat: _Figures = None
    samples: list[_Samples | None] | None = None
    profile: None = None

    @model_validator(mode="before")
    @classmethod
    def _of_columns(cls, row: Any) -> dict[str, Any]:
        if not isinstance(row, list) or len(row) > len(COLUMNS):
            raise ValueError(f"expected a list of at most {len(COLUMNS)} columns")
        return dict(zip(COLUMNS, row, strict=False))

    @model_validator(mode="after")
    def _one_figure_per_combination(self) -> Self:
        count = math.prod(map(len, self.params))
        if not 0 < count <= _MOST_COMBINATIONS:
            raise ValueError(f"parameters with {count:,} combinations")
        for column in ("result", "samples", *(c for c in COLUMNS if c.startswith("stats_"))):
            figures = getattr(self, column)
            if figures is not None and len(figures) != count:
                raise ValueError(f"expected {count} figures in {column}, found {len(figures)}")
        return self


COLUMNS: Final = tuple(BenchmarkColumns.model_fields)


class Results(Frozen):
    """One of asv's files: what one environment gave at one commit."""

    commit_hash: str
    env_name: str
    date: int = Field(ge=0, description="Of the commit, ms since 1970.")
    params: dict[str, str]
    python: str
    requirements: dict[str, str]
    env_vars: dict[str, str]
    result_columns: list[str]
    results: dict[str, BenchmarkColumns]
    durations: dict[str, _Duration]
    version: Literal[2]


def belongs(path: str) -> bool:
    """Whether a file of an artifact is one of asv's, by its path below the artifact."""
    return path.startswith(f"{FOLDER}/")


def check(
    files: Iterable[ArtifactFile],
    runs: Iterable[Run],
    night: NightPlan,
    trusted: Checkout,
    now: datetime,
) -> dict[str, bytes]:
    """Check all that one machine has sent of asv; raises ArtifactError.

    Returns:
        What to write: path below a results folder → bytes, with the machine's description.
    """
    sent = {file.path: file.data for file in files}
    sent.pop(_LIST, None)
    if not sent:
        return {}
    machines = {run.machine.id: run.machine for run in runs}
    if len(machines) != 1:
        raise ArtifactError(
            f"results inside the process with runs of {len(machines)} machines, expected one: "
            "nobody knows whose they are"
        )
    (machine,) = machines.values()
    described = f"{FOLDER}/{machine.id}/{_MACHINE}"
    sent.pop(described, None)
    checked: dict[str, bytes] = {}
    for path, data in sent.items():
        found, ours = _decoded(data)
        _require_origin(found, machine, night, trusted, now)
        for name, row in found.results.items():
            named = _BENCHMARK.fullmatch(name)
            if named is None or named["suite"] not in trusted.suites:
                raise ArtifactError(f"the benchmark {shown(name)}, which is of none of our suites")
            _require_time(f"start of {name}", row.started_at, night.created, now)
        place = f"{FOLDER}/{machine.id}/{str(night.commit)[:8]}-{found.env_name}.json"
        require("name of a file", place, path)
        checked[path] = ours
        # The architecture is not in a run, and is not always ours.
        profile = {**asv_profile(machine), "arch": found.params["arch"], "version": 1}
        text = json.dumps(profile, indent=4, sort_keys=True).encode()  # as asv writes it
        if checked.setdefault(described, text) != text:
            raise ArtifactError("results of one machine with two architectures")
    return checked


def _decoded(data: bytes) -> tuple[Results, bytes]:
    """The checked file, and how asv would write it."""
    try:
        document = json.loads(data)
        found = Results.model_validate(document, strict=True)
    except (ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise ArtifactError(f"no results of asv: {problem(error)}") from error
    require_plain(document)
    return found, json.dumps(document).encode()


def _require_origin(
    found: Results, machine: Machine, night: NightPlan, trusted: Checkout, now: datetime
) -> None:
    """Commit, environment and machine are those of the night, and of nothing else."""
    require("commit of asv's results", night.commit, found.commit_hash)
    if (date := trusted.dates.get(found.commit_hash)) is not None:
        require("date of the commit", date, found.date)
    _require_time("date of the commit", found.date, None, now)
    trusted.require_declared(found.python)
    stack = found.requirements.get("stack", "")
    trusted.lock(stack)
    require("requirements", {"stack": stack}, found.requirements)
    require("variables", {}, found.env_vars)
    require("environment", f"duetbench-py{found.python}-stack{stack}", found.env_name)
    require("columns", list(COLUMNS), found.result_columns)
    arch = found.params.get("arch", "")
    if arch not in _ARCHITECTURES:
        raise ArtifactError(f"the architecture {shown(arch)}, which is none of ours")
    expected = {**asv_profile(machine), "arch": arch, "python": found.python, "stack": stack}
    require("machine of asv's results", expected, found.params)


def _require_time(what: str, milliseconds: int, earliest: str | None, now: datetime) -> None:
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError) as error:
        raise ArtifactError(f"{what}: the time {shown(str(milliseconds))}") from error
    since = datetime.fromisoformat(earliest).astimezone(UTC) if earliest is not None else None
    require_time(what, moment.isoformat(), since, now)
