"""A case's series: titles, table cells, its data file, and the chart that draws it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show import addresses, quoting
from observatory.show.claims import over
from observatory.show.site import words
from observatory.show.site.charts import TONES, Caption
from observatory.show.site.pages.site import Site
from observatory.show.site.words import day, drawing
from observatory.trend import table as history
from observatory.trend.table import KINDS, STATES, Figures, Point, Table

FORMAT: Final = 5
"""Version of the data files; it rises with every change of their meaning."""
YEAR: Final = 400
"""Newest nights on the first page."""
ROWS: Final = 150
"""Most rows of the table below a chart; the data file has all figures."""

_DIGITS: Final = 5
"""Digits of figures in data files; ends of absolute figures have one less."""

Nights = npt.NDArray[np.intp]
Document = dict[str, Any]


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


def title(metric: str, table: Table) -> str:
    """Return the title of a metric, which says whether the figures are ratios."""
    return quoting.title(metric) + ", compared with the fixed stack" * table.ratio


def writer(table: Table, metric: str) -> tuple[units.Formatter, str]:
    """Return how figures are written, and the name of that in formats.js, or else the unit."""
    if metric in METRICS and not table.ratio:
        return METRICS[metric].format, METRICS[metric].format.name
    unit = "×" if table.ratio else metric
    return lambda figure: f"{units.significant(figure, 4)} {unit}", unit


def cells(table: Table, metric: str, point: Point) -> tuple[str, str, str]:
    """Return a night's figure, its interval, and its flags or why the figure is missing."""
    if (figure := point.figure) is None:
        return formats.MISSING, "", point.reason
    (write, _), case = writer(table, metric), point.case
    state = "" if case.status == "measured" else case.status
    note = ": ".join(filter(None, (state, ", ".join(case.flags))))
    return write(figure.estimate), formats.spread(write, figure), note


def document(site: Site, case: str, series: Mapping[Table, Nights], only: str = "") -> Document:
    """Make a case's data file: its series in these nights, or one metric's, with events."""
    tables = [_table(site, table, case, of, only) for table, of in series.items()]
    return {"format": FORMAT, "case": case, "tables": tables}


def _table(site: Site, table: Table, case: str, of: Nights, only: str) -> Document:
    """Describe a case's series on one machine."""
    row = table.cases.index(case)
    headers = [table.nights[night] for night in of.tolist()]
    first, last = int(of[0]), int(of[-1])
    shown = [metric for metric in metrics(table, case) if only in {"", metric}]
    return {
        "label": table.machine,
        "kind": table.kind,
        "anchor": headers[-1].profile if table.ratio else None,
        "interval": KINDS[table.kind],
        "run": [header.run for header in headers],
        "time": [header.time for header in headers],
        "status": [STATES[code] for code in table.status[of, row].tolist()],
        "note": [h.cases[case].reason or ", ".join(h.cases[case].flags) for h in headers],
        "launches": table.figures[of, row, :, 3].max(axis=1).astype(int).tolist(),
        "metrics": [_metric(table, metric, of, row) for metric in shown],
        "gaps": [
            table.nights[night].time for night, _ in history.gaps(table) if first < night <= last
        ],
        "changes": [mark for metric in shown for mark in marks(site, case, metric)],
    }


def _metric(table: Table, metric: str, of: Nights, row: int) -> dict[str, Any]:
    column, definition, ratio = table.metrics.index(metric), METRICS.get(metric), table.ratio
    mean, low, high, _ = table.figures[of, row, column].T
    ends = _DIGITS if ratio else _DIGITS - 1
    return {
        "name": metric,
        "title": title(metric, table),
        "unit": "1" if ratio else definition.unit if definition else metric,
        "format": writer(table, metric)[1],
        "better": definition.better if definition else "lower",
        "mean": _round(mean, _DIGITS),
        "low": _round(low, ends),
        "high": _round(high, ends),
    }


def _round(figures: Figures, digits: int) -> list[float | None]:
    """Round figures to some significant digits; None stands for a missing figure."""
    return [None if math.isnan(one) else float(f"{one:.{digits}g}") for one in figures.tolist()]


