"""Steps in the series of a table. Pure.

Anchored series have points with standard errors, and go through `levels`. What the machine did
moves both sides of a ratio: another machine, kernel or interpreter is no break.

Other series go through asv's step detection, without weights. It fits a piecewise constant function
with as few pieces as the scatter asks for (a Potts functional in L1, its penalty chosen by an
information criterion); 0 of 300 series of noise gave a step. It gets figures relative to their
median (its least noise is a thousandth of the level), without nights whose figure is missing or was
disturbed, and only what came after the last break: another machine, interpreter or declaration
begins a new series. Benchmarks inside the process have anchored points alone, of instructions; asv
finds the steps of the others itself.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from duetbench.core.metrics import JUDGED
from duetbench.core.metrics import row as metric_row
from duetbench.store.change import INPROCESS, SeriesName, Step
from duetbench.store.points import CANARY, INSTRUCTIONS
from duetbench.trend import events
from duetbench.trend.levels import Piece, fitted
from duetbench.trend.table import STATES, Table

_SERVICE: Final = {"response_p50": "service_p50", "response_p99": "service_p99"}
"""Latencies by response and by service: a case with the latter is paced, and the former contain
the generator's queue."""

LONGEST: Final = 180
"""Nights that are looked at: a step that is older was found when it was new."""

LEAST: Final = 3
"""Nights on either level of figures without a standard error; a night or two may be anything."""

CPU: Final = "server_cpu_per_request"
"""Metric that confirms a step of instructions, which are searched with its relevance floor."""

PLACED: Final = 4.0
"""Height in standard errors of a single point from which on none is taken for one of the other
level by chance."""

REPEATED: Final = 3e-4
"""Standard error of a count's logarithm from one counting to the next. The interval of its point is
that of the rounds within one counting, which differ alike every time."""

_WIDTH: Final = 1.96
"""Standard errors on either side of a 95 % interval. Those of few duets are wider, and what they
say counts less."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step, and its places in the table: the last night `before` it and the first one on it.

    `placed`: it is there, and not a night earlier or later.
    """

    step: Step
    case: int
    night: int
    before: int
    placed: bool


def steps(
    table: Table, inside: Collection[str] = (), without: Collection[str] = ()
) -> tuple[TableStep, ...]:
    """All steps of a table's series that are large enough to matter, case by case.

    Of benchmarks only those `inside` are looked at, which a comparison can play; cases `without`
    not at all.
    """
    breaks = {} if table.track.ratio else events.breaks(table)
    result: list[TableStep] = []
    for row, case in enumerate(table.cases):
        ours = case.startswith(CANARY)  # what moves there is the instrument's
        if ours or case in without or (case.startswith(INPROCESS) and case not in inside):
            continue
        begins = max((one.night for one in breaks.get(case, ())), default=0)
        begins = max(begins, len(table.nights) - LONGEST)
        usable = np.flatnonzero(table.status[begins:, row] == _MEASURED) + begins
        for column in _columns(table, row):
            figures = table.mean[usable, row, column]
            there = usable[np.isfinite(figures) & (figures > 0)]
            pieces = _of_anchored if table.kind == "anchored" else _of_asv
            result += _of_series(table, row, column, *pieces(table, row, column, there))
    return tuple(result)


def anchored_too(table: Table, tables: Iterable[Table]) -> frozenset[str]:
    """Cases of another kind of table that have anchored points up to its last nights.

    They are not searched: one step would be reported twice, the second time much later, as figures
    of one side scatter ten times as far. Where the points have ended, they are searched again.
    """
    if table.kind == "anchored":
        return frozenset()
    since = table.nights[-LEAST:][0].time
    return frozenset(
        case
        for other in tables
        if (other.kind, other.machine) == ("anchored", table.machine)
        for place, night in enumerate(other.nights)
        if night.time >= since
        for row, case in enumerate(other.cases)
        if other.status[place, row] == _MEASURED
    )


def _columns(table: Table, row: int) -> Iterator[int]:
    """The metrics of a case that are looked at."""
    there = {name: place for place, name in enumerate(table.metrics)}
    for name in (*JUDGED, *([INSTRUCTIONS] if table.kind == "anchored" else ())):
        service = there.get(_SERVICE.get(name, ""))
        paced = service is not None and bool(np.isfinite(table.mean[:, row, service]).any())
        if name in there and not paced:
            yield there[name]


_Places = npt.NDArray[np.intp]


def _of_anchored(
    table: Table, row: int, column: int, nights: _Places
) -> tuple[list[int], list[Piece]]:
    """Nights whose figure has an interval, and the levels of their logarithms."""
    low, high = (block[nights, row, column].astype(float) for block in (table.low, table.high))
    known = np.isfinite(low) & np.isfinite(high) & (low > 0)
    lone = table.metrics[column] == INSTRUCTIONS
    errors = np.log(high[known] / low[known]) / 2 / _WIDTH
    if lone:
        errors = np.full(len(errors), REPEATED)
    there = nights[known].tolist()
    logs = np.log(table.mean[there, row, column].astype(float))
    chosen = [table.nights[night].as_of is not None for night in there]
    return there, fitted(logs.tolist(), errors.tolist(), lone=lone, chosen=chosen)


def _of_asv(table: Table, row: int, column: int, nights: _Places) -> tuple[list[int], list[Piece]]:
    """The nights, and their levels that are long enough; scatter in place of a standard error."""
    # asv has no types; this is all that is used of it here.
    from asv import step_detect  # noqa: PLC0415 - only detection waits for its import

    if len(nights) < 2 * LEAST:
        return [], []
    figures = table.mean[nights, row, column]
    pieces: list[Any] = step_detect.detect_steps((figures / np.median(figures)).tolist())
    return nights.tolist(), [
        Piece(int(start), int(end), math.log(level), float(scatter / level))
        for start, end, level, _, scatter in pieces
    ]


def _of_series(
    table: Table, row: int, column: int, nights: Sequence[int], pieces: Sequence[Piece]
) -> list[TableStep]:
    metric = table.metrics[column]
    floor = metric_row(CPU if metric == INSTRUCTIONS else metric).floor
    anchored = table.kind == "anchored"
    result = []
    for left, right in pairwise(pieces):
        height = right.log - left.log
        sizes = left.end - left.start, right.end - right.start
        if (not anchored and min(sizes) < LEAST) or abs(math.expm1(height)) <= floor:
            continue
        before, after = nights[right.start - 1], nights[right.start]
        error = math.hypot(left.se, right.se)
        single = max(left.se * math.sqrt(sizes[0]), right.se * math.sqrt(sizes[1]))
        noise = error if anchored else max(left.se, right.se, 1e-6)
        within = (math.exp(height - _WIDTH * error), math.exp(height + _WIDTH * error))
        result.append(
            TableStep(
                step=Step(
                    series=SeriesName(machine=table.machine, case=table.cases[row], metric=metric),
                    ratio=math.exp(height),
                    within=within if anchored else None,
                    strength=abs(height) / noise,
                    before_run=table.nights[before].run,
                    after_run=table.nights[after].run,
                    when=datetime.fromtimestamp(table.nights[after].time, UTC),
                    nights=sizes,
                ),
                case=row,
                night=after,
                before=before,
                placed=anchored and abs(height) >= PLACED * single,
            )
        )
    return result
