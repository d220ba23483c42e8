"""Points of one machine against an anchor as tables: of dated stacks, or of a package's releases.

Dated stacks are those of nights, and those measured later as of a date. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from packaging.utils import canonicalize_name

from duetbench.core.comparison import INSTRUCTIONS
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.model import Machine
from duetbench.core.units import Interval
from observatory.store.points import AnchoredPoint, Points, join, order

COLUMNS: Final = (
    *HEADLINES,
    *(name for name, row in METRICS.items() if row.better != "neither" and name not in HEADLINES),
    INSTRUCTIONS,
)
"""Metrics of a table: those of which one direction is better."""


@dataclass(frozen=True, eq=False)  # without slots, since it keeps its series
class Table:
    """Stacks that one machine measured against an anchor.

    Attributes:
        package: Whose releases they are, in the order of versions; empty: dated stacks, oldest
            first.
        files: The points of each stack, as one file.
    """

    package: str
    anchor: str
    files: tuple[Points, ...]

    @cached_property
    def newest(self) -> Points:
        """The file that was measured last."""
        return max(self.files, key=lambda file: file.started)

    @property
    def machine(self) -> Machine:
        return self.newest.machine

    @property
    def measured(self) -> tuple[Points, ...]:
        """Stacks with points: the others could not be installed, or failed."""
        return tuple(file for file in self.files if file.cases)

    @cached_property
    def cases(self) -> dict[str, str]:
        """All cases with their stack, which is empty for a case that was never measured."""
        cases = {case.case: case.stack for file in self.files for case in file.cases}
        return {lost.case: "" for file in self.files for lost in file.missing} | cases

    @cached_property
    def planned(self) -> dict[str, list[int]]:
        """The places of the files that planned each case."""
        places = defaultdict[str, list[int]](list)
        for place, file in enumerate(self.files):
            cases = [case.case for case in file.cases] + [lost.case for lost in file.missing]
            for case in dict.fromkeys(cases):
                places[case].append(place)
        return places

    @cached_property
    def _series(self) -> dict[tuple[str, str], dict[int, AnchoredPoint]]:
        series = defaultdict[tuple[str, str], dict[int, AnchoredPoint]](dict)
        for place, file in enumerate(self.files):
            for case in file.cases:
                for point in case.points:
                    series[case.case, point.metric][place] = point
        return series

    def series(self, case: str, metric: str) -> dict[int, AnchoredPoint]:
        """Return the points of one metric of a case by the places of their files."""
        return self._series.get((case, metric), {})

    def metrics(self, case: str) -> list[str]:
        """Return the metrics that a case has points of, beginning with its main metric."""
        return [metric for metric in COLUMNS if self.series(case, metric)]

    def length(self, case: str) -> int:
        """Return the number of stacks with points of a case."""
        return len({place for metric in self.metrics(case) for place in self.series(case, metric)})

    def figures(
        self, case: str, metric: str, places: Iterable[int]
    ) -> list[tuple[Points, Interval | None]]:
        """Return some files, each with its figure of a case."""
        series = self.series(case, metric)
        points = ((self.files[place], series.get(place)) for place in places)
        return [(file, point.interval if point else None) for file, point in points]


def tables(files: Iterable[Points]) -> tuple[Table, ...]:
    """Make the tables of files, by package, that with the latest measurement first.

    The files of one stack are joined. Dated stacks have one table for each machine, of the points
    against its newest anchor.
    """
    ordered = sorted(files, key=lambda file: (file.started, file.id))
    newest = {file.machine.id: file.anchor for file in ordered if not file.release}
    groups: dict[tuple[str, str, str], dict[str, list[Points]]] = {}
    for file in ordered:
        package = canonicalize_name(file.release.package) if file.release else ""
        if package or file.anchor == newest[file.machine.id]:
            name = file.version or (file.id if file.origin == "night" else file.label)
            stacks = groups.setdefault((package, file.machine.id, file.anchor), {})
            stacks.setdefault(name, []).append(file)
    made = [
        Table(package, anchor, tuple(sorted(map(join, stacks.values()), key=_place)))
        for (package, _, anchor), stacks in groups.items()
    ]
    return tuple(sorted(made, key=lambda t: (t.package, -t.newest.started.timestamp())))


def _place(file: Points) -> tuple[object, ...]:
    return order(file.version), file.time, file.id