def marks(site: Site, case: str, metric: str) -> Iterator[dict[str, Any]]:
    """Return the marks of a chart: releases whose quoted figure it shows, on any interpreter.

    They have no size: what a release did alone is not the step of a line of all packages.
    """
    for quote in site.quotes.values():
        if quote.metric == metric and alike(quote.case, case):
            yield {
                "metric": metric,
                "time": int(quote.when.timestamp()),
                "name": f"{quote.package} {quote.version}",
                "tone": TONES.get(quote.verdict, "open"),
                "label": quoting.finding(quote, within=True),
                "href": addresses.release(*quote.key),
            }
    for record in site.changes:
        if not site.quote(record) and (record.series.case, record.series.metric) == (case, metric):
            yield {
                "metric": metric,
                "time": int(record.when.timestamp()),
                "name": "release not known",
                "tone": TONES.get(record.verdict, "open"),
                "label": quoting.sentence(record),
                "href": site.story(record),
            }


def alike(case: str, other: str) -> bool:
    """Whether two cases differ at most in the interpreter, or in how a benchmark names it."""
    parts = ([p for p in one.split("/") if not p.startswith("py3")] for one in (case, other))
    return next(parts) == next(parts)


def since(table: Table, case: str) -> tuple[str, str, Interval] | None:
    """Say what the newest year did to a case, in a sentence, since which day, and by how much.

    None without two figures against one anchor.
    """
    name, metric = case_names.name(case), next(iter(metrics(table, case)), "")
    points = history.points(table, case, metric, nights(table, case)[-YEAR:].tolist())
    known = [p for p in points if p.figure and p.case.status == "measured"]
    if not (table.ratio and metric and name.known) or len(known) < 2:
        return None
    base, head = known[0].figure, known[-1].figure
    if base is None or head is None:
        return None
    change, begun = over(base, head), day(known[0].night.time)
    month = begun.partition(" ")[2]
    if change.excludes(1):
        return f"{name.what} {quoting.effect(metric, change)} than in {month}", begun, change
    return f"{name.what} takes what it took in {month}", begun, change


def trend(case: str, table: Table) -> Markup:
    """Make a case's chart, which a script draws from its data file; `table` is the first there."""
    metric = next(iter(metrics(table, case)), "")
    config = {"source": addresses.data_file(case), "metric": metric}
    return _chart(config, case, table, nights(table, case), "trend")


def year(site: Site, case: str, table: Table) -> tuple[Markup, str]:
    """Chart the newest year of a case's main metric, with data in the page.

    Return also what it did, in a sentence.
    """
    name, metric = case_names.name(case), metrics(table, case)[0]
    finding, text = f"{name.what}: {quoting.title(metric)}", ""
    if known := since(table, case):
        finding, begun, change = known
        text = f"Compared with {begun}: {formats.change(change)} ({formats.within(change)}). "
    of = nights(table, case)[-YEAR:]
    config = {"document": document(site, case, {table: of}, metric), "metric": metric}
    return _chart(config, case, table, of, "trend", f"{text}On {name.variant}. "), finding


def _chart(
    config: Mapping[str, Any], case: str, table: Table, of: Nights, place: str, text: str = ""
) -> Markup:
    text += (
        "Line: all packages of the day, with its 95 % interval. Labels: releases that moved this "
        "figure by themselves."
        if table.ratio
        else "Band: 95 % interval."
    )
    metric = config["metric"]
    points = history.points(table, case, metric, of[-ROWS:].tolist()) if metric else ()
    rows = (  # the newest first
        (f"{words.utc(point.night.time):%Y-%m-%d}", point.night.run, *cells(table, metric, point))
        for point in reversed(points)
    )
    return figure(Caption(place, quoting.title(metric), text), config, title(metric, table), rows)


def figure(
    about: Caption, config: Mapping[str, Any], title: str, rows: Iterable[Sequence[str]]
) -> Markup:
    """Make a figure that a script draws: from the data file `source`, or the `document` itself.

    A row is a day, the night or release of a point, and its three cells. Of a data file, readers
    can choose among all figures.
    """
    return drawing("plot.html.j2", about=about, config=config, title=title, rows=[*rows])
