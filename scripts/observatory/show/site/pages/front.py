"""The first page, with what changed and the newest figures; method, downloads, and 404."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from markupsafe import Markup

from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.project.case_names import CaseName
from duetbench.show.change import ChangeText, describe
from duetbench.show.html.charts import Caption
from duetbench.show.html.words import day
from duetbench.store.change import Change, SeriesName
from duetbench.trend.summary import ENOUGH_LAUNCHES
from observatory.project.published import SHARED_PAGE
from observatory.show import addresses
from observatory.show.site.pages import trends
from observatory.show.site.pages.experiment import questions
from observatory.show.site.pages.site import PageFile, Site, guard, json_file, render, severity
from observatory.show.site.words import fill
from observatory.trend.reading import coverage
from observatory.trend.table import KINDS, Night, Table

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def pages(site: Site) -> Iterator[PageFile]:
    """Make the single pages, and the list of downloads for tools."""
    yield from guard(site, addresses.FRONT, "duetbench", partial(_first, site))
    yield from guard(site, addresses.METHOD, "Method", partial(_method, site))
    yield from guard(site, addresses.DATA, "Data", partial(_downloads, site))
    # It is served at any depth: its links begin at the root of the host, below the site's base.
    root, there = urlsplit(site.base).path or "/", addresses.NOT_FOUND
    yield render(site, "missing.html.j2", there, "Nothing is here", root=root, reason="")


def _first(site: Site) -> Iterator[PageFile]:
    # Changes of one date stand beside each other: the worst of the newest ones leads.
    latest = [change for change in site.changes if day(change.when) == day(site.changes[0].when)]
    newest = max(latest, key=severity, default=None)
    worst = next(iter(site.open_changes), None)
    longest = max((table.nights for table in site.tables.values()), key=len, default=())
    tables = site.cases()
    headline = headline_case(tables, newest)
    chart, marked, charted = None, frozenset[str](), list[SeriesName]()
    if headline:
        first = tables[headline][0]
        metric = trends.metrics(first, headline)[0]
        title = f"{case_names.name(headline)}: {trends.title(metric)}"
        about = Caption("trend", title, trends.reading(first))
        chart, marked = trends.year(site, about, headline, tables[headline])
        charted = [
            SeriesName(machine=table.machine, case=headline, metric=metric)
            for table in tables[headline]
            if table.kind == first.kind
        ]
    yield render(
        site,
        "front.html.j2",
        addresses.FRONT,
        "duetbench",
        "Nightly benchmarks of the Python web stack: what changed, by how much, "
        "and how sure that is.",
        card=trends.change_card(site, newest) if newest else None,
        newest=_as_charted(site, newest, charted) if newest else None,
        same_day=len(latest) - 1,
        worst=_as_charted(site, worst, charted) if worst and worst is not newest else None,
        nights=longest,
        chart=chart,
        marked=marked,
        headline=headline,
        record=next(iter(site.sources.night_records[-1:]), None),
        last=[*map(_last_night, site.newest_tables)],
        open_changes=len(site.open_changes),
        rows=list(endpoint_rows(site, tables)),
        questions=[question for question in questions(site) if question["name"] != SHARED_PAGE],
        problems=(*site.sources.problems, *site.broken),
    )


def _method(site: Site) -> Iterator[PageFile]:
    yield render(
        site,
        "method.html.j2",
        addresses.METHOD,
        "Method",
        "How duetbench measures and judges figures, and how often its judgement was wrong.",
        confidence=f"{100 * Interval.confidence:g} %",
        enough=ENOUGH_LAUNCHES,
        canary=coverage(site.sources.points),
        flags=tuple(FlagName),
    )


def headline_case(tables: Mapping[str, tuple[Table, ...]], newest: Change | None) -> str:
    """Return the case of the chart, against an anchor if possible; empty without a series.

    It is the newest change's, so that chart and headline agree, unless the longest series has more
    than twice its nights.
    """
    lengths = {case: (of[0].ratio, of[0].length(case)) for case, of in tables.items()}
    lines = {case: line for case, line in lengths.items() if line[1] > 1}
    longest = max(lines, key=lambda case: lines[case], default="")
    if newest is not None and (own := lines.get(newest.series.case)):
        against, nights = own
        if (against, 2 * nights) >= lines[longest]:
            return newest.series.case
    return longest


def _as_charted(site: Site, record: Change, charted: Sequence[SeriesName]) -> ChangeText:
    """Describe a change by its figures of a charted series, if it moved that; else by its own."""
    seen = (trends.on_series(site, record, name) for name in record.all_series if name in charted)
    return describe(next(filter(None, seen), record))


def _last_night(table: Table) -> tuple[Table, Night, int, int, list[str]]:
    """Return a machine's newest night: its cases with figures, the disturbed ones, and by what."""
    night = table.nights[-1]
    noisy = [case for case in night.cases.values() if case.status == "disturbed"]
    measured = len(noisy) + sum(case.status == "measured" for case in night.cases.values())
    flags = sorted({flag for case in noisy for flag in case.flags if flag in DISTURBING})
    return table, night, measured, len(noisy), flags


def endpoint_rows(
    site: Site, tables: Mapping[str, tuple[Table, ...]]
) -> Iterator[tuple[CaseName, Markup, str, str, ChangeText | None]]:
    """Return a row for each endpoint, server and interpreter: sketch, newest figure, last change.

    Of cases that differ only in workers, threads or load, it has the first: the others are on the
    endpoint's page. What moved last comes first.
    """
    cells: dict[tuple[str, str, str], CaseName] = {}
    for case in tables:
        name = case_names.name(case)
        if name.server:
            cells.setdefault((name.what, name.server, name.python), name)
    last = {case: newest for case, (newest, *_) in site.changes_by_case().items()}
    # A stable sort: cases without a change stay in the order of names.
    rows = sorted(cells.items())
    rows.sort(key=lambda row: last[row[1].id].when if row[1].id in last else _NEVER, reverse=True)
    for _, name in rows:
        change = last.get(name.id)
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
        archived=any(address.endswith(".zip") for address in site.raw.values()),
        raw_asv=sum(address.startswith(addresses.RAW_ASV) for address in site.downloads),
        metrics=list(METRICS.values()),
    )
    raw = site.raw.values()
    index = {
        "format": trends.FORMAT,
        "feed": addresses.FEED,
        "cases": {case: addresses.data_file(case) for case in sorted(cases)},
        **{
            folder.rstrip("/"): sorted({place for place in raw if place.startswith(folder)})
            for folder in (addresses.RUNS, addresses.POINTS)
        },
        "changes": [addresses.change_file(record.id) for record in site.changes],
        "comparisons": [addresses.comparison_file(name) for name in site.comparisons],
        "problems": [*site.sources.problems, *site.broken],
    }
    yield json_file("index.json", index)
    yield PageFile("llms.txt", fill("llms.txt.j2", site=site, base=site.base))
