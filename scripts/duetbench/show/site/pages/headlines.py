"""The figures that stand for the experiments, each of one machine, and their badges."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import significant
from duetbench.project.published import Headline, headlines
from duetbench.store.change import Change
from duetbench.trend import table as series
from duetbench.trend.summary import estimate, too_few
from duetbench.trend.table import STATES, Table

NIGHTS: Final = 7
"""Newest nights whose launches stand together where a night has too few for an interval."""

_WIDE: Final = 0.1  # from half an interval of such a share on, a figure is shown as its ends
_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class Figure:
    """A headline's newest figure on one machine, SI unit, with its interval if it has one.

    Attributes:
        value: Its `n` are launches; of a ratio, the fewer of both sides.
    """

    headline: Headline
    night: int
    value: Interval

    @property
    def doubt(self) -> str:
        """Why it is no more than a figure; empty: it has an interval of enough launches."""
        lone = "" if self.value.ends else "no interval"
        return too_few(self.value.n) or lone

    @property
    def half(self) -> float:
        """Half the width of its interval, as a share of the figure; 0: it has none."""
        return self.value.spread or 0.0

    @property
    def wide(self) -> bool:
        """Whether its interval says more than its figure, which is then not shown alone."""
        return not self.doubt and self.half > _WIDE

    @property
    def text(self) -> str:
        """The figure with its unit; of a wide interval its ends: `1.8…3.7×`."""
        values, digits = (self.value.estimate,), 3  # type: tuple[float, ...], int
        if self.wide and self.value.ends:
            values, digits = self.value.ends, 2
        if self.headline.base is None:
            return "…".join(map(METRICS[self.headline.metric].format, values))
        return "…".join(significant(value, digits) for value in values) + "×"

    @property
    def interval(self) -> str:
        """`±1.2 %`, what stands in the figure's place, or why there is none."""
        narrow = f"±{significant(100 * self.half, 2)} %" if self.half else ""
        return self.doubt or ("95 % interval" if self.wide else narrow)


def newest(table: Table, headline: Headline) -> Figure | None:
    """A headline of a machine, from its newest night that has all of it; None if none has.

    Where that has too few launches, from those of the newest nights that define it equally.
    """
    cases = [headline.case, *([headline.base] if headline.base else [])]
    if headline.metric not in table.metrics or not {*cases} <= {*table.cases}:
        return None
    there = np.ones(len(table.nights), dtype=np.bool_)
    for row, column in (table.place(case, headline.metric) for case in cases):
        there &= (table.status[:, row] == _MEASURED) & (table.mean[:, row, column] > 0)
    if not there.any():
        return None
    night = int(np.flatnonzero(there)[-1])
    points = [series.point(table, night, case, headline.metric) for case in cases]
    launches = min(point.launches for point in points)
    if too_few(launches):
        recent = [
            earlier
            for earlier in np.flatnonzero(there)[-NIGHTS:].tolist()
            if _defined(table, earlier, cases) == _defined(table, night, cases)
        ]
        values = [_value(table, earlier, cases, headline.metric) for earlier in recent]
        if len(values) > launches:
            return Figure(headline, night, estimate(values))
    mean, *below = (point.mean or math.nan for point in points)
    if not below:
        return Figure(headline, night, Interval(mean, points[0].low, points[0].high, launches))
    mean /= below[0]
    # Intervals of both sides are independent, and symmetric on the logarithmic scale.
    halves = [
        math.log(point.high / point.low) / 2
        for point in points
        if point.high and point.low and point.low > 0
    ]
    factor = math.exp(math.hypot(*halves)) if len(halves) == len(points) else None
    low, high = (mean / factor, mean * factor) if factor else (None, None)
    return Figure(headline, night, Interval(mean, low, high, launches))


def speaker(tables: Iterable[Table]) -> Table | None:
    """The one machine whose figures stand for the experiments, of those with server runs.

    It has most of the headlines with an interval; of equals, most with a figure; of equals, it was
    measured last. None: there is no machine.
    """

    def rank(table: Table) -> tuple[int, int, int, str]:
        figures = [
            figure for figure in (newest(table, headline) for headline in headlines()) if figure
        ]
        sure = sum(not figure.doubt for figure in figures)
        return sure, len(figures), table.nights[-1].time, table.machine

    there = (table for table in tables if not table.track.ratio and table.nights)
    return max(there, key=rank, default=None)


def badges(tables: Iterable[Table], changes: Iterable[Change]) -> dict[str, dict[str, Any]]:
    """By headline, and of all open regressions: what shields.io shows (its endpoint, version 1)."""
    table = speaker(tables)
    shields = {headline.name: _badge(headline, table) for headline in headlines()}
    worse = sum(change.status == "open" and change.verdict is Verdict.SLOWER for change in changes)
    count = (str(worse), "orange") if worse else ("none", "blue")
    state = ("not measured", "lightgrey") if table is None else count
    return {**shields, "changes": _shield("open regressions", *state)}


def _badge(headline: Headline, table: Table | None) -> dict[str, Any]:
    figure = None if table is None else newest(table, headline)
    if figure is None:
        return _shield(headline.label, "not measured", "lightgrey")
    doubt = f" ({figure.doubt})" if figure.doubt else ""
    return _shield(headline.label, f"{figure.text}{doubt}", "lightgrey" if doubt else "blue")


def _shield(label: str, message: str, color: str) -> dict[str, Any]:
    return {"schemaVersion": 1, "label": label, "message": message, "color": color}


def _defined(table: Table, night: int, cases: Sequence[str]) -> list[str]:
    header = table.nights[night]
    return [header.definitions[header.cases.index(case)] for case in cases]


def _value(table: Table, night: int, cases: Sequence[str], metric: str) -> float:
    """A night's figure of one case, or its ratio to another's."""
    mean, *below = (float(table.mean[night, *table.place(case, metric)]) for case in cases)
    return mean / below[0] if below else mean
