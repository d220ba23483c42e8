"""The interval plot: a table with a row for each figure, drawn in it with its interval.

The customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479). Places are per cent of
the cell's width, so that one drawing fits pages of every size, and the table is its own data. Pure.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from markupsafe import Markup, escape

from duetbench.core import units
from duetbench.core.interval import Interval
from duetbench.core.model import Verdict
from duetbench.show import formats
from duetbench.show.rows import ViewRow
from duetbench.show.site.charts.figure import (
    Caption,
    Quantity,
    Value,
    assign,
    interval,
    note,
)
from duetbench.show.site.words import drawing

TONES: Final = {Verdict.SLOWER: "worse", Verdict.FASTER: "better", Verdict.NO_CHANGE: "same"}
"""CSS classes of verdicts; of others: open."""
CHANGE: Final = Quantity(
    "change",
    lambda value: formats.percent(1 + value),
    span=lambda low, high: formats.ends(Interval(1.0, 1 + low, 1 + high)),
    script="change",
)
"""A ratio less 1."""

_LEAST_CHANGE: Final = 0.01  # to either side of none: noise must not look like a landslide
_REACH: Final = 2.5  # ceilings and published figures further out would squeeze the figures
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
_KEYS: Final = {
    "interval": '<line class="whisker" x1="2" x2="26" y1="7" y2="7"/>',
    "ceiling": '<line class="ceiling" x1="14" x2="14" y2="14"/>',
    "published": f'<svg x="14" y="7" overflow="visible">{_DIAMOND}</svg>',
    "hollow": '<circle class="dot hollow" cx="14" cy="7" r="4.5"/>',
    "sample": '<circle class="sample" cx="14" cy="7" r="2.5"/>',
}


@dataclass(frozen=True, slots=True)
class Dot:
    """One row.

    Attributes:
        series: What gives colour and marker; empty: nothing does.
        verdict: What is said of a change; gives the colour.
        samples: What the figure was made from, drawn small beside it.
    """

    label: str
    value: Value
    series: str = ""
    href: str = ""
    verdict: Verdict | None = None
    word: str = ""
    samples: tuple[float, ...] = ()

    @property
    def tone(self) -> str:
        return TONES.get(self.verdict, "open") if self.verdict else ""


@dataclass(frozen=True, slots=True)
class DotGroup:
    """Rows that are compared with each other; the title may be empty."""

    title: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """A whole chart; its axis begins at zero, or has zero (no change) in its middle.

    Attributes:
        styles: Names of series that look the same on every page, and their styles.
    """

    about: Caption
    quantity: Quantity
    groups: tuple[DotGroup, ...]
    axis: Literal["zero", "change"] = "zero"
    styles: Mapping[str, int] = field(default_factory=dict)

    @property
    def dots(self) -> list[Dot]:
        return [dot for group in self.groups for dot in group.dots]


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps figures to per cent of the width; what is beyond stays at the edge."""

    low: float
    high: float

    def at(self, value: float) -> str:
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_MARGIN + (100 - 2 * _MARGIN) * share:.2f}%"

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten, about five of them."""
        rough = (self.high - self.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


def change(label: str, ratio: Value, verdict: Verdict, word: str, href: str = "") -> Dot:
    """A row of a ratio, as a change."""
    if ratio.mean is not None:
        low, high = (end - 1 for end in ratio.ends) if ratio.ends else (None, None)
        ratio = replace(ratio, mean=ratio.mean - 1, low=low, high=high)
    return Dot(label, ratio, href=href, verdict=verdict, word=word)


def forest(data: Forest) -> Markup:
    """Draw one row for each figure, in the order given; in the place of none stands why."""
    scale, dots = scale_of(data), data.dots
    styles = _styles(data)
    rows = [
        (
            group.title,
            [
                (
                    dot,
                    f"s{styles[dot.series]}" if not dot.tone else dot.tone,
                    picture(dot, scale, styles[dot.series]) if scale else "",
                    "—" if dot.value.mean is None else data.quantity.format(dot.value.mean),
                    interval(data.quantity, dot.value),
                    _further(data.quantity, dot.value),
                )
                for dot in group.dots
            ],
        )
        for group in data.groups
    ]
    return drawing(
        "forest.html.j2",
        about=data.about,
        title=data.quantity.title,
        axis=_axis(data, scale) if scale else "",
        rows=rows,
        words=any(dot.word for dot in dots),
        further=any(_further(data.quantity, dot.value) for dot in dots),
        legend=list(_legend(data, styles)) if scale else [],
    )


def judged(rows: Iterable[ViewRow], address: Callable[[str], str] = lambda _: "") -> Iterator[Dot]:
    """A comparison's rows that have a ratio; `address`: from a case's id to its page, or empty."""
    for row in rows:
        judgement = row.judged
        if judgement.ratio is not None:
            value = Value(judgement.ratio, judgement.low, judgement.high)
            label = f"{row.case} · {row.label}"
            yield change(label, value, judgement.verdict, row.verdict, address(row.case))


def stylesheet() -> str:
    """The part of the site's stylesheet that charts need."""
    return Path(__file__).with_name("charts.css").read_text("utf-8")


