"""The interval-dot chart: a row for each figure, with its interval, ceiling and published figure.

The customary picture of many estimates (Lewis & Clarke, BMJ 2001;322:1479). A figure is told by
its place and not by a length, so that what it stands beside can be on the axis too. Pure.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from duetbench.core import units
from duetbench.core.interval import Interval
from duetbench.core.text import clean
from duetbench.show import formats
from duetbench.show.rows import ViewRow
from duetbench.show.site.charts import figure, legend, plane, svg
from duetbench.show.site.charts.data import Caption, Quantity, Value, interval, sentence
from duetbench.show.site.charts.figure import Chart
from duetbench.show.site.charts.legend import LegendKey, Style, assign
from duetbench.show.site.charts.lines import LEAST_CHANGE
from duetbench.show.site.charts.scale import AxisScale, value_axis
from duetbench.show.site.charts.svg import NARROW, WIDE, Drawing, Line, Mark, Path, Shape, Text
from duetbench.store.comparison import Verdict

ROWS: Final = 80
"""Rows that are drawn; the table has the others too."""
TONES: Final = {Verdict.SLOWER: "worse", Verdict.FASTER: "better", Verdict.NO_CHANGE: "same"}
"""CSS classes of verdicts; of others: open."""
CHANGE: Final = Quantity(
    "change",
    lambda value: formats.percent(1 + value),
    span=lambda a, b: formats.ends(Interval(1.0, 1 + a, 1 + b)),
)
"""A ratio less 1."""

_LABEL_MOST: Final = 330.0
_PLOT_LEAST: Final = 200.0
_GAP: Final = 16.0  # before the column of figures
_EDGE: Final = 8.0  # to both sides of a narrow plot: room for half a tick's label
_GROUP: Final = 26.0  # height of a group's title
_BELOW: Final = 44.0
_ALIKE: Final = Style("grey", "solid", "circle")


@dataclass(frozen=True, slots=True)
class Dot:
    """One row.

    Attributes:
        series: What gives colour and marker; empty: nothing does.
        verdict: What is said of a change; gives the colour.
    """

    label: str
    value: Value
    series: str = ""
    href: str = ""
    verdict: Verdict | None = None
    word: str = ""

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
    """A whole chart; its axis begins at zero, has zero in its middle, or is where figures are."""

    about: Caption
    quantity: Quantity
    groups: tuple[DotGroup, ...]
    axis: Literal["zero", "change", "near"] = "zero"

    @property
    def dots(self) -> list[Dot]:
        return [dot for group in self.groups for dot in group.dots]


def change(label: str, ratio: Value, verdict: Verdict, word: str, href: str = "") -> Dot:
    """A row of a ratio, as a change."""
    if ratio.mean is not None:
        low, high = (end - 1 for end in ratio.ends) if ratio.ends else (None, None)
        ratio = replace(ratio, mean=ratio.mean - 1, low=low, high=high)
    return Dot(label, ratio, href=href, verdict=verdict, word=word)


def forest(data: Forest) -> Chart:
    """Draw one row for each figure, in the order given; in the place of none stands why."""
    every = data.dots
    limits = _limits(data)
    notes = plane.notes([dot.value for dot in every[:ROWS]], limits)
    if limits is None:
        notes = ["Nothing to draw: the table says why."]
    elif len(every) > ROWS:
        notes.append(f"{len(every) - ROWS} of {len(every)} rows are not drawn; the table has them.")
    if limits and limits[0] > 0:
        notes.append("The axis does not begin at zero.")
    named = "change" if data.axis == "change" else figure.VALUE_HEAD[0]
    return Chart(
        about=data.about,
        kind="forest",
        drawings=tuple(_draw(data, limits, width) for width in (WIDE, NARROW)) if limits else (),
        table=figure.table(
            ("group", "row", "verdict", named, *figure.VALUE_HEAD[1:]),
            (
                (group.title, figure.linked(dot.label, dot.href), dot.word,
                 *figure.value_cells(data.quantity, dot.value))
                for group in data.groups
                for dot in group.dots
            ),
            words=3,
        ),
        legend=tuple(_legend(data)) if limits else (),
        notes=tuple(notes),
    )  # fmt: skip


def judged(rows: Iterable[ViewRow], address: Callable[[str], str] = lambda _: "") -> Iterator[Dot]:
    """A comparison's rows that have a ratio; `address`: from a case's id to its page, or empty."""
    for row in rows:
        one = row.judged
        if one.ratio is not None:
            value = Value(one.ratio, one.low, one.high)
            label = f"{row.case} · {row.label}"
            yield change(label, value, one.verdict, row.verdict, address(row.case))


def _limits(data: Forest) -> tuple[float, float] | None:
    """Ends of the axis; None without figures."""
    known = [dot.value for dot in data.dots[:ROWS] if dot.value.mean is not None]
    if not known:
        return None
    if data.axis == "change":
        # It holds all estimates, and nine of ten intervals whole.
        sizes = [abs(value.mean) for value in known if value.mean is not None]
        widths = sorted(max(map(abs, value.ends)) for value in known if value.ends)
        sizes += widths[math.ceil(0.9 * len(widths)) - 1 :][:1]
        half = max(LEAST_CHANGE, 1.15 * max(sizes))
        return max(-half, -1.0), half  # nothing gets smaller than nothing
    low, high = plane.ends(known, zero=data.axis == "zero")
    lack = 0.0 if low == 0 else max(0.0, LEAST_CHANGE * (low + high) - (high - low)) / 2
    return low - lack, high + lack


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Where rows stand: in one line on wide pages, text above plot on narrow ones."""

    left: float
    right: float
    figure: float
    label: float
    row: float
    middle: float


