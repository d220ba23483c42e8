"""asv's results, as far as asv can read them: its own code would stop at anything else."""

from pathlib import Path
from typing import Final

from duetbench.core.errors import RecordError
from duetbench.host import files
from observatory.store import kinds
from observatory.store.kinds import kind_of

_MACHINE: Final = "machine.json"
LIST: Final = "benchmarks.json"  # asv's list of benchmarks, beside the folders of its machines


def copy_usable(results: Path, target: Path) -> tuple[str, ...]:
    """Link what asv can read of its `results_dir` to another folder; return why not the rest."""
    problems: list[str] = []
    places = [path for path in sorted(results.glob("*/*.json")) if path.name != _MACHINE]
    usable = kinds.read_each(places, _check, problems)
    for path in (results / LIST, *usable, *{path.with_name(_MACHINE) for path in usable}):
        place = target / path.relative_to(results)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path.resolve())
    return tuple(problems)


def _check(path: Path) -> Path:
    """Check one of asv's files with its machine's description; raises RecordError."""
    from asv.results import Results  # noqa: PLC0415 - only readers of results wait for asv

    for file in (path.with_name(_MACHINE), path):
        below = f"asv/{file.parent.name}/{file.name}"
        if (kind := kind_of(below)) is None:
            raise RecordError(f"{file}: expected a name that duetbench gives to a file of asv's")
        kind.read(files.contents(file), below, str(file))
    Results.load(str(path), machine_name=path.parent.name)
    return path
