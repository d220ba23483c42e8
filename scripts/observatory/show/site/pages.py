"""Every kind of page: a function for each, and what its template is filled with."""

import glob
import json
import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from duetbench.app import case_names
from duetbench.core.comparison import Comparison, Finding
from duetbench.core.errors import FlagName
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.report.html.comparison_page import one_file
from observatory.matrix.published import Published
from observatory.show import addresses, quoting
from observatory.show.site import story, trends
from observatory.show.site.site import Context, Page, Site
from observatory.show.site.words import utc
from observatory.store.points import order
from observatory.trend.releases import START, ReleaseEffect

_YEAR: Final = timedelta(days=366)
_DRAWN: Final = 10  # releases of the newest year that the first page draws
_FIGURES: Final = 3  # of a row of two sides


def experiments(site: Site) -> Iterator[Page]:
    """List the experiments, and a page for each."""
    yield site.page(addresses.EXPERIMENTS, "Experiments", "experiments")
    for name in site.experiments:
        make = partial(_experiment, site, name)
        yield site.page(addresses.experiment(name), name, "experiment", make)


def _experiment(site: Site, name: str) -> Context:
    section, about = site.experiments[name], site.published.get(name, Published())
    select = ("--profile", "nightly", "--select", f"{glob.escape(name)}/*")
    words = ("measure", *select) if about.question or section.runs else ("inprocess",)
    return {
        "title": section.title,
        "section": section,
        "published": about,
        "command": shlex.join(("observatory", *words)),
        "cases": sorted(case for case in site.cases if case.partition("/")[0] == name),
    }


def cases(site: Site) -> Iterator[Page]:
    """List a page for each case of a trend."""
    for case in site.cases:
        yield site.page(addresses.case(case), case, "case", partial(_case, site, case))


def _case(site: Site, case: str) -> Context:
    longest, page = site.cases[case][0], case.partition("/")[0]
    main = next(iter(longest.metrics(case)), "")
    quoted = [(record, site.quote(record)) for record in site.changes_by_case.get(case, ())]
    return {
        "case": case,
        "experiment": page if page in site.experiments else "",
        "since": trends.since(longest, case),
        "chart": trends.whole(site, case),
        "changes": sorted(quoted, key=lambda change: not change[1] or change[1].metric != main),
        # What has no release has no page but this one.
        "traces": [
            (record, quoting.explanations([record]), story.request(site, None, record))
            for record, quote in quoted
            if not quote and record.series.case == case
        ],
        "command": shlex.join(
            ("observatory", "measure", "--profile", "nightly", "--select", glob.escape(case))
        ),
    }


def sides(site: Site) -> Iterator[Page]:
    """List the table of two ways to serve the same, and a page for each comparison."""
    yield site.page(addresses.SIDES, "Side by side", "sides", partial(_sides, site))
    for name, comparison in site.comparisons.items():
        make = partial(one_file, comparison)
        yield Page(addresses.comparison(name), f"Comparison {name}", make)


def _sides(site: Site) -> Context:
    newest: dict[tuple[str, str], Comparison] = {}
    for record in reversed(site.comparisons.values()):  # of equal sides and cases the newest counts
        if record.base.kind in {"interpreter", "setting"}:
            what = "Python " * (record.base.kind == "interpreter")
            title = f"{what}{record.base.label} → {record.head.label}"
            newest |= {(title, case.case.id): record for case in record.cases}
    groups: dict[str, list[tuple[Comparison, str, list[Finding]]]] = {}
    # Servers come before interpreters.
    for (title, case), record in sorted(newest.items(), key=lambda e: e[1].base.kind != "setting"):
        own = (f for f in record.findings if f.case == case and f.subject in METRICS)
        known = [finding for finding in own if finding.interval]
        shown = [finding for finding in known if finding.moved][:_FIGURES] or known[:1]
        if shown:
            groups.setdefault(title, []).append((record, case, shown))
    return {"groups": groups}


def releases(site: Site) -> Iterator[Page]:
    """List all releases, a page for each package, and one for each release that did something."""
    yield site.page(addresses.PACKAGES, "Releases", "packages", partial(_releases, site))
    for name in site.packages:
        yield site.page(addresses.package(name), name, "package", partial(_package, site, name))
    for quote in site.quotes.values():
        address, title = addresses.release(*quote.key), " ".join(quote.key)
        yield site.page(address, title, "release", partial(_release, site, quote))


def _releases(site: Site) -> Context:
    measured = (release.when for table in site.effects for release in table.measured)
    return {
        "rows": sorted(site.quotes.values(), key=lambda quote: -quote.size),
        "story": story,
        "unknown": [record for record in site.changes if not site.quote(record)],
        "judged": Counter(package for package, _ in site.judged),
        "since": min(measured, default=None),
    }


