"""A case's series for readers and scripts: titles, table cells, and the page's data file."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.change import SeriesName
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.judge.summary import ENOUGH_LAUNCHES
from duetbench.report import formats
from duetbench.report.html.charts import TONES, Caption
from observatory.show import addresses, quoting
from observatory.show.changes import describe
from observatory.show.site import plots
from observatory.show.site.pages.site import Site
from observatory.show.site.plots import Quantity
from observatory.show.site.words import day
from observatory.store.change import Change, finding_on
from observatory.trend import table as history
from observatory.trend.table import KINDS, STATES, Figures, Point, Table

FORMAT: Final = 4
"""Version of the data files; it rises with every change of their meaning."""
AROUND: Final = 45
"""Nights on a change's page, both before and after it; later nights do not alter the page."""
YEAR: Final = 400
"""Newest nights on the first page."""
_SKETCH: Final = 90
"""Newest nights of a sparkline."""

_DIGITS: Final = 5
"""Digits of figures in data files; ends of absolute figures have one less."""

Nights = npt.NDArray[np.intp]


def metrics(table: Table, case: str) -> tuple[str, ...]:
    """Return the metrics that a case has figures of, beginning with its main metric."""
    present = ~np.isnan(table.figures[:, table.cases.index(case), :, 0]).all(axis=0)
    names = [table.metrics[column] for column in np.flatnonzero(present).tolist()]
    first = next((name for name in HEADLINES if name in names), None)
    return tuple(sorted(names, key=lambda name: name != first))


def nights(table: Table, case: str) -> Nights:
    """Return the nights that planned a case, as indexes into the table."""
    return np.flatnonzero(table.status[:, table.cases.index(case)])


def newest(table: Table, case: str, metric: str) -> Point:
    """Return the point of the last night that planned a case."""
    return history.points(table, case, metric, [int(nights(table, case)[-1])])[0]


def title(metric: str, table: Table | None = None) -> str:
    """Return the title of a metric, or of an in-process benchmark's unit.

    With its table, the title also says whether the figures are ratios.
    """
    other = {"seconds": "time", "instructions": "instructions per request"}
    text = METRICS[metric].title if metric in METRICS else other.get(metric, metric or "figure")
    return f"{text}, compared with the fixed stack" if table is not None and table.ratio else text


def reading(table: Table) -> str:
    """Explain how to read a trend."""
    if not table.ratio:
        return ""
    return (
        "Each point compares the packages of its day with a fixed stack, the anchor "
        f"{table.nights[-1].profile} (1 ×), both loaded at the same time."
    )


def quantity(table: Table, metric: str) -> Quantity:
    """Return the quantity of a metric, of an asv benchmark's unit, or of a ratio."""
    if metric in METRICS and not table.ratio:
        return Quantity.of(metric)
    unit, name = "×" if table.ratio else metric, title(metric, table)
    if unit == "seconds":
        return Quantity(name, units.seconds, unit)
    return Quantity(name, lambda figure: f"{units.significant(figure, 4)} {unit}", unit)


def cells(table: Table, metric: str, point: Point) -> tuple[str, str, str]:
    """Return a night's figure, its interval, and its flags or why the figure is missing."""
    if (figure := point.figure) is None:
        return formats.MISSING, "", point.reason
    axis, case = quantity(table, metric), point.case
    state = "" if case.status == "measured" else case.status
    note = ": ".join(filter(None, (state, ", ".join(case.flags))))
    return axis.format(figure.estimate), axis.interval(figure), note


def newest_figure(case: str, tables: Sequence[Table]) -> tuple[str, str]:
    """Return a case's newest figure, absolute if it has one, and its interval or its doubt."""
    table = next((table for table in tables if not table.ratio), next(iter(tables), None))
    metric = next(iter(metrics(table, case)), "") if table else ""
    if table is None or not metric:
        return "", ""
    point = newest(table, case, metric)
    figure, interval, note = cells(table, metric, point)
    if point.figure is None or point.case.status != "measured":
        return figure, note
    return figure, _too_few(point.figure.n) or interval


def _too_few(launches: int) -> str:
    """Return why so few launches have no interval; empty: they are enough."""
    if launches >= ENOUGH_LAUNCHES:
        return ""
    return "one launch" if launches == 1 else f"{launches} launches"


