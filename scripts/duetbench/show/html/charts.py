"""Interval plots: tables with a drawing in each row.

The interval plot is the customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479).
Its places are per cent of the cell's width, so one drawing fits every page. Pure.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from markupsafe import Markup, escape

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.show import formats
from duetbench.show.html.words import drawing

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

STYLES: Final = 10
"""Styles of series: five colours (Okabe and Ito's) in the stylesheet, first with full lines, then
with dashes."""
TONES: Final = {Verdict.WORSE: "worse", Verdict.BETTER: "better", Verdict.SAME: "same"}
"""CSS classes of verdicts; all others have the class `open`."""

_LEAST_CHANGE: Final = 0.01  # either side of "no change": noise must not look large
_REACH: Final = 2.5  # times the largest figure: farther ceilings would squeeze the figures
_TICKS: Final = 5
_MARGIN: Final = 2.0  # per cent of the width on either side: room for a mark
_DIAMOND: Final = '<path class="published" d="M0-5L5 0 0 5-5 0z"/>'
_MARKS: Final = (
    '<circle class="dot{}" r="4.5"/>',
    '<path class="dot{}" d="M-4-4h8v8h-8z"/>',
    '<path class="dot{}" d="M0-5.5L5 4H-5z"/>',
    '<path class="dot{}" d="M0 5.5L5-4H-5z"/>',
    '<path class="dot{}" d="M-4-4h8L-4 4h8z"/>',
)


@dataclass(frozen=True, slots=True)
class Caption:
    """The id of a chart on its page, its title, and how to read it."""

    id: str
    title: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What an axis shows, and how its figures are written.

    `script` is the name of the format in formats.js, or the unit if formats.js lacks the format.
    """

    title: str
    format: units.Formatter
    script: str = ""

    @classmethod
    def of(cls, metric: str) -> "Quantity":
        row = METRICS[metric]
        return cls(row.title, row.format, row.format.name)

    def figure(self, figure: Interval) -> str:
        """Write a figure, with no more digits than its interval has."""
        return formats.change(figure) if self is CHANGE else self.format(figure.estimate)

    def interval(self, figure: Interval | None) -> str:
        """Write an interval: `±1.2 %`, or `lo…hi` if it is wide; empty if there is none."""
        return formats.ends(figure) if self is CHANGE else formats.spread(self.format, figure)


CHANGE: Final = Quantity("change", formats.percent)
"""A ratio, shown as a change: the middle of its axis is "no change"."""


@dataclass(frozen=True, slots=True)
class Value:
    """A figure with its ceiling and published figure, or the reason why it is missing.

    Attributes:
        figure: None if it is missing; `note` has the reason.
        ceiling: The most that arithmetic allows.
        valid: Whether it may be judged; if not, its mark is hollow.
        note: Its flags, or why it is missing.
    """

    figure: Interval | None
    ceiling: float | None = None
    published: float | None = None
    valid: bool = True
    note: str = ""

    @property
    def remark(self) -> str:
        """Return its flags or why it is missing, after "not judged" if it is not valid."""
        doubt = "" if self.valid or self.figure is None else "not judged"
        return ": ".join(filter(None, (doubt, self.note)))


@dataclass(frozen=True, slots=True)
class Dot:
    """One row of an interval plot.

    Attributes:
        series: Determines colour and marker, unless it is empty.
        verdict: Of a change; it determines the colour.
        samples: The samples behind the figure, drawn as small dots.
        mirror: Whether more is better: it is drawn on the other side of "no change", so that of all
            rows the left side is better.
    """

    label: str
    value: Value
    series: str = ""
    href: str = ""
    verdict: Verdict | None = None
    word: str = ""
    samples: tuple[float, ...] = ()
    mirror: bool = False

    @property
    def drawn(self) -> Interval | None:
        """The figure as it is drawn: of a mirrored row the reciprocal."""
        figure = self.value.figure
        if figure is None or not self.mirror:
            return figure
        low, high = figure.ends or (None, None)
        return Interval(
            1 / figure.estimate, 1 / high if high else None, 1 / low if low else None, figure.n
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps figures to per cent of the width; figures beyond the axis stay at its edge."""

    low: float
    high: float
    zero: float = 0.0

    def at(self, value: float) -> str:
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_MARGIN + (100 - 2 * _MARGIN) * share:.2f}%"

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        """Return about five ticks: `zero` plus multiples of 1, 2 or 5 times a power of ten."""
        low, high = self.low - self.zero, self.high - self.zero
        power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
        step = next(
            power * by for by in (1, 2, 5, 10) if power * by >= (high - low) / _TICKS * 0.999
        )
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [self.zero + index * step for index in range(first, last + 1)]


def styles(names: Iterable[str]) -> dict[str, int]:
    """Give each name of a chart a style, in alphabetical order."""
    return {name: place % STYLES for place, name in enumerate(sorted(set(names)))}


def group(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    """Collect the values of each key; keys and values keep their order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


def forest(
    about: Caption,
    quantity: Quantity,
    groups: Mapping[str, Sequence[Dot]],
    *,
    repeats: str = "",
    notes: str = "note",
) -> Markup:
    """Draw a row for each figure, in the given order; a missing figure's row has the reason.

    `groups`: rows to compare, by title, which may be empty. `repeats`: what intervals are over.
    `notes`: what the rows' notes are.
    """
    dots = [dot for group in groups.values() for dot in group]
    values = [dot.value for dot in dots]
    scale, style = scale_of(quantity, dots), styles(dot.series for dot in dots)
    rows = {
        title: [
            (
                dot,
                TONES.get(dot.verdict, "open") if dot.verdict else f"s{style[dot.series]}",
                _picture(dot, scale, style[dot.series]) if scale else "",
                quantity.figure(dot.value.figure) if dot.value.figure else "—",
                quantity.interval(dot.value.figure),
                further(quantity, dot.value),
            )
            for dot in group
        ]
        for title, group in groups.items()
    }
    return drawing(
        "forest.html.j2",
        about=about,
        title=quantity.title,
        axis=_axis(quantity, scale) if scale else "",
        sides=quantity is CHANGE and any(dot.verdict for dot in dots),
        rows=rows,
        words=any(dot.word for dot in dots),
        further=any(row[-1] for group in rows.values() for row in group),
        series=_series(style) if len(style) > 1 and {dot.label for dot in dots} != {*style} else [],
        drawn=scale is not None,
        interval=any(value.figure and value.figure.ends for value in values),
        sample=any(dot.samples for dot in dots),
        ceiling=any(value.ceiling for value in values),
        published=any(value.published for value in values),
        hollow=not all(value.valid for value in values),
        notes=notes,
        repeats=repeats or ("duets" if quantity is CHANGE else "launches"),
    )


def _series(style: Mapping[str, int]) -> list[tuple[int, str, Markup]]:
    shapes = (_mark("14", 7, _MARKS[number % len(_MARKS)].format("")) for number in style.values())
    pairs = zip(style.items(), shapes, strict=True)
    return [(number, name, Markup(shape)) for (name, number), shape in pairs]  # noqa: S704 - ours


def scale_of(quantity: Quantity, dots: Iterable[Dot]) -> Scale | None:
    """Return an interval plot's axis, which begins at zero or has "no change" in its middle."""
    values = [dot.value for dot in dots if dot.value.figure]
    figures = [figure for dot in dots if (figure := dot.drawn)]
    if not figures:
        return None
    if quantity is CHANGE:
        half = max(_LEAST_CHANGE, 1.15 * formats.reach(figures))
        return Scale(max(1 - half, 0.0), 1 + half, 1.0)  # no ratio is below zero
    inner = [end for interval in figures for end in (interval.estimate, *(interval.ends or ()))]
    beside = [end for value in values for end in (value.ceiling, value.published) if end]
    ends = [*inner, *(end for end in beside if end <= _REACH * max(inner))]
    return Scale(0.0, 1.06 * max(ends) or 1.0)


def _picture(dot: Dot, scale: Scale, style: int) -> Markup:
    value, parts = dot.value, []
    for tick in scale.ticks:
        kind = "zero" if abs(tick - scale.zero) < 1e-12 else "grid"
        parts.append(_line(kind, scale.at(tick), scale.at(tick), 0, 26))
    if figure := dot.drawn:
        for sample in dot.samples:
            at = scale.at(1 / sample if dot.mirror else sample)
            parts.append(f'<circle class="sample" cx="{at}" cy="13" r="2"/>')
        if figure.ends:
            low, high = figure.ends
            parts.append(_line("whisker", scale.at(low), scale.at(high), 13, 13))
            # An interval that extends beyond the axis ends in an arrow.
            for end, tip in ((low, 6), (high, -6)):
                if not scale.holds(end):
                    arrow = f'<path class="whisker" d="M{tip} -4L0 0 {tip} 4"/>'
                    parts.append(_mark(scale.at(end), 13, arrow))
        if value.ceiling is not None and scale.holds(value.ceiling):
            parts.append(_line("ceiling", scale.at(value.ceiling), scale.at(value.ceiling), 4, 22))
        marks = [(value.published, _DIAMOND)] if value.published is not None else []
        hollow = "" if value.valid else " hollow"
        marks.append((figure.estimate, _MARKS[style % len(_MARKS)].format(hollow)))
        parts += [_mark(scale.at(at), 13, mark) for at, mark in marks if scale.holds(at)]
    svg = f'<svg class="row" width="100%" height="26" aria-hidden="true">{"".join(parts)}</svg>'
    return Markup(svg)  # noqa: S704 - numbers and our own names only


def _line(kind: str, x1: str, x2: str, y1: int, y2: int) -> str:
    return f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>'


def _mark(x: str, y: int, shape: str) -> str:
    return f'<svg x="{x}" y="{y}" overflow="visible">{shape}</svg>'


def _axis(quantity: Quantity, scale: Scale) -> Markup:
    """Label the ticks; the first and the last label stay inside the drawing."""
    ticks = scale.ticks
    texts = []
    for tick in ticks[:: 2 if len(ticks) > 4 else 1]:
        share = float(scale.at(tick).rstrip("%"))
        anchor = "start" if share < 8 else "end" if share > 92 else "middle"
        beside = tick - scale.zero
        written = f"{100 * beside:+.6g} %" if quantity is CHANGE else quantity.format(tick)
        text = escape("0" if abs(beside) < 1e-12 else written.replace("-", "−"))
        texts.append(f'<text x="{share:.2f}%" y="14" text-anchor="{anchor}">{text}</text>')
    svg = f'<svg class="row" width="100%" height="18" aria-hidden="true">{"".join(texts)}</svg>'
    return Markup(svg)  # noqa: S704 - escaped above


def further(quantity: Quantity, value: Value) -> str:
    """Write what else is known of a figure: its ceiling, the published one, a note."""
    parts = [
        f"{name} {quantity.format(figure)}"
        for name, figure in (("published", value.published), ("ceiling", value.ceiling))
        if figure is not None
    ]
    return "; ".join(filter(None, (*parts, value.remark)))
