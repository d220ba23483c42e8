"""A case's series for people and for scripts: names, points, and the file that its page draws."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.show import addresses
from duetbench.show.change import describe
from duetbench.show.formats import MARKS, percent
from duetbench.show.site import words
from duetbench.show.site.charts import plot
from duetbench.show.site.charts.figure import Caption, Quantity, Value
from duetbench.show.site.charts.forest import TONES
from duetbench.show.site.pages.site import Site
from duetbench.store.change import Change, SeriesName
from duetbench.trend import table as history
from duetbench.trend.columns import TRACKS
from duetbench.trend.events import Bump
from duetbench.trend.table import STATES, Table

FORMAT: Final = 3
"""Version of the data files; goes up with every change of what they mean."""
AROUND: Final = 45
"""So many nights before a change and after it are on its page, which is frozen then."""
YEAR: Final = 400
"""Newest nights that are on the first page."""
NIGHTS: Final = 90
"""So many nights are sketched."""

_DIGITS: Final = 5
"""Of figures in data files; ends of absolute figures have one less."""
_MEASURED: Final = STATES.index("measured")


def metrics(table: Table, case: str) -> tuple[str, ...]:
    """Metrics of which the case has a figure, the one that is shown first first."""
    row = table.cases.index(case)
    there = ~np.isnan(table.mean[:, row]).all(axis=0)
    names = [table.metrics[column] for column in np.flatnonzero(there).tolist()]
    first = next((name for name in HEADLINES if name in names), None)
    return tuple(sorted(names, key=lambda name: name != first))


def title(metric: str, table: Table | None = None) -> str:
    """A metric in words; of benchmarks inside the process, whose metrics are units, what it is.

    With its table it says, too, whether the figures are ratios.
    """
    other = {"seconds": "time", "instructions": "instructions/request"}
    text = METRICS[metric].title if metric in METRICS else other.get(metric, metric or "figure")
    return f"{text}, times the anchor's" if table is not None and table.track.ratio else text


def label(table: Table) -> str:
    """What a table is beside others of its case."""
    anchor = table.nights[-1].profile
    return f"{table.machine}, against the anchor {anchor}" if table.track.ratio else table.machine


def unit(table: Table, metric: str) -> str:
    """What `words.figure` writes a series' figures by."""
    return words.RATIO if table.track.ratio else metric


def format_name(written: str) -> str:
    """What `formats.js` calls the format of a metric's figures; of others it is the unit."""
    return METRICS[written].format.name if written in METRICS else written


def quantity(table: Table, metric: str) -> Quantity:
    """The quantity of a metric, of the unit that asv gives to a benchmark, or of a ratio."""
    written = unit(table, metric)
    better = METRICS[metric].better if metric in METRICS else "lower"
    return Quantity(
        title(metric, table),
        lambda number: words.figure(number, written),
        better,
        script=format_name(written),
    )


def stack_of(table: Table, case: str) -> str:
    """The stack that a case was measured with last."""
    header = table.nights[int(np.flatnonzero(table.status[:, table.cases.index(case)])[-1])]
    return header.stack_of[header.cases.index(case)]


def value(point: history.Point) -> Value:
    """A night's figure as charts take it."""
    if point.mean is None:
        return Value(None, note=point.reason or point.status)
    low, high = point.low, point.high
    if low is None or high is None:
        low = high = None
    else:  # figure and ends were rounded apart from each other
        low, high = min(low, point.mean), max(high, point.mean)
    valid = point.status == "measured"
    return Value(point.mean, low, high, valid=valid, note=", ".join(point.flags))


def spark(table: Table, case: str) -> Markup:
    """The series that the case's page shows first, as a sparkline."""
    metric = next(iter(metrics(table, case)), "")
    if not metric:
        return Markup("")
    row, column = table.place(case, metric)
    planned = np.flatnonzero(table.status[:, row])[-NIGHTS:]
    figures = table.mean[planned, row, column].astype(np.float64)
    figures[table.status[planned, row] != _MEASURED] = np.nan
    values = [None if math.isnan(number) else number for number in figures.tolist()]
    return plot.spark(
        values, lambda count: f"{title(metric, table)}, {words.quantity(count, 'point')}"
    )