def spark(case: str, tables: Sequence[Table]) -> Markup:
    """Draw a sparkline of the series that the case's page shows first; empty if it has none."""
    table = next(iter(tables), None)
    if table is None or not (metric := next(iter(metrics(table, case)), "")):
        return Markup("")
    values = _values(table, case, metric, nights(table, case)[-_SKETCH:])
    known = formats.quantity(len(values) - values.count(None), "point")
    return plots.spark(values, f"{title(metric, table)}, {known}")


def _values(table: Table, case: str, metric: str, of: Nights) -> list[float | None]:
    """Return a figure for each night; None if it is missing or may not be judged."""
    return [
        point.figure.estimate if point.figure and point.case.status == "measured" else None
        for point in history.points(table, case, metric, of.tolist())
    ]


def document(
    site: Site, case: str, series: Mapping[Table, Nights], changes: Sequence[Change], only: str = ""
) -> dict[str, Any]:
    """Make a case's data file: its series in these nights, or one metric's, with events."""
    case_tables = [_table(site, table, case, of, changes, only) for table, of in series.items()]
    return {"format": FORMAT, "case": case, "tables": case_tables}


def _table(
    site: Site, table: Table, case: str, of: Nights, changes: Iterable[Change], only: str
) -> dict[str, Any]:
    """Describe a case's series on one machine."""
    row, ratio = table.cases.index(case), table.ratio
    headers = [table.nights[night] for night in of.tolist()]
    first, last = int(of[0]), int(of[-1])
    events = site.events[table.machine, table.kind]
    stack = table.nights[int(nights(table, case)[-1])].cases[case].stack
    anchor = headers[-1].profile if ratio else None
    return {
        "machine": table.machine,
        "kind": table.kind,
        "label": f"{table.machine}, against the anchor {anchor}" if ratio else table.machine,
        "anchor": anchor,
        "interval": KINDS[table.kind],
        "run": [header.run for header in headers],
        "time": [header.time for header in headers],
        "status": _pooled(STATES[code] for code in table.status[of, row].tolist()),
        "note": _pooled(
            header.cases[case].reason or ", ".join(header.cases[case].flags) for header in headers
        ),
        "file": _pooled(site.raw.get(header.run, "") for header in headers),
        "launches": (number := table.figures[of, row, :, 3].max(axis=1)).astype(int).tolist(),
        "metrics": [
            _metric(table, metric, of, row, number)
            for metric in metrics(table, case)
            if only in {"", metric}
        ],
        "gaps": [table.nights[night].time for night, _ in events.gaps if first < night <= last],
        "breaks": [
            {
                "time": table.nights[event.night].time,
                "label": f"{event.what}: {event.before} → {event.after}",
            }
            for event in events.breaks.get(case, ())
            if first < event.night <= last
        ],
        "bumps": [
            {
                "time": table.nights[bump.night].time,
                "label": f"{bump.stack}: {', '.join(map(str, bump.packages)) or 'hashes only'}",
                # The page of the package that moved, if only one did.
                "href": addresses.package(bump.packages[0].package)
                if len(bump.packages) == 1
                else "",
            }
            for bump in events.bumps
            if bump.stack == stack and first < bump.night <= last
        ],
        "changes": [
            _change(site, record, name)
            for record in changes
            for name in record.all_series
            if (name.machine, name.case) == (table.machine, case)
            and only in {"", name.metric}
            and table.nights[first].time <= record.when.timestamp()
        ],
    }


