"""Two ways to serve the same, side by side, and the page of every stored comparison."""

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class SideRow:
    """What a case does on the second side: its largest effect, drawn, and others in words."""

    comparison: Comparison
    name: CaseName
    bar: Markup
    effects: tuple[tuple[Verdict, str], ...]


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
    rows = ((_title(c), row) for (_, case), c in newest.items() if (row := _row(c, case)))
    yield render(
        site,
        "sides.html.j2",
        addresses.SIDES,
        "Side by side",
        "What another server, event loop, interpreter or setting changes, measured side by side.",
        groups=group(sorted(rows, key=lambda row: row[1].comparison.base.kind != "setting")),
    )


def _title(comparison: Comparison) -> str:
    what = "Python " * (comparison.base.kind == "interpreter")
    return f"{what}{comparison.base.label} → {comparison.head.label}"


def _row(comparison: Comparison, case: str) -> SideRow | None:
    """Return a case's row; None if nothing is known of it."""
    known = [
        finding
        for finding in comparison.findings
        if finding.case == case and finding.subject in METRICS and finding.interval
    ]
    moved = [finding for finding in known if finding.moved] or known[:1]
    shown = [(finding.verdict, _words(finding)) for finding in moved[:_MOST]]
    if not moved or not moved[0].interval:
        return None
    drawn = bar(moved[0].interval, moved[0].verdict) if moved[0].moved else Markup("")
    return SideRow(comparison, case_names.name(case), drawn, tuple(shown))


def _words(finding: Finding) -> str:
    if not finding.interval:
        return ""
    if finding.moved:
        return quoting.effect(finding.subject, finding.interval).partition(" ")[2]
    return f"{METRICS[finding.subject].title}: {finding.verdict}"
