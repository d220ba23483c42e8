"""Interval plots: tables with a drawing in each row.

The interval plot is the customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479).
Its places are per cent of the cell's width, so one drawing fits every page. Pure.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show.site.words import drawing

TONES: Final = {Verdict.WORSE: "worse", Verdict.BETTER: "better", Verdict.SAME: "same"}
"""CSS classes of verdicts; all others have the class `open`."""

DISC: Final = '<circle class="dot" r="4.5"/>'

_LEAST_CHANGE: Final = 0.01  # either side of "no change": noise must not look large
_TICKS: Final = 5
_MARGIN: Final = 2.0  # per cent of the width on either side: room for a mark


@dataclass(frozen=True, slots=True)
class Caption:
    """The id of a chart on its page, its title, and how to read it."""

    id: str
    title: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A row of an interval plot: its drawing, and the same in words; `kind` is a CSS class."""

    label: str
    href: str
    kind: str
    picture: Markup
    figure: str
    interval: str
    note: str
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A change that a forest shows."""

    label: str
    ratio: Interval | None  # None if it is missing; `note` has the reason
    verdict: Verdict  # determines the colour
    word: str = ""  # stands in place of the verdict
    note: str = ""
    href: str = ""
    samples: tuple[float, ...] = ()  # those behind the ratio, drawn as small dots
    mirror: bool = False  # more is better: drawn on the other side, so that better is left

    @property
    def drawn(self) -> Interval | None:
        """The ratio as it is drawn: of a mirrored row the reciprocal."""
        ratio = self.ratio
        if ratio is None or not self.mirror:
            return ratio
        low, high = ratio.ends or (None, None)
        return Interval(
            1 / ratio.estimate, 1 / high if high else None, 1 / low if low else None, ratio.n
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


def forest(
    about: Caption,
    groups: Mapping[str, Sequence[Dot]],
    *,
    repeats: str = "duets",
    notes: str = "note",
) -> Markup:
    """Draw a row for each change, in the given order; a missing one's row has the reason.

    `groups`: rows to compare, by title, which may be empty. `repeats`: what intervals are over.
    `notes`: what the rows' notes are.
    """
    dots = [dot for group in groups.values() for dot in group]
    scale, legend = scale_of(dots), []
    if any(dot.ratio and dot.ratio.ends for dot in dots):
        legend.append(interval_key(repeats))
    if scale and any(dot.samples for dot in dots):
        legend.append(("sample", "one duet", '<circle class="sample" cx="14" cy="7" r="2.5"/>'))
    rows = {title: [_row(dot, scale) for dot in group] for title, group in groups.items()}
    write = "{:+.6g} %".format
    labels = axis(scale, lambda tick: write(100 * (tick - 1))) if scale else Markup("")
    return interval_plot(about, "change", labels, rows, legend, notes=notes)


def interval_plot(
    about: Caption,
    title: str,
    axis: Markup,
    rows: Mapping[str, Sequence[ChartRow]],
    legend: Sequence[tuple[str, str, str]],
    notes: str = "note",
) -> Markup:
    """Make the table of rows, with the keys of a legend: class, words and shape.

    `title` says what the figures are.
    """
    every = [row for group in rows.values() for row in group]
    return drawing(
        "forest.html.j2",
        about=about,
        title=title,
        axis=axis,
        rows=rows,
        judged=any(row.verdict for row in every),
        further=any(row.note for row in every),
        legend=[(kind, label, Markup(shape)) for kind, label, shape in legend],  # noqa: S704
        notes=notes,
    )


def interval_key(repeats: str) -> tuple[str, str, str]:
    """Return the key of intervals over `repeats`."""
    line = '<line class="whisker" x1="2" x2="26" y1="7" y2="7"/>'
    return "interval", f"95 % interval over {repeats}", line


def scale_of(dots: Iterable[Dot]) -> Scale | None:
    """Return a forest's axis, with "no change" in its middle."""
    ratios = [ratio for dot in dots if (ratio := dot.drawn)]
    if not ratios:
        return None
    half = max(_LEAST_CHANGE, 1.15 * formats.reach(ratios))
    return Scale(max(1 - half, 0.0), 1 + half, 1.0)  # no ratio is below zero


def _row(dot: Dot, scale: Scale | None) -> ChartRow:
    places = [1 / sample if dot.mirror else sample for sample in dot.samples]
    samples = [
        f'<circle class="sample" cx="{scale.at(place)}" cy="13" r="2"/>'
        for place in places
        if scale
    ]
    return ChartRow(
        dot.label,
        dot.href,
        TONES.get(dot.verdict, "open"),
        picture(scale, dot.drawn, DISC, below=samples) if scale else Markup(""),
        formats.change(dot.ratio),
        formats.ends(dot.ratio),
        dot.note,
        dot.word or dot.verdict.text,
    )


def picture(
    scale: Scale,
    figure: Interval | None,
    shape: str,
    *,
    below: Iterable[str] = (),
    above: Iterable[str] = (),
) -> Markup:
    """Draw a row: ticks, and a figure as a shape with its interval, between further marks."""
    parts = []
    for tick in scale.ticks:
        kind = "zero" if abs(tick - scale.zero) < 1e-12 else "grid"
        parts.append(line(kind, scale.at(tick), scale.at(tick), 0, 26))
    if figure:
        parts += below
        if figure.ends:
            low, high = figure.ends
            parts.append(line("whisker", scale.at(low), scale.at(high), 13, 13))
            # An interval that extends beyond the axis ends in an arrow.
            for end, tip in ((low, 6), (high, -6)):
                if not scale.holds(end):
                    arrow = f'<path class="whisker" d="M{tip} -4L0 0 {tip} 4"/>'
                    parts.append(mark(scale.at(end), 13, arrow))
        parts += above
        if scale.holds(figure.estimate):
            parts.append(mark(scale.at(figure.estimate), 13, shape))
    svg = f'<svg class="row" width="100%" height="26" aria-hidden="true">{"".join(parts)}</svg>'
    return Markup(svg)  # noqa: S704 - numbers and our own names only


def line(kind: str, x1: str, x2: str, y1: int, y2: int) -> str:
    """Draw a line of a class."""
    return f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>'


def mark(x: str, y: int, shape: str) -> str:
    """Draw a shape around a place."""
    return f'<svg x="{x}" y="{y}" overflow="visible">{shape}</svg>'


def axis(scale: Scale, write: Callable[[float], str], zero: str = "0") -> Markup:
    """Label the ticks; the first and the last label stay inside the drawing."""
    ticks = scale.ticks
    texts = []
    for tick in ticks[:: 2 if len(ticks) > 4 else 1]:
        share = float(scale.at(tick).rstrip("%"))
        anchor = "start" if share < 8 else "end" if share > 92 else "middle"
        text = zero if abs(tick - scale.zero) < 1e-12 else write(tick).replace("-", "−")
        texts.append(f'<text x="{share:.2f}%" y="14" text-anchor="{anchor}">{escape(text)}</text>')
    svg = f'<svg class="row" width="100%" height="18" aria-hidden="true">{"".join(texts)}</svg>'
    return Markup(svg)  # noqa: S704 - escaped above
