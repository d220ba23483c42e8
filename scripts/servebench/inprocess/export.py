"""Run files → asv results, through asv's own classes.

Every finished run of the nightly profile becomes points of asv's graphs: one results file per
commit, interpreter and stack, with asv's keys (machine, python, stack), so that load runs and
in-process figures share graphs. The files carry an environment name of their own, which no
environment of asv has, so `asv run` never overwrites them. Each launch is a sample. Runs of the
same commit on the same machine are one point.

The same run files always give the same results files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from asv import util
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.environment import get_env_name
from asv.machine import Machine as AsvMachine
from asv.plugins.git import Git
from asv.repo import NoSuchNameError
from asv.results import Results, get_filename
from asv.runner import BenchmarkResult

from servebench import store
from servebench.errors import RecordError, SetupError
from servebench.inprocess import machine_profile, stubs
from servebench.model import CaseResult, Machine, Run, Status

TOOL: Final = "load-runs"
"""Begins the name of the environment that asv believes the figures come from."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of the run files.

    Attributes:
        files: The results files, in order.
        runs: Runs that entered them.
        figures: Figures in them, failed ones not counted.
        left_out: One sentence per run that did not enter.
    """

    files: tuple[Path, ...]
    runs: int
    figures: int
    left_out: tuple[str, ...]


class _Key(NamedTuple):
    """One results file."""

    machine: str
    commit: str
    python: str
    stack: str


@dataclass(frozen=True, slots=True)
class _Point:
    """One figure of one commit.

    Attributes:
        version: Of the case's definition.
        samples: One per good launch; none if all of them failed.
        started: Start of the first launch.
        seconds: All launches together.
    """

    version: str
    samples: tuple[float, ...]
    started: datetime
    seconds: float

    def joined(self, later: _Point) -> _Point:
        """The point of two runs; the later one decides what the case is."""
        if later.version != self.version:
            return later
        samples, seconds = self.samples + later.samples, self.seconds + later.seconds
        return replace(self, samples=samples, seconds=seconds)

    def result(self) -> BenchmarkResult:
        """The point as asv's runner would hand it over. Nothing measured: failed, no figure."""
        samples = list(self.samples)
        # With one sample asv computes an infinite interval, which its files cannot say in JSON.
        number = 1 if len(samples) > 1 else None
        return BenchmarkResult(
            result=[samples[0] if samples else None],
            samples=[samples or None],
            number=[number],
            errcode=0 if samples else 1,
            stderr="",
            profile=None,
        )


def configuration(root: Path) -> Config:
    """Read asv's configuration of a checkout; its paths become absolute.

    Raises:
        SetupError: There is none, or asv does not understand it.
    """
    try:
        conf = Config.load(str(root / "asv.conf.json"))
    except (util.UserError, ValueError) as problem:
        raise SetupError(f"{root / 'asv.conf.json'}: {problem}") from problem
    for name in ("repo", "benchmark_dir", "results_dir", "html_dir", "env_dir"):
        setattr(conf, name, str(root / getattr(conf, name)))
    return conf


def export(root: Path, runs: Sequence[Path]) -> Exported:
    """Write the results files of all nightly runs of a checkout, and list their benchmarks.

    Args:
        root: The checkout.
        runs: Its nightly run files, oldest first, all of them: what they no longer hold is removed.

    Raises:
        RecordError: The list of stubs cannot be read.
        SetupError: asv's configuration cannot be read.
    """
    conf = configuration(root)
    results = Path(conf.results_dir)
    repo = Git(conf.repo, conf.project)
    dates = _Dates(repo)
    points: dict[_Key, dict[str, _Point]] = {}
    machines: dict[str, Machine] = {}
    commits: set[str] = set()
    left_out = []
    for path in runs:
        try:
            run = store.load(path)
        except RecordError as problem:
            left_out.append(f"left out: {problem}")
            continue
        commits.add((run.commit or "")[:8])
        reason = _unusable(run, dates)
        if reason:
            left_out.append(f"run {run.id} is left out: {reason}")
            continue
        machines[run.machine.id] = run.machine
        for key, name, point in _points(run):
            named = points.setdefault(key, {})
            named[name] = named[name].joined(point) if name in named else point
    described = {name: _described(results, machine) for name, machine in machines.items()}
    files = tuple(
        _write(results, key, described[key.machine], dates.of(key.commit), points[key])
        for key in sorted(points)
    )
    _remove_stale(results, files, commits)
    _list(conf, stubs.read(root))
    return Exported(
        files=files,
        runs=len(runs) - len(left_out),
        figures=sum(bool(point.samples) for named in points.values() for point in named.values()),
        left_out=tuple(left_out),
    )


