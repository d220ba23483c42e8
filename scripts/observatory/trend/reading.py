"""`results/` → nights, changes and comparisons.

A file that cannot be read is named among the problems, and the rest is read: the history is never
rewritten, so a bad file stays.

The files of points of one stack are joined. Of points against several anchors, those against the
newest one make the trend.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from duetbench.core.comparison import Comparison
from observatory.store import kinds
from observatory.store.change import Change
from observatory.store.points import Points, join
from observatory.trend.table import Table, tables


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is built from but runs; files oldest first."""

    tables: tuple[Table, ...] = ()  # dated stacks against their anchor, of each machine
    changes: tuple[Change, ...] = ()  # confirmed by duets
    dismissed: tuple[Change, ...] = ()  # candidates that no duets confirmed
    problems: tuple[str, ...] = ()  # files that could not be read, in sentences
    # All files of points: those of dated stacks without what is in `tables`.
    points: tuple[Points, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


def read(results: Path) -> Sources:
    """Read all of `results/` but runs."""
    results = results.absolute()
    problems: list[str] = []
    points = kinds.read_all(Points, results, problems)
    points.sort(key=lambda file: (file.started, file.id))
    changes = kinds.read_all(Change, results, problems)
    comparisons = kinds.read_all(Comparison, results, problems)
    return Sources(
        tables=tables(trend_points(points)),
        changes=tuple(change for change in changes if change.confirmed),
        dismissed=tuple(change for change in changes if not change.confirmed),
        # The site shows them, and its readers do not know the folders of this machine.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        # Points of years would fill the memory, and those of dated stacks are in the tables.
        points=tuple(p if p.release else p.model_copy(update={"cases": ()}) for p in points),
        comparisons=tuple(sorted(comparisons, key=lambda record: (record.started, record.id))),
    )


def trend_points(points: Iterable[Points]) -> tuple[Points, ...]:
    """Return the points of dated stacks that are on a trend, one file each.

    Dated stacks are those of nights, and those measured later as of a date. The points of a machine
    against its newest anchor are on a trend.
    """
    dated = [file for file in points if file.release is None]
    dated.sort(key=lambda file: (file.started, file.id))
    newest = {file.machine.id: file.anchor for file in dated}
    stacks = defaultdict[tuple[str, str], list[Points]](list)
    for file in dated:
        if file.anchor == newest[file.machine.id]:
            name = (file.night or file.id) if file.origin == "night" else file.label
            stacks[file.machine.id, name].append(file)
    return tuple(map(join, stacks.values()))
