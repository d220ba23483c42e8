"""The story of a release: its quoted size, before and after, the code, and how sure that is."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from duetbench.core.comparison import INSTRUCTIONS, Comparison
from duetbench.core.comparison import differences as differ
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.report import formats
from duetbench.report.attribution import RowText
from duetbench.report.findings import announce
from observatory.show import quoting
from observatory.show.site.site import Site
from observatory.show.site.trends import alike
from observatory.store.change import Change
from observatory.trend.releases import START, ReleaseEffect, Result
from observatory.trend.table import Table

_MOST: Final = 9  # measurements of a kind below a quoted size

Measured = tuple[ReleaseEffect, str]
"""An effect, and the comparison that it is of; empty: of points against the anchor."""


def still_there(site: Site, quote: ReleaseEffect) -> str:
    """Say whether the nights still show a slowdown; empty if they do not know the release."""
    states = {record.status for record in site.changes if site.quote(record) == quote}
    if quote.verdict is not Verdict.WORSE or not states:
        return ""
    return "still there" if "open" in states else "undone, or accepted"


def function(site: Site, quote: ReleaseEffect) -> RowText | None:
    """Return the function that moved most with a release's effect on requests.

    Functions of other packages that moved are left out, and changes that are mostly another's.
    """
    own = (change for change in site.changes if site.quote(change) == quote)
    for text, _ in quoting.explanations(own) if quote.metric != START else ():
        others = {move.package for move in text.record.packages} - {quote.package}
        change = text.record.instructions.head - text.record.instructions.base
        for line in text.rows:
            if (line.row.head - line.row.base) * change > 0 and line.row.package not in others:
                return line
    return None


def request(
    site: Site, quote: ReleaseEffect | None, record: Change | None
) -> tuple[Comparison, list[str]] | None:
    """Say what one request does since a release, or by a change's evidence, and who observed it.

    The newest comparison that observed requests counts, of its cases the quoted one. None: there
    is no such comparison.
    """
    for comparison in site.comparisons.values():
        seen = [(case.case, case.effects) for case in comparison.cases if case.effects]
        seen.sort(key=lambda pair: quote is None or pair[0].id != quote.case)
        if seen and (_is_alone(comparison, quote) or (record and comparison.id == record.evidence)):
            return comparison, [*announce(*seen[0])]
    return None


def _is_alone(comparison: Comparison, quote: ReleaseEffect | None) -> bool:
    """Whether it compares a release with the one before, and nothing else."""
    labels = (comparison.base.label, comparison.head.label)
    return quote is not None and labels == tuple(
        f"{quote.package}=={version}" for version in (quote.previous, quote.version)
    )


def before_after(site: Site, quote: ReleaseEffect) -> tuple[str, str] | None:
    """Return the absolute figures of both releases, measured beside the same anchor."""
    for _, result in results(site, quote):
        point = result.base.point(quote.case, quote.metric)
        if point and point.anchor and quote.metric in METRICS:
            base = point.anchor * point.ratio
            head = base * quote.ratio.estimate
            return formats.figure(quote.metric, base), formats.figure(quote.metric, head)
    return None


def results(site: Site, quote: ReleaseEffect) -> Iterator[tuple[Table, Result]]:
    """Return what a release did on each machine, that of its quote first."""
    for table in sorted(site.effects, key=lambda table: table.machine.id != quote.machine):
        if table.package == quote.package and (result := site.effects[table].get(quote.version)):
            yield table, result


def differences(result: Result) -> list[str]:
    """Return what differs between the locks of two releases, in any stack."""
    before = {stack.name: stack.packages for stack in result.base.stacks}
    after = {stack.name: stack.packages for stack in result.head.stacks}
    moves = (differ(s, before[s], after[s]) for s in before.keys() & after.keys())
    return sorted({str(move) for of_stack in moves for move in of_stack})


def measurements(site: Site, quote: ReleaseEffect) -> dict[str, list[Measured]]:
    """Return all effects of a release: the quoted one, those that repeat it, and others."""
    effects = [effect for _, result in results(site, quote) for effect in result.effects]
    repeats = [(effect, "") for effect in effects if _repeats(effect, quote) and effect != quote]
    for name, comparison in site.comparisons.items():  # duets of both releases
        finding = comparison.of(quote.case, quote.metric)
        if finding and finding.interval and _is_alone(comparison, quote):
            machine = comparison.machine.id
            own = replace(quote, machine=machine, ratio=finding.interval, verdict=finding.verdict)
            repeats.append((own, name))
    others = [effect for effect in effects if effect.moved and not _repeats(effect, quote)]
    others.sort(key=lambda effect: -effect.size)
    return {
        "Quoted: this release alone": [(quote, "")],
        "The same, in other ways": repeats[:_MOST],
        "What else it did": [(effect, "") for effect in others[:_MOST]],
    }


def _repeats(effect: ReleaseEffect, quote: ReleaseEffect) -> bool:
    """Whether it is what is quoted, or the same on another machine or by another method."""
    counted = quote.metric == CPU and effect.metric == INSTRUCTIONS
    return alike(effect.case, quote.case) and (effect.metric == quote.metric or counted)
