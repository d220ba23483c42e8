"""Whether results inside the process that a machine sent are of the night. Pure.

They are asv's files, one per interpreter and stack, and belong to the machine of the run that came
with them. asv's list of benchmarks and its description of the machine are not taken over: which
names there are, the suites of our own checkout say, and the machine is described anew.

A machine can lie about its figures. It cannot speak for another machine or commit, bring in other
names, or write anything else into the file than figures.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from servebench.artifacts.folder import Found
from servebench.artifacts.trusted import Trusted, require, require_time
from servebench.errors import ArtifactError
from servebench.inprocess import machine_profile
from servebench.model import Frozen, Machine, Run
from servebench.night.model import NightPlan
from servebench.text import require_plain, shown

FOLDER: Final = "asv"
"""Below a results folder."""

COLUMNS: Final = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
)  # fmt: skip
"""What asv 0.6 keeps of a benchmark; columns at the end that hold nothing are left out."""

_LIST: Final = f"{FOLDER}/benchmarks.json"
_MACHINE: Final = "machine.json"
_ARCHITECTURES: Final = frozenset({"x86_64", "aarch64"})
_LEAST_COLUMNS: Final = 4
_MOST_COMBINATIONS: Final = 5_000
_MOST_SAMPLES: Final = 10_000
_LONGEST_S: Final = 86_400.0
_LARGEST: Final = 1e15
_SMALLEST: Final = 1e-15
"""Figures are times, sizes, counts and versions: 0, or between these; ends of an interval may be
below zero."""
_SIGNED: Final = frozenset({"stats_ci_99_a", "stats_ci_99_b"})
_REASON: Final = 400


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
    results: dict[str, list[Any]]
    durations: dict[str, Annotated[float, Field(ge=0, le=_LONGEST_S, allow_inf_nan=False)]]
    version: Literal[2]


def belongs(path: str) -> bool:
    """Whether a file of an artifact is one of asv's, by its path below the artifact."""
    return path.startswith(f"{FOLDER}/")


def check(
    files: Iterable[Found], runs: Iterable[Run], night: NightPlan, trusted: Trusted, now: datetime
) -> dict[str, bytes]:
    """Check all that one machine has sent of asv.

    Args:
        files: Those that `belongs` names, with paths below the artifact.
        runs: That came with them, checked already.
        night: The plan.
        trusted: What the checkout says.
        now: With an offset.

    Returns:
        What to write: path below a results folder → bytes, asv's description of the machine too.

    Raises:
        ArtifactError: Something else, or something wrong.
    """
    found = {file.path: file.data for file in files}
    found.pop(_LIST, None)
    if not found:
        return {}
    machines = {run.machine.id: run.machine for run in runs}
    if len(machines) != 1:
        raise ArtifactError(
            f"results inside the process with runs of {len(machines)} machines, expected one: "
            "nobody knows whose they are"
        )
    (machine,) = machines.values()
    described = f"{FOLDER}/{machine.id}/{_MACHINE}"
    found.pop(described, None)
    kept: dict[str, bytes] = {}
    for path, data in found.items():
        results = decode(data)
        _require_origin(results, machine, night, trusted, now)
        for name, row in results.results.items():
            _require_name(name, trusted)
            _require_row(name, row, night, now)
        named = f"{night.commit or ''}"[:8]
        require("name of a file", f"{FOLDER}/{machine.id}/{named}-{results.env_name}.json", path)
        kept[path] = data
        profile = _profile(machine, results.params.get("arch", ""))
        if kept.setdefault(described, _described(profile)) != _described(profile):
            raise ArtifactError("results of one machine with two architectures")
    return kept


def decode(data: bytes) -> Results:
    """Read a file that is exactly what asv writes, with plain texts.

    Raises:
        ArtifactError: It is not.
    """
    try:
        document = json.loads(data)
        # asv writes in its own order; what was read twice, or in other words, comes out otherwise.
        same = json.dumps(document).encode() == data
        found = Results.model_validate(document, strict=True)
    except (ValidationError, ValueError, RecursionError) as error:
        first = shown(" ".join(str(error).splitlines()[:3]), _REASON)
        raise ArtifactError(f"no results of asv: {first}") from error
    if not same:
        raise ArtifactError("results of asv that are written otherwise than asv does")
    require_plain(document)
    return found


