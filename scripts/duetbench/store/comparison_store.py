"""Where comparisons are kept while they grow, and afterwards: beside the logs."""

from pathlib import Path
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.host import paths
from duetbench.store import files
from duetbench.store.comparison import FORMAT_VERSION, Comparison
from duetbench.store.store import PARTIAL, named

FOLDER: Final = "comparisons"
"""Where comparisons are kept, below the state folder and below `results/` (evidence)."""

KEPT: Final = 50
"""Comparisons that are kept: the newest."""

_NAMED: Final = 3
"""So many are named where none was found."""

_MARK: Final = "-compare-"
"""In the id of every comparison, and in that of no run."""


def folder() -> Path:
    """Where they are."""
    return paths.state_dir() / FOLDER


def file_of(comparison: Comparison, place: Path | None = None) -> Path:
    """Where a comparison is kept: in `place`, or in `folder()`."""
    ending = PARTIAL if comparison.status == "partial" else ".json"
    return (place or folder()) / f"{comparison.id}{ending}"


def save(comparison: Comparison, place: Path | None = None) -> Path:
    """Write a comparison, a complete one in place of its partial file; raises RecordError."""
    path = files.write(file_of(comparison, place), comparison)
    if comparison.status != "partial":
        path.with_name(f"{comparison.id}{PARTIAL}").unlink(missing_ok=True)
    return path


def find(name: str, results: Path) -> Path | None:
    """The file of the comparison that a person means by enough of its id; raises UsageError.

    None if no comparison can be meant.
    """
    if _MARK not in name:
        return None
    if (meant := named(_known(results), name)) is not None:
        return meant
    there = ", ".join(newest(results)) or "none"
    raise UsageError(
        f"no comparison goes by {name!r}; the newest that are kept: {there}. Of another machine, "
        "or older than that: give its file"
    )


def newest(results: Path) -> list[str]:
    """The ids of the newest that are kept, here and in a results folder."""
    return sorted(_known(results))[-_NAMED:]


def _known(results: Path) -> dict[str, Path]:
    return {
        path.name.removesuffix(PARTIAL).removesuffix(".json"): path
        for place in (folder(), results / FOLDER)
        for path in sorted(place.glob(f"*{_MARK}*.json"))
    }


def forget(place: Path | None = None) -> None:
    """Remove all but the newest; names sort by time."""
    for old in sorted((place or folder()).glob("*.json"))[:-KEPT]:
        old.unlink(missing_ok=True)


def schema() -> str:
    """The JSON Schema (2020-12) of comparison files, as text."""
    return files.describe(Comparison, f"duetbench comparison, format {FORMAT_VERSION}")