def document(
    site: Site, case: str, tables: Iterable[Table], changes: Sequence[Change]
) -> dict[str, Any]:
    """The data file of a case: every series on every machine, with what happened to it."""
    return {
        "format": FORMAT,
        "case": case,
        "tables": [_table(site, table, case, changes) for table in tables],
    }


def _table(
    site: Site,
    table: Table,
    case: str,
    changes: Iterable[Change],
    nights: npt.NDArray[np.intp] | None = None,
    only: str = "",
) -> dict[str, Any]:
    """A case on one machine; of all `nights` that planned it and all metrics, or some."""
    row = table.cases.index(case)
    if nights is None:
        nights = np.flatnonzero(table.status[:, row])
    headers = [table.nights[night] for night in nights.tolist()]
    first, last = int(nights[0]), int(nights[-1])
    happened = site.events[table.machine, table.kind]
    stack = stack_of(table, case)
    ends = _DIGITS if table.track.ratio else _DIGITS - 1

    def here(night: int) -> bool:
        return first < night <= last

    return {
        "machine": table.machine,
        "kind": table.kind,
        "label": label(table),
        "anchor": headers[-1].profile if table.track.ratio else None,
        "interval": table.track.interval,
        "run": [header.run for header in headers],
        "time": [header.time for header in headers],
        "status": [STATES[code] for code in table.status[nights, row].tolist()],
        "note": [_note(table, night, row) for night in nights.tolist()],
        "file": [next(iter(site.files_of(header.run)), "") for header in headers],
        "metrics": [
            {
                "name": metric,
                "title": title(metric, table),
                "unit": "1"
                if table.track.ratio
                else METRICS[metric].unit
                if metric in METRICS
                else metric,
                "format": format_name(unit(table, metric)),
                "better": METRICS[metric].better if metric in METRICS else "lower",
                **{
                    name: rounded(block[nights, row, table.metrics.index(metric)], digits)
                    for name, block, digits in (
                        ("mean", table.mean, _DIGITS),
                        ("low", table.low, ends),
                        ("high", table.high, ends),
                    )
                },
                "launches": table.launches[nights, row, table.metrics.index(metric)].tolist(),
            }
            for metric in metrics(table, case)
            if only in {"", metric}
        ],
        "gaps": [table.nights[night].time for night, _ in happened.gaps if here(night)],
        "breaks": [
            {
                "time": table.nights[event.night].time,
                "label": f"{event.what}: {event.before} → {event.after}",
            }
            for event in happened.breaks.get(case, ())
            if here(event.night)
        ],
        "bumps": [
            {
                "time": table.nights[bump.night].time,
                "label": f"{bump.stack}: {words.moved(bump.packages) or 'hashes only'}",
                "href": alone(bump),
            }
            for bump in happened.bumps
            if bump.stack == stack and here(bump.night)
        ],
        "changes": [
            _change(record, name)
            for record in changes
            for name in (record.series, *record.others)
            if (name.machine, name.case) == (table.machine, case)
            and only in {"", name.metric}
            and table.nights[first].time <= record.when.timestamp()
        ],
    }


def rounded(figures: npt.NDArray[np.float32], digits: int) -> list[float | None]:
    """Figures with so many digits; None: there is none."""
    exact = figures.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(exact)))
    scale = 10.0 ** np.clip(np.nan_to_num(places, posinf=0.0), 0, 18)
    return [
        None if math.isnan(number) else number
        for number in (np.rint(exact * scale) / scale).tolist()
    ]


def _note(table: Table, night: int, row: int) -> str:
    """Why a night has no figure, or its flags."""
    flags = ", ".join(table.flag_sets[int(table.flags[night, row])])
    return table.reasons.get((night, row)) or flags


