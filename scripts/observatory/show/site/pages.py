"""Every kind of page: a function for each, and what its template is filled with."""

import glob
import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from markupsafe import Markup
from pydantic_core import to_json

from duetbench.app import case_names
from duetbench.app.case_names import CaseName
from duetbench.core.comparison import Comparison, Finding, differences
from duetbench.core.errors import FlagName
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.report.attribution import RowText
from duetbench.report.html.comparison_page import one_file
from observatory.matrix import titles
from observatory.matrix.published import Published
from observatory.show import addresses, quoting
from observatory.show.site import story, trends
from observatory.show.site.charts import Axis, bar
from observatory.show.site.site import Context, Page, Site
from observatory.show.site.words import utc
from observatory.store.change import Change, order
from observatory.trend.releases import START, Key, ReleaseAxis, ReleaseEffect, Result
from observatory.trend.table import points, tables

_YEAR: Final = timedelta(days=366)
_DRAWN: Final = 10  # releases of the newest year that the first page draws
_FIGURES: Final = 3  # of a row of two sides
_ALONE: Final = "Each release alone, with the 95 % interval of its ratio to the fixed stack."

SideRow = tuple[Comparison, CaseName, Markup, list[tuple[Verdict, str]]]
"""What a case does on the second side: its largest effect, drawn, and others in words."""


def experiments(site: Site) -> Iterator[Page]:
    """List the experiments, and a page for each."""
    yield site.page(addresses.EXPERIMENTS, "Experiments", "experiments")
    for name in site.experiments:
        make = partial(_experiment, site, name)
        yield site.page(addresses.experiment(name), name, "experiment", make)


def _experiment(site: Site, name: str) -> Context:
    section = site.experiments[name]
    serves = name in site.published or section.runs
    select = ("--profile", "nightly", "--select", f"{glob.escape(name)}/*")
    words = ("measure", *select) if serves else ("inprocess",)
    answers = [answer for answer in section.answers if answer.verdict != "cannot be asked here"]
    return {
        "title": section.title,
        "answers": answers,
        "axis": Axis.around(answer.ours for answer in answers if answer.ours),
        "reasons": [(each.statement, f"{each.verdict}: {each.reason}") for each in section.answers],
        "section": section,
        "published": site.published.get(name, Published()),
        "command": shlex.join(("observatory", *words)),
        "cases": sorted(case for case in site.cases if case.partition("/")[0] == name),
    }


def cases(site: Site) -> Iterator[Page]:
    """List a page and a data file for each case of a trend."""
    for case in site.cases:
        yield site.page(addresses.case(case), case, "case", partial(_case, site, case))
        yield Page(addresses.data_file(case), case, partial(_data, site, case))


def _data(site: Site, case: str) -> str:
    series = {table: table.planned_nights(case) for table in site.cases[case]}
    return to_json(trends.document(site, case, series)).decode()


