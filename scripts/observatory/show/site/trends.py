"""A case's series: titles, table cells, and the charts that draw it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core.metrics import CPU
from duetbench.core.units import Interval
from duetbench.report import changes
from observatory.show import addresses as at
from observatory.show import quoting
from observatory.show.claims import over
from observatory.show.site.site import Site
from observatory.show.site.words import day, fill
from observatory.trend.releases import ReleaseEffect
from observatory.trend.table import Table

Lines = Sequence[tuple[Table, list[int]]]
"""Tables, each with the places of the stacks that are drawn."""

_YEAR: Final = 400  # newest nights on the first page
_ROWS: Final = 150  # most rows of the table below a chart
_ALONE: Final = "Each release alone, with the 95 % interval of its ratio to the fixed stack."
_LINE: Final = (
    "Line: all packages of the day, with its 95 % interval. Labels: releases that moved this "
    "figure by themselves."
)


def _title(metric: str) -> str:
    return f"{quoting.title(metric)}, compared with the fixed stack"


def document(site: Site, case: str, lines: Lines, only: str = "") -> list[dict[str, Any]]:
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
                mark for mark in marks(site, case, table.package) if only in {"", mark["metric"]}
            ],
        }
        for table, places in lines
    ]


def _ends(table: Table, case: str, metric: str, places: list[int]) -> dict[str, list[float | None]]:
    """Return ratios and the ends of their intervals to five digits; None: a figure is missing."""
    figures = [figure for _, figure in table.figures(case, metric, places)]
    rows = [(f.estimate, *(f.ends or (None, None))) if f else (None,) * 3 for f in figures]
    columns = zip(("mean", "low", "high"), zip(*rows, strict=True), strict=True)
    return {name: [e and float(f"{e:.5g}") for e in column] for name, column in columns}


def marks(site: Site, case: str, package: str = "") -> Iterator[dict[str, Any]]:
    """Return the marks of a chart: releases whose quoted figure it shows, on any interpreter.

    Those of one package are named by their versions. They have no size: what a release did alone
    is not the step of a line of all packages.
    """
    for quote in site.quotes.values():
        if alike(quote.case, case) and package in {"", quote.package}:
            yield {
                "metric": quote.metric,
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
    places = table.planned[case][-_YEAR:] if name.known else ()
    known = [(file, figure) for file, figure in table.figures(case, metric, places) if figure]
    if len(known) < 2:
        return None
    change, begun = over(known[0][1], known[-1][1]), day(known[0][0].time)
    month = begun.partition(" ")[2]
    if change.excludes(1):
        return f"{name.what} {quoting.effect(metric, change)} than in {month}", begun, change
    return f"{name.what} takes what it took in {month}", begun, change


def whole(site: Site, case: str) -> Markup:
    """Chart all nights of a case on every machine, and let readers choose among its figures."""
    lines = [(table, table.planned[case]) for table in site.cases[case]]
    metric = next(iter(lines[0][0].metrics(case)), "")
    return _chart(site, case, lines, metric, caption=_LINE, choice=True)


def year(site: Site, case: str, table: Table) -> tuple[Markup, str]:
    """Chart the newest year of a case's main metric; return also what it did, in a sentence."""
    name, metric = case_names.name(case), table.metrics(case)[0]
    finding, text = f"{name.what}: {quoting.title(metric)}", ""
    if known := since(table, case):
        finding, begun, change = known
        text = f"Compared with {begun}: {changes.change(change)} ({changes.within(change)}). "
    caption = f"{text}On {name.variant}. {_LINE}"
    lines = [(table, table.planned[case][-_YEAR:])]
    return _chart(site, case, lines, metric, caption=caption), finding


def releases(site: Site, table: Table, largest: ReleaseEffect | None) -> Markup | None:
    """Chart what the largest effect of a package is on, over all its releases; or its first case.

    None without two points.
    """
    metric, case = (largest.metric, largest.case) if largest else (CPU, next(iter(table.cases)))
    if case not in table.cases or len(table.series(case, metric)) < 2:
        return None
    title = f"{quoting.title(metric)}: {case_names.name(case)}"
    lines = [(table, table.planned[case])]
    return _chart(site, case, lines, metric, caption=_ALONE, title=title, releases=True)


def _chart(
    site: Site, case: str, lines: Lines, metric: str, *, caption: str, title: str = "", **how: bool
) -> Markup:
    """Make a figure that a script draws, and below it a table of the first line's newest points."""
    (table, places), *_ = lines
    rows = table.figures(case, metric, places[-_ROWS:])
    about = {"title": title or quoting.title(metric), "caption": caption, "figure": _title(metric)}
    only = "" if "choice" in how else metric
    config = {"tables": document(site, case, lines, only), "metric": metric, **how}
    return fill("plot.html.j2", about=about, config=config, case=case, rows=rows)