def _lanes(width: float, labels: Sequence[str], figures: Sequence[str]) -> _Lanes:
    if width <= NARROW:
        return _Lanes(_EDGE, width - _EDGE, width, width, 40.0, 26.0)
    figure_, label = _widest(figures), min(_LABEL_MOST, _widest(labels))
    right = width - figure_ - _GAP
    label = max(40.0, min(label, right - _PLOT_LEAST - _GAP))
    return _Lanes(label + 12.0, right, width, label, 24.0, 12.0)


def _widest(texts: Sequence[str]) -> float:
    # Figures are bold: a little wider than the table of widths says.
    return max((1.08 * svg.text_width(clean(each)) for each in texts), default=0.0)


def _draw(data: Forest, limits: tuple[float, float], width: float) -> Drawing:
    every, groups = data.dots[:ROWS], _first(data.groups)
    place = _lanes(width, [dot.label for dot in every], [_figure(data, dot) for dot in every])
    scale = AxisScale(*limits, place.left, place.right)
    unit = replace(data.quantity, format=units.share) if data.axis == "change" else data.quantity
    axis = value_axis(unit, scale, 8 if data.axis == "change" else 6, sideways=True)
    start = bottom = 24.0 if data.axis == "change" else 4.0
    styles = _styles(data)
    rows: list[Shape | Mark] = []
    for number, group in enumerate(groups):
        if group.title:
            title = svg.fit(group.title, width)
            rows.append(Text("group", 0.0, bottom + _GROUP - 9, title))
            bottom += _GROUP
        for point, dot in enumerate(group.dots):
            rows += _texts(data, dot, place, bottom, narrow=width <= NARROW)
            name = ", ".join(filter(None, (group.title, dot.label)))
            said = f"{dot.word} {sentence(data.quantity, dot.value)}".strip()
            y = bottom + place.middle
            style = styles[dot.series]
            rows.append(
                Mark(
                    say=f"{name}: {said}",
                    series=number,
                    point=point,
                    x=place.left if dot.value.mean is None else scale.at(dot.value.mean),
                    y=y,
                    shapes=tuple(_shapes(dot.value, style, scale, y)),
                    kind=dot.tone or style.kind,
                    href=dot.href,
                )
            )
            bottom += place.row
        bottom += 6.0
    frame = plane.lying_axis(axis, start - 4, bottom)
    if scale.holds(0):
        zero = scale.at(0)
        frame.append(Line("zero", zero, start - 4, zero, bottom))
    if data.axis == "change":
        frame.append(Text("faint", place.left, 12, "smaller"))
        frame.append(Text("faint", place.right, 12, "larger", "end"))
    return Drawing(width, bottom + _BELOW, (*frame, *rows))


