"""The story of a release: its quoted size, before and after, the code, and how sure that is."""

from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from duetbench.app import case_names
from duetbench.core.comparison import Comparison
from duetbench.core.metrics import CPU, INSTRUCTIONS, METRICS
from duetbench.core.metrics import row as row_of
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.report import formats
from duetbench.report.attribution import RowText
from duetbench.report.findings import announce
from observatory.show import addresses, quoting
from observatory.show.claims import inverse
from observatory.show.site.charts import TONES, PlotRow, around, bar
from observatory.show.site.site import Site
from observatory.show.site.trends import alike
from observatory.show.site.words import day, fill
from observatory.store.change import Change
from observatory.trend.quotes import Quote, sides
from observatory.trend.releases import START, ReleaseAxis, ReleaseEffect, Result

_MOST: Final = 9  # measurements of a kind below a quoted size
_REACH: Final = 1.25  # times the largest change: room for intervals

ReleaseRow = tuple[Quote, Markup, RowText | None, str]
"""A release in a list: its quote, drawn, the function behind it, and whether it is still there."""


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


def request(
    site: Site, quote: Quote | None, record: Change | None
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


def _is_alone(comparison: Comparison, quote: Quote | None) -> bool:
    """Whether it compares a release with the one before, and nothing else."""
    labels = comparison.base.label, comparison.head.label
    return quote is not None and labels == sides(quote)


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
    effects = [
        (axis.machine.id, effect)
        for axis, result in results(site, quote)
        for effect in result.effects
    ]
    repeats = [_effect(*pair, "Alone, ", quote) for pair in effects if _repeats(pair[1], quote)]
    repeats += _compared(site, quote, root)
    repeats = [row for row in repeats if row.drawn != quoted.drawn][: _MOST - 1]
    further = [pair for pair in effects if pair[1].moved and not _repeats(pair[1], quote)]
    further.sort(key=lambda pair: -pair[1].size)
    groups = {
        "Quoted: this release alone": [quoted],
        "The same, in other ways": repeats,
        "What else it did": [_effect(*pair) for pair in further[:_MOST]],
    }
    drawn = {title: rows for title, rows in groups.items() if rows}
    scale = around([row.drawn for rows in drawn.values() for row in rows if row.drawn])
    title = quoting.place(quote).partition(":")[0]
    about = {"id": "sure", "title": title, "caption": "Change with its 95 % interval."}
    words = {"figure": "change", "samples": "measurements"}
    plot = fill("forest.html.j2", about=about, groups=drawn, scale=scale, **words)
    rose = [row.drawn.estimate > 1 for row in (quoted, *repeats) if row.drawn]
    agreed = ", one answer" if len(rose) > 1 and len({*rose}) == 1 else ""
    return plot, f"{formats.quantity(len(rose), 'measurement')}{agreed}"


def _repeats(effect: ReleaseEffect, quote: Quote) -> bool:
    """Whether it is what is quoted, or the same on another machine or by another method."""
    counted = quote.metric == CPU and effect.metric == INSTRUCTIONS
    return alike(effect.case, quote.case) and (effect.metric == quote.metric or counted)


def _effect(
    machine: str, effect: ReleaseEffect, how: str = "", quote: Quote | None = None
) -> PlotRow:
    """Make the row of an effect; beside a quote, without what they have in common."""
    if quote is None:
        what = case_names.name(effect.case).what
        how = f"{quoting.title(effect.metric)}: {what}, "
    elif effect.metric != quote.metric:
        how += f"{quoting.title(effect.metric)}, "
    note = "levels of {} and {} releases".format(*effect.levels) if effect.levels else ""
    label, verdict = f"{how}{_where(effect.case, machine)}", effect.verdict or Verdict.UNKNOWN
    return _row(label, effect.metric, effect.ratio, verdict, note=note)


def _compared(site: Site, quote: Quote, root: str) -> Iterator[PlotRow]:
    """Return the rows of duets of both releases, newest first."""
    for comparison in site.comparisons.values():
        finding = comparison.of(quote.case, quote.metric)
        if finding and finding.interval and _is_alone(comparison, quote):
            label = f"Both side by side, {day(comparison.started)}, {comparison.machine.id}"
            href = root + addresses.comparison(comparison.id)
            yield _row(label, quote.metric, finding.interval, finding.verdict, href=href)


def _where(case: str, machine: str) -> str:
    name = case_names.name(case)
    return ", ".join(filter(None, (name.server, name.python, machine)))


def _row(
    label: str, metric: str, ratio: Interval, verdict: Verdict, *, href: str = "", note: str = ""
) -> PlotRow:
    """Make a row; better is left, so where more is better, the reciprocal is drawn."""
    drawn = inverse(ratio) if row_of(metric).better == "higher" else ratio
    word = "counted" if metric == INSTRUCTIONS else verdict.text
    tone, size = TONES.get(verdict, "open"), formats.change(ratio)
    return PlotRow(label, tone, drawn, word, size, formats.ends(ratio), note, href)