class _Dates:
    """Commit dates, each asked for once."""

    def __init__(self, repo: Git) -> None:
        self._repo = repo
        self._known: dict[str, int | None] = {}

    def find(self, commit: str) -> int | None:
        """A commit's date as asv counts it (ms since 1970); None: not in this repository."""
        if commit not in self._known:
            try:
                self._known[commit] = int(
                    self._repo.get_date(self._repo.get_hash_from_name(commit))
                )
            except NoSuchNameError:
                self._known[commit] = None
        return self._known[commit]

    def of(self, commit: str) -> int:
        """The same of a commit that is there."""
        date = self.find(commit)
        if date is None:
            raise KeyError(commit)
        return date


def _unusable(run: Run, dates: _Dates) -> str | None:
    """Why a run is no point of a commit's history; None if it is one."""
    if run.commit is None:
        return "it was measured outside a repository"
    if run.dirty:
        return f"it was measured with uncommitted changes over {run.commit[:8]}"
    if dates.find(run.commit) is None:
        return f"its commit {run.commit[:8]} is not in this repository (is the clone shallow?)"
    return None


def _points(run: Run) -> Iterator[tuple[_Key, str, _Point]]:
    for result in run.results:
        case = result.case
        key = _Key(run.machine.id, run.commit or "", case.python, case.stack)
        for figure in stubs.figures(case):
            point = _point(result, figure)
            if point is not None:
                yield key, stubs.stub(case, figure).name, point


def _point(result: CaseResult, figure: stubs.Figure) -> _Point | None:
    """A figure over the launches of a case; None where nobody tried to measure it."""
    good = [launch for launch in result.launches if launch.status is Status.OK]
    samples = tuple(value for launch in good if (value := figure.of(launch.metrics)) is not None)
    if not result.launches or (good and not samples):
        return None
    return _Point(
        version=stubs.stub(result.case, figure).version,
        samples=samples,
        started=min(datetime.fromisoformat(launch.started) for launch in result.launches),
        seconds=sum(launch.seconds for launch in result.launches),
    )


def _described(results: Path, machine: Machine) -> dict[str, Any]:
    """A machine as asv has recorded it, else as we describe it, which is recorded now."""
    file = results / machine.id / "machine.json"
    if not file.exists():
        made = AsvMachine()
        made.__dict__.update(machine_profile.profile(machine))
        made.save(str(results))
    return dict(util.load_json(str(file), AsvMachine.api_version))


def _write(
    results: Path, key: _Key, machine: Mapping[str, Any], date: int, points: Mapping[str, _Point]
) -> Path:
    requirements = {"stack": key.stack}
    env = get_env_name(TOOL, key.python, requirements, {})
    params = {**machine, "python": key.python, **requirements}
    written = Results(params, requirements, key.commit, date, key.python, env, {})
    for name in sorted(points):
        point = points[name]
        written.add_result(
            {"name": name, "version": point.version, "params": []},
            point.result(),
            started_at=point.started,
            duration=point.seconds,
            record_samples=True,
        )
    written.save(str(results))
    return results / str(get_filename(key.machine, key.commit, env))


def _remove_stale(results: Path, written: Sequence[Path], commits: set[str]) -> None:
    """Remove files of ours that no run file accounts for any more; nothing of asv's own."""
    for file in results.glob(f"*/*-{TOOL}-*.json"):
        if file not in written and file.name.split("-")[0] not in commits:
            file.unlink()


def _list(conf: Config, declared: Sequence[stubs.Stub]) -> None:
    """Put the stubs on asv's list of benchmarks, as its discovery would; the others stay."""
    file = Path(Benchmarks.get_benchmark_file_path(conf.results_dir))
    known = util.load_json(str(file), Benchmarks.api_version) if file.exists() else {}
    listed = [entry for name, entry in known.items() if not name.startswith(f"{stubs.MODULE}.")]
    for stub in declared:
        made = entry(stub)
        discovered = known.get(stub.name, {})
        same = all(discovered.get(key) == made[key] for key in made if key != "code")
        listed.append(discovered if same else made)
    Benchmarks(conf, listed).save()


def entry(stub: stubs.Stub) -> dict[str, Any]:
    """A benchmark as asv's list has it; `code` is only shown."""
    return {
        "name": stub.name,
        "version": stub.version,
        "unit": stub.unit,
        "pretty_name": stub.pretty_name,
        "type": "track",
        "params": [],
        "param_names": [],
        "code": f"# {stub.pretty_name}",
    }
