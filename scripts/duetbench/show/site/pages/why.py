"""Attributions: of each its flame graph, its ranked rows and what they are good for.

What is said, and in which words, is that of the reports (`report.attribution`).
"""

from collections.abc import Iterable, Iterator
from functools import partial

from duetbench.show.attribution import AttributionText, describe, moved_rows
from duetbench.show.change import describe as describe_change
from duetbench.show.site.charts.figure import Caption
from duetbench.show.site.charts.flame import flame
from duetbench.show.site.pages import addresses
from duetbench.show.site.pages.page import PageFile, render
from duetbench.show.site.pages.site import Site
from duetbench.store.attribution import Attribution, Function, Row
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison


def pages(site: Site) -> Iterator[PageFile]:
    """One page for each attribution."""
    changes = {record.id: record for record in site.changes}
    for record in site.attributions.values():
        found, change = describe(record), changes.get(record.change or "")
        yield render(
            site,
            "why.html.j2",
            addresses.attribution(record.id),
            f"Why: {found.headline.partition(':')[0]}",
            found.cause,
            found=found,
            record=record,
            change=describe_change(change) if change else None,
            source=partial(source, site, record),
            chart=flame(_CAPTION, record, partial(_anchor, moved_rows(record))),
        )


_CAPTION = Caption(
    "flame",
    "Where the instructions of a request are",
    "The newer side: a frame is a function, as wide as what it and all that it calls execute, "
    "below its caller, in the order of names. Colour is change. Those of ranked functions lead to "
    "their row.",
)


def of_change(site: Site, record: Change) -> list[AttributionText]:
    """Attributions of a change, the newest first."""
    return _described(one for one in site.attributions.values() if one.change == record.id)


def of_comparison(site: Site, comparison: Comparison) -> list[AttributionText]:
    """Attributions of a comparison, or of a change that it is the evidence of."""
    proven = {record.id for record in site.changes if record.evidence == comparison.id}
    return _described(
        one
        for one in site.attributions.values()
        if one.comparison == comparison.id or one.change in proven
    )


def of_release(site: Site, package: str, version: str) -> list[AttributionText]:
    """Attributions of changes that a release is blamed for, or of nothing but this release."""
    blamed = {record.id for record in site.changes if record.blames(package, version)}
    return _described(
        one
        for one in site.attributions.values()
        if one.change in blamed
        or {(moved.package, moved.head) for moved in one.packages} == {(package, version)}
    )


def _described(records: Iterable[Attribution]) -> list[AttributionText]:
    return [describe(record) for record in records]


def source(site: Site, record: Attribution, row: Row) -> str:
    """Where a row's function is in its release's source, on the side that has it; or empty."""
    function = row.function
    package = site.packages.get(function.package)
    moved = next((one for one in record.packages if one.package == function.package), None)
    version = moved and (moved.base if row.state == "went" else moved.head)
    if package is None or not version or not function.line:
        return ""
    return package.links(version).line(version, function.file, function.line) or ""


def _anchor(rows: Iterable[Row], function: Function) -> str:
    """Where a function's row is on the page; empty: it has none."""
    numbered = (n for n, row in enumerate(rows, 1) if row.function == function)
    return next((f"#row-{n}" for n in numbered), "")
