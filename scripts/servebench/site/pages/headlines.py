"""The headlines' newest figures, with a sketch of how they came about: for the first page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from servebench.metrics import METRICS
from servebench.site import history, overview
from servebench.site.charts.spark import spark
from servebench.site.history import STATES, Table
from servebench.site.overview import HEADLINES, Headline
from servebench.site.pages import words
from servebench.units import significant

NIGHTS: Final = 90
"""So many nights are sketched."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class Shown:
    """A headline, ready to be written.

    Attributes:
        label: What it is.
        figure: With its unit; empty: no machine has it.
        interval: `±1.2 %`, or the ends; may be empty.
        meaning: Which metric, and of a ratio, which way is better.
        sketch: A sparkline; empty for fewer than two nights.
        nights: How many it shows.
        case: Whose figure it is.
        base: What it is divided by; None: nothing.
        metric: Its name.
        run: The newest run that has it.
        machine: Where.
        disturbed: Without a figure: whether there are some that may not be judged.
    """

    label: str
    figure: str = ""
    interval: str = ""
    meaning: str = ""
    sketch: str = ""
    nights: int = 0
    case: str = ""
    base: str | None = None
    metric: str = ""
    run: str = ""
    machine: str = ""
    disturbed: bool = False


def shown(tables: Iterable[Table]) -> tuple[Shown, ...]:
    """All headlines, each of the first of these tables that has it."""
    every = tuple(tables)
    return tuple(
        next(
            (found for table in every if (found := _of_table(table, headline))),
            Shown(
                headline.label,
                case=headline.case,
                metric=headline.metric,
                disturbed=any(headline.case in table.cases for table in every),
            ),
        )
        for headline in HEADLINES
    )


def series(table: Table, case: str, metric: str) -> npt.NDArray[np.float64] | None:
    """The figures of a series that may be judged, night by night (NaN: none); None: no series."""
    if case not in table.cases or metric not in table.metrics:
        return None
    row, column = table.place(case, metric)
    figures = table.mean[:, row, column].astype(np.float64)
    figures[table.status[:, row] != _MEASURED] = np.nan
    return figures


def _of_table(table: Table, headline: Headline) -> Shown | None:
    values = series(table, headline.case, headline.metric)
    if values is None:
        return None
    if headline.base is not None:
        below = series(table, headline.base, headline.metric)
        if below is None:
            return None
        values = values / np.where(below > 0, below, np.nan)
    there = np.flatnonzero(~np.isnan(values))
    if not len(there):
        return None
    night = int(there[-1])
    figure, interval = _newest(table, headline, night)
    recent = [None if np.isnan(value) else float(value) for value in values[-NIGHTS:]]
    several = sum(value is not None for value in recent) > 1
    return Shown(
        label=headline.label,
        figure=figure,
        interval=interval,
        meaning=_meaning(headline),
        sketch=Markup(  # noqa: S704 - drawn by a template that escapes
            spark(f"{headline.label}: the last {words.many(len(recent), 'night')}", recent)
        )
        if several
        else "",
        nights=len(recent),
        case=headline.case,
        base=headline.base,
        metric=headline.metric,
        run=table.nights[night].run,
        machine=table.machine,
    )


def _newest(table: Table, headline: Headline, night: int) -> tuple[str, str]:
    point = history.point(table, night, headline.case, headline.metric)
    if headline.base is None:
        middle, low, high = point.mean, point.low, point.high
        figure = words.figure(middle, headline.metric)
    else:
        base = history.point(table, night, headline.base, headline.metric)
        found = overview.ratio(point, base)
        if found is None:  # cannot be: both have a figure above zero here
            return "", ""
        middle, low, high = found
        figure = f"{significant(middle)}×"
    if middle is None or low is None or high is None or low == high:
        return figure, ""
    half = max(high - middle, middle - low) / middle
    return figure, f"±{significant(100 * half, 2)} %"


def _meaning(headline: Headline) -> str:
    row = METRICS[headline.metric]
    if headline.base is None:
        return row.title
    better = {"higher": "above 1 is better", "lower": "below 1 is better"}.get(row.better, "")
    return f"ratio of {row.title}" + (f"; {better}" if better else "")
