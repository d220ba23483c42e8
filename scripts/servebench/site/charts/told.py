"""What the marks of a trend say: put into words once, for both drawings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from servebench.report.comparison import words
from servebench.site.charts import text, timeline
from servebench.site.charts.data import Quantity, sentence
from servebench.site.charts.history import Event, Trend, TrendPoint
from servebench.site.charts.scale import day_text
from servebench.site.charts.shapes import Marker
from servebench.site.charts.thinning import Bin
from servebench.site.charts.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Datum:
    """A mark for a figure, but for its place, which differs from drawing to drawing.

    Attributes:
        at: Its time, s since 1970.
        value: The figure that tells its height; None: there is none.
        say: The datum as a sentence.
        look: CSS classes of its symbol.
        marker: The symbol.
        kind: CSS classes of the mark.
        href: Where it leads.
    """

    at: float
    value: float | None
    say: str
    look: str
    marker: Marker = "circle"
    kind: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """All marks of a trend.

    Attributes:
        figures: Figures, flagged ones and gaps, from left to right.
        breaks: Times and sentences.
        bumps: Times and sentences.
        changes: Labels and sentences, in the order of the timeline's.
    """

    figures: tuple[Datum, ...]
    breaks: tuple[tuple[float, str], ...]
    bumps: tuple[tuple[float, str], ...]
    changes: tuple[tuple[str, str], ...]


def told(data: Trend, line: Timeline) -> Told:
    """Put all marks into words."""
    figures = [
        *(_bin(data, each) for each in line.bins),
        *(_flagged(data.quantity, group) for group in line.flagged),
        *map(_gap, line.gaps),
    ]
    return Told(
        figures=tuple(sorted(figures, key=lambda each: each.at)),
        breaks=tuple(_happened(group, "not comparable with before: ") for group in line.breaks),
        bumps=tuple(_happened(group, "") for group in line.bumps),
        changes=tuple(
            (
                f"{words.MARKS[change.verdict]} {words.percent(change.ratio.mean)}",
                text.clip(timeline.sentence_of(change)),
            )
            for change in line.changes
        ),
    )


def _bin(data: Trend, each: Bin) -> Datum:
    point = data.points[each.index]
    if each.size == 1:
        say = f"{day_text(each.at)}: {sentence(data.quantity, point.value)}"
    else:
        days = f"{day_text(each.start)} to {day_text(each.end)}"
        say = f"{days}: median of {each.size} runs {data.quantity.format(each.mean)}"
    return Datum(each.at, each.mean, text.clip(say), "dot", href=point.href)


def _flagged(quantity: Quantity, group: Sequence[TrendPoint]) -> Datum:
    first = group[0]
    at = first.time.timestamp()
    say = f"{day_text(at)}: {sentence(quantity, first.value)}{_more(group)}"
    value = first.value.mean or 0.0
    return Datum(at, value, text.clip(say), "dot hollow", kind="flagged", href=first.href)


def _gap(group: Sequence[TrendPoint]) -> Datum:
    first = group[0]
    at = first.time.timestamp()
    say = f"{day_text(at)}: no figure: {first.value.note}{_more(group)}"
    return Datum(at, None, text.clip(say), "missing-mark", "cross", "gap", first.href)


def _happened(group: Sequence[Event], before: str) -> tuple[float, str]:
    at = group[0].time.timestamp()
    labels = "; ".join(event.label for event in group)
    return at, text.clip(f"{day_text(at)}: {before}{labels}")


def _more(group: Sequence[TrendPoint]) -> str:
    if len(group) == 1:
        return ""
    return f"; and {len(group) - 1} more until {day_text(group[-1].time.timestamp())}"
