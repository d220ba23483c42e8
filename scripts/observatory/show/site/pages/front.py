"""The first page, with what changed and the newest figures; what the search finds; 404."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from duetbench.app import case_names
from duetbench.core.errors import FlagName
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.report.attribution import RowText
from observatory.matrix import titles
from observatory.show import addresses, quoting
from observatory.show.site.pages import trends
from observatory.show.site.pages.site import PageFile, Site, guard, render
from observatory.show.site.pages.story import function, rows
from observatory.show.site.words import fill, utc
from observatory.store.change import Change
from observatory.trend.quotes import Key, Quote
from observatory.trend.table import Table

_YEAR: Final = timedelta(days=366)
_ROWS: Final = 10  # releases of the newest year that the page draws
_HEADING: Final = re.compile(r"^(#{1,3}) (.+)$", re.MULTILINE)


def pages(site: Site) -> Iterator[PageFile]:
    """Make the first page, the search's index, the feed, and pages that lead on."""
    yield from guard(site, addresses.FRONT, "duetbench", partial(_first, site))
    # It is served at any depth: its links begin at the root of the host, below the site's base.
    root, there = urlsplit(site.base).path or "/", addresses.NOT_FOUND
    yield render(site, "missing.html.j2", there, "Nothing is here", root=root, reason="")
    for address, place in addresses.MOVED.items():
        lost = place.startswith(addresses.DOCS) and not site.documented
        to = addresses.FRONT if lost else place
        yield render(site, "moved.html.j2", address, "This page has moved", to=to)
    found = json.dumps([*_found(site)], separators=(",", ":"), ensure_ascii=False)
    yield PageFile("search.json", found)
    yield PageFile(addresses.FEED, feed(site.changes, site.base, site.quotes))


def _first(site: Site) -> Iterator[PageFile]:
    longest = max((table.nights for table in site.sources.tables), key=len, default=())
    times = [table.nights[-1].time for table in site.sources.tables]
    times += [int(utc(summary.run.started).timestamp()) for summary in site.newest[:1]]
    tables = site.cases
    headline = headline_case(tables, site.changes_by_case)
    chart, finding = None, ""
    if headline:
        chart, finding = trends.year(site, headline, tables[headline][0])
    newest = next((quote.when for quote in site.quotes.values()), None)
    year = [q for q in site.quotes.values() if newest and newest - q.when < _YEAR]
    by_size = sorted(year, key=lambda quote: -quote.size)
    yield render(
        site,
        "front.html.j2",
        addresses.FRONT,
        "duetbench",
        "Which release made Python web apps slower, by how much, and how sure that is; "
        "and the same question for your own application.",
        cards=cards(site, year),
        nights=longest,
        last=max(times, default=0),
        chart=chart,
        finding=finding,
        headline=headline,
        record=next(iter(site.sources.night_records[-1:]), None),
        slower=len({site.story(c) for c in site.open_changes if c.verdict is Verdict.WORSE}),
        rows=rows(site, by_size[:_ROWS]),
        questions=site.experiments.values(),
        problems=(*site.sources.problems, *site.broken),
    )


def cards(site: Site, year: Sequence[Quote]) -> list[tuple[str, Quote, RowText | None]]:
    """Choose the three releases that the page begins with: newest, worst still open, best.

    A release stands on one card only; a card without a release is left out.
    """
    large = [quote for quote in year if quote.reaches_limit] or list(year)
    still = [quote for change in site.open_changes if (quote := site.quote(change))]
    candidates = {
        "Newest": sorted(large, key=lambda quote: (quote.dated, quote.when), reverse=True),
        "Worst, still there": sorted(
            (quote for quote in still if quote.verdict is Verdict.WORSE), key=lambda q: -q.size
        ),
        "Best for requests this year": sorted(
            (quote for quote in large if quote.verdict is Verdict.BETTER),
            key=lambda quote: (*quote.rank, -quote.size),
        ),
    }
    chosen: dict[Key, tuple[str, Quote, RowText | None]] = {}
    for title, quotes in candidates.items():
        if quote := next((quote for quote in quotes if quote.key not in chosen), None):
            chosen[quote.key] = title, quote, function(site, quote)
    return list(chosen.values())


def headline_case(
    tables: Mapping[str, tuple[Table, ...]], changes: Mapping[str, Sequence[Change]]
) -> str:
    """Return the case of the chart; empty without a series.

    It has CPU per request on most nights; of equal ones, it is the one with most changes.
    """

    def place(case: str) -> tuple[bool, int, int, str]:
        first = tables[case][0]
        requests = CPU in first.metrics and CPU in trends.metrics(first, case)
        return requests, first.length(case), len(changes.get(case, ())), case

    lines = [case for case, of in tables.items() if of[0].length(case) > 1]
    return max(lines, key=place, default="")


def feed(
    changes: Sequence[Change], base: str = "", quotes: Mapping[Key, Quote] | None = None
) -> str:
    """Write the Atom feed of changes, newest first; the same changes always give the same text.

    `base`: address of the site, with a slash at its end; if empty, links are relative to the feed.
    """
    entries = [(record, quoting.finding_of(record, quotes or {})) for record in changes]
    return fill("changes.atom.j2", base=base, changes=entries) + "\n"


def _found(site: Site) -> Iterator[tuple[str, str, str]]:
    """Return what the search finds: title, address and kind of each page that has a name."""
    for quote in site.quotes.values():
        yield quoting.finding(quote), addresses.release(*quote.key), "release"
    for package in site.packages:
        yield package, addresses.package(package), "package"
    for name in site.experiments:
        yield titles.experiment(name), addresses.experiment(name), "experiment"
    for case in sorted(site.planned):
        yield str(case_names.name(case)), addresses.case(case), "case"
    for address, title in addresses.NAVIGATION:
        if address != addresses.DOCS:
            yield title, address, "page"
    if site.documented:
        for path in sorted((site.root / "docs").rglob("*.md")):
            yield from _headings(path, path.relative_to(site.root).with_suffix("").as_posix())
        for flag in FlagName:
            yield (
                f"{flag.value}: {flag.meaning}",
                f"{addresses.DOCS}reference/#validity-flags",
                "word",
            )
        for metric in METRICS.values():
            yield f"{metric.title} ({metric.name})", f"{addresses.DOCS}reference/#metrics", "word"


def _headings(path: Path, name: str) -> Iterator[tuple[str, str, str]]:
    """Return the places of a page of the documentation; those of the glossary are words."""
    page = name.removesuffix("index").rstrip("/") + "/"
    (_, title), *parts = _HEADING.findall(path.read_text("utf-8"))
    yield title, page, "docs"
    for _, text in parts:
        place = f"{page}#{re.sub(r'[^a-z0-9_ -]', '', text.lower()).replace(' ', '-')}"
        if path.stem == "glossary":
            yield text, place, "word"
        else:
            yield f"{text} ({title})", place, "docs"
