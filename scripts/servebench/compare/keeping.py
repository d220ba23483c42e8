"""Where comparisons are kept while they grow, and afterwards: beside the logs, not in the checkout.

A file is always replaced as a whole: whatever happens, the one that was there before is still good.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from servebench import codec, paths
from servebench.compare.model import FORMAT_VERSION, Comparison
from servebench.store import PARTIAL, replace

KEPT: Final = 50
"""Comparisons that are kept: the newest."""


def folder() -> Path:
    """Where they are."""
    return paths.state_dir() / "comparisons"


def save(comparison: Comparison, place: Path | None = None) -> Path:
    """Write a comparison; a complete one takes the place of its partial file.

    Args:
        comparison: What there is so far.
        place: The folder, if not `folder()`.

    Raises:
        RecordError: It cannot be written; what was saved before is unharmed.
    """
    place = place or folder()
    partial, final = place / f"{comparison.id}{PARTIAL}", place / f"{comparison.id}.json"
    path = partial if comparison.status == "partial" else final
    replace(path, (comparison.model_dump_json(indent=1) + "\n").encode())
    if path is final:
        partial.unlink(missing_ok=True)
    return path


def forget(place: Path | None = None) -> None:
    """Remove all but the newest; names sort by time."""
    for old in sorted((place or folder()).glob("*.json"))[:-KEPT]:
        old.unlink(missing_ok=True)


def schema() -> str:
    """The JSON Schema (2020-12) of comparison files, as text."""
    return codec.describe(Comparison, f"servebench comparison, format {FORMAT_VERSION}")
