"""The headlines' newest figures, with a sketch of how they came about: for the first page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from servebench.core.metrics import METRICS
from servebench.core.units import significant
from servebench.declare.published import Headline, headlines
from servebench.series.table import STATES, Table
from servebench.site import overview
from servebench.site.charts.trend import spark
from servebench.site.pages import words

NIGHTS: Final = 90
"""So many nights are sketched."""

_MEASURED: Final = STATES.index("measured")


@dataclass(frozen=True, slots=True)
class HeadlineCard:
    """A headline, ready to be written.

    Attributes:
        base: What the case's figure is divided by; None: nothing.
        machine: Where; empty: nowhere was anything measured.
        figure: With its unit; empty: the machine has none.
        firm: Whether it may stand large: it has an interval, and a narrow one.
        interval: `±1.2 %`, or why there is none.
        meaning: Which metric, and of a ratio, which way is better.
        sketch: A sparkline of so many `nights`; empty for fewer than two.
        run: The newest run that has it.
        disturbed: Without a figure: whether there are some that may not be judged.
    """

    label: str
    case: str
    base: str | None
    metric: str
    machine: str
    figure: str = ""
    firm: bool = False
    interval: str = ""
    meaning: str = ""
    sketch: str = ""
    nights: int = 0
    run: str = ""
    disturbed: bool = False


def shown(tables: Iterable[Table]) -> tuple[HeadlineCard, ...]:
    """All headlines, of one machine."""
    table = overview.speaker(tables)
    return tuple(_of_table(table, headline) for headline in headlines())


def series(table: Table, case: str, metric: str) -> npt.NDArray[np.float64] | None:
    """The figures of a series that may be judged, night by night (NaN: none); None: no series."""
    if case not in table.cases or metric not in table.metrics:
        return None
    row, column = table.place(case, metric)
    figures = table.mean[:, row, column].astype(np.float64)
    figures[table.status[:, row] != _MEASURED] = np.nan
    return figures


def _of_table(table: Table | None, headline: Headline) -> HeadlineCard:
    hollow = HeadlineCard(
        label=headline.label,
        case=headline.case,
        base=headline.base,
        metric=headline.metric,
        machine=table.machine if table else "",
        disturbed=table is not None and headline.case in table.cases,
    )
    found = None if table is None else overview.stated(table, headline)
    values = None if table is None else series(table, headline.case, headline.metric)
    if table is None or found is None or values is None:
        return hollow
    below = series(table, headline.base, headline.metric) if headline.base else None
    if below is not None:
        values = values / np.where(below > 0, below, np.nan)
    recent = [None if np.isnan(value) else float(value) for value in values[-NIGHTS:]]
    several = sum(value is not None for value in recent) > 1
    narrow = f"±{significant(100 * found.half, 2)} %" if found.half else ""
    return replace(
        hollow,
        figure=found.figure,
        firm=not (found.doubt or found.wide),
        interval=found.doubt or ("95 % interval" if found.wide else narrow),
        meaning=_meaning(headline),
        sketch=Markup(  # noqa: S704 - drawn by a template that escapes
            spark(f"{headline.label}: the last {words.many(len(recent), 'night')}", recent)
        )
        if several
        else "",
        nights=len(recent),
        run=table.nights[found.night].run,
        disturbed=False,
    )


def _meaning(headline: Headline) -> str:
    row = METRICS[headline.metric]
    if headline.base is None:
        return row.title
    better = {"higher": "above 1 is better", "lower": "below 1 is better"}.get(row.better, "")
    return f"ratio of {row.title}" + (f"; {better}" if better else "")
