"""A case's series: titles, table cells, and the charts that draw it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core import units
from duetbench.core.metrics import CPU
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show import addresses as at
from observatory.show import quoting
from observatory.show.claims import over
from observatory.show.site.site import Site
from observatory.show.site.words import day, fill, utc
from observatory.trend.releases import ReleaseEffect
from observatory.trend.table import Table

_YEAR: Final = 400  # newest nights on the first page
_ROWS: Final = 150  # most rows of the table below a chart
_ALONE: Final = "Each release alone, with the 95 % interval of its ratio to the fixed stack."
_LINE: Final = (
    "Line: all packages of the day, with its 95 % interval. Labels: releases that moved this "
    "figure by themselves."
)


def write(ratio: float) -> str:
    """Write a ratio to the anchor."""
    return f"{units.significant(ratio, 4)} ×"


def _title(metric: str) -> str:
    return f"{quoting.title(metric)}, compared with the fixed stack"


def document(
    site: Site, case: str, lines: Iterable[tuple[Table, list[int]]], only: str = ""
) -> list[dict[str, Any]]:
    """Return what a chart draws: a case at these places of each table, or one metric of it.

    All are lists with an entry for each stack: its time in seconds since 1970, and what it is of.
    """
    return [
        {
            "label": table.machine.id,
            "run": [table.files[n].version or table.files[n].id for n in places],
            "time": [table.files[n].time for n in places],
            "note": [table.files[n].reason(case) for n in places],
            "metrics": [
                {"name": name, "title": _title(name), **_ends(table, case, name, places)}
                for name in table.metrics(case)
                if only in {"", name}
            ],
            "changes": [
                mark
                for name in table.metrics(case)
                if only in {"", name}
                for mark in marks(site, case, name, table.package)
            ],
        }
        for table, places in lines
    ]


def _ends(table: Table, case: str, metric: str, places: list[int]) -> dict[str, list[float | None]]:
    """Return ratios and the ends of their intervals to five digits; None: a figure is missing."""
    figures = [point.figure for point in table.points(case, metric, places)]
    rows = [(f.estimate, *(f.ends or (None, None))) if f else (None,) * 3 for f in figures]
    columns = zip(("mean", "low", "high"), zip(*rows, strict=True), strict=True)
    return {name: [e and float(f"{e:.5g}") for e in column] for name, column in columns}


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
                "tone": quote.verdict.value,
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
    name, metric = case_names.name(case), next(iter(table.metrics(case)), "")
    points = table.points(case, metric, table.planned[case][-_YEAR:]) if name.known else ()
    known = [(point.file, point.figure) for point in points if point.figure]
    if len(known) < 2:
        return None
    change, begun = over(known[0][1], known[-1][1]), day(known[0][0].time)
    month = begun.partition(" ")[2]
    if change.excludes(1):
        return f"{name.what} {quoting.effect(metric, change)} than in {month}", begun, change
    return f"{name.what} takes what it took in {month}", begun, change


def whole(site: Site, case: str) -> Markup:
    """Chart all nights of a case on every machine, and let readers choose among its figures."""
    tables = site.cases[case]
    content = document(site, case, [(table, table.planned[case]) for table in tables])
    metric = next(iter(tables[0].metrics(case)), "")
    config = {"tables": content, "metric": metric, "choice": True}
    return chart(_LINE, config, case, tables[0], tables[0].planned[case])


def year(site: Site, case: str, table: Table) -> tuple[Markup, str]:
    """Chart the newest year of a case's main metric; return also what it did, in a sentence."""
    name, metric = case_names.name(case), table.metrics(case)[0]
    finding, text = f"{name.what}: {quoting.title(metric)}", ""
    if known := since(table, case):
        finding, begun, change = known
        text = f"Compared with {begun}: {formats.change(change)} ({formats.within(change)}). "
    places = table.planned[case][-_YEAR:]
    config = {"tables": document(site, case, [(table, places)], metric), "metric": metric}
    return chart(f"{text}On {name.variant}. {_LINE}", config, case, table, places), finding


def releases(site: Site, table: Table, largest: ReleaseEffect | None) -> Markup | None:
    """Chart what the largest effect of a package is on, over all its releases; or its first case.

    None without two points.
    """
    metric, case = (largest.metric, largest.case) if largest else (CPU, next(iter(table.cases)))
    if case not in table.cases or len(table.series(case, metric)) < 2:
        return None
    places = table.planned[case]
    content = document(site, case, [(table, places)], metric)
    config = {"tables": content, "metric": metric, "releases": True}
    title = f"{quoting.title(metric)}: {case_names.name(case)}"
    return chart(_ALONE, config, case, table, places, title)


def chart(
    caption: str, config: Mapping[str, Any], case: str, table: Table, of: list[int], title: str = ""
) -> Markup:
    """Make a figure that a script draws, and below it a table of the newest points."""
    metric = config["metric"]
    rows = []
    for point in reversed(table.points(case, metric, of[-_ROWS:]) if metric else ()):
        file, figure = point.file, point.figure
        ratio = write(figure.estimate) if figure else formats.MISSING
        cells = (ratio, formats.spread(write, figure), point.reason)
        rows.append((f"{utc(file.time):%Y-%m-%d}", file.version or file.id, *cells))
    about = {"title": title or quoting.title(metric), "caption": caption, "figure": _title(metric)}
    return fill("plot.html.j2", about=about, config=config, rows=rows)
