"""Files of comparisons, and how a person names them."""

from pathlib import Path
from typing import Final

from duetbench.core.errors import UsageError
from duetbench.host import paths
from duetbench.store import files, store
from duetbench.store.comparison import Comparison

COMPARISONS: Final = "comparisons"
"""The folder of comparisons, below the state folder and below `results/` (evidence)."""

MOST_COMPARISONS: Final = 50
"""Comparisons that stay: the newest."""

_NEWEST: Final = 3
"""So many are named where none was found."""

_MARK: Final = "-compare-"
"""In the id of every comparison, and in that of no run."""


def comparison_folder() -> Path:
    """Where comparisons are stored while they grow, and afterwards: beside the logs."""
    return paths.state_dir() / COMPARISONS


def comparison_file(comparison: Comparison, place: Path | None = None) -> Path:
    """The file of a comparison: in `place`, or beside the logs."""
    ending = store.PARTIAL if comparison.status == "partial" else ".json"
    return (place or comparison_folder()) / f"{comparison.id}{ending}"


def save_comparison(comparison: Comparison, place: Path | None = None) -> Path:
    """Write a comparison, a complete one in place of its partial file; raises RecordError."""
    path = files.write(comparison_file(comparison, place), comparison)
    if comparison.status != "partial":
        path.with_name(f"{comparison.id}{store.PARTIAL}").unlink(missing_ok=True)
    return path


def find_comparison(name: str, results: Path) -> Path | None:
    """The file of the comparison that a person means by enough of its id; raises UsageError.

    None if no comparison can be meant.
    """
    if _MARK not in name:
        return None
    if (meant := store.only_match(_comparisons(results), name)) is not None:
        return meant
    there = ", ".join(newest_comparisons(results)) or "none"
    raise UsageError(
        f"no comparison goes by {name!r}; the newest that are kept: {there}. Of another machine, "
        "or older than that: give its file"
    )


def newest_comparisons(results: Path) -> list[str]:
    """The ids of the newest that are kept, here and in a results folder."""
    return sorted(_comparisons(results))[-_NEWEST:]


def _comparisons(results: Path) -> dict[str, Path]:
    return {
        path.name.removesuffix(store.PARTIAL).removesuffix(".json"): path
        for place in (comparison_folder(), results / COMPARISONS)
        for path in sorted(place.glob(f"*{_MARK}*.json"))
    }


def forget_comparisons(place: Path | None = None) -> None:
    """Remove all but the newest; names sort by time."""
    for old in sorted((place or comparison_folder()).glob("*.json"))[:-MOST_COMPARISONS]:
        old.unlink(missing_ok=True)