def _pooled(values: Iterable[str]) -> dict[str, list[Any]]:
    """Write each different value once, and for each night its place among them."""
    places: dict[str, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return {"of": [*places], "at": at}


def _metric(
    table: Table, metric: str, of: Nights, row: int, usual: npt.NDArray[np.float32]
) -> dict[str, Any]:
    """Describe a metric's figures, with `launches` of its own if they are not the `usual` ones."""
    column, definition, ratio = table.metrics.index(metric), METRICS.get(metric), table.ratio
    ends = _DIGITS if ratio else _DIGITS - 1
    mean, low, high, launches = table.figures[of, row, column].T
    own = (launches != usual)[~np.isnan(mean)].any()
    return {
        "name": metric,
        "title": title(metric, table),
        "unit": "1" if ratio else definition.unit if definition else metric,
        "format": quantity(table, metric).script,
        "better": definition.better if definition else "lower",
        "mean": _round(mean, _DIGITS),
        "low": _few(_round(low, ends)),
        "high": _few(_round(high, ends)),
        **({"launches": launches.astype(int).tolist()} if own else {}),
    }


def _few(figures: list[float | None]) -> list[float | None] | dict[int, float]:
    """Write figures by their places, if most are missing."""
    known = {place: figure for place, figure in enumerate(figures) if figure is not None}
    return known if 2 * len(known) < len(figures) else figures


def _round(figures: Figures, digits: int) -> list[float | None]:
    """Round figures to some significant digits; None stands for a missing figure."""
    known = ~np.isnan(figures)
    exact = np.where(known, figures, 0).astype(float)
    size = np.floor(np.log10(np.abs(np.where(exact, exact, 1))))
    shift = digits - 1 - size
    scale, whole = 10 ** np.abs(shift), shift >= 0
    rounded = np.where(whole, np.rint(exact * scale) / scale, np.rint(exact / scale) * scale)
    return [one if there else None for one, there in zip(rounded.tolist(), known, strict=True)]


def on_series(site: Site, record: Change, name: SeriesName) -> Change | None:
    """Return a change with its figures of one of its series; None if no duet has them."""
    if name == record.series:
        return record
    evidence = site.comparisons.get(record.evidence or "")
    finding = finding_on(evidence, name) if evidence else None
    if finding is None or finding.interval is None or finding.interval.ends is None:
        return None
    low, high = finding.interval.ends
    size = {"ratio": finding.interval.estimate, "low": low, "high": high}
    return record.model_copy(update={**size, "series": name, "verdict": finding.verdict})


def _change(site: Site, record: Change, name: SeriesName) -> dict[str, Any]:
    """Describe the mark of a change in a series: with a size, if the evidence has one."""
    change, seen, quote = describe(record), on_series(site, record, name), site.quote(record)
    verdict, size = (seen or record).verdict, seen and seen.interval
    mark = "" if verdict in {Verdict.SAME, Verdict.UNKNOWN} else verdict.sign
    if quote:
        # The size of another figure would not be that of the step.
        own = (quote.metric, case_names.name(quote.case).what) == (
            name.metric, case_names.name(name.case).what,
        )  # fmt: skip
        text = quoting.finding(quote, within=True)
        return {
            "metric": name.metric,
            "time": int(record.when.timestamp()),
            "tone": TONES.get(quote.verdict if own else verdict, "open"),
            "short": formats.change(quote.ratio) if own else mark,
            "weight": quote.size if own else 0.0,
            "by": change.release,
            "label": text,
            "href": site.story(record),
        }
    effect = f"{verdict} {formats.change(size)} ({formats.ends(size)})" if size else ""
    parts = (effect or f"together with: {change.sentence}", change.cause)
    return {
        "metric": name.metric,
        "time": int(record.when.timestamp()),
        "tone": TONES.get(verdict, "open"),
        "short": f"{mark} {formats.change(size)}".strip() if size else mark,
        "by": change.release,
        "label": ", ".join(filter(None, parts)),
        "href": site.story(record),
    }


def trend(case: str, table: Table) -> Markup:
    """Make a case's chart, which a script draws from its data file; `table` is the first there."""
    metric = next(iter(metrics(table, case)), "")
    about = Caption("trend", title(metric, table), reading(table))
    data = {"source": addresses.data_file(case)}
    return _chart(about, data, case, table, metric, nights(table, case))


def year(site: Site, case: str, tables: Sequence[Table]) -> tuple[Markup, str]:
    """Chart the newest year of a case's main metric, as change since its first point.

    The data are in the page. Returns also what the year did, in a sentence.
    """
    first = tables[0]
    metric = metrics(first, case)[0]
    series = nights(first, case)[-YEAR:]
    points = history.points(first, case, metric, series.tolist())
    begun = next((n for n, point in enumerate(points) if point.figure), 0)
    series, points = series[begun:], points[begun:]
    content = document(site, case, {first: series}, site.changes, metric)
    drawn = content["tables"][0]
    drawn["changes"] += [
        _change(site, record, record.series)
        for record in site.changes
        if (record.series.machine, record.series.metric) == (first.machine, metric)
        and _is_sibling(record.series.case, case)
        and all((name.case, name.metric) != (case, metric) for name in record.all_series)
        and drawn["time"][0] <= record.when.timestamp()
    ]
    name = case_names.name(case)
    finding, text = f"{name.what}: {title(metric)}", ""
    if (known := since(first, case)) and drawn["metrics"][0]["mean"]:
        finding, day_, change = known
        _rebase(drawn["metrics"][0], _known(points)[0].estimate)
        ends = formats.within(change)
        text = f"Compared with {day_}: {formats.change(change)} ({ends}). "
    text += f"On {name.variant}, on {first.machine}."
    about = Caption("trend", title(metric), f"{text} Band: 95 % interval.")
    data = {"document": content, "plain": True}  # its marks need no legend
    return _chart(about, data, case, first, metric, series), finding


def since(table: Table, case: str) -> tuple[str, str, Interval] | None:
    """Say what the newest year did to a case, in a sentence, since which day, and by how much.

    None without two figures against one anchor.
    """
    name, metric = case_names.name(case), next(iter(metrics(table, case)), "")
    points = history.points(table, case, metric, nights(table, case)[-YEAR:].tolist())
    figures = _known(points) if table.ratio and metric else []
    if len(figures) < 2 or not name.known:
        return None
    first = next(point for point in points if point.figure and point.case.status == "measured")
    change, begun = over(figures[0], figures[-1]), day(first.night.time)
    month = begun.partition(" ")[2]
    if change.excludes(1):
        return f"{name.what} {quoting.effect(metric, change)} than in {month}", begun, change
    return f"{name.what} takes what it took in {month}", begun, change


def _known(points: Iterable[Point]) -> list[Interval]:
    """Return the figures that may be judged."""
    return [p.figure for p in points if p.figure and p.case.status == "measured"]


def _rebase(figures: dict[str, Any], first: float) -> None:
    """Relate a series to its first figure, and show it as a change."""
    for part in ("mean", "low", "high"):
        old = figures[part]
        pairs = old.items() if isinstance(old, dict) else enumerate(old)
        new = {place: value and float(f"{value / first:.5g}") for place, value in pairs}
        figures[part] = new if isinstance(old, dict) else [*new.values()]
    figures["format"] = "change"


def over(base: Interval, head: Interval) -> Interval:
    """Return one ratio to an anchor over another, whose errors are independent."""
    half = math.hypot(*(math.log(f.ends[1] / f.ends[0]) / 2 for f in (base, head) if f.ends))
    ratio = head.estimate / base.estimate
    return Interval(ratio, ratio / math.exp(half), ratio * math.exp(half), min(base.n, head.n))


def _is_sibling(case: str, other: str) -> bool:
    """Whether two cases differ in nothing but the interpreter."""
    own, its = case_names.name(case), case_names.name(other)
    return (own.what, own.server, own.rest) == (its.what, its.server, its.rest) and case != other


def trend_around(site: Site, record: Change, chart: str) -> Markup | None:
    """Chart the nights around a change, with data in the page; None without the series."""
    name = record.series
    tables = filter(None, (site.tables.get((name.machine, kind)) for kind in KINDS))
    # If several kinds have the case: the table with the change's own run comes first.
    for table in sorted(
        tables, key=lambda table: all(night.run != record.after_run for night in table.nights)
    ):
        if name.case in table.cases and name.metric in table.metrics:
            planned = nights(table, name.case)
            times = [table.nights[night].time for night in planned.tolist()]
            first = int(np.searchsorted(times, record.when.timestamp()))
            near = planned[max(0, first - AROUND) : first + AROUND]
            about = Caption(
                chart,
                f"{title(name.metric, table)} before and after",
                f"Up to {AROUND} nights on either side, each as it was measured.",
            )
            data = {"document": document(site, name.case, {table: near}, [record], name.metric)}
            return _chart(about, data, name.case, table, name.metric, near)
    return None


def _chart(
    about: Caption, data: Mapping[str, Any], case: str, table: Table, metric: str, of: Nights
) -> Markup:
    rows = _rows(table, case, metric, of[-plots.ROWS :]) if metric else ()
    return plots.figure(about, data, ("date", "run"), title(metric, table), rows, "trend")


def _rows(table: Table, case: str, metric: str, of: Nights) -> Iterator[Sequence[str]]:
    """Return the rows of the table below a chart, newest first."""
    for point in reversed(history.points(table, case, metric, of.tolist())):
        day = f"{datetime.fromtimestamp(point.night.time, UTC):%Y-%m-%d}"
        yield day, point.night.run, "", *cells(table, metric, point)
