"""Forest plots: ratios with their intervals, one line each, and a line where nothing changed. Pure.

The customary picture of many ratios (Lewis & Clarke, BMJ 2001;322:1479), in the look of the
comparison report's (report/comparison/forest.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from servebench import units
from servebench.compare.model import Comparison, Verdict
from servebench.report.comparison import words
from servebench.report.comparison.forest import MARKS
from servebench.report.comparison.view import make_view
from servebench.site.charts import figure, shapes, text
from servebench.site.charts.data import About, Quantity, Value, check_href
from servebench.site.charts.figure import Chart, Key
from servebench.site.charts.lanes import Lanes, lanes, lying_axis, row_texts
from servebench.site.charts.scale import Axis, Scale, value_axis
from servebench.site.charts.shapes import (
    NARROW,
    WIDE,
    Drawing,
    Line,
    Mark,
    Path,
    Shape,
    Text,
    symbol,
)

_LEAST: Final = 0.01  # to each side, so that noise does not look like a landslide
_TOP: Final = 24.0
_BOTTOM: Final = 44.0
_TONES: Final = {
    Verdict.SLOWER: "worse",
    Verdict.FASTER: "better",
    Verdict.NO_CHANGE: "same",
    Verdict.INCONCLUSIVE: "open",
    Verdict.NOT_COMPARABLE: "open",
}
_CHANGE: Final = Quantity("change", lambda value: words.percent(1 + value))


@dataclass(frozen=True, slots=True)
class Effect:
    """One ratio, head over base, with its verdict.

    Attributes:
        label: What was compared.
        ratio: The ratio with its interval.
        verdict: What is said of it.
        word: The verdict in words, with its mark.
        href: Where more about it is.
    """

    label: str
    ratio: Value
    verdict: Verdict
    word: str
    href: str = ""

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True)
class Forest:
    """A whole forest plot; the first rows are the ones that are drawn if there are too many."""

    about: About
    effects: tuple[Effect, ...]


def of_comparison(about: About, comparison: Comparison) -> Forest:
    """The rows of a comparison: what moved first, then what is open, then the rest."""
    view = make_view(comparison)
    return Forest(
        about,
        tuple(
            Effect(
                label=f"{row.case} · {row.label}",
                ratio=_ratio(row.judged.ratio, row.judged.low, row.judged.high, row.judged.reason),
                verdict=row.judged.verdict,
                word=row.verdict,
            )
            for row in view.groups.all
        ),
    )


def forest(data: Forest) -> Chart:
    """Draw the plot. Rows without a ratio stand in the table alone, and are counted."""
    drawable = [effect for effect in data.effects if effect.ratio.mean is not None]
    shown = drawable[:MARKS]
    notes = []
    if len(drawable) > len(shown):
        notes.append(
            f"{len(drawable) - len(shown)} of {len(drawable)} rows are not drawn; "
            "the table has them."
        )
    if without := len(data.effects) - len(drawable):
        notes.append(f"{without} without a ratio: the table says why.")
    return Chart(
        about=data.about,
        kind="forest",
        wide=_draw(shown, WIDE),
        narrow=_draw(shown, NARROW),
        table=figure.table(
            ("row", "verdict", "change", "95 % interval", "note"),
            (
                (figure.linked(effect.label, effect.href), effect.word,
                 words.percent(effect.ratio.mean), _interval(effect.ratio), effect.ratio.note)
                for effect in data.effects
            ),
            words=2,
        ),
        legend=tuple(_legend(shown)),
        notes=tuple(notes),
    )  # fmt: skip


def tone(verdict: Verdict) -> str:
    """The CSS class of a verdict: worse, better, same or open."""
    return _TONES[verdict]


def reach(ratios: Iterable[Value]) -> float:
    """Half the axis' width as a relative change: all estimates, and nine of ten intervals whole."""
    found = [ratio for ratio in ratios if ratio.mean is not None]
    ends = [abs(ratio.mean - 1) for ratio in found if ratio.mean is not None]
    widths = sorted(
        max(abs(ratio.low - 1), abs(ratio.high - 1))
        for ratio in found
        if ratio.low is not None and ratio.high is not None
    )
    most = widths[math.ceil(0.9 * len(widths)) - 1] if widths else 0.0
    return max(_LEAST, 1.15 * max([most, *ends, 0.0]))


