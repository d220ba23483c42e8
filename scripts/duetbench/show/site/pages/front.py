"""The first page, with what changed and where every endpoint stands; method, downloads, and 404."""

from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import urlsplit

from markupsafe import Markup

from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval
from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.project.published import SHARED_PAGE
from duetbench.show import addresses
from duetbench.show.change import ChangeText, describe
from duetbench.show.site.charts import Caption
from duetbench.show.site.pages import trends
from duetbench.show.site.pages.experiment import questions
from duetbench.show.site.pages.site import PageFile, Site, barred, json_file, render
from duetbench.show.site.words import filled
from duetbench.trend.reading import coverage
from duetbench.trend.summary import ENOUGH_LAUNCHES
from duetbench.trend.table import KINDS, Table


def pages(site: Site) -> Iterator[PageFile]:
    """Pages that there is one of, and the list of downloads for tools."""
    yield from barred(site, addresses.FRONT, "duetbench", partial(_first, site))
    yield render(
        site,
        "method.html.j2",
        addresses.METHOD,
        "Method",
        "How the figures are made and judged, and how often the judgement is wrong, as measured.",
        confidence=f"{100 * Interval.confidence:g} %",
        enough=ENOUGH_LAUNCHES,
        canary=coverage(site.sources.points),
        flags=tuple(FlagName),
    )
    yield from _downloads(site)
    # It is served at any depth: its links begin at the root of the host, below the site's base.
    root, there = urlsplit(site.base).path or "/", addresses.NOT_FOUND
    yield render(site, "missing.html.j2", there, "Nothing is here", root=root, reason="")


def _first(site: Site) -> Iterator[PageFile]:
    lead = next(iter((*site.open_changes, *site.closed_changes)), None)
    tables = site.cases()
    served = site.newest_tables
    longest = max(served, key=lambda table: len(table.nights), default=None)
    # The picture is of the change above it, or of the case with the longest trend.
    wanted = [lead.series.case] if lead else []
    wanted += sorted(tables, key=lambda case: -len(tables[case][0].nights))
    drawable = (case for case in wanted if case in tables and trends.metrics(tables[case][0], case))
    chart = None
    if headline := next(drawable, ""):
        first = tables[headline][0]
        metric = trends.title(trends.metrics(first, headline)[0])
        about = Caption("trend", f"{names.name(headline)}: {metric}", trends.reading(first))
        chart = trends.year(site, about, headline, tables[headline])
    yield render(
        site,
        "front.html.j2",
        addresses.FRONT,
        "duetbench",
        "Nightly benchmarks of the Python web stack: what changed, by how much, "
        "and how sure that is.",
        lead=describe(lead) if lead else None,
        nights=longest.nights if longest else (),
        chart=chart,
        headline=headline,
        record=next(iter(site.sources.night_records[-1:]), None),
        open_changes=len(site.open_changes),
        rows=list(endpoint_rows(site, tables)),
        questions=[question for question in questions(site) if question["name"] != SHARED_PAGE],
        problems=(*site.sources.problems, *site.broken),
    )


def endpoint_rows(
    site: Site, tables: Mapping[str, tuple[Table, ...]]
) -> Iterator[tuple[CaseName, Markup, str, str, ChangeText | None]]:
    """A row for each endpoint, server and interpreter: sketch, newest figure, last change.

    Of cases that only workers, threads or the load tell apart the first one is shown: the others
    are on the endpoint's page.
    """
    cells: dict[tuple[str, str, str], CaseName] = {}
    for case in tables:
        name = names.name(case)
        if name.server:
            cells.setdefault((name.what, name.server, name.python), name)
    for _, name in sorted(cells.items()):
        moved = (
            record
            for record in site.changes
            if name.id in {series.case for series in (record.series, *record.others)}
        )
        change = next(moved, None)
        figure, interval = trends.newest_figure(name.id, tables[name.id])
        sketch = trends.spark(name.id, tables[name.id])
        yield name, sketch, figure, interval, describe(change) if change else None


def _downloads(site: Site) -> Iterator[PageFile]:
    cases = site.cases()
    yield render(
        site,
        "data.html.j2",
        addresses.DATA,
        "Data",
        "All figures as JSON, with their schema, and every raw file.",
        kinds=KINDS,
        format=trends.FORMAT,
        example=addresses.data_file(min(cases)) if cases else "",
        schemas=[entry for entry in site.downloads.items() if entry[0].endswith("schema.json")],
        raw_asv=sum(address.startswith(addresses.RAW_ASV) for address in site.downloads),
        metrics=list(METRICS.values()),
    )
    index = {
        "format": trends.FORMAT,
        "feed": addresses.FEED,
        "cases": {case: addresses.data_file(case) for case in sorted(cases)},
        "runs": [addresses.run_file(run) for run in site.runs],
        "points": [addresses.points_file(name) for name in sorted(site.points)],
        "changes": [addresses.change_file(record.id) for record in site.changes],
        "comparisons": [addresses.comparison_file(name) for name in site.comparisons],
        "problems": [*site.sources.problems, *site.broken],
    }
    yield json_file("index.json", index)
    yield PageFile("llms.txt", filled("llms.txt.j2", site=site, base=site.base))
