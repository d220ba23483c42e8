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
from observatory.show.site.pages.site import Context, Page, Site
from observatory.show.site.pages.story import function, rows
from observatory.show.site.words import fill, utc
from observatory.store.change import Change
from observatory.trend.quotes import Key, Quote
from observatory.trend.table import Table

_YEAR: Final = timedelta(days=366)
_ROWS: Final = 10  # releases of the newest year that the page draws
_HEADING: Final = re.compile(r"^(#{1,3}) (.+)$", re.MULTILINE)


def pages(site: Site) -> Iterator[Page]:
    """List the first page, the search's index, the feed, and pages that lead on."""
    yield site.page(addresses.FRONT, "duetbench", "front", partial(_front, site))
    # It is served at any depth: its links begin at the root of the host, below the site's base.
    lost = {"root": urlsplit(site.base).path or "/", "reason": ""}
    yield site.page(addresses.NOT_FOUND, "Nothing is here", "missing", lambda: lost)
    for address, place in addresses.MOVED.items():
        documented = site.documented or not place.startswith(addresses.DOCS)
        to = {"to": place if documented else addresses.FRONT}
        yield site.page(address, "This page has moved", "moved", partial(dict, to))
    yield Page("search.json", "The search", partial(_search, site))
    yield Page(addresses.FEED, "The feed", partial(feed, site.changes, site.base, site.quotes))


def _front(site: Site) -> Context:
    tables = site.sources.tables
    times = [table.nights[-1].time for table in tables]
    times += [int(utc(summary.run.started).timestamp()) for summary in site.newest[:1]]
    newest = next((quote.when for quote in site.quotes.values()), None)
    year = [q for q in site.quotes.values() if newest and newest - q.when < _YEAR]
    headline = headline_case(site.cases, site.changes_by_case)
    known = trends.year(site, headline, site.cases[headline][0]) if headline else (None, "")
    worse = (c for c in site.changes if c.status == "open" and c.verdict is Verdict.WORSE)
    return {
        "cards": cards(site, year),
        "nights": max((table.nights for table in tables), key=len, default=()),
        "last": max(times, default=0),
        "chart": known[0],
        "finding": known[1],
        "headline": headline,
        "record": next(iter(site.sources.night_records[-1:]), None),
        "slower": len({site.story(change) for change in worse}),
        "rows": rows(site, sorted(year, key=lambda quote: -quote.size)[:_ROWS]),
        "problems": (*site.sources.problems, *site.broken),
    }


def cards(site: Site, year: Sequence[Quote]) -> list[tuple[str, Quote, RowText | None]]:
    """Choose the three releases that the page begins with: newest, worst still open, best.

    A release stands on one card only; a card without a release is left out.
    """
    large = [quote for quote in year if quote.reaches_limit] or year
    still = (site.quote(change) for change in site.changes if change.status == "open")
    worse = (quote for quote in still if quote and quote.verdict is Verdict.WORSE)
    better = (quote for quote in large if quote.verdict is Verdict.BETTER)
    candidates = {
        "Newest": sorted(large, key=lambda quote: (quote.dated, quote.when), reverse=True),
        "Worst, still there": sorted(worse, key=lambda quote: -quote.size),
        "Best for requests this year": sorted(better, key=lambda q: (*q.rank, -q.size)),
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
        requests = CPU in trends.metrics(first, case)
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


def _search(site: Site) -> str:
    """Write what the search finds: title, address and kind of each page that has a name."""
    quotes, cases = site.quotes.values(), sorted(site.planned)
    topics = [(titles.experiment(name), name) for name in site.experiments]
    entries = [
        (quoting.finding(quote), addresses.release(*quote.key), "release") for quote in quotes
    ]
    entries += [(name, addresses.package(name), "package") for name in site.packages]
    entries += [(title, addresses.experiment(name), "experiment") for title, name in topics]
    entries += [(str(case_names.name(case)), addresses.case(case), "case") for case in cases]
    entries += [(title, at, "page") for at, title in addresses.NAVIGATION if at != addresses.DOCS]
    if site.documented:
        for path in sorted((site.root / "docs").rglob("*.md")):
            entries += _headings(path, path.relative_to(site.root).with_suffix("").as_posix())
        reference = f"{addresses.DOCS}reference/"
        flags = [f"{flag.value}: {flag.meaning}" for flag in FlagName]
        entries += [(flag, f"{reference}#validity-flags", "word") for flag in flags]
        metrics = [f"{metric.title} ({metric.name})" for metric in METRICS.values()]
        entries += [(metric, f"{reference}#metrics", "word") for metric in metrics]
    return json.dumps(entries, separators=(",", ":"), ensure_ascii=False)


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
