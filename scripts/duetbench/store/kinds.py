"""Which files the history consists of, how each is checked and found, and which may change.

What is not listed here does not enter the history, and what is damaged does not either.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Artefact, Run
from duetbench.host import paths
from duetbench.store import attribution, change, files, packages, points, run_files
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import COMPARISONS, Comparison
from duetbench.store.night import NightRecord
from duetbench.store.packages import PackageRecord
from duetbench.store.points import Points

MOST_BYTES: Final = 8_000_000
"""Of one file; a nightly run has 0.2 MB, the longest comparison 2 MB."""

MOST_COMPARISONS: Final = 50
"""Comparisons that stay: the newest."""

_NEWEST: Final = 3
"""So many are named where none was found."""

_MARK: Final = "-compare-"
"""In the id of every comparison, and in that of no run."""

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"


@dataclass(frozen=True, slots=True)
class File:
    """A file for the history."""

    path: str  # below `results/`
    data: bytes  # its bytes, which were checked
    replaceable: bool  # whether other bytes may take their place one day
    settled: bool = False  # whether what is there under its name stays, and is as good


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file."""

    name: str
    pattern: str  # where it is, below `results/`, without `.json`
    place: Callable[[Any], str | Path]  # where a value belongs below `results/`
    model: type[Artefact] | None = None  # what it holds; None: a file of asv's
    replaceable: bool = False  # whether it may change; a measurement may not
    # Whether the first one of a name stays: a commit is measured in the process once, and nights
    # without a new commit would measure it again.
    settled: bool = False

    def read(self, data: bytes, path: str, name: str) -> Any:
        """The value of a file at `path` below `results/`; RecordError calls the file `name`."""
        value: Any = (
            _of_asv(data, name) if self.model is None else files.parse(self.model, data, name)
        )
        try:
            place = Path(self.place(value)).as_posix()
        except (TypeError, KeyError) as problem:
            raise RecordError(f"{name}: expected a file of asv's, found: {problem!r}") from problem
        if place != path:
            raise RecordError(
                f"{name}: expected it at {place} below the results, as its contents say; move it "
                "there"
            )
        return value


def _of_asv(data: bytes, name: str) -> dict[str, Any]:
    """A file of asv's, of which no more is read here than where it belongs."""
    try:
        return dict(json.loads(data))
    except (TypeError, ValueError, RecursionError) as problem:
        raise RecordError(f"{name}: expected a file of asv's, found: {problem}") from problem


def _flat(name: str, folder: str, model: type[Artefact], *, replaceable: bool = True) -> Kind:
    """A kind whose files stand in one folder, each under its id."""

    def place(value: Any) -> str:
        return f"{folder}/{value.id}.json"

    return Kind(name, f"{folder}/{_NAME}", place, model, replaceable=replaceable)


KINDS: Final = (
    Kind("run", rf"runs/{_NAME}/\d{{4}}/{_NAME}", lambda v: run_files.path_for(Path(), v), Run),
    _flat("comparison", COMPARISONS, Comparison, replaceable=False),
    Kind("anchored points", rf"{points.FOLDER}/{_NAME}/\d{{4}}/{_NAME}", points.path_of, Points),
    _flat("attribution", attribution.FOLDER, Attribution),
    Kind("night", rf"nights/\d{{4}}/{_NAME}", lambda v: v.path, NightRecord, replaceable=True),
    _flat("change", change.FOLDER, Change),
    _flat("links of a package", packages.FOLDER, PackageRecord),
    Kind(
        "figures inside the process",
        rf"asv/{_NAME}/[0-9a-f]{{8}}-duetbench-{_NAME}",
        lambda v: f"asv/{v['params']['machine']}/{v['commit_hash'][:8]}-{v['env_name']}.json",
        settled=True,
    ),
    Kind(
        "machine, for asv",
        rf"asv/{_NAME}/machine",
        lambda v: f"asv/{v['machine']}/machine.json",
        replaceable=True,
    ),
)
"""To add one, add a row here."""


def kind_of(path: str) -> Kind | None:
    """The kind of a path below `results/`; None if it is no part of the history."""
    return next((k for k in KINDS if re.fullmatch(rf"{k.pattern}\.json", path)), None)


