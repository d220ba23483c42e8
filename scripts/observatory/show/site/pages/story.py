"""The story of a release: its quoted size, before and after, the code, and how sure that is."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core.comparison import Comparison, Finding, PackageChange
from duetbench.core.metrics import CPU, INSTRUCTIONS, METRICS, row
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.judge.findings import of_effects
from duetbench.report import formats
from duetbench.report.attribution import RowText
from duetbench.report.change import share_effect
from observatory.show import addresses, quoting
from observatory.show.changes import ChangeText, commands, describe
from observatory.show.site.charts import TONES, Caption, Dot, Scale, forest
from observatory.show.site.pages.site import Site, explanations
from observatory.show.site.pages.trends import alike, trend_around
from observatory.show.site.words import day
from observatory.store.change import Change, SeriesName, finding_on
from observatory.trend.quotes import Quote, sides
from observatory.trend.releases import ReleaseEffect, Result
from observatory.trend.table import KINDS

MOST: Final = 9
"""Most measurements below a quoted size."""
_ROWS: Final = 5  # of what one request does
_REACH: Final = 1.25  # times the largest change: room for intervals


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """A release in a list: its quote, drawn, and the function behind it."""

    quote: Quote
    bar: Markup
    code: RowText | None
    state: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A change as the nights showed it: its chart, the packages that moved, how to repeat it."""

    text: ChangeText
    trend: Markup | None
    packages: Sequence[tuple[PackageChange, str]]
    shares: Sequence[str]
    commands: Sequence[tuple[str, str]]

    @property
    def record(self) -> Change:
        return self.text.record


@dataclass(frozen=True, slots=True)
class RequestTable:
    """What one request does differently, by one comparison: rows of a table, from base to head."""

    comparison: Comparison
    what: str
    rows: tuple[tuple[str, ...], ...]

    @property
    def first(self) -> tuple[tuple[str, ...], ...]:
        return self.rows[:_ROWS]


def rows(site: Site, quotes: Sequence[Quote]) -> list[ReleaseRow]:
    """Return a row for each release, all drawn on one scale."""
    reach = _REACH * max((abs(quote.ratio.estimate - 1) for quote in quotes), default=1.0)
    return [
        ReleaseRow(quote, bar(quote.ratio, quote.verdict, reach), function(site, quote), state)
        for quote in quotes
        for state in [still_there(site, quote)]
    ]


def still_there(site: Site, quote: Quote) -> str:
    """Say whether the nights still show a slowdown; empty if they do not know the release."""
    states = {record.status for record in site.changes if site.quote(record) == quote}
    if quote.verdict is not Verdict.WORSE or not states:
        return ""
    return "still there" if "open" in states else "undone, or accepted"


def bar(ratio: Interval, verdict: Verdict, reach: float = 1.0) -> Markup:
    """Draw a size, up to `reach`, to the left if it is better, and to the right if it is worse."""
    scale, sign = Scale(-reach, reach), 1 if verdict is Verdict.WORSE else -1

    def at(end: float) -> float:
        away = abs(end - 1) * (1 if (end > 1) == (ratio.estimate > 1) else -1)
        return float(scale.at(sign * away).rstrip("%"))

    zero, end = at(1.0), at(ratio.estimate)
    low, high = ratio.ends or (ratio.estimate,) * 2
    svg = (
        f'<svg class="bar {TONES.get(verdict, "open")}" width="100%" height="20" '
        f'aria-hidden="true"><line class="zero" x1="{zero}%" x2="{zero}%" y2="20"/>'
        f'<rect x="{min(zero, end):.2f}%" y="5" width="{abs(end - zero):.2f}%" height="10"/>'
        f'<line class="whisker" x1="{at(low):.2f}%" x2="{at(high):.2f}%" y1="10" y2="10"/></svg>'
    )
    return Markup(svg)  # noqa: S704 - numbers and our own names only


