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
from observatory.show.site.pages.site import Context, Page, Site, group

_MOST: Final = 3  # figures of a row

SideRow = tuple[Comparison, CaseName, Markup, list[tuple[Verdict, str]]]
"""What a case does on the second side: its largest effect, drawn, and others in words."""


def pages(site: Site) -> Iterator[Page]:
    """List the table of all sides, and a page for each comparison."""
    yield site.page(addresses.SIDES, "Side by side", "sides", partial(_sides, site))
    for name, comparison in site.comparisons.items():
        make = partial(one_file, comparison)
        yield Page(addresses.comparison(name), f"Comparison {name}", make)


def _sides(site: Site) -> Context:
    # Of equal sides and cases the newest counts; servers come before interpreters.
    newest = {
        (_title(comparison), case.case.id): comparison
        for comparison in site.sources.comparisons
        if comparison.base.kind in {"interpreter", "setting"}
        for case in comparison.cases
    }
    ordered = sorted(newest.items(), key=lambda entry: entry[1].base.kind != "setting")
    rows = ((title, row) for (title, case), record in ordered for row in _rows(record, case))
    return {"groups": group(rows)}


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
