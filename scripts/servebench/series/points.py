"""Anchored points as columns, so that trends and detection read them as they read runs."""

from collections.abc import Sequence
from typing import Final

from servebench.record.points import Points
from servebench.series.columns import (
    MOST_LAUNCHES,
    TRENDS,
    CaseState,
    RunColumns,
    RunHeader,
    empty,
)

METRICS: Final = (*TRENDS, "instructions", "seconds")
"""What a point may be of."""


def of_points(found: Points) -> RunColumns:
    """The columns of a file of points: ratios, with their 95 % intervals.

    Its time is that of the stack, not of the measurement.
    """
    lost = {one.case: one.reason for one in found.missing}
    known = {case.case for case in found.cases}
    lost = {case: reason for case, reason in lost.items() if case not in known}
    names = (*(case.case for case in found.cases), *lost)
    header = RunHeader(
        run=found.id,
        kind="anchored",
        profile=found.anchor,
        time=int(found.when.timestamp()),
        commit=found.commit,
        machine=found.machine.id,
        fingerprint="; ".join(
            f"{key} {value}"
            for key, value in found.machine.model_dump(exclude={"id", "memory"}).items()
            if value is not None
        ),
        interpreters={
            record.name: f"{record.version}; {record.origin}; {record.build}"
            for record in found.interpreters
        },
        stacks={stack.name: stack.digest for stack in found.stacks},
        packages={stack.name: stack.packages for stack in found.stacks},
        cases=names,
        groups=names,
        definitions=("",) * len(names),
        pythons=(*(case.python for case in found.cases), *("" for _ in lost)),
        stack_of=(*(case.stack for case in found.cases), *("" for _ in lost)),
        metrics=METRICS,
        odd={
            len(known) + place: CaseState("failed", reason=reason)
            for place, reason in enumerate(lost.values())
        },
    )
    mean, low, high, launches = empty(header)
    for row, case in enumerate(found.cases):
        for point in case.points:
            if point.metric in METRICS:
                column = METRICS.index(point.metric)
                mean[row, column] = point.ratio
                low[row, column], high[row, column] = point.interval()
                launches[row, column] = min(point.duets, MOST_LAUNCHES)
    return RunColumns(header, mean, low, high, launches)


def trended(every: Sequence[Points]) -> tuple[Points, ...]:
    """Those that are of a time: of nights, and of what was measured later as of a date.

    What was measured once more takes the place of what was measured before. (Of a machine and
    label; a second file may have other cases, which are not joined yet.)
    """
    found: dict[tuple[str, str, str], Points] = {}
    for one in every:
        if one.release is None and one.origin != "renewal":
            found[one.machine.id, one.anchor, one.id if one.origin == "night" else one.label] = one
    return tuple(found.values())