def _case(site: Site, case: str) -> Context:
    longest, page = site.cases[case][0], case.partition("/")[0]
    main = next(iter(trends.metrics(longest, case)), "")
    quoted = [(record, site.quote(record)) for record in site.changes_by_case.get(case, ())]
    return {
        "case": case,
        "experiment": page if page in site.experiments else "",
        "since": trends.since(longest, case),
        "chart": trends.whole(case, longest),
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
    for record in site.sources.comparisons:  # of equal sides and cases the newest counts
        if record.base.kind in {"interpreter", "setting"}:
            what = "Python " * (record.base.kind == "interpreter")
            title = f"{what}{record.base.label} → {record.head.label}"
            newest |= {(title, case.case.id): record for case in record.cases}
    groups: dict[str, list[SideRow]] = {}
    # Servers come before interpreters.
    for (title, case), record in sorted(newest.items(), key=lambda e: e[1].base.kind != "setting"):
        own = (f for f in record.findings if f.case == case and f.subject in METRICS)
        known = [finding for finding in own if finding.interval]
        shown = [finding for finding in known if finding.moved][:_FIGURES] or known[:1]
        moved = [(f.subject, f.interval, f.verdict) for f in shown if f.moved and f.interval]
        drawn = bar(*moved[0]) if moved else Markup("")
        words = [(finding.verdict, _in_words(finding)) for finding in shown]
        if words:
            groups.setdefault(title, []).append((record, case_names.name(case), drawn, words))
    return {"groups": groups}


def _in_words(finding: Finding) -> str:
    if finding.moved and finding.interval:
        return quoting.effect(finding.subject, finding.interval).partition(" ")[2]
    return f"{METRICS[finding.subject].title}: {finding.verdict}"


def releases(site: Site) -> Iterator[Page]:
    """List all releases, a page for each package, and one for each release that did something."""
    yield site.page(addresses.PACKAGES, "Releases", "packages", partial(_releases, site))
    for change in site.changes:  # issues link these
        make = partial(_change, site, change)
        yield site.page(addresses.change(change.id), change.id, "moved", make)
    for name in site.packages:
        yield site.page(addresses.package(name), name, "package", partial(_package, site, name))
    for quote in site.quotes.values():
        address, title = addresses.release(*quote.key), " ".join(quote.key)
        yield site.page(address, title, "release", partial(_release, site, quote))


def _releases(site: Site) -> Context:
    measured = (release.when for axis in site.effects for release in axis.measured)
    return {
        "rows": story.rows(site, sorted(site.quotes.values(), key=lambda quote: -quote.size)),
        "unknown": [record for record in site.changes if not site.quote(record)],
        "judged": Counter(package for package, _ in site.judged),
        "since": min(measured, default=None),
    }


def _change(site: Site, change: Change) -> Context:
    title = quoting.finding_of(change, site.quotes)
    return {"title": title, "description": f"{title}.", "to": site.story(change)}


def _package(site: Site, name: str) -> Context:
    own = (quote for quote in site.quotes.values() if quote.package == name)
    quotes = sorted(own, key=lambda quote: (-quote.size, order(quote.version)))
    largest = quotes[0] if quotes else None
    axes = [axis for axis in site.effects if axis.package == name]
    axes.sort(key=lambda axis: not largest or axis.machine.id != largest.machine)
    return {
        "name": name,
        "rows": story.rows(site, quotes),
        "judged": sum(package == name for package, _ in site.judged),
        "chart": _over_releases(site, axes[0], largest) if axes else None,
        "sections": [(axis, site.effects[axis]) for axis in axes],
    }


def _over_releases(site: Site, axis: ReleaseAxis, largest: ReleaseEffect | None) -> Markup | None:
    """Chart what the largest effect of a package is on, over all its releases; or its first case.

    None without two points.
    """
    metric = largest.metric if largest else CPU
    own = (case.case for release in axis.releases for case in release.cases)
    case = largest.case if largest else next(own, "")
    (table,) = tables(axis.releases)
    known = case in table.cases and metric in table.metrics
    if not known or sum(bool(point.figure) for point in points(table, case, metric)) < 2:
        return None
    of = table.planned_nights(case)
    document = trends.document(site, case, {table: of}, metric, axis.package)
    title = f"{quoting.title(metric)}: {case_names.name(case)}"
    config = {"document": document, "metric": metric, "releases": True}
    return trends.chart(_ALONE, config, case, table, of, title)


def _release(site: Site, quote: ReleaseEffect) -> Context:
    caused = [record for record in site.changes if record.blames(*quote.key)]
    own = [record for record in caused if site.quote(record) == quote]
    alone = next((record for record in caused if len(record.releases) == 1), None)
    starts = ("--start", "--profile", "nightly") if quote.metric == START else ()
    base = ("--base", f"{quote.package}=={quote.previous}") if quote.previous else ()
    head = ("--head", f"{quote.package}=={quote.version}")
    words = (*base, *head, *starts, "--select", glob.escape(quote.case))
    return {
        "title": quoting.finding(quote),
        "quote": quote,
        "figures": story.before_after(site, quote),
        "code": story.function(site, quote),
        "seen": story.request(site, quote, alone),
        "state": story.still_there(site, quote),
        "sure": story.measurements(site, quote),
        "draw": story.draw,
        "sections": [
            (axis, result, _differences(result)) for axis, result in story.results(site, quote)
        ],
        "command": shlex.join(("observatory", "compare", *words)),
        "traces": own,
        "others": [record for record in caused if record not in own],
        "why": quoting.explanations(caused),
    }


def _differences(result: Result) -> list[str]:
    """Return what differs between the locks of two releases, in any stack."""
    before = {stack.name: stack.packages for stack in result.base.stacks}
    after = {stack.name: stack.packages for stack in result.head.stacks}
    moves = (differences(s, before[s], after[s]) for s in before.keys() & after.keys())
    return sorted({str(move) for of_stack in moves for move in of_stack})


def front(site: Site) -> Iterator[Page]:
    """List the first page and the search's index."""
    yield site.page(addresses.FRONT, "duetbench", "front", partial(_front, site))
    yield Page("search.json", "The search", partial(_search, site))


def _front(site: Site) -> Context:
    trend = site.sources.tables
    times = [table.nights[-1].time for table in trend]
    times += [int(utc(summary.run.started).timestamp()) for summary in site.newest[:1]]
    newest = next((quote.when for quote in site.quotes.values()), None)
    year = [q for q in site.quotes.values() if newest and newest - q.when < _YEAR]
    case = headline_case(site)
    chart, finding = trends.year(site, case, site.cases[case][0]) if case else (None, "")
    worse = (c for c in site.changes if c.status == "open" and c.verdict is Verdict.WORSE)
    return {
        "cards": cards(site, year),
        "nights": max((table.nights for table in trend), key=len, default=()),
        "last": max(times, default=0),
        "chart": chart,
        "finding": finding,
        "headline": case,
        "slower": len({site.story(change) for change in worse}),
        "rows": story.rows(site, sorted(year, key=lambda quote: -quote.size)[:_DRAWN]),
        "problems": (*site.sources.problems, *site.broken),
    }


def cards(
    site: Site, year: Sequence[ReleaseEffect]
) -> list[tuple[str, ReleaseEffect, RowText | None]]:
    """Choose the releases that the page begins with: newest, worst still open, best.

    A release stands on one card only; a card without a release is left out.
    """
    large = [quote for quote in year if quote.reaches_limit] or year
    still = (site.quote(change) for change in site.changes if change.status == "open")
    worse = [quote for quote in still if quote and quote.verdict is Verdict.WORSE]
    better = [quote for quote in large if quote.verdict is Verdict.BETTER]
    chosen: dict[Key, tuple[str, ReleaseEffect, RowText | None]] = {}
    for title, quotes in (
        ("Newest", sorted(large, key=lambda quote: (quote.dated, quote.when), reverse=True)),
        ("Worst, still there", sorted(worse, key=lambda quote: -quote.size)),
        ("Best for requests this year", sorted(better, key=lambda q: (*q.rank, -q.size))),
    ):
        if quote := next((quote for quote in quotes if quote.key not in chosen), None):
            chosen[quote.key] = title, quote, story.function(site, quote)
    return list(chosen.values())


def headline_case(site: Site) -> str:
    """Return the case of the chart; empty without a series.

    It has CPU per request on most nights; of equal ones, it is the one with most changes.
    """
    lines = [
        (of[0].length(case), len(site.changes_by_case.get(case, ())), case)
        for case, of in site.cases.items()
        if CPU in trends.metrics(of[0], case)
    ]
    return max((line for line in lines if line[0] > 1), default=(0, 0, ""))[2]


def _search(site: Site) -> str:
    """Write what the search finds: title, address and kind of each page and word."""
    entries = [
        *((quoting.finding(q), addresses.release(*q.key), "release") for q in site.quotes.values()),
        *((name, addresses.package(name), "package") for name in site.packages),
        *(
            (titles.experiment(name), addresses.experiment(name), "experiment")
            for name in site.experiments
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


KINDS: Final[tuple[Callable[[Site], Iterator[Page]], ...]] = (
    experiments,
    cases,
    sides,
    releases,
    front,
)
"""Every kind of page; add the function of a new one here. The last one lists all failures."""