def _draw(effects: Sequence[Effect], width: float) -> Drawing:
    if not effects:
        return figure.empty(width, "No ratio to draw.")
    figures = [_figure(effect) for effect in effects]
    place = lanes(width, [effect.label for effect in effects], figures)
    half = reach(effect.ratio for effect in effects)
    axis = _percent_axis(Scale(-half, half, place.left, place.right))
    bottom = _TOP + place.row * len(effects) + 4
    zero = axis.scale.at(0.0)
    found: list[Shape | Mark] = [
        *lying_axis(axis, _TOP - 4, bottom),
        Line("zero", zero, _TOP - 4, zero, bottom),
        Text("faint", place.left, 14, "smaller"),
        Text("faint", place.right, 14, "larger", "end"),
    ]
    for row, effect in enumerate(effects):
        top = _TOP + place.row * row
        kind = tone(effect.verdict)
        found += row_texts(place, top, effect.label, _figure(effect), kind=kind)
        found.append(_mark(effect, row, place, axis, top))
    return Drawing(width, bottom + _BOTTOM, tuple(found))


def _mark(effect: Effect, row: int, place: Lanes, axis: Axis, top: float) -> Mark:
    y = place.middle(top)
    x = axis.scale.at((effect.ratio.mean or 1.0) - 1)
    interval = _interval(effect.ratio)
    return Mark(
        say=text.clip(
            f"{effect.label}: {effect.word} {words.percent(effect.ratio.mean)}"
            + (f" ({interval})" if interval else "")
        ),
        series=0,
        point=row,
        x=x,
        y=y,
        shapes=tuple(_dot(effect.ratio, axis.scale, x, y)),
        kind=tone(effect.verdict),
        href=effect.href,
    )


def _dot(ratio: Value, scale: Scale, x: float, y: float) -> Iterator[Shape]:
    if ratio.low is not None and ratio.high is not None:
        yield Line("effect", scale.at(ratio.low - 1), y, scale.at(ratio.high - 1), y)
        # An interval that goes on beyond the axis has an arrow instead of an end.
        if not scale.holds(ratio.low - 1):
            yield Path("effect", f"M{shapes.px(scale.start + 5)} {shapes.px(y - 4)}l-5 4l5 4")
        if not scale.holds(ratio.high - 1):
            yield Path("effect", f"M{shapes.px(scale.end - 5)} {shapes.px(y - 4)}l5 4l-5 4")
    yield Path("effect dot" if ratio.valid else "effect dot hollow", symbol("circle", x, y, 4))


def _percent_axis(scale: Scale) -> Axis:
    """Ticks in per cent; where nothing changed is 0."""
    share = Quantity("change", units.share)
    return value_axis(share, scale, 8, sideways=True)


def _ratio(mean: float | None, low: float | None, high: float | None, reason: str) -> Value:
    if mean is None:
        return Value(None, note=reason or "not judged")
    return Value(mean, low, high, note=reason)


def _figure(effect: Effect) -> str:
    return f"{effect.word} {words.percent(effect.ratio.mean)}"


def _interval(ratio: Value) -> str:
    if ratio.low is None or ratio.high is None:
        return ""
    ends = (_CHANGE.format(end - 1).removesuffix(" %") for end in (ratio.low, ratio.high))
    return "…".join(ends) + " %"


def _legend(effects: Sequence[Effect]) -> Iterator[Key]:
    for verdict in dict.fromkeys(effect.verdict for effect in effects):
        label = f"{words.MARKS[verdict]} {verdict.value}"
        yield Key(label, (Path("effect dot", symbol("circle", 14, 7, 4)),), tone(verdict))