def _require_origin(
    found: Results, machine: Machine, night: NightPlan, trusted: Trusted, now: datetime
) -> None:
    """Commit, environment and machine are those of the night, and of nothing else."""
    require("commit of asv's results", night.commit, found.commit_hash)
    if (date := trusted.dates.get(found.commit_hash)) is not None:
        require("date of the commit", date, found.date)
    require_time("date of the commit", _moment(found.date), None, now)
    if found.python not in trusted.interpreters:
        raise ArtifactError(f"interpreter {shown(found.python)}, which is not declared")
    stack = found.requirements.get("stack", "")
    if stack not in trusted.locks:
        raise ArtifactError(f"the stack {shown(stack)}, which is not declared")
    require("requirements", {"stack": stack}, found.requirements)
    require("variables", {}, found.env_vars)
    require("environment", f"servebench-py{found.python}-stack{stack}", found.env_name)
    require("columns", list(COLUMNS), found.result_columns)
    arch = found.params.get("arch", "")
    if arch not in _ARCHITECTURES:
        raise ArtifactError(f"the architecture {shown(arch)}, which is none of ours")
    expected = {**_profile(machine, arch), "python": found.python, "stack": stack}
    require("machine of asv's results", expected, found.params)


def _require_name(name: str, trusted: Trusted) -> None:
    """A benchmark is named by its suite, and by a class and function that the suite defines."""
    suite, *parts = name.split(".")
    defined = trusted.benchmarks.get(suite)
    if defined is None or not parts or not defined.issuperset(parts):
        raise ArtifactError(f"the benchmark {shown(name)}, which no suite defines")


def _require_row(name: str, row: Sequence[Any], night: NightPlan, now: datetime) -> None:
    """A benchmark has figures: as many as its parameters combine to, and nothing but figures."""
    if not _LEAST_COLUMNS <= len(row) <= len(COLUMNS):
        raise ArtifactError(f"{name}: {len(row)} columns")
    columns = dict(zip(COLUMNS, row, strict=False))
    count = _combinations(name, columns["params"])
    if not isinstance(columns["version"], str):
        raise ArtifactError(f"{name}: a version that is no text")
    started = columns["started_at"]
    if type(started) is not int:
        raise ArtifactError(f"{name}: a start that is no number")
    created = datetime.fromisoformat(night.created).astimezone(UTC)
    require_time(f"start of {name}", _moment(started), created, now)
    duration = columns.get("duration")
    if duration is not None and not (_is_figure(duration) and 0 <= duration <= _LONGEST_S):
        raise ArtifactError(f"{name}: a duration of {shown(str(duration))}")
    if columns.get("profile") is not None:
        raise ArtifactError(f"{name}: a profile, which nobody asked for")
    _require_figures(name, columns["result"], count, missing=True)
    for column in COLUMNS:
        if column.startswith("stats_"):
            signed = column in _SIGNED
            _require_figures(name, columns.get(column), count, signed=signed)
    _require_samples(name, columns.get("samples"), count)


def _combinations(name: str, params: Any) -> int:
    """How many figures a benchmark has."""
    texts = isinstance(params, list) and all(
        isinstance(values, list) and values and all(isinstance(value, str) for value in values)
        for values in params
    )
    count = math.prod(len(values) for values in params) if texts else 0
    if not 0 < count <= _MOST_COMBINATIONS:
        raise ArtifactError(f"{name}: parameters that are none")
    return count


def _require_figures(
    name: str, figures: Any, count: int, *, missing: bool = False, signed: bool = False
) -> None:
    """As many as there are combinations; null: failed, NaN where `missing`: does not apply."""
    if figures is None:
        return
    if not isinstance(figures, list) or len(figures) != count:
        raise ArtifactError(f"{name}: expected {count} figures in a column")
    for figure in figures:
        nothing = figure is None or (missing and isinstance(figure, float) and math.isnan(figure))
        if not nothing and not _is_figure(figure, signed=signed):
            raise ArtifactError(f"{name}: the figure {shown(str(figure))}")


def _require_samples(name: str, samples: Any, count: int) -> None:
    if samples is None:
        return
    if not isinstance(samples, list) or len(samples) != count:
        raise ArtifactError(f"{name}: expected {count} lists of samples")
    for some in samples:
        if some is None:
            continue
        if not isinstance(some, list) or len(some) > _MOST_SAMPLES:
            raise ArtifactError(f"{name}: samples that are no list, or too many")
        _require_figures(name, some, len(some))


def _is_figure(value: Any, *, signed: bool = False) -> bool:
    # Compared, not converted: a whole number of JSON may have thousands of digits.
    return type(value) in {int, float} and (
        value == 0 or _SMALLEST <= (abs(value) if signed else value) <= _LARGEST
    )


def _profile(machine: Machine, arch: str) -> dict[str, str]:
    """How asv describes the machine; its architecture is not in a run, and is not always ours."""
    return {**machine_profile.profile(machine), "arch": arch}


def _described(profile: dict[str, str]) -> bytes:
    """The file about a machine, as asv writes it."""
    return json.dumps({**profile, "version": 1}, indent=4, sort_keys=True).encode()


def _moment(milliseconds: int) -> str:
    """A time of asv's as ISO 8601.

    Raises:
        ArtifactError: There is no such time.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
    except (OverflowError, OSError, ValueError) as error:
        raise ArtifactError(f"the time {shown(str(milliseconds))}") from error