def final(path: str) -> str:
    """The path that the file of a run gets which was cut short: it is kept as a partial run."""
    begun = path.removesuffix(files.PARTIAL)
    return path if begun == path or not path.startswith("runs/") else f"{begun}.json"


def collect(folder: Path) -> tuple[tuple[File, ...], tuple[Run, ...], tuple[str, ...]]:
    """Read and check all files of a results folder; raises RecordError.

    A run that was cut short (`*.partial.json`) enters the history as what it is, a partial run,
    under its own name; unless it was finished after all. Returns the files, the runs among them,
    and paths that are no part of the history.
    """
    accepted: dict[str, File] = {}
    runs: list[Run] = []
    others: list[str] = []
    for path in sorted(_plain(folder), key=lambda p: (p.name.endswith(files.PARTIAL), p)):
        below = path.relative_to(folder).as_posix()
        place = final(below)
        kind = kind_of(place)
        if kind is None:
            others.append(below)
            continue
        data = files.contents(path, MOST_BYTES)
        value = kind.read(data, place, str(path))
        if place in accepted:
            continue
        accepted[place] = File(place, data, kind.replaceable, kind.settled)
        if isinstance(value, Run):
            runs.append(value)
    return tuple(accepted.values()), tuple(runs), tuple(others)


def _plain(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RecordError(f"{path}: expected a plain file, found a link; remove it")
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(folder).parts):
            yield path


def find(name: str, results: Path) -> Path:
    """The file of a result; a file that is there is meant, whatever it is called.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: `latest`, and there is none.
    """
    of_points = {path.stem: path for path in points.paths(results)}
    return run_files.find(results, name, {**of_points, **comparisons_by_id(results)})


def load(name: str | Path, results: Path) -> Run | Comparison | Points:
    """Read a result by its file, its id, enough of its id, or `latest`.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: The file cannot be read, or is no result.
    """
    path = find(str(name), results)
    return files.read(type_of(path), path)


def type_of(path: Path) -> type[Run | Comparison | Points]:
    """What a file holds, by its keys; RecordError if it is JSON of something else."""
    try:
        keys = list(dict(json.loads(path.read_bytes())))
    except (OSError, TypeError, ValueError, RecursionError):
        return Run  # reading it as a run says what is wrong
    if {"base", "head", "cases"} <= set(keys):
        return Comparison
    if {"anchor", "origin", "cases"} <= set(keys):
        return Points
    if keys and "results" not in keys:
        raise RecordError(
            f"{path}: expected a run file, or a comparison (duetbench compare --output), found "
            f"JSON with the keys {', '.join(keys[:5])}{', …' * (len(keys) > 5)}"
        )
    return Run


def comparison_folder() -> Path:
    """Where comparisons are stored: beside the logs."""
    return paths.state_dir() / COMPARISONS


def comparison_file(comparison: Comparison, place: Path | None = None) -> Path:
    """The file of a comparison: in `place`, or beside the logs."""
    ending = files.PARTIAL if comparison.status == "partial" else ".json"
    return (place or comparison_folder()) / f"{comparison.id}{ending}"


def save_comparison(comparison: Comparison, place: Path | None = None) -> Path:
    """Write a comparison; raises RecordError."""
    return files.write(comparison_file(comparison, place), comparison)


def find_comparison(name: str, results: Path) -> Path | None:
    """The file of the comparison that a person means by enough of its id; raises UsageError.

    None if no comparison can be meant.
    """
    if _MARK not in name:
        return None
    if (meant := files.only_match(comparisons_by_id(results), name)) is not None:
        return meant
    there = ", ".join(sorted(comparisons_by_id(results))[-_NEWEST:]) or "none"
    raise UsageError(
        f"no comparison goes by {name!r}; the newest that are kept: {there}. Of another machine, "
        "or older than that: give its file"
    )


def comparisons_by_id(results: Path) -> dict[str, Path]:
    """The files of all that are kept, here and in a results folder."""
    return {
        path.name.removesuffix(files.PARTIAL).removesuffix(".json"): path
        for place in (comparison_folder(), results / COMPARISONS)
        for path in sorted(place.glob(f"*{_MARK}*.json"))
    }


def forget_comparisons(place: Path | None = None) -> None:
    """Remove all but the newest; names sort by time."""
    for old in sorted((place or comparison_folder()).glob("*.json"))[:-MOST_COMPARISONS]:
        old.unlink(missing_ok=True)
