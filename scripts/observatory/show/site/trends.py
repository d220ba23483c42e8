"""A case's series: titles, table cells, its data file, and the chart that draws it."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show import addresses as at
from observatory.show import quoting
from observatory.show.claims import over
from observatory.show.site.charts import TONES
from observatory.show.site.site import Site
from observatory.show.site.words import day, fill, utc
from observatory.trend import table as history
from observatory.trend.table import Figures, Nights, Table

FORMAT: Final = 6
"""Version of the data files; it rises with every change of their meaning."""
_YEAR: Final = 400  # newest nights on the first page
_ROWS: Final = 150  # most rows of the table below a chart; the data file has all figures
_LINE: Final = (
    "Line: all packages of the day, with its 95 % interval. Labels: releases that moved this "
    "figure by themselves."
)


def metrics(table: Table, case: str) -> tuple[str, ...]:
    """Return the metrics that a case has figures of, beginning with its main metric."""
    present = ~np.isnan(table.figures[:, table.row(case), :, 0]).all(axis=0)
    names = [table.metrics[column] for column in np.flatnonzero(present).tolist()]
    first = next((name for name in HEADLINES if name in names), None)
    return tuple(sorted(names, key=lambda name: name != first))


def write(ratio: float) -> str:
    """Write a ratio to the anchor."""
    return f"{units.significant(ratio, 4)} ×"


def _title(metric: str) -> str:
    return f"{quoting.title(metric)}, compared with the fixed stack"


def document(
    site: Site, case: str, series: Mapping[Table, Nights], only: str = "", package: str = ""
) -> dict[str, Any]:
    """Make a case's data file: its series in these nights, or one metric's, with marks."""
    tables = []
    for table, of in series.items():
        headers = [table.nights[night] for night in of.tolist()]
        shown = [metric for metric in metrics(table, case) if only in {"", metric}]
        figures = table.figures[of, table.row(case)]
        own = {name: figures[:, table.metrics.index(name)].T for name in shown}
        tables.append(
            {
                "label": table.machine,
                "anchor": headers[-1].anchor,
                "interval": "95 % interval of the ratio to the anchor, over duets",
                "run": [header.version or header.id for header in headers],
                "time": [header.time for header in headers],
                "note": [header.reason(case) for header in headers],
                "duets": figures[..., 3].max(axis=1).astype(int).tolist(),
                "metrics": [
                    {
                        "name": name,
                        "title": _title(name),
                        "better": METRICS[name].better if name in METRICS else "lower",
                        "mean": _rounded(mean),
                        "low": _rounded(low),
                        "high": _rounded(high),
                    }
                    for name, (mean, low, high, _) in own.items()
                ],
                "changes": [m for name in shown for m in marks(site, case, name, package)],
            }
        )
    return {"format": FORMAT, "case": case, "tables": tables}


def _rounded(figures: Figures) -> list[float | None]:
    """Round to five digits; None stands for a missing figure."""
    return [None if math.isnan(figure) else float(f"{figure:.5g}") for figure in figures.tolist()]


def marks(site: Site, case: str, metric: str, package: str = "") -> Iterator[dict[str, Any]]:
    """Return the marks of a chart: releases whose quoted figure it shows, on any interpreter.

    Those of one package are named by their versions. They have no size: what a release did alone
    is not the step of a line of all packages.
    """
    for quote in site.quotes.values():
        if quote.metric == metric and alike(quote.case, case) and package in {"", quote.package}:
            yield {
                "metric": metric,
                "time": int(quote.when.timestamp()),
                "name": quote.version if package else " ".join(quote.key),
                "tone": TONES.get(quote.verdict, "open"),
                "label": quoting.finding(quote, within=True),
                "href": at.release(*quote.key),
            }


def alike(case: str, other: str) -> bool:
    """Whether two cases differ at most in the interpreter, or in how a benchmark names it."""
    parts = ([p for p in name.split("/") if not p.startswith("py3")] for name in (case, other))
    return next(parts) == next(parts)


def since(table: Table, case: str) -> tuple[str, str, Interval] | None:
    """Say what the newest year did to a case, in a sentence, since which day, and by how much.

    None without two figures against one anchor.
    """
    name, metric = case_names.name(case), next(iter(metrics(table, case)), "")
    nights = table.planned_nights(case)[-_YEAR:].tolist() if metric and name.known else ()
    points = history.points(table, case, metric, nights) if nights else ()
    known = [(point.night, point.figure) for point in points if point.figure]
    if len(known) < 2:
        return None
    change, begun = over(known[0][1], known[-1][1]), day(known[0][0].time)
    month = begun.partition(" ")[2]
    if change.excludes(1):
        return f"{name.what} {quoting.effect(metric, change)} than in {month}", begun, change
    return f"{name.what} takes what it took in {month}", begun, change


def whole(case: str, table: Table) -> Markup:
    """Chart all nights of a case, and let readers choose among its figures."""
    metric = next(iter(metrics(table, case)), "")
    config = {"source": at.data_file(case), "metric": metric}
    return chart(_LINE, config, case, table, table.planned_nights(case))


def year(site: Site, case: str, table: Table) -> tuple[Markup, str]:
    """Chart the newest year of a case's main metric, with data in the page.

    Return also what it did, in a sentence.
    """
    name, metric = case_names.name(case), metrics(table, case)[0]
    finding, text = f"{name.what}: {quoting.title(metric)}", ""
    if known := since(table, case):
        finding, begun, change = known
        text = f"Compared with {begun}: {formats.change(change)} ({formats.within(change)}). "
    of = table.planned_nights(case)[-_YEAR:]
    config = {"document": document(site, case, {table: of}, metric), "metric": metric}
    return chart(f"{text}On {name.variant}. {_LINE}", config, case, table, of), finding


def chart(
    caption: str, config: Mapping[str, Any], case: str, table: Table, of: Nights, title: str = ""
) -> Markup:
    """Make a figure that a script draws: from the data file `source`, or the `document` itself.

    Of a data file, readers can choose among all figures. Below is a table of the newest points.
    """
    metric = config["metric"]
    points = history.points(table, case, metric, of[-_ROWS:].tolist()) if metric else ()
    rows = []
    for point in reversed(points):
        night, figure = point.night, point.figure
        ratio = write(figure.estimate) if figure else formats.MISSING
        cells = (ratio, formats.spread(write, figure), point.reason)
        rows.append((f"{utc(night.time):%Y-%m-%d}", night.version or night.id, *cells))
    about = {"title": title or quoting.title(metric), "caption": caption, "figure": _title(metric)}
    return fill("plot.html.j2", about=about, config=config, rows=rows)
