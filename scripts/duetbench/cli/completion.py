"""What a shell completes: cases, runs, comparisons. Names of files and text alone are read.

A shell waits for every key: nothing here imports the harness, and what cannot be read is no word.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from duetbench.host import paths

_MOST: Final = 200
_PARTIAL: Final = ".partial"


def results_named(incomplete: str) -> list[tuple[str, str]]:
    """Ids of runs, comparisons and points, newest first, each with what it is."""
    found = [("latest", "the latest run"), *sorted(_results(), reverse=True)]
    return [one for one in found if one[0].startswith(incomplete)][:_MOST]


def cases(incomplete: str) -> list[str]:
    """Ids of the cases of the newest run of each profile, which hold those that were measured."""
    found: dict[str, None] = {}
    with suppress(OSError, ValueError, KeyError, TypeError):
        for path in _newest_runs():
            for result in json.loads(path.read_bytes())["results"]:
                found[result["case"]["id"]] = None
    return [one for one in found if one.startswith(incomplete)][:_MOST]


def _newest_runs() -> Iterator[Path]:
    newest = {
        path.stem.split("-")[1]: path
        for path in sorted(
            (paths.results_dir() / "runs").glob("*/*/*.json"), key=lambda one: one.name
        )
        if _PARTIAL not in path.name and path.stem.count("-") > 1
    }
    yield from reversed(newest.values())


def _results() -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        results = paths.results_dir()
        for what, pattern in (
            ("run", "runs/*/*/*.json"), ("points", "points/*/*/*.json"),
            ("comparison", "comparisons/*.json"),
        ):  # fmt: skip
            for path in results.glob(pattern):
                yield path.stem.removesuffix(_PARTIAL), what
        for path in (paths.state_dir() / "comparisons").glob("*.json"):
            yield path.stem.removesuffix(_PARTIAL), "comparison"
