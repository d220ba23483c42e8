"""`results/` → nights, changes, comparisons and runs.

A file that cannot be read is named among the problems, and the rest is read: the history is never
rewritten, so a bad file stays.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from duetbench.core.comparison import Comparison
from duetbench.core.model import Run
from duetbench.host import result_files
from duetbench.load.summary import RunSummary, summarise
from observatory.store import kinds
from observatory.store.change import Change
from observatory.store.points import Points
from observatory.trend.table import Table, tables

_RECENT: Final = 8  # runs of a machine and profile that statements use


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is built from; files oldest first."""

    tables: tuple[Table, ...] = ()  # dated stacks against their anchor, of each machine
    releases: tuple[Table, ...] = ()  # releases of a package, of each machine
    changes: tuple[Change, ...] = ()  # and candidates that no duets confirmed
    problems: tuple[str, ...] = ()  # files that could not be read, in sentences
    points: tuple[Points, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    runs: tuple[RunSummary, ...] = ()  # the newest of each machine and profile


def read(results: Path) -> Sources:
    """Read all of `results/` but older runs, and what asv has."""
    results = results.absolute()
    problems: list[str] = []
    points = kinds.read_all(Points, results, problems)
    every = tables(points)
    changes = kinds.read_all(Change, results, problems)
    comparisons = kinds.read_all(Comparison, results, problems)
    runs = defaultdict[tuple[str, str], list[Path]](list)
    for path in result_files.runs(results):
        runs[path.parent.parent.name, path.name.split("-")[1]].append(path)
    recent = chain.from_iterable(paths[-_RECENT:] for paths in runs.values())
    newest = kinds.read_each(
        recent, lambda path: summarise(kinds.read_at(Run, results, path)), problems
    )
    return Sources(
        tables=tuple(table for table in every if not table.package),
        releases=tuple(table for table in every if table.package),
        changes=tuple(sorted(changes, key=lambda change: (change.when, change.id))),
        # The site shows them, and its readers do not know the folders of this machine.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        points=tuple(points),
        comparisons=tuple(sorted(comparisons, key=lambda record: (record.started, record.id))),
        runs=tuple(sorted(newest, key=lambda each: each.run.started)),
    )
