"""Names that people use for stored runs and comparisons, and the files that they mean."""

import json
from pathlib import Path
from typing import Final

from duetbench.core.comparison import Comparison
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Run
from duetbench.host import files, paths

_MARK: Final = "-compare-"  # in the id of every comparison, and of no run


def runs(results: Path) -> list[Path]:
    """The files of finished runs, oldest first."""
    return [path for name, path in _ids(Run, results).items() if path.stem == name]


def find(name: str, results: Path, kind: type[Run | Comparison] = Run) -> Path:
    """The file that a name means: a path, `latest`, an id, or part of an id.

    Results are those in a folder, and the comparisons that are kept on this machine. The latest is
    the newest finished run, or with `Comparison` the repository's newest result of any kind.

    Raises:
        UsageError: No result has that name, or several have.
        RecordError: There is no `latest`.
    """
    if name == "latest":
        return _latest(results, kind)
    if (path := Path(name)).is_file():
        return path
    projects = paths.state_dir().glob("projects/*")
    known = _ids(Run, results) | _ids(Comparison, *projects, results)
    matching = [name] if name in known else [id_ for id_ in known if name in id_]
    if len(matching) > 1:
        raise UsageError(f"{name!r} could be any of {', '.join(matching[-5:])}; be more specific")
    if matching:
        return known[matching[0]]
    raise UsageError(
        f"no result has the name {name!r} (expected 'latest', an id, or a file); the newest are: "
        f"{', '.join([*known][-3:]) or 'none'}"
    )


def _latest(results: Path, kind: type[Run | Comparison]) -> Path:
    files_by_id, root = {path.stem: path for path in runs(results)}, paths.project_root()
    if kind is Comparison:
        files_by_id |= _ids(Comparison, paths.project_state(root), results)
    if not files_by_id:
        place = root if kind is Comparison else results / "runs"
        raise RecordError(
            f"{place}: no run has been recorded, and no comparison; make one: duetbench run or "
            "duetbench compare. Those of another repository go by their ids"
        )
    return files_by_id[max(files_by_id)]  # names begin with their time


def load(name: str | Path, results: Path, kind: type[Run | Comparison] = Run) -> Run | Comparison:
    """Read a result by a name of `find`, whose errors it has."""
    path = find(str(name), results, kind)
    try:
        keys = dict(json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError, RecursionError):
        keys = {}  # reading it as a run reports the problem
    return files.read(Comparison, path) if "base" in keys else files.read(Run, path)


def find_comparison(name: str, results: Path) -> Comparison | None:
    """Read a comparison by its file or part of its id; raises UsageError.

    None if the name cannot mean a comparison.
    """
    if not (_MARK in name or Path(name).is_file()):
        return None
    return files.read(Comparison, find(name, results))


def _ids(kind: type[Run | Comparison], *folders: Path) -> dict[str, Path]:
    """The files of a kind by their id; a finished one comes before an unfinished one."""
    results = (path for folder in folders for path in reversed(files.paths(kind, folder)))
    ids = {path.name.removesuffix(".json").removesuffix(".partial"): path for path in results}
    return dict(sorted(ids.items()))
