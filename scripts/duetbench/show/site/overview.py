"""What is there, in small files: the overview of all series, an index, badges."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS
from duetbench.core.units import significant
from duetbench.project.published import Headline, headlines
from duetbench.show.site.data_files import FORMAT, LETTERS, SeriesFile
from duetbench.store.change import Change
from duetbench.store.comparison import Verdict
from duetbench.trend import table as series
from duetbench.trend.summary import estimate, too_few
from duetbench.trend.table import STATES, Table

_DIGITS: Final = 6
_WIDE: Final = 0.1
"""From half an interval of such a share on, a figure is shown as its ends."""
NIGHTS: Final = 7
"""Newest nights whose launches stand together where a night has too few for an interval."""

_TOLD: Final = {"id", "status", "series", "when", "ratio", "low", "high", "verdict", "culprit"}
_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class Stated:
    """A headline's newest figure on one machine, SI unit, with its interval if it has one.

    Attributes:
        night: The newest that it is of.
        value: Its `n` are launches; of a ratio, the fewer of both sides.
        nights: Of how many nights these are.
    """

    headline: Headline
    night: int
    value: Interval
    nights: int = 1

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
    def figure(self) -> str:
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

    @property
    def firm(self) -> bool:
        """Whether it may stand large: it has an interval, and a narrow one."""
        return not (self.doubt or self.wide)


def overview(
    tables: Iterable[Table], changes: Iterable[Change], problems: Sequence[str]
) -> dict[str, Any]:
    """The newest figure of every series, as columns, SI units, six digits.

    `when` counts nights from the end: 0 is the newest one.
    """
    return {
        "format": FORMAT,
        "letters": LETTERS,
        "machines": [_machine(table) for table in tables],
        "changes": [record.model_dump(mode="json", include=_TOLD) for record in changes],
        "problems": list(problems),
    }


def index(
    divided: Iterable[tuple[Table, Sequence[SeriesFile]]], runs: Iterable[str]
) -> dict[str, Any]:
    """For tools: every case with its series and the folders of their files, and every run."""
    cases: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for table, files in divided:
        for file in files:
            for case, metric in file.series:
                folders = cases.setdefault((table.machine, table.kind, table.cases[case]), {})
                folders.setdefault(file.id, []).append(table.metrics[metric])
    return {
        "format": FORMAT,
        "manifest": "manifest.json",
        "overview": "overview.json",
        "feed": "changes.atom",
        "runs": [f"runs/{run}.json" for run in runs],
        "cases": [
            {"machine": machine, "kind": kind, "case": case, "series": folders}
            for (machine, kind, case), folders in cases.items()
        ],
    }


def badges(tables: Sequence[Table], changes: Sequence[Change]) -> dict[str, dict[str, Any]]:
    """By name: what shields.io shows (its endpoint format, version 1).

    All figures are of one machine (`speaker`).
    """
    one = speaker(tables)
    found = {headline.name: _badge(headline, one) for headline in headlines()}
    worse = sum(one.status == "open" and one.verdict is Verdict.SLOWER for one in changes)
    told = (str(worse), "orange") if worse else ("none", "blue")
    shown = ("not measured", "lightgrey") if one is None else told
    return {**found, "changes": _shield("open regressions", *shown)}


def stated(table: Table, headline: Headline) -> Stated | None:
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
            one
            for one in np.flatnonzero(there)[-NIGHTS:].tolist()
            if _defined(table, one, cases) == _defined(table, night, cases)
        ]
        values = [_value(table, one, cases, headline.metric) for one in recent]
        if len(values) > launches:
            return Stated(headline, night, estimate(values), len(values))
    mean, *below = (point.mean or math.nan for point in points)
    if not below:
        return Stated(headline, night, Interval(mean, points[0].low, points[0].high, launches))
    mean /= below[0]
    # Intervals of both sides are independent, and symmetric on the logarithmic scale.
    halves = [
        math.log(one.high / one.low) / 2 for one in points if one.high and one.low and one.low > 0
    ]
    factor = math.exp(math.hypot(*halves)) if len(halves) == len(points) else None
    low, high = (mean / factor, mean * factor) if factor else (None, None)
    return Stated(headline, night, Interval(mean, low, high, launches))


def _defined(table: Table, night: int, cases: Sequence[str]) -> list[str]:
    header = table.nights[night]
    return [header.definitions[header.cases.index(case)] for case in cases]


def _value(table: Table, night: int, cases: Sequence[str], metric: str) -> float:
    """A night's figure of one case, or its ratio to another's."""
    mean, *below = (float(table.mean[night, *table.place(case, metric)]) for case in cases)
    return mean / below[0] if below else mean


def speaker(tables: Iterable[Table]) -> Table | None:
    """The one machine whose figures stand for the experiments, of those with server runs.

    It has most of the headlines with an interval; of equals, most with a figure; of equals, it was
    measured last. None: there is no machine.
    """

    def having(table: Table) -> tuple[int, int, int, str]:
        found = [one for one in (stated(table, headline) for headline in headlines()) if one]
        sure = sum(not one.doubt for one in found)
        return sure, len(found), table.nights[-1].time, table.machine

    there = (table for table in tables if table.track.served and table.nights)
    return max(there, key=having, default=None)


def _badge(headline: Headline, table: Table | None) -> dict[str, Any]:
    found = None if table is None else stated(table, headline)
    if found is None:
        return _shield(headline.label, "not measured", "lightgrey")
    doubt = f" ({found.doubt})" if found.doubt else ""
    return _shield(headline.label, f"{found.figure}{doubt}", "lightgrey" if doubt else "blue")


def _shield(label: str, message: str, color: str) -> dict[str, Any]:
    return {"schemaVersion": 1, "label": label, "message": message, "color": color}


def _machine(table: Table) -> dict[str, Any]:
    letters = list(LETTERS.values())
    last = len(table.nights) - 1
    places = np.array(list(series.series(table)), dtype=np.intp).reshape(-1, 2)
    cases, metrics = places[:, 0], places[:, 1]
    newest_of = [int(np.flatnonzero(table.status[:, case])[-1]) for case in range(len(table.cases))]
    nights = np.array(newest_of, dtype=np.intp)[cases]
    figures = (~np.isnan(table.mean)).sum(axis=0)
    columns = {
        "case": cases.tolist(),
        "metric": metrics.tolist(),
        **{
            name: [
                None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")
                for value in block[nights, cases, metrics].tolist()
            ]
            for name, block in (("mean", table.mean), ("low", table.low), ("high", table.high))
        },
        "status": "".join(letters[code] for code in table.status[nights, cases].tolist()),
        "when": (last - nights).tolist(),
        "points": figures[cases, metrics].tolist(),
    }
    newest = table.nights[-1]
    first_time, newest_time = (
        datetime.fromtimestamp(night.time, UTC).isoformat() for night in (table.nights[0], newest)
    )
    return {
        "machine": table.machine,
        "kind": table.kind,
        "nights": len(table.nights),
        "first": first_time,
        "newest": {"run": newest.run, "time": newest_time, "commit": newest.commit},
        "cases": table.cases,
        "metrics": table.metrics,
        "series": columns,
    }