def scale_of(data: Forest) -> Scale | None:
    """The axis; None without figures."""
    values = [dot.value for dot in data.dots if dot.value.mean is not None]
    if not values:
        return None
    means = [value.mean for value in values if value.mean is not None]
    if data.axis == "change":
        # It holds all estimates, and nine of ten intervals whole.
        widths = sorted(max(map(abs, value.ends)) for value in values if value.ends)
        sizes = [*map(abs, means), *widths[math.ceil(0.9 * len(widths)) - 1 :][:1]]
        half = max(_LEAST_CHANGE, 1.15 * max(sizes))
        return Scale(max(-half, -1.0), half)  # nothing gets smaller than nothing
    inner = [
        end for value in values for end in (value.mean, *(value.ends or ())) if end is not None
    ]
    beside = [end for value in values for end in (value.ceiling, value.published) if end]
    ends = [*inner, *(end for end in beside if end <= _REACH * max(inner))]
    low, high = min(ends), max(ends)
    if low >= 0:
        return Scale(0.0, 1.06 * high or 1.0)
    pad = 0.06 * (high - low) or 1.0
    return Scale(low - pad, high + pad)


def picture(dot: Dot, scale: Scale, style: int) -> Markup:
    """The drawing of one row."""
    shapes = "".join(
        f'<line class="{"zero" if abs(tick) < 1e-12 else "grid"}" x1="{scale.at(tick)}" '
        f'x2="{scale.at(tick)}" y2="26"/>'
        for tick in scale.ticks
    ) + _shapes(dot, scale, style)
    svg = f'<svg class="row" width="100%" height="26" aria-hidden="true">{shapes}</svg>'
    return Markup(svg)  # noqa: S704 - numbers and our own names only


def _shapes(dot: Dot, scale: Scale, style: int) -> str:
    value, parts = dot.value, []
    if value.mean is None:
        return ""
    for sample in dot.samples:
        parts.append(f'<circle class="sample" cx="{scale.at(sample)}" cy="13" r="2"/>')
    if value.ends:
        low, high = value.ends
        parts.append(
            f'<line class="whisker" x1="{scale.at(low)}" x2="{scale.at(high)}" y1="13" y2="13"/>'
        )
        # An interval that goes on beyond the axis has an arrow instead of an end.
        for end, tip in ((low, 6), (high, -6)):
            if not scale.holds(end):
                arrow = f'<path class="whisker" d="M{tip} -4L0 0 {tip} 4"/>'
                parts.append(f'<svg x="{scale.at(end)}" y="13" overflow="visible">{arrow}</svg>')
    if value.ceiling is not None and scale.holds(value.ceiling):
        x = scale.at(value.ceiling)
        parts.append(f'<line class="ceiling" x1="{x}" x2="{x}" y1="4" y2="22"/>')
    marks = [(value.published, _DIAMOND)] if value.published is not None else []
    hollow = "" if value.valid else " hollow"
    marks.append((value.mean, _MARKS[style % len(_MARKS)].format(hollow)))
    for at, mark in marks:
        if scale.holds(at):
            parts.append(f'<svg x="{scale.at(at)}" y="13" overflow="visible">{mark}</svg>')
    return "".join(parts)


def _axis(data: Forest, scale: Scale) -> Markup:
    """Labels of the ticks; the first and the last one stay inside."""
    write = units.share if data.axis == "change" else data.quantity.format
    ticks = scale.ticks
    step = 2 if len(ticks) > 5 else 1
    texts = []
    for tick in ticks[::step]:
        share = float(scale.at(tick).rstrip("%"))
        anchor = "start" if share < 8 else "end" if share > 92 else "middle"
        text = escape("0" if abs(tick) < 1e-12 else write(tick).replace("-", "−"))
        texts.append(f'<text x="{share:.2f}%" y="14" text-anchor="{anchor}">{text}</text>')
    svg = f'<svg class="row" width="100%" height="18" aria-hidden="true">{"".join(texts)}</svg>'
    return Markup(svg)  # noqa: S704 - escaped above


def _further(quantity: Quantity, value: Value) -> str:
    parts = [
        f"{name} {quantity.format(figure)}"
        for name, figure in (("published", value.published), ("ceiling", value.ceiling))
        if figure is not None
    ]
    return "; ".join(filter(None, (*parts, note(value))))


def _styles(data: Forest) -> dict[str, int]:
    names = dict.fromkeys(dot.series for dot in data.dots)
    return assign(names, data.styles) if len(names) > 1 or "" not in names else {"": 0}


def _legend(data: Forest, styles: dict[str, int]) -> Iterator[tuple[str, str, Markup]]:
    """Class, words and drawing of each entry."""
    dots, values = data.dots, [dot.value for dot in data.dots]
    if len(styles) > 1 and {dot.label for dot in dots} != set(styles):
        for name, style in styles.items():
            mark = _MARKS[style % len(_MARKS)].format("")
            shape = Markup(f'<svg x="14" y="7" overflow="visible">{mark}</svg>')  # noqa: S704 - ours
            yield f"s{style}", name, shape
    repeats = "duets" if data.axis == "change" else "launches"
    for key, words, there in (
        ("interval", f"95 % interval over {repeats}", any(value.ends for value in values)),
        ("sample", "one duet", any(dot.samples for dot in dots)),
        ("ceiling", "ceiling: what arithmetic allows", any(value.ceiling for value in values)),
        ("published", "published, on another machine", any(value.published for value in values)),
        ("hollow", "flagged, or too few launches: not judged", not all(v.valid for v in values)),
    ):
        if there:
            yield key, words, Markup(_KEYS[key])  # noqa: S704 - ours
