"""asv's result files → columns, as a run file's: with the stacks and packages of the commit's lock.

asv keeps a machine's files in a folder, and names them by the first eight digits of their commit:
those that have both in common are read together. asv, which takes half a second to import, is only
imported for files that the cache does not know. Locks are read from git; a commit that git does not
have here has none, and nothing is said of steps beside it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from duetbench.core.errors import DeclarationError, HistoryError, RecordError
from duetbench.host.git import batch_contents, run
from duetbench.project import stacks
from duetbench.project.project import Project
from duetbench.store import asv_results
from duetbench.store.asv_results import Snapshot
from duetbench.trend.cache import Cache
from duetbench.trend.columns import MOST_LAUNCHES, CaseState, RunColumns, RunHeader, empty

if TYPE_CHECKING:
    from asv.results import Results

FOLDER: Final = "asv"
"""Of the results."""

_VERSIONS: Final = "guard.Packages.track_version"
"""asv's benchmark that records versions as figures: 2.014003 is 2.14.3."""
_MACHINE: Final = "machine.json"
_AS_OF: Final = re.compile(r"\bas of (\d{4}-\d\d-\d\d)\b")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_STACK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_Place = tuple[str, str]
"""A commit and a stack."""

_Lock = tuple[str, dict[str, str]]
"""The digest of a lock, and its packages with their versions."""


def read(cache: Cache, problems: list[str], folder: Path) -> list[RunColumns]:
    """Read all of asv's `results_dir`; files that cannot be read are named in `problems`.

    RecordError: asv's list of benchmarks cannot be read.
    """
    found: list[RunColumns] = []
    benchmarks: Any = None
    for names, digest in _bundles(folder):
        if digest not in cache.known and benchmarks is None:
            benchmarks = asv_results.benchmarks(folder)
        wrong: list[str] = []
        found += cache.of(digest, partial(_made, folder, names, benchmarks, wrong))
        if wrong:  # it is read, and told, again
            del cache.used[digest]
        problems += wrong
    return found


def with_git(runs: Sequence[RunColumns], root: Path) -> tuple[list[RunColumns], tuple[str, ...]]:
    """What only the checkout knows of runs of asv's: locks, versions, and the day of an old stack.

    A commit "Stacks as of 2025-11-20" stands at the end of that day, and not at the second at which
    somebody made it. Also returns sentences about what the git of `root` does not have.
    """
    wanted = dict.fromkeys(
        (commit, stack)
        for header in (one.header for one in runs)
        if _COMMIT.fullmatch(commit := header.commit or "")
        for stack in sorted(set(header.stack_of))
        if _STACK.fullmatch(stack)
    )
    if not wanted:
        return list(runs), ()
    try:
        locks, lost = _locks(root, tuple(wanted))
        days = _days(root, {commit for commit, _ in wanted})
    except HistoryError as problem:
        return _versioned(runs), (f"figures inside the process are not searched: {problem}",)
    found = []
    for header in (one.header for one in runs):
        commit = header.commit or ""
        known = {
            stack: locks[commit, stack] for stack in header.stack_of if (commit, stack) in locks
        }
        found.append(
            replace(
                header,
                time=min(days.get(commit, header.time), header.time),
                stacks={stack: digest for stack, (digest, _) in known.items()},
                packages={stack: packages for stack, (_, packages) in known.items()},
            )
        )
    made = _versioned([replace(one, header=h) for one, h in zip(runs, found, strict=True)])
    if not lost:
        return made, ()
    commits = len({commit for commit, _ in wanted})
    note = (
        f"figures inside the process are not searched around {lost} of {commits} commits, which "
        "git does not have here: fetch all of it (git fetch --unshallow, or fetch-depth: 0)"
    )
    return made, (note,)


def newest(folder: Path, runs: Iterable[RunColumns]) -> tuple[Snapshot, ...]:
    """Read with all samples the commits that have any benchmark's newest figure, newest first.

    What cannot be read any more is left out. RecordError: asv's list of benchmarks cannot be read.
    """
    chosen = list(_newest(one for one in runs if one.files))
    if not chosen:
        return ()
    benchmarks = asv_results.benchmarks(folder)
    return asv_results.newest_first(
        snapshot
        for one in chosen
        for snapshot in _snapshots(folder, one.files, benchmarks, [])
        if (snapshot.machine, snapshot.commit) == (one.header.machine, one.header.commit)
    )