def _change(record: Change, series: SeriesName) -> dict[str, Any]:
    change = describe(record)
    parts = (f"{change.word} {change.change} ({change.interval})", change.cause)
    return {
        "metric": series.metric,
        "time": int(record.when.timestamp()),
        "tone": TONES.get(record.verdict, "open"),
        # Its size is that of the series in which it was found.
        "short": f"{MARKS[record.verdict]} {percent(record.ratio)}"
        if series == record.series
        else MARKS[record.verdict],
        "label": ", ".join(filter(None, parts)),
        "href": addresses.change(record.id),
    }


def alone(bump: Bump) -> str:
    """The page of the one package that moved; empty: none, or several did."""
    return addresses.package(bump.packages[0].package) if len(bump.packages) == 1 else ""


def rows(table: Table, case: str, metric: str, newest: int = plot.ROWS) -> Iterator[Sequence[str]]:
    """The newest points of a series for the table below its chart, the newest first."""
    points = history.points(table, case, metric, newest)
    return _rows(table, metric, points)


def _rows(table: Table, metric: str, points: Iterable[history.Point]) -> Iterator[Sequence[str]]:
    axis = quantity(table, metric)
    for point in reversed([*points]):
        figure = value(point)
        day = f"{datetime.fromtimestamp(point.time, UTC):%Y-%m-%d}"
        yield day, point.run, "", *plot.cells(axis, figure)


def around(site: Site, record: Change) -> tuple[Table, npt.NDArray[np.intp]] | None:
    """The table of a change, and the nights around it; None if its series is not on this site."""
    name = record.series
    there = filter(None, (site.tables.get((name.machine, kind)) for kind in TRACKS))
    # The series that it was found in, where several kinds have the case.
    for table in sorted(
        there, key=lambda table: all(night.run != record.after_run for night in table.nights)
    ):
        if name.case in table.cases and name.metric in table.metrics:
            planned = np.flatnonzero(table.status[:, table.cases.index(name.case)])
            times = np.array([table.nights[night].time for night in planned.tolist()])
            first = int(np.searchsorted(times, record.when.timestamp()))
            near = planned[max(0, first - AROUND) : first + AROUND]
            return (table, near) if len(near) else None
    return None


def trend_around(site: Site, record: Change) -> Markup | None:
    """The chart of the nights around a change."""
    if (cut := around(site, record)) is None:
        return None
    (table, nights), name = cut, record.series
    data = _table(site, table, name.case, (record,), nights, name.metric)
    points = history.points_of(table, nights.tolist(), name.case, name.metric)
    return plot.figure(
        Caption(
            "around",
            f"{title(name.metric, table)} before and after",
            f"Up to {AROUND} nights on either side, as they were measured, one by one.",
        ),
        {"document": {"format": FORMAT, "case": name.case, "tables": [data]}},
        ("date", "run"),
        title(name.metric, table),
        _rows(table, name.metric, points),
        "trend",
    )


def year(site: Site, case: str, tables: Sequence[Table], about: Caption) -> Markup:
    """The newest year of a case's first metric on every machine, with its data in the page."""
    first = tables[0]
    metric = metrics(first, case)[0]
    cuts = (
        (table, np.flatnonzero(table.status[:, table.cases.index(case)])[-YEAR:])
        for table in tables
        if table.kind == first.kind and metric in metrics(table, case)
    )
    drawn = [_table(site, table, case, site.changes, nights, metric) for table, nights in cuts]
    document = {"format": FORMAT, "case": case, "tables": drawn}
    return plot.figure(
        about,
        {"document": document},
        ("date", "run"),
        title(metric, first),
        rows(first, case, metric),
        "trend",
    )


def trend(
    case: str, tables: Sequence[Table], source: str, siblings: Mapping[str, str], about: Caption
) -> Markup:
    """The chart of a case, which a script draws from the file at `source` (from the root).

    `siblings`: other cases of its endpoint, by name: where their files are.
    """
    table = tables[0]
    metric = next(iter(metrics(table, case)), table.metrics[0] if table.metrics else "")
    listed = [{"name": name, "source": address} for name, address in siblings.items()]
    return plot.figure(
        about,
        {"source": source, "siblings": listed},
        ("date", "run"),
        title(metric, table),
        rows(table, case, metric) if metric else (),
        "trend",
    )