def _first(groups: Sequence[DotGroup]) -> Iterator[DotGroup]:
    """Groups with as many rows as are drawn."""
    left = ROWS
    for group in groups:
        if dots := group.dots[:left]:
            yield DotGroup(group.title, dots)
        left -= len(dots)


def _texts(data: Forest, dot: Dot, place: _Lanes, top: float, *, narrow: bool) -> tuple[Text, Text]:
    shown = _figure(data, dot)
    strong = f"strong {dot.tone}".strip()
    y = top + (13 if narrow else place.middle + 4)
    room = place.label - (svg.text_width(shown) * 1.08 + 12 if narrow else 0)
    at: tuple[float, svg.Anchor] = (0.0, "start") if narrow else (place.left - 12, "end")
    label = Text("label", at[0], y, svg.fit(dot.label, room, "end"), at[1])
    return label, Text(strong, place.figure, y, shown, "end")


def _figure(data: Forest, dot: Dot) -> str:
    if dot.value.mean is None:
        return dot.word or "—"
    mean = data.quantity.format(dot.value.mean)
    seen, _, rest = dot.word.partition(", ")
    word = f"{seen[0]} {rest.partition(':')[0]}" if rest else dot.word
    parts = (word, mean) if word else (mean, interval(data.quantity, dot.value))
    return " ".join(filter(None, parts))


def _shapes(value: Value, style: Style, scale: AxisScale, y: float) -> Iterator[Shape]:
    if value.mean is None:
        room = scale.end - scale.start - 12
        yield Text("missing", scale.start + 6, y + 4, svg.fit(f"no figure: {value.note}", room))
        return
    if value.ends:
        low, high = map(scale.at, value.ends)
        yield Line("whisker", low, y, high, y)
        # An interval that goes on beyond the axis has an arrow instead of an end.
        for end, tip, back in ((value.ends[0], scale.start, 5), (value.ends[1], scale.end, -5)):
            if not scale.holds(end):
                yield Path("whisker", f"M{svg.px(tip + back)} {svg.px(y - 4)}l{-back} 4l{back} 4")
    if value.ceiling is not None and scale.holds(value.ceiling):
        x = scale.at(value.ceiling)
        yield Line("ceiling", x, y - 8, x, y + 8)
    if value.published is not None and scale.holds(value.published):
        yield Path("published", svg.symbol("diamond", scale.at(value.published), y, 4))
    hollow = "" if value.valid else " hollow"
    kind = f"dot m-{style.marker}{hollow}"
    yield Path(kind, svg.symbol(style.marker, scale.at(value.mean), y, 4.5))


def _styles(data: Forest) -> dict[str, Style]:
    names = dict.fromkeys(dot.series for dot in data.dots[:ROWS])
    return assign(names) if len(names) > 1 or "" not in names else {"": _ALIKE}


def _legend(data: Forest) -> Iterator[LegendKey]:
    dots, styles = data.dots[:ROWS], _styles(data)
    if len(styles) > 1 and {dot.label for dot in dots} != set(styles):
        for name in dict.fromkeys(dot.series for dot in dots):
            yield legend.series(name, styles[name], joined=False)
    for verdict, tone in {dot.verdict: dot.tone for dot in dots}.items():
        if verdict:
            key = legend.series(f"{formats.MARKS[verdict]} {verdict.value}", _ALIKE, joined=False)
            yield replace(key, kind=tone)
    values = [dot.value for dot in dots]
    yield from legend.beside(values, lying=True, change=data.axis == "change")
