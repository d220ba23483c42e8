"""Steps in the series of a table, by asv's step detection. Pure.

asv fits a piecewise constant function with as few pieces as the scatter asks for (a Potts
functional in L1, its penalty chosen by an information criterion); 0 of 300 series of noise gave a
step. Here it gets figures relative to their median (its least noise is a thousandth of the level),
without nights whose figure is missing or was disturbed, and only what came after the last break:
another machine, interpreter or declaration begins a new series. Of benchmarks inside the process a
night is a commit, and asv itself leaves out what another version of a benchmark gave.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np

from servebench.compare import inprocess
from servebench.core.metrics import JUDGED, METRICS
from servebench.record.change import SeriesName, Step
from servebench.series import events
from servebench.series.table import STATES, Table

DETECTED: Final = (*JUDGED, inprocess.SECONDS)
"""Metrics that a duet judges in some case (`metrics.JUDGED`), or a pair of processes: no other
could be confirmed."""

_SERVICE: Final = {"response_p50": "service_p50", "response_p99": "service_p99"}
"""Where a case has the latter it is paced, and the former contain the generator's queue."""

LONGEST: Final = 180
"""Nights that are looked at: a step that is older was found when it was new."""

LEAST: Final = 3
"""Nights on either level; a night or two may be anything."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step, and its places in the table: the last night `before` it and the first one on it."""

    step: Step
    case: int
    night: int
    before: int


def steps(table: Table, inside: Collection[str] = ()) -> tuple[TableStep, ...]:
    """All steps of a table's series that are large enough to matter, case by case.

    Of benchmarks only those `inside` are looked at, which a comparison can play.
    """
    breaks = events.breaks(table)
    found: list[TableStep] = []
    for row, case in enumerate(table.cases):
        if not table.track.served and case not in inside:
            continue
        begins = max((one.night for one in breaks[case]), default=0)
        begins = max(begins, len(table.nights) - LONGEST)
        usable = np.flatnonzero(table.status[begins:, row] == _MEASURED) + begins
        for column in _columns(table, row):
            figures = table.mean[usable, row, column]
            there = np.isfinite(figures) & (figures > 0)
            if np.count_nonzero(there) >= 2 * LEAST:
                relative = figures[there] / np.median(figures[there])
                found += _of_series(table, row, column, usable[there].tolist(), relative.tolist())
    return tuple(found)


def _columns(table: Table, row: int) -> Iterator[int]:
    """The metrics of a case that are looked at."""
    there = {name: place for place, name in enumerate(table.metrics)}
    for name in DETECTED:
        service = there.get(_SERVICE.get(name, ""))
        paced = service is not None and bool(np.isfinite(table.mean[:, row, service]).any())
        if name in there and not paced:
            yield there[name]


def levels(figures: Sequence[float]) -> list[tuple[int, int, float, float]]:
    """Pieces of constant level: first place, place after the last, level, and mean deviation."""
    # asv has no types; this is all that is used of it here.
    from asv import step_detect  # noqa: PLC0415 - only detection waits for its import

    pieces: list[Any] = step_detect.detect_steps(list(figures))
    return [(int(l_), int(r), float(v), float(e)) for l_, r, v, _, e in pieces]


def _of_series(
    table: Table, row: int, column: int, nights: Sequence[int], figures: Sequence[float]
) -> list[TableStep]:
    metric = table.metrics[column]
    floor = METRICS[metric].floor if metric in METRICS else inprocess.THRESHOLD
    found = []
    for (start, left, low, scatter), (right, end, high, other) in pairwise(levels(figures)):
        height = math.log(high / low)
        sizes = left - start, end - right
        if min(sizes) < LEAST or abs(math.expm1(height)) <= floor:
            continue
        before, after = nights[left - 1], nights[right]
        noise = max(scatter / low, other / high, 1e-6)
        found.append(
            TableStep(
                step=Step(
                    series=SeriesName(machine=table.machine, case=table.cases[row], metric=metric),
                    ratio=math.exp(height),
                    strength=abs(height) / noise,
                    before_run=table.nights[before].run,
                    after_run=table.nights[after].run,
                    when=datetime.fromtimestamp(table.nights[after].time, UTC),
                    nights=sizes,
                ),
                case=row,
                night=after,
                before=before,
            )
        )
    return found
