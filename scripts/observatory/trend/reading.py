"""`results/` → nights, changes and comparisons.

A file that cannot be read is named among the problems, and the rest is read: the history is never
rewritten, so a bad file stays.
"""

from dataclasses import dataclass
from pathlib import Path

from duetbench.core.comparison import Comparison
from observatory.store import kinds
from observatory.store.change import Change
from observatory.store.points import Points
from observatory.trend.table import Table, tables


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is built from but runs; files oldest first."""

    tables: tuple[Table, ...] = ()  # dated stacks against their anchor, of each machine
    releases: tuple[Table, ...] = ()  # releases of a package, of each machine
    changes: tuple[Change, ...] = ()  # and candidates that no duets confirmed
    problems: tuple[str, ...] = ()  # files that could not be read, in sentences
    points: tuple[Points, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


def read(results: Path) -> Sources:
    """Read all of `results/` but runs."""
    results = results.absolute()
    problems: list[str] = []
    points = kinds.read_all(Points, results, problems)
    every = tables(points)
    changes = kinds.read_all(Change, results, problems)
    comparisons = kinds.read_all(Comparison, results, problems)
    return Sources(
        tables=tuple(table for table in every if not table.package),
        releases=tuple(table for table in every if table.package),
        changes=tuple(sorted(changes, key=lambda change: (change.when, change.id))),
        # The site shows them, and its readers do not know the folders of this machine.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        points=tuple(points),
        comparisons=tuple(sorted(comparisons, key=lambda record: (record.started, record.id))),
    )
