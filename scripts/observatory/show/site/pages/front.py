"""The first page, with what changed and the newest figures; method, downloads, and 404."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from duetbench.app import case_names
from duetbench.core.errors import DISTURBING, FlagName
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.judge.summary import ENOUGH_LAUNCHES
from duetbench.report.attribution import RowText
from observatory.matrix import titles
from observatory.matrix.published import SHARED_PAGE
from observatory.show import addresses, quoting
from observatory.show.changes import describe
from observatory.show.site.pages import trends
from observatory.show.site.pages.experiment import questions
from observatory.show.site.pages.site import PageFile, Site, guard, json_file, render
from observatory.show.site.pages.story import function, rows
from observatory.show.site.words import fill
from observatory.store.change import Change
from observatory.trend.quotes import Key, Quote
from observatory.trend.reading import coverage
from observatory.trend.table import KINDS, Night, Table

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_YEAR: Final = timedelta(days=366)
_ROWS: Final = 10  # releases of the newest year that the page draws


def pages(site: Site) -> Iterator[PageFile]:
    """Make the single pages, and the list of downloads for tools."""
    yield from guard(site, addresses.FRONT, "duetbench", partial(_first, site))
    yield from guard(site, addresses.METHOD, "Method", partial(_method, site))
    yield from guard(site, addresses.DATA, "Data", partial(_downloads, site))
    # It is served at any depth: its links begin at the root of the host, below the site's base.
    root, there = urlsplit(site.base).path or "/", addresses.NOT_FOUND
    yield render(site, "missing.html.j2", there, "Nothing is here", root=root, reason="")


def _first(site: Site) -> Iterator[PageFile]:
    longest = max((table.nights for table in site.tables.values()), key=len, default=())
    tables = site.cases()
    headline = headline_case(tables, site.changes_by_case())
    chart, finding = None, ""
    if headline:
        chart, finding = trends.year(site, headline, tables[headline])
    year = [quote for quote in site.quotes.values() if newest_day(site) - quote.when < _YEAR]
    by_size = sorted(year, key=lambda quote: (not quote.reaches_limit, -quote.size))
    yield render(
        site,
        "front.html.j2",
        addresses.FRONT,
        "duetbench",
        "Which release made Python web apps slower, by how much, and how sure that is; "
        "and the same question for your own application.",
        cards=cards(site, year),
        nights=longest,
        chart=chart,
        finding=finding,
        headline=headline,
        record=next(iter(site.sources.night_records[-1:]), None),
        last=[*map(_last_night, site.newest_tables)],
        slower=len({site.story(c) for c in site.open_changes if c.verdict is Verdict.WORSE}),
        rows=rows(site, by_size[:_ROWS]),
        questions=[question for question in questions(site) if question["name"] != SHARED_PAGE],
        problems=(*site.sources.problems, *site.broken),
    )


def newest_day(site: Site) -> datetime:
    """Return the day of the newest release with a quote."""
    return max((quote.when for quote in site.quotes.values()), default=_NEVER)


def cards(site: Site, year: Sequence[Quote]) -> list[tuple[str, Quote, RowText | None]]:
    """Choose the three releases that the page begins with: newest, worst still open, best.

    A release stands on one card only; a card without a release is left out.
    """
    large = [quote for quote in year if quote.reaches_limit] or list(year)
    still = [quote for change in site.open_changes if (quote := site.quote(change))]
    candidates = {
        "Newest": sorted(large, key=lambda quote: (quote.dated, quote.when), reverse=True),
        "Worst, still there": [
            quote
            for quote in sorted(still, key=lambda quote: -quote.size)
            if quote.verdict is Verdict.WORSE
        ],
        "Best for requests this year": [
            quote
            for quote in sorted(large, key=lambda quote: (*quote.rank, -quote.size))
            if quote.verdict is Verdict.BETTER
        ],
    }
    chosen: dict[Key, tuple[str, Quote, RowText | None]] = {}
    for title, quotes in candidates.items():
        if quote := next((quote for quote in quotes if quote.key not in chosen), None):
            chosen[quote.key] = title, quote, function(site, quote)
    return list(chosen.values())


def _method(site: Site) -> Iterator[PageFile]:
    yield render(
        site,
        "method.html.j2",
        addresses.METHOD,
        "Method",
        "How duetbench measures and judges figures, and how often its verdicts were wrong.",
        confidence=f"{100 * Interval.confidence:g} %",
        enough=ENOUGH_LAUNCHES,
        canary=coverage(site.sources.points),
        flags=tuple(FlagName),
    )


def headline_case(
    tables: Mapping[str, tuple[Table, ...]], changes: Mapping[str, Sequence[Change]]
) -> str:
    """Return the case of the chart; empty without a series.

    It has CPU per request, against an anchor if possible, on most nights; of equal ones, it is the
    one with most changes.
    """

    def place(case: str) -> tuple[bool, bool, int, int, str]:
        first = tables[case][0]
        requests = CPU in first.metrics and CPU in trends.metrics(first, case)
        return requests, first.ratio, first.length(case), len(changes.get(case, ())), case

    lines = [case for case, of in tables.items() if of[0].length(case) > 1]
    return max(lines, key=place, default="")


def _last_night(table: Table) -> tuple[Table, Night, int, int, list[str]]:
    """Return a machine's newest night: its cases with figures, the disturbed ones, and by what."""
    night = table.nights[-1]
    noisy = [case for case in night.cases.values() if case.status == "disturbed"]
    measured = len(noisy) + sum(case.status == "measured" for case in night.cases.values())
    flags = sorted({flag for case in noisy for flag in case.flags if flag in DISTURBING})
    return table, night, measured, len(noisy), flags


def _found(site: Site) -> Iterator[tuple[str, str, str]]:
    """Return what the search finds: title, address and kind of each page that has a name."""
    for quote in site.quotes.values():
        yield quoting.finding(quote), addresses.release(*quote.key), "release"
    for record in site.changes:
        if not site.quote(record):
            yield describe(record).sentence, addresses.change(record.id), "change"
    for package in site.packages.values():
        if package.has_page:
            yield package.name, addresses.package(package.name), "package"
    for name in site.experiments():
        yield titles.experiment(name), addresses.experiment(name), "experiment"
    for case in sorted(site.planned):
        yield str(case_names.name(case)), addresses.case(case), "case"
    for address, title in (*addresses.NAVIGATION, (addresses.METHOD, "How sure: the method")):
        if address != addresses.DOCS or site.documented:
            yield title, address, "page"


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
    text = json.dumps([*_found(site)], separators=(",", ":"), ensure_ascii=False)
    yield PageFile("search.json", text)
    yield PageFile("llms.txt", fill("llms.txt.j2", site=site, base=site.base))
