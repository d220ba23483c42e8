"""Stored results: runs and comparisons, found by their names."""

import json
from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError
from duetbench.core.model import Run
from duetbench.host import paths
from duetbench.store import files, run_files
from duetbench.store.comparison import COMPARISONS, Comparison

MOST_COMPARISONS: Final = 50  # comparisons that are kept: the newest

_MARK: Final = "-compare-"  # in the id of every comparison, and of no run


def find(name: str, results: Path) -> Path:
    """The file of a result that is kept on this machine, or in a results folder, or anywhere.

    Raises:
        UsageError: No result has that name, or several have.
        RecordError: There is no `latest`.
    """
    kept = _comparisons(*paths.state_dir().glob("projects/*"), results)
    return run_files.find(results, name, kept)


def newest(results: Path) -> Path:
    """The repository's newest result of any kind; RecordError if it has none.

    Names begin with their time.
    """
    root = paths.project_root()
    found = _comparisons(paths.project_state(root), results)
    found |= {path.stem: path for path in run_files.runs(results)}
    if not found:
        raise RecordError(
            f"{root}: no run has been recorded, and no comparison; make one: duetbench run or "
            "duetbench compare. Those of another repository go by their ids"
        )
    return found[max(found)]


def load(name: str | Path, results: Path) -> Run | Comparison:
    """Read a result by its file, its id, part of its id, or `latest`; errors as of `find`."""
    path = find(str(name), results)
    return files.read(type_of(path), path)


def type_of(path: Path) -> type[Run | Comparison]:
    """The type of a file's content, by its keys; RecordError if it is other JSON."""
    try:
        keys = list(dict(json.loads(path.read_bytes())))
    except (OSError, TypeError, ValueError, RecursionError):
        return Run  # reading it as a run reports the problem
    if {"base", "head", "cases"} <= set(keys):
        return Comparison
    if keys and "results" not in keys:
        raise RecordError(
            f"{path}: expected a run file, or a comparison (duetbench compare -o FILE.json), found "
            f"JSON with the keys {', '.join(keys[:5])}{', …' * (len(keys) > 5)}"
        )
    return Run


def comparison_file(comparison: Comparison, place: Path | None = None) -> Path:
    """The file of a comparison: in `place`, or among those of this repository."""
    path = place or paths.project_state(paths.project_root()) / COMPARISONS
    path /= f"{comparison.id}.json"
    return path.with_suffix(files.PARTIAL) if comparison.status == "partial" else path


def save_comparison(comparison: Comparison, place: Path | None = None) -> Path:
    """Write a comparison, and remove all but the newest beside it; raises RecordError."""
    path = files.write(comparison_file(comparison, place), comparison)
    for old in sorted(path.parent.glob("*.json"))[:-MOST_COMPARISONS]:  # names sort by time
        old.unlink(missing_ok=True)
    return path


def find_comparison(name: str, results: Path) -> Comparison | None:
    """Read a comparison by its file or part of its id; raises UsageError.

    None if the name cannot mean a comparison.
    """
    if not (_MARK in name or Path(name).is_file()):
        return None
    return files.read(Comparison, find(name, results))


def _comparisons(*folders: Path) -> dict[str, Path]:
    return {
        path.name.removesuffix(files.PARTIAL).removesuffix(".json"): path
        for folder in folders
        for path in files.paths(Comparison, folder)
    }