def of_snapshot(snapshot: Snapshot, files: tuple[str, ...] = ()) -> RunColumns:
    """The columns of all that asv measured of a commit. Intervals are its quartiles.

    The time is the commit's, as on asv's own pages: an old stack that is measured today stands
    where it belongs. The run's name says when it was measured.
    """
    found = [r for r in snapshot.readings if r.status != "skipped"]
    units = tuple(sorted({reading.unit for reading in found}))
    moment = datetime.fromtimestamp(snapshot.started / 1000, UTC)
    versions = {
        reading.python: _version(reading.value)
        for reading in snapshot.of(_VERSIONS)
        if reading.param.get("package", "").strip("'") == "python" and reading.value is not None
    }
    failed = CaseState("failed", reason="asv recorded that the benchmark failed")
    header = RunHeader(
        run=f"{moment:%Y%m%dT%H%M%SZ}-asv-{snapshot.commit[:8]}",
        kind="inprocess",
        profile="asv",
        time=snapshot.committed // 1000,
        commit=snapshot.commit,
        machine=snapshot.machine,
        fingerprint=snapshot.described,
        interpreters={one.python: versions.get(one.python, one.python) for one in found},
        stacks={},
        packages={},
        cases=tuple(reading.case for reading in found),
        groups=tuple(f"inprocess/{reading.benchmark}" for reading in found),
        definitions=("",) * len(found),
        pythons=tuple(reading.python for reading in found),
        stack_of=tuple(reading.stack for reading in found),
        metrics=units,
        odd={place: failed for place, one in enumerate(found) if one.status == "failed"},
    )
    mean, low, high, launches = empty(header)
    for row, reading in enumerate(found):
        if reading.value is not None:
            column = units.index(reading.unit)
            mean[row, column] = reading.value
            if reading.quartiles is not None:
                low[row, column], high[row, column] = reading.quartiles
            launches[row, column] = min(max(len(reading.samples), 1), MOST_LAUNCHES)
    return RunColumns(header, mean, low, high, launches, files)