def function(site: Site, quote: Quote) -> RowText | None:
    """Return the function that moved most with a release's effect on requests.

    Functions of other packages that moved are left out, unless they can only move together.
    """
    if quote.metric == "start_cpu":
        return None
    name, version = quote.key
    causes = ({one.package for one in share.releases} for c in site.changes for share in c.shares)
    together = {name}.union(*(packages for packages in causes if name in packages))
    for text in explanations(site.changes, quote.key):
        if text.releases[0].version != version:
            continue  # it counts a change that is mostly another release's
        moved = {move.package for move in text.record.packages} - together
        change = text.record.instructions.head - text.record.instructions.base
        for row_ in text.rows:
            with_it = (row_.row.head - row_.row.base) * change > 0
            if with_it and row_.row.package not in moved:
                return row_
    return None


def request_table(
    site: Site, quote: Quote | None, evidence: str | None = None
) -> RequestTable | None:
    """Return what one request does differently since a release, or in a change's evidence.

    The newest observation of each case counts, that of the quoted case first. None: nothing
    differs, or nothing was observed.
    """
    alone = (
        comparison
        for comparison in site.comparisons.values()
        if quote and (comparison.base.label, comparison.head.label) == sides(quote)
    )
    confirming = filter(None, [site.comparisons.get(evidence or "")])
    newest: dict[str, RequestTable] = {}
    for comparison in chain(alone, confirming):
        for case in comparison.cases:
            if case.effects:
                moved = (f for f in of_effects(case.case, case.effects) if f.moved)
                rows = tuple(_effects(moved))
                what = case_names.of(case.case).what
                newest.setdefault(case.case.id, RequestTable(comparison, what, rows))
    names = sorted(newest, key=lambda name: quote is None or name != quote.case)
    return next((newest[name] for name in names if newest[name].rows), None)


def _effects(findings: Iterable[Finding]) -> Iterator[tuple[str, str, str, str]]:
    """Make a row of each difference: what, before, after, its text; and one of each detail."""
    for finding in findings:
        ends = (finding.base, finding.head)
        old, new = ("" if end is None else row(finding.subject).format(end) for end in ends)
        text = "   ".join(filter(None, (finding.text, finding.place)))
        yield row(finding.subject).noun, old, new, text
        for detail in finding.details:
            yield "", "", "", detail


def trace(site: Site, record: Change, chart: str = "") -> Trace:
    """Return how a change was found; `chart` is the id of its chart in the page, if it has one."""
    name = record.series
    known = filter(None, (site.tables.get((name.machine, kind)) for kind in KINDS))
    trends = (trend_around(site, table, record, chart) for table in known if chart)
    return Trace(
        text=describe(record),
        trend=next(filter(None, trends), None),
        packages=sorted(
            ((move, record.blame(move)) for move in record.packages),
            key=lambda pair: (pair[1] == "no", pair[1] != "yes", pair[0].package),
        ),
        shares=tuple(map(share_effect, record.shares)),
        commands=commands(record),
    )


def before_after(site: Site, quote: Quote) -> tuple[str, str] | None:
    """Return the absolute figures of both releases, measured beside the same anchor."""
    for _, result in _on(site, quote):
        point = result.base.point(quote.case, quote.metric)
        if point and point.anchor and quote.metric in METRICS:
            base = point.anchor * point.ratio
            ends = (base, base * quote.ratio.estimate)
            before, after = (formats.figure(quote.metric, end) for end in ends)
            return before, after
    return None


def _on(site: Site, quote: Quote) -> Iterator[tuple[str, Result]]:
    """Return what a release did on each machine, that of its quote first."""
    axes = site.packages[quote.package].axes if quote.package in site.packages else ()
    for axis in sorted(axes, key=lambda axis: axis.machine.id != quote.machine):
        if result := site.effects[axis].get(quote.version):
            yield axis.machine.id, result


