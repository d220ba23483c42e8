"""Pages of evidence: changes with a feed of them, and comparisons.

Pages of changes and comparisons come from records and run files, whose figures no longer change.
The words of comparisons are those of the reports (`report.report`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from markupsafe import Markup

from duetbench.core.comparison import Comparison
from duetbench.report.html.comparison_page import content
from duetbench.report.report import make_report
from observatory.show import addresses, quoting
from observatory.show.changes import ChangeText, describe
from observatory.show.quoting import finding_of as finding
from observatory.show.site.pages.site import (
    ExplanationText,
    PageFile,
    Site,
    explanations,
    group,
    guard,
    render,
)
from observatory.show.site.pages.story import request_table, rows, trace
from observatory.show.site.words import fill
from observatory.store.change import Change
from observatory.trend.quotes import Key, Quote


def pages(site: Site) -> Iterator[PageFile]:
    """Make the lists, a page for each change and comparison, and the feed."""
    yield from guard(site, addresses.CHANGES, "Changes", partial(_list, site))
    for record in site.changes:
        address, make = addresses.change(record.id), partial(_change_page, site, record)
        yield from guard(site, address, f"Change {record.id}", make)
    yield from _comparisons(site)


def _list(site: Site) -> Iterator[PageFile]:
    yield render(
        site,
        "changes.html.j2",
        addresses.CHANGES,
        "Changes",
        "Where the Python web stack became better or worse for good, and why.",
        still=_entries(site, site.open_changes),
        over=_entries(site, site.closed_changes),
    )
    yield PageFile(addresses.FEED, feed(site.changes, site.base, site.quotes))


def _entries(
    site: Site, changes: Iterable[Change]
) -> list[tuple[ChangeText, Quote | None, Markup | None]]:
    """Return changes with the quotes of their releases, drawn on one scale, the newest first.

    A release is listed once.
    """
    first = {site.story(record): record for record in changes}
    quoted = [(record, site.quote(record)) for record in first.values()]
    quoted.sort(key=lambda pair: pair[1].when if pair[1] else pair[0].when, reverse=True)
    drawn = {row.quote.key: row.bar for row in rows(site, [q for _, q in quoted if q])}
    return [(describe(r), q, drawn[q.key] if q else None) for r, q in quoted]


def feed(
    changes: Iterable[Change], base: str = "", quotes: Mapping[Key, Quote] | None = None
) -> str:
    """Write the Atom feed of changes, newest first; the same changes always give the same text.

    `base`: address of the site, with a slash at its end; if empty, links are relative to the feed.
    """
    entries = [(describe(record), finding(record, quotes or {})) for record in changes]
    return fill("changes.atom.j2", base=base, changes=entries) + "\n"


def _change_page(site: Site, record: Change) -> Iterator[PageFile]:
    """Tell a change whose release is not known; others are told on the page of their release."""
    address = addresses.change(record.id)
    if quote := site.quote(record):
        to = f"{addresses.release(*quote.key)}#nights"
        title, about = quoting.finding(quote), f"{quoting.finding(quote, within=True)}."
        yield render(site, "moved.html.j2", address, title, about, to=to)
        return
    text = describe(record)
    yield render(
        site,
        "change.html.j2",
        address,
        text.sentence,
        f"{finding(record, site.quotes)}.",
        record=record,
        text=text,
        seen=request_table(site, None, record.evidence),
        trace=trace(site, record),
        why=explanations([record]),
    )


def _comparisons(site: Site) -> Iterator[PageFile]:
    confirmed = group((record.evidence, record) for record in site.changes if record.evidence)
    listed: list[tuple[Comparison, str]] = []

    def make(comparison: Comparison) -> Iterator[PageFile]:
        report, changes = make_report(comparison), confirmed.get(comparison.id, ())
        address = addresses.comparison(comparison.id)
        yield render(
            site,
            "compared.html.j2",
            address,
            f"{comparison.base.label} → {comparison.head.label}: {_verdict(report.headline)}",
            report.headline,
            layout="base.html.j2",
            confirmed=[*map(describe, changes)],
            why=[
                *([ExplanationText(comparison.why)] if comparison.why else ()),
                *explanations(changes),
            ],
            **content(comparison, report),
        )
        # What one request does is on the pages of releases and changes.
        if not comparison.counts_only or any(case.instructions for case in comparison.cases):
            listed.append((comparison, report.headline))

    for name, comparison in site.comparisons.items():
        address = addresses.comparison(name)
        yield from guard(site, address, f"Comparison {name}", partial(make, comparison))
    yield from guard(site, addresses.COMPARISONS, "Comparisons", partial(_listed, site, listed))


def _verdict(headline: str) -> str:
    """Return the verdict that a headline begins with, as in `worse in 2 of 4 cases`."""
    return headline.removeprefix("Partial: ").partition(":")[0].partition(" ")[2]


def _listed(site: Site, listed: Sequence[tuple[Comparison, str]]) -> Iterator[PageFile]:
    yield render(
        site,
        "comparisons.html.j2",
        addresses.COMPARISONS,
        "Comparisons",
        "Comparisons that are kept as evidence: two stacks, or two commits, measured together.",
        listed=listed,
    )