def _package(site: Site, name: str) -> Context:
    own = (quote for quote in site.quotes.values() if quote.package == name)
    quotes = sorted(own, key=lambda quote: (-quote.size, order(quote.version)))
    largest = quotes[0] if quotes else None
    own_tables = [table for table in site.effects if table.package == name]
    own_tables.sort(key=lambda table: not largest or table.machine.id != largest.machine)
    return {
        "name": name,
        "rows": quotes,
        "story": story,
        "judged": sum(package == name for package, _ in site.judged),
        "chart": trends.releases(site, own_tables[0], largest) if own_tables else None,
        "sections": [(table, site.effects[table]) for table in own_tables],
    }


def _release(site: Site, quote: ReleaseEffect) -> Context:
    caused = [r for r in site.changes if quote.key in {(x.package, x.version) for x in r.releases}]
    own = [record for record in caused if site.quote(record) == quote]
    alone = next((record for record in caused if len(record.releases) == 1), None)
    starts = ("--start", "--profile", "nightly") if quote.metric == START else ()
    base = ("--base", f"{quote.package}=={quote.previous}") if quote.previous else ()
    head = ("--head", f"{quote.package}=={quote.version}")
    words = (*base, *head, *starts, "--select", glob.escape(quote.case))
    return {
        "title": quoting.finding(quote),
        "quote": quote,
        "story": story,
        "alone": alone,
        "command": shlex.join(("observatory", "compare", *words)),
        "traces": own,
        "others": [record for record in caused if record not in own],
        "why": quoting.explanations(caused),
    }


def front(site: Site) -> Iterator[Page]:
    """List the first page and the search's index."""
    yield site.page(addresses.FRONT, "duetbench", "front", partial(_front, site))
    yield Page("search.json", "The search", partial(_search, site))


def _front(site: Site) -> Context:
    trend = [table for table in site.tables if not table.package]
    times = [table.files[-1].time for table in trend]
    times += [int(utc(each.run.started).timestamp()) for each in site.runs[-1:]]
    newest = next((quote.when for quote in site.quotes.values()), None)
    year = [q for q in site.quotes.values() if newest and newest - q.when < _YEAR]
    case = headline_case(site)
    chart, finding = trends.year(site, case, site.cases[case][0]) if case else (None, "")
    worse = (c for c in site.changes if c.status == "open" and c.verdict is Verdict.WORSE)
    return {
        "nights": max((table.files for table in trend), key=len, default=()),
        "last": max(times, default=0),
        "chart": chart,
        "finding": finding,
        "headline": case,
        "slower": len({site.story(change) for change in worse}),
        "rows": sorted(year, key=lambda quote: -quote.size)[:_DRAWN],
        "story": story,
        "problems": site.problems,
    }


def headline_case(site: Site) -> str:
    """Return the case of the chart; empty without a series.

    It has CPU per request on most nights; of equal ones, it is the one with most changes.
    """
    lines = [
        (of[0].length(case), len(site.changes_by_case.get(case, ())), case)
        for case, of in site.cases.items()
        if of[0].series(case, CPU)
    ]
    return max((line for line in lines if line[0] > 1), default=(0, 0, ""))[2]


def _search(site: Site) -> str:
    """Write what the search finds: title, address and kind of each page and word."""
    entries = [
        *((quoting.finding(q), addresses.release(*q.key), "release") for q in site.quotes.values()),
        *((name, addresses.package(name), "package") for name in site.packages),
        *(
            (section.topic or name, addresses.experiment(name), "experiment")
            for name, section in site.experiments.items()
        ),
        *((str(case_names.name(case)), addresses.case(case), "case") for case in site.cases),
        *((title, at, "page") for at, title in addresses.NAVIGATION if at != addresses.DOCS),
    ]
    if site.documented:
        entries += _headings(site.documented)
        reference = f"{addresses.DOCS}reference/"
        flags = (f"{flag.value}: {flag.meaning}" for flag in FlagName)
        entries += [(flag, f"{reference}#validity-flags", "word") for flag in flags]
        metrics = (f"{metric.title} ({metric.name})" for metric in METRICS.values())
        entries += [(metric, f"{reference}#metrics", "word") for metric in metrics]
    return json.dumps(entries, separators=(",", ":"), ensure_ascii=False)


def _headings(index: Path) -> Iterator[tuple[str, str, str]]:
    """Return the headings of the documentation, from the index of its own search.

    Those of glossaries are words.
    """
    text = index.read_text("utf-8")
    known = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    for heading, places in known["alltitles"].items():
        for page, anchor in places:
            name = known["docnames"][page]
            folder = name.removesuffix("index").rstrip("/")
            address = f"{addresses.DOCS}{folder}/" if folder else addresses.DOCS
            if anchor is None:
                yield heading, address, "docs"
            elif name.endswith("glossary"):
                yield heading, f"{address}#{anchor}", "word"
            else:
                yield f"{heading} ({known['titles'][page]})", f"{address}#{anchor}", "docs"


KINDS: Final = (experiments, cases, sides, releases, front)
"""Every kind of page; add the function of a new one here. The last one lists all failures."""
