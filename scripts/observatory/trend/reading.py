"""`results/` → nights, changes and comparisons.

A file that cannot be read is named among the problems, and the rest is read: the history is never
rewritten, so a bad file stays.

The files of points of one stack are joined. Of points against several anchors, those against the
newest one make the trend.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from duetbench.core.comparison import Comparison
from duetbench.core.errors import RecordError
from duetbench.core.model import Run
from duetbench.host import files, result_files
from observatory.store import kinds
from observatory.store.change import Change
from observatory.store.points import Points, join
from observatory.trend.table import Table, tables

_Measured = TypeVar("_Measured", Run, Points)


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a site is built from; files oldest first."""

    tables: tuple[Table, ...] = ()  # dated stacks against their anchor, of each machine
    runs: dict[str, Path] = field(default_factory=dict)  # by id, those that could be read
    planned: dict[str, str] = field(default_factory=dict)  # case → its newest run
    changes: tuple[Change, ...] = ()  # confirmed by duets
    dismissed: tuple[Change, ...] = ()  # candidates that no duets confirmed
    problems: tuple[str, ...] = ()  # files that could not be read, in sentences
    # All files of points: those of dated stacks without what is in `tables`.
    points: tuple[Points, ...] = ()
    notes: tuple[str, ...] = ()  # other facts for readers, in sentences
    comparisons: tuple[Comparison, ...] = ()


def read(results: Path, *, with_runs: bool = True) -> Sources:
    """Read all of `results/`; without runs, these are only listed."""
    results = results.absolute()
    problems: list[str] = []
    places: dict[str, Path] = {}

    def load(kind: type[_Measured], path: Path) -> _Measured:
        value = kinds.read_at(kind, results, path)
        # Pages and series use the id, whatever folder a file is in.
        if (other := places.setdefault(value.id, path)) != path:
            raise RecordError(f"{path}: its id is that of {other}: rename the wrong one")
        return value

    points = kinds.read_each(files.paths(Points, results), partial(load, Points), problems)
    points.sort(key=lambda file: (file.started, file.id))
    stacks, notes = trend_points(points)
    trends = tables(stacks)
    # Points of years would fill the memory, and those of dated stacks are in the tables.
    points = [p if p.release else p.model_copy(update={"cases": ()}) for p in points]

    def cases(path: Path) -> tuple[Path, list[str]]:
        return path, [result.case.id for result in load(Run, path).results]

    paths, planned = result_files.runs(results), dict[str, str]()
    if with_runs:
        read_runs = kinds.read_each(paths, cases, problems)
        paths = [path for path, _ in read_runs]
        planned = {case: path.stem for path, own in read_runs for case in own}
    changes = kinds.read_all(Change, results, problems)
    comparisons = kinds.read_all(Comparison, results, problems)
    return Sources(
        tables=trends,
        runs={path.stem: path for path in paths},
        planned=planned,
        changes=tuple(change for change in changes if change.confirmed),
        dismissed=tuple(change for change in changes if not change.confirmed),
        # The site shows them, and its readers do not know the folders of this machine.
        problems=tuple(problem.replace(f"{results}/", "") for problem in problems),
        points=tuple(points),
        notes=notes,
        comparisons=tuple(sorted(comparisons, key=lambda record: (record.started, record.id))),
    )


def trend_points(points: Iterable[Points]) -> tuple[tuple[Points, ...], tuple[str, ...]]:
    """Return the points of dated stacks, one file each, and sentences about points on no trend.

    Dated stacks are those of nights, and those measured later as of a date. The points of a machine
    against its newest anchor are on a trend.
    """
    dated = [file for file in points if file.release is None]
    dated.sort(key=lambda file: (file.started, file.id))
    newest = {file.machine.id: file.anchor for file in dated}
    stacks = defaultdict[tuple[str, str], list[Points]](list)
    lost: Counter[tuple[str, str]] = Counter()
    for file in dated:
        anchor = newest[file.machine.id]
        if file.anchor == anchor:
            name = (file.night or file.id) if file.origin == "night" else file.label
            stacks[file.machine.id, name].append(file)
        else:
            lost[file.anchor, anchor] += sum(len(case.points) for case in file.cases)
    notes = (
        f"No trend shows {count} {'point' if count == 1 else 'points'} against the anchor {old}: "
        f"the newest anchor is {new}"
        for (old, new), count in lost.items()
        if count
    )
    return tuple(map(join, stacks.values())), tuple(notes)
