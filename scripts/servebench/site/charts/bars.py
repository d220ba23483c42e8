"""Bars with intervals, in groups; ceilings as marks, published figures beside. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from servebench.site.charts import figure, keys, text
from servebench.site.charts.data import (
    About,
    Quantity,
    Value,
    check_href,
    figure_text,
    sentence,
)
from servebench.site.charts.figure import Chart, Key
from servebench.site.charts.lanes import (
    BAR,
    Lanes,
    group_title,
    lanes,
    lying_axis,
    row_texts,
    title_height,
)
from servebench.site.charts.scale import Axis, Scale, value_axis
from servebench.site.charts.shapes import NARROW, WIDE, Drawing, Line, Mark, Path, Rect, Shape, Text
from servebench.site.charts.styles import Style, assign

ROWS: Final = 80
"""Bars that are drawn; the table has the others too."""
_REACH: Final = 2.5  # a ceiling further out than this would press the bars to the edge
_BOTTOM: Final = 44.0
_ALIKE: Final = Style("grey", "solid", "circle")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label within the group, the series that gives its colour, its figure."""

    label: str
    series: str
    value: Value
    href: str = ""

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars that are compared with each other; the title may be empty."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """A whole chart of bars."""

    about: About
    quantity: Quantity
    groups: tuple[BarGroup, ...]


def bars(data: Bars) -> Chart:
    """Draw bars from zero, one row each, in the order given.

    A bar without a figure has its reason instead. Published figures come from other machines:
    they stand beside ours in words, never on our axis.
    """
    every = [bar for group in data.groups for bar in group.bars]
    shown = _limited(data)
    notes = []
    if len(every) > ROWS:
        notes.append(f"{len(every) - ROWS} of {len(every)} bars are not drawn; the table has them.")
    highest = _highest(every[:ROWS])
    beyond = _beyond(every[:ROWS], highest)
    if beyond:
        notes.append(
            f"{beyond} ceilings are more than {_REACH:g} times the longest bar: ▸ at the edge."
            if beyond > 1
            else f"One ceiling is more than {_REACH:g} times the longest bar: ▸ at the edge."
        )
    if any(bar.value.published is not None for bar in every):
        notes.append("Published figures are of another machine: compare shapes, not sizes.")
    return Chart(
        about=data.about,
        kind="bars",
        wide=_draw(shown, highest, WIDE),
        narrow=_draw(shown, highest, NARROW),
        table=figure.table(
            ("group", "row", *figure.VALUE_HEAD),
            (
                (group.title, figure.linked(bar.label, bar.href),
                 *figure.value_cells(data.quantity, bar.value))
                for group in data.groups
                for bar in group.bars
            ),
            words=2,
        ),
        legend=tuple(_legend(every[:ROWS])),
        notes=tuple(notes),
    )  # fmt: skip


def _limited(data: Bars) -> Bars:
    left, groups = ROWS, []
    for group in data.groups:
        kept = group.bars[:left]
        left -= len(kept)
        if kept:
            groups.append(BarGroup(group.title, kept))
    return Bars(data.about, data.quantity, tuple(groups))


def _highest(every: list[Bar]) -> float:
    """Where the axis ends: room for all intervals, and for ceilings that are near."""
    ends = [
        end
        for bar in every
        for end in (bar.value.mean, bar.value.high)
        if end is not None
    ]  # fmt: skip
    longest = max(ends, default=0.0)
    near = [
        bar.value.ceiling
        for bar in every
        if bar.value.ceiling is not None and bar.value.ceiling <= _REACH * longest
    ]
    return 1.03 * max([longest, *near])


def _beyond(every: list[Bar], highest: float) -> int:
    return sum(
        bar.value.mean is not None and bar.value.ceiling is not None and bar.value.ceiling > highest
        for bar in every
    )


def _draw(data: Bars, highest: float, width: float) -> Drawing:
    every = [bar for group in data.groups for bar in group.bars]
    if not every:
        return figure.empty(width, "Nothing measured yet.")
    figures = [figure_text(data.quantity, bar.value) for bar in every]
    place = lanes(width, [bar.label for bar in every], figures, [_beside(data, b) for b in every])
    scale = Scale(0.0, highest if highest > 0 else 1.0, place.left, place.right)
    axis = value_axis(data.quantity, scale, 6, sideways=True)
    styles = _styles(every)
    top = 4.0
    rows: list[Shape | Mark] = []
    for row, group in enumerate(data.groups):
        if group.title:
            rows.append(group_title(place, top, group.title))
            top += title_height(group.title)
        for point, bar in enumerate(group.bars):
            rows += row_texts(
                place, top, bar.label, figure_text(data.quantity, bar.value), _beside(data, bar)
            )
            rows.append(_mark(data, group, bar, (row, point), place, axis, top, styles))
            top += place.row
        top += 6.0
    backdrop = lying_axis(axis, 2.0, top) if highest > 0 else []
    return Drawing(width, top + _BOTTOM, (*backdrop, *_base(place, top, rows), *rows))


def _base(place: Lanes, bottom: float, rows: list[Shape | Mark]) -> list[Shape]:
    """The line at zero; on narrow pages beside the bars only, for it would cut the labels."""
    if not place.narrow:
        return [Line("axis", place.left, 2.0, place.left, bottom)]
    middles = [row.y for row in rows if isinstance(row, Mark)]
    return [Line("axis", place.left, y - 10, place.left, y + 10) for y in middles]


def _mark(
    data: Bars,
    group: BarGroup,
    bar: Bar,
    index: tuple[int, int],
    place: Lanes,
    axis: Axis,
    top: float,
    styles: dict[str, Style],
) -> Mark:
    y = place.middle(top)
    value = bar.value
    name = ", ".join(filter(None, (group.title, bar.label)))
    end = place.left if value.mean is None else axis.scale.at(value.mean)
    return Mark(
        say=text.clip(f"{name}: {sentence(data.quantity, value)}"),
        series=index[0],
        point=index[1],
        x=end,
        y=y,
        shapes=tuple(_bar(value, place, axis, y)),
        kind=styles[bar.series].kind,
        href=bar.href,
    )


def _bar(value: Value, place: Lanes, axis: Axis, y: float) -> Iterator[Shape]:
    top, scale = y - BAR / 2, axis.scale
    if value.mean is None:
        room = place.right - place.left - 12
        yield Text("missing", place.left + 6, y + 4, text.fit(f"no figure: {value.note}", room))
        return
    kind = "bar" if value.valid else "bar hollow"
    yield Rect(kind, place.left, top, round(scale.at(value.mean) - place.left, 1), BAR)
    if value.low is not None and value.high is not None:
        low, high = scale.at(value.low), scale.at(value.high)
        yield Line("whisker", low, y, high, y)
        yield from (Line("whisker", x, y - 4, x, y + 4) for x in (low, high))
    if value.ceiling is not None:
        if scale.holds(value.ceiling):
            x = scale.at(value.ceiling)
            yield Line("ceiling", x, top - 2, x, top + BAR + 2)
        else:
            x = place.right
            yield Path("beyond", f"M{x - 6:.1f} {y - 4:.1f}l6 4l-6 4z")


def _beside(data: Bars, bar: Bar) -> str:
    published = bar.value.published
    return "" if published is None else f"published {data.quantity.format(published)}"


def _styles(every: list[Bar]) -> dict[str, Style]:
    """Colours by series; one series needs no colour of its own."""
    names = dict.fromkeys(bar.series for bar in every)
    return assign(names) if len(names) > 1 or "" not in names else {"": _ALIKE}


def _legend(every: list[Bar]) -> Iterator[Key]:
    styles = _styles(every)
    names = list(dict.fromkeys(bar.series for bar in every))
    if len(names) > 1 and {bar.label for bar in every} != set(names):
        yield from (keys.bar(name, styles[name]) for name in names)
    values = [bar.value for bar in every if bar.value.mean is not None]
    if any(value.low is not None for value in values):
        yield keys.WHISKER
    if any(value.ceiling is not None for value in values):
        yield keys.CEILING
    if any(not value.valid for value in values):
        yield keys.HOLLOW_BAR
