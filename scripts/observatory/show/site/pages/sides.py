"""Two ways to serve the same, side by side, and the page of every stored comparison."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.app.case_names import CaseName
from duetbench.core.comparison import Comparison, Finding
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.report.html.comparison_page import one_file
from observatory.show import addresses, quoting
from observatory.show.site.charts import bar
from observatory.show.site.pages.site import PageFile, Site, group, guard, render

_MOST: Final = 3  # figures of a row

SideRow = tuple[Comparison, CaseName, Markup, list[tuple[Verdict, str]]]
"""What a case does on the second side: its largest effect, drawn, and others in words."""


def pages(site: Site) -> Iterator[PageFile]:
    """Make the table of all sides, and a page for each comparison."""
    yield from guard(site, addresses.SIDES, "Side by side", partial(_sides, site))
    for name, comparison in site.comparisons.items():
        address = addresses.comparison(name)
        make = partial(_alone, address, comparison)
        yield from guard(site, address, f"Comparison {name}", make)


def _alone(address: str, comparison: Comparison) -> Iterator[PageFile]:
    yield PageFile(addresses.file(address), one_file(comparison))


def _sides(site: Site) -> Iterator[PageFile]:
    # Of equal sides and cases the newest counts; servers come before interpreters.
    newest = {
        ((comparison.base.label, comparison.head.label), case.case.id): comparison
        for comparison in reversed([*site.comparisons.values()])
        if comparison.base.kind in {"interpreter", "setting"}
        for case in comparison.cases
    }
    rows = [row for (_, case), record in newest.items() for row in _rows(record, case)]
    rows.sort(key=lambda row: row[0].base.kind != "setting")
    yield render(
        site,
        "sides.html.j2",
        addresses.SIDES,
        "Side by side",
        "What another server, event loop, interpreter or setting changes, measured side by side.",
        groups=group((_title(row[0]), row) for row in rows),
    )


def _title(comparison: Comparison) -> str:
    what = "Python " * (comparison.base.kind == "interpreter")
    return f"{what}{comparison.base.label} → {comparison.head.label}"


def _rows(comparison: Comparison, case: str) -> Iterator[SideRow]:
    """Return a case's row; none if nothing is known of it."""
    known = [
        (finding, finding.interval)
        for finding in comparison.findings
        if finding.case == case and finding.subject in METRICS and finding.interval
    ]
    shown = [pair for pair in known if pair[0].moved][:_MOST] or known[:1]
    for first, ratio in shown[:1]:
        drawn = bar(ratio, first.verdict) if first.moved else Markup("")
        words = [(finding.verdict, _words(finding)) for finding, _ in shown]
        yield comparison, case_names.name(case), drawn, words


def _words(finding: Finding) -> str:
    if finding.moved and finding.interval:
        return quoting.effect(finding.subject, finding.interval).partition(" ")[2]
    return f"{METRICS[finding.subject].title}: {finding.verdict}"
