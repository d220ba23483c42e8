"""Any result by the name that a person gives it: a run, a comparison, or anchored points."""

import json
from pathlib import Path

from duetbench.core.errors import RecordError
from duetbench.core.model import Run
from duetbench.store import comparison_store, files, points, store
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points


def path_of(name: str, results: Path) -> Path:
    """The file of a result; a file that is there is meant, whatever it is called.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: `latest`, and there is none.
    """
    kept = None if Path(name).is_file() else comparison_store.find(name, results)
    if kept is None and not Path(name).is_file():
        kept = store.named({path.stem: path for path in points.found(results)}, name)
    return kept or store.find(results, name, comparison_store.newest(results))


def load(name: str | Path, results: Path) -> Run | Comparison | Points:
    """Read a result by its file, its id, enough of its id, or `latest`.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: The file cannot be read, or is no result.
    """
    path = path_of(str(name), results)
    what = kind(path)
    return store.load(path) if what is Run else files.read(what, path)


def kind(path: Path) -> type[Run | Comparison | Points]:
    """What a file holds, by its keys; RecordError if it is JSON of something else."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return Run  # what is wrong with it is said when it is read as a run
    keys = list(document) if isinstance(document, dict) else []
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