def measurements(site: Site, quote: Quote, root: str) -> tuple[Markup, str]:
    """Draw all effects of a release, the quoted one first; and count those that repeat it."""
    label = f"{quote.previous or 'before'} → {quote.version}, {_where(quote.case, quote.machine)}"
    first = _dot(label, quote.metric, quote.ratio, quote.verdict)
    repeats = (dot for dot in _repeats(site, quote, root) if dot.ratio != first.ratio)
    others = [*repeats][: MOST - 1]
    title = quoting.place(quote).partition(":")[0]
    about = Caption("sure", title, "Change with its 95 % interval.")
    groups = {
        "Quoted: this release alone": [first],
        "The same, in other ways": others,
        "What else it did": [*_further(site, quote)][:MOST],
    }
    drawn = {title: dots for title, dots in groups.items() if dots}
    rose = [dot.drawn.estimate > 1 for dot in (first, *others) if dot.drawn]
    count = formats.quantity(len(rose), "measurement")
    agreed = ", one answer" if len(rose) > 1 and len({*rose}) == 1 else ""
    return forest(about, drawn, repeats="measurements"), f"{count}{agreed}"


def _further(site: Site, quote: Quote) -> Iterator[Dot]:
    """Return what else a release moved, on any machine, the largest first."""
    moved = [
        (machine, effect)
        for machine, result in _on(site, quote)
        for effect in result.effects
        if effect.moved and not _is_repeated(effect, quote)
    ]
    for machine, effect in sorted(moved, key=lambda pair: -pair[1].size):
        what, where = case_names.name(effect.case).what, _where(effect.case, machine)
        yield _effect(f"{quoting.title(effect.metric)}: {what}, {where}", effect)


def _repeats(site: Site, quote: Quote, root: str) -> Iterator[Dot]:
    own = (quote.case, quote.metric, quote.machine)
    for machine, result in _on(site, quote):
        for effect in result.effects:
            if (effect.case, effect.metric, machine) != own and _is_repeated(effect, quote):
                how = "" if effect.metric == quote.metric else f"{quoting.title(effect.metric)}, "
                yield _effect(f"Alone, {how}{_where(effect.case, machine)}", effect)
    series = SeriesName(machine="", case=quote.case, metric=quote.metric)
    for comparison in site.comparisons.values():
        if (comparison.base.label, comparison.head.label) != sides(quote):
            continue
        finding = finding_on(comparison, series)
        if finding and finding.interval:
            yield _dot(
                f"Both side by side, {day(comparison.started)}, {comparison.machine.id}",
                quote.metric,
                finding.interval,
                finding.verdict,
                root + addresses.comparison(comparison.id),
            )
    for record in site.changes:
        series_of = record.series
        first = next(iter(record.releases), None)
        if first and (first.package, first.version) == quote.key and series_of.metric in {
            quote.metric, "throughput",
        }:  # fmt: skip
            how = "" if series_of.metric == quote.metric else f"{quoting.title(series_of.metric)}, "
            days = [state.as_of for state in (record.base, record.head) if state.as_of]
            stacks = f"All packages as of {' and '.join(days)}" if days else "All packages"
            yield _dot(
                f"{stacks}, {how}{_where(series_of.case, record.measured_on)}",
                series_of.metric,
                record.interval,
                record.verdict,
                "#nights",
            )


def _is_repeated(effect: ReleaseEffect, quote: Quote) -> bool:
    """Whether it is what is quoted, or the same on another machine or by another method."""
    counted = quote.metric == CPU and effect.metric == INSTRUCTIONS
    return alike(effect.case, quote.case) and (effect.metric == quote.metric or counted)


def _where(case: str, machine: str) -> str:
    name = case_names.name(case)
    return ", ".join(filter(None, (name.server, name.python, machine)))


def _effect(label: str, effect: ReleaseEffect) -> Dot:
    dot = _dot(label, effect.metric, effect.ratio, effect.verdict or Verdict.UNKNOWN)
    if effect.levels is None:
        return dot
    return replace(dot, note="levels of {} and {} {}".format(*effect.levels, effect.samples))


def _dot(label: str, metric: str, ratio: Interval, verdict: Verdict, href: str = "") -> Dot:
    word = "counted" if metric == INSTRUCTIONS else ""
    mirror = row(metric).better == "higher"
    return Dot(label, ratio, verdict, word=word, href=href, mirror=mirror)