def _bundles(folder: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Files of one commit on one machine, and a digest of all that decides how they are read."""
    listed = folder / asv_results.LIST
    if not listed.is_file():
        return
    bundles: dict[tuple[Path, str], list[Path]] = {}
    for path in sorted(folder.glob("*/*.json")):
        if path.name != _MACHINE:
            bundles.setdefault((path.parent, path.name.partition("-")[0]), []).append(path)
    common = listed.read_bytes()
    for (place, _), paths in bundles.items():
        machine = place / _MACHINE
        digest = hashlib.sha256(common)
        digest.update(machine.read_bytes() if machine.is_file() else b"")
        names = tuple(path.relative_to(folder).as_posix() for path in paths)
        for name, path in zip(names, paths, strict=True):
            digest.update(f"\0{name}\0".encode())
            digest.update(path.read_bytes())
        yield names, digest.hexdigest()


def _made(
    folder: Path, names: tuple[str, ...], benchmarks: Any, problems: list[str]
) -> tuple[RunColumns, ...]:
    snapshots = _snapshots(folder, names, benchmarks, problems)
    try:
        with asv_results.understood(folder / names[0]):
            made = [of_snapshot(snapshot, names) for snapshot in snapshots]
    except RecordError as problem:
        problems.append(str(problem))
        return ()
    return tuple(one for one in made if one.header.cases)


def _snapshots(
    folder: Path, names: Sequence[str], benchmarks: Any, problems: list[str]
) -> tuple[Snapshot, ...]:
    """What some files say together; those that cannot be read are added to the problems."""
    results: list[Results] = []
    for name in names:
        try:
            results.append(asv_results.load(folder / name))
        except RecordError as problem:
            problems.append(str(problem))
    try:
        with asv_results.understood(folder / names[0]):
            return asv_results.snapshots(results, benchmarks)
    except RecordError as problem:
        problems.append(str(problem))
        return ()


def _newest(runs: Iterable[RunColumns]) -> Iterator[RunColumns]:
    """The runs with the newest figure of any benchmark; where several are as new, all of them."""
    seen: dict[str, tuple[int, str]] = {}
    for one in sorted(runs, key=_age, reverse=True):
        measured = np.flatnonzero(~np.isnan(one.mean).all(axis=1)).tolist()
        groups = {one.header.groups[place] for place in measured}
        if new := {group for group in groups if seen.get(group, _age(one)) == _age(one)}:
            seen |= dict.fromkeys(new, _age(one))
            yield one


def _age(one: RunColumns) -> tuple[int, str]:
    """Dates of the commit and of the measurement, as `readings.newest_first` sorts by them."""
    return one.header.time, one.header.run.partition("-")[0]


def _version(figure: float) -> str:
    """2.014003 → 2.14.3."""
    major, rest = divmod(round(figure * 1_000_000), 1_000_000)
    return ".".join(map(str, (major, *divmod(rest, 1000))))


def _versioned(runs: Sequence[RunColumns]) -> list[RunColumns]:
    """Interpreters' versions where the guard was not run: those of the machine's run before."""

    def recorded(header: RunHeader) -> dict[tuple[str, str], str]:
        names = header.interpreters.items()
        return {(header.machine, name): text for name, text in names if name != text}

    ordered = sorted(runs, key=lambda one: (one.header.time, one.header.run))
    latest: dict[tuple[str, str], str] = {}
    for header in (one.header for one in reversed(ordered)):  # the first ones, for those before
        latest |= recorded(header)
    found = []
    for one in ordered:
        header = one.header
        latest |= recorded(header)
        known = {name: latest.get((header.machine, name), name) for name in header.interpreters}
        found.append(replace(one, header=replace(header, interpreters=known)))
    return found


def _days(root: Path, commits: Iterable[str]) -> dict[str, int]:
    """Commit → end of the day that its first line names, s since 1970."""
    given = "\n".join(sorted(commits)).encode()
    command = ["log", "--no-walk", "--ignore-missing", "--stdin", "--format=%H %s"]
    found = {}
    for line in run(["-C", str(root), *command], {}, given).decode("utf-8", "replace").splitlines():
        if said := _AS_OF.search(line):
            with suppress(ValueError):  # no day of the calendar
                day = datetime.fromisoformat(f"{said[1]}T23:59:59+00:00")
                found[line.partition(" ")[0]] = int(day.timestamp())
    return found


def _locks(root: Path, wanted: Sequence[_Place]) -> tuple[dict[_Place, _Lock], int]:
    """The locks that git has by commit and stack, and how many commits it does not have."""
    commits = tuple(dict.fromkeys(commit for commit, _ in wanted))
    paths = {
        stack: stacks.lock_file(stack, root).relative_to(root).as_posix() for _, stack in wanted
    }
    names = [*commits, *(f"{commit}:{paths[stack]}" for commit, stack in wanted)]
    answer = _asked(root, "--batch-check", names).decode().splitlines()
    objects = ["" if line.endswith(" missing") else line.partition(" ")[0] for line in answer]
    blobs = dict(zip(wanted, objects[len(commits) :], strict=True))
    unique = tuple(dict.fromkeys(filter(None, blobs.values())))
    locks: dict[str, _Lock] = {}
    version = Project(root).version
    for blob, data in zip(unique, batch_contents(_asked(root, "--batch", unique)), strict=True):
        with suppress(DeclarationError, UnicodeDecodeError):  # what is no lock is none
            if data is not None:
                packages = stacks.parse(data.decode(), f"blob {blob}", version)
                locks[blob] = hashlib.sha256(data).hexdigest(), packages
    found = {key: locks[blob] for key, blob in blobs.items() if blob in locks}
    return found, objects[: len(commits)].count("")


def _asked(root: Path, how: str, names: Sequence[str]) -> bytes:
    given = "".join(f"{name}\n" for name in names).encode()
    return run(["-C", str(root), "cat-file", how], {}, given)
