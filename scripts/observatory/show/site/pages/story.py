"""The story of a release: its quoted size, before and after, the code, and how sure that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core.comparison import Comparison, Finding
from duetbench.core.metrics import CPU, INSTRUCTIONS, METRICS, row
from duetbench.core.model import Verdict
from duetbench.core.units import Interval, signed
from duetbench.judge.findings import of_effects
from duetbench.report import findings, formats
from duetbench.report.attribution import RowText
from observatory.show import addresses, quoting
from observatory.show.claims import inverse
from observatory.show.site.charts import TONES, Caption, PlotRow, around, bar, interval_plot
from observatory.show.site.pages.site import Site
from observatory.show.site.pages.trends import alike
from observatory.show.site.words import day
from observatory.trend.quotes import Quote, sides
from observatory.trend.releases import START, ReleaseAxis, ReleaseEffect, Result

MOST: Final = 9
"""Most measurements below a quoted size."""
_ROWS: Final = 5  # of what one request does
_REACH: Final = 1.25  # times the largest change: room for intervals


ReleaseRow = tuple[Quote, Markup, RowText | None, str]
"""A release in a list: its quote, drawn, the function behind it, and whether it is still there."""


@dataclass(frozen=True, slots=True)
class RequestTable:
    """What one request does differently, by one comparison: the first rows, from base to head."""

    comparison: Comparison
    what: str
    rows: list[tuple[str, str, str]]


def rows(site: Site, quotes: Sequence[Quote]) -> list[ReleaseRow]:
    """Return a row for each release, all drawn on one scale."""
    reach = _REACH * max((abs(quote.ratio.estimate - 1) for quote in quotes), default=1.0)
    return [
        (q, bar(q.ratio, q.verdict, reach), function(site, q), still_there(site, q)) for q in quotes
    ]


def still_there(site: Site, quote: Quote) -> str:
    """Say whether the nights still show a slowdown; empty if they do not know the release."""
    states = {record.status for record in site.changes if site.quote(record) == quote}
    if quote.verdict is not Verdict.WORSE or not states:
        return ""
    return "still there" if "open" in states else "undone, or accepted"


def function(site: Site, quote: Quote) -> RowText | None:
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


def request_table(
    site: Site, quote: Quote | None, evidence: str | None = None
) -> RequestTable | None:
    """Return what one request does differently since a release, or in a change's evidence.

    The newest observation of each case counts, that of the quoted case first. None: nothing
    differs, or nothing was observed.
    """
    known = [*_alone(site, quote)] if quote else []
    known += filter(None, [site.comparisons.get(evidence or "")])
    newest: dict[str, RequestTable] = {}
    for comparison in known:
        for case in comparison.cases:
            if case.effects and case.case.id not in newest:
                moved = [f for f in of_effects(case.case, case.effects) if f.moved]
                lines = [*map(_effect_row, moved[:_ROWS])]
                what = case_names.of(case.case).what
                newest[case.case.id] = RequestTable(comparison, what, lines)
    names = sorted(newest, key=lambda name: quote is None or name != quote.case)
    return next((newest[name] for name in names if newest[name].rows), None)


def _alone(site: Site, quote: Quote) -> Iterator[Comparison]:
    """Return comparisons of a release with the one before, newest first."""
    for comparison in site.comparisons.values():
        if (comparison.base.label, comparison.head.label) == sides(quote):
            yield comparison


def _effect_row(finding: Finding) -> tuple[str, str, str]:
    """Write a difference: what, before and after, and what makes it up."""
    parts = (finding.text, *finding.details, finding.place)
    return findings.noun(finding), findings.figures(finding), "; ".join(filter(None, parts))


def before_after(site: Site, quote: Quote) -> tuple[str, str] | None:
    """Return the absolute figures of both releases, measured beside the same anchor."""
    for _, result in results(site, quote):
        point = result.base.point(quote.case, quote.metric)
        if point and point.anchor and quote.metric in METRICS:
            base = point.anchor * point.ratio
            head = base * quote.ratio.estimate
            return formats.figure(quote.metric, base), formats.figure(quote.metric, head)
    return None


def results(site: Site, quote: Quote) -> Iterator[tuple[ReleaseAxis, Result]]:
    """Return what a release did on each machine, that of its quote first."""
    for axis in sorted(site.effects, key=lambda axis: axis.machine.id != quote.machine):
        if axis.package == quote.package and (result := site.effects[axis].get(quote.version)):
            yield axis, result


def measurements(site: Site, quote: Quote, root: str) -> tuple[Markup, str]:
    """Draw all effects of a release, the quoted one first; and count those that repeat it."""
    label = f"{quote.previous or 'before'} → {quote.version}, {_where(quote.case, quote.machine)}"
    quoted = _row(label, quote.metric, quote.ratio, quote.verdict)
    repeats = [row for row in _repeats(site, quote, root) if row.drawn != quoted.drawn][: MOST - 1]
    groups = {
        "Quoted: this release alone": [quoted],
        "The same, in other ways": repeats,
        "What else it did": [*_further(site, quote)][:MOST],
    }
    drawn = {title: rows for title, rows in groups.items() if rows}
    scale = around([row.drawn for rows in drawn.values() for row in rows if row.drawn])
    about = Caption(
        "sure", quoting.place(quote).partition(":")[0], "Change with its 95 % interval."
    )
    plot = interval_plot(about, drawn, scale, _label, title="change", samples="measurements")
    rose = [row.drawn.estimate > 1 for row in (quoted, *repeats) if row.drawn]
    agreed = ", one answer" if len(rose) > 1 and len({*rose}) == 1 else ""
    return plot, f"{formats.quantity(len(rose), 'measurement')}{agreed}"


def _label(tick: float) -> str:
    return f"{signed(100 * (tick - 1), '.6g')} %" if tick != 1 else "0"


def _further(site: Site, quote: Quote) -> Iterator[PlotRow]:
    """Return what else a release moved, on any machine, the largest first."""
    moved = [
        (axis.machine.id, effect)
        for axis, result in results(site, quote)
        for effect in result.effects
        if effect.moved and not _is_repeated(effect, quote)
    ]
    for machine, effect in sorted(moved, key=lambda pair: -pair[1].size):
        what, where = case_names.name(effect.case).what, _where(effect.case, machine)
        yield _effect(f"{quoting.title(effect.metric)}: {what}, {where}", effect)


def _repeats(site: Site, quote: Quote, root: str) -> Iterator[PlotRow]:
    own = (quote.case, quote.metric, quote.machine)
    for axis, result in results(site, quote):
        for effect in result.effects:
            here = (effect.case, effect.metric, axis.machine.id)
            if here != own and _is_repeated(effect, quote):
                label = f"Alone, {_how(effect.metric, quote)}{_where(effect.case, here[2])}"
                yield _effect(label, effect)
    for comparison in _alone(site, quote):
        finding = comparison.of(quote.case, quote.metric)
        if finding and finding.interval:
            label = f"Both side by side, {day(comparison.started)}, {comparison.machine.id}"
            href = root + addresses.comparison(comparison.id)
            yield _row(label, quote.metric, finding.interval, finding.verdict, href=href)
    for record in site.changes:
        metric = record.series.metric
        if site.quote(record) == quote and metric in {quote.metric, "throughput"}:
            days = " and ".join(state.as_of for state in (record.base, record.head) if state.as_of)
            stacks = f"All packages{' as of ' * bool(days)}{days}"
            where = _where(record.series.case, record.measured_on)
            label = f"{stacks}, {_how(metric, quote)}{where}"
            yield _row(label, metric, record.interval, record.verdict, href="#nights")


def _how(metric: str, quote: Quote) -> str:
    return "" if metric == quote.metric else f"{quoting.title(metric)}, "


def _is_repeated(effect: ReleaseEffect, quote: Quote) -> bool:
    """Whether it is what is quoted, or the same on another machine or by another method."""
    counted = quote.metric == CPU and effect.metric == INSTRUCTIONS
    return alike(effect.case, quote.case) and (effect.metric == quote.metric or counted)


def _where(case: str, machine: str) -> str:
    name = case_names.name(case)
    return ", ".join(filter(None, (name.server, name.python, machine)))


def _effect(label: str, effect: ReleaseEffect) -> PlotRow:
    note = "levels of {} and {} releases".format(*effect.levels) if effect.levels else ""
    return _row(label, effect.metric, effect.ratio, effect.verdict or Verdict.UNKNOWN, note=note)


def _row(
    label: str, metric: str, ratio: Interval, verdict: Verdict, *, href: str = "", note: str = ""
) -> PlotRow:
    """Make a row; better is left, so where more is better, the reciprocal is drawn."""
    drawn = inverse(ratio) if row(metric).better == "higher" else ratio
    word = "counted" if metric == INSTRUCTIONS else verdict.text
    tone, size = TONES.get(verdict, "open"), formats.change(ratio)
    return PlotRow(label, tone, drawn, word, size, formats.ends(ratio), note, href)
