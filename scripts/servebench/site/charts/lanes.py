"""Rows of a lying chart: where labels, bars and figures go on wide and on narrow pages. Pure.

On a wide page a row is one line: label, plot, figures in a column. On a narrow one the label and
the figure stand above the plot, which then has the whole width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from servebench.site.charts import text
from servebench.site.charts.scale import Axis
from servebench.site.charts.shapes import NARROW, Line, Shape, Text

BAR: Final = 14.0
"""Height of a bar, px."""
_LABEL_MOST: Final = 330.0
_PLOT_LEAST: Final = 200.0
_COLUMN_GAP: Final = 16.0
_EDGE: Final = 8.0  # to both sides of a narrow plot: room for half a tick's label
_TITLE: Final = 26.0  # height of a group's title


@dataclass(frozen=True, slots=True)
class Lanes:
    """The columns of a lying chart, px.

    Attributes:
        width: Of the drawing.
        left: Where the plot begins.
        right: Where the plot ends.
        figure: Right end of the figures.
        beside: Right end of what stands beside the figures (wide pages only).
        label: Room for labels.
        extra: Whether narrow rows have a third line, for what stands beside.
    """

    width: float
    left: float
    right: float
    figure: float
    beside: float
    label: float
    extra: bool

    @property
    def narrow(self) -> bool:
        """Whether labels stand above the plot."""
        return self.width <= NARROW

    @property
    def row(self) -> float:
        """Height of one row."""
        return (56.0 if self.extra else 40.0) if self.narrow else 24.0

    def middle(self, top: float) -> float:
        """The middle of the bar of the row that begins at `top`."""
        return top + (26.0 if self.narrow else self.row / 2)


def lanes(
    width: float, labels: Sequence[str], figures: Sequence[str], beside: Sequence[str] = ()
) -> Lanes:
    """Share the width out to labels, plot, and figures."""
    extra = any(beside)
    if width <= NARROW:
        return Lanes(width, _EDGE, width - _EDGE, width, width, width, extra)
    label = min(_LABEL_MOST, _widest(labels))
    figure, other = _widest(figures), _widest(beside)
    taken = figure + _COLUMN_GAP + (other + _COLUMN_GAP if extra else 0.0)
    label = max(40.0, min(label, width - taken - _PLOT_LEAST - _COLUMN_GAP))
    right = width - taken
    return Lanes(
        width=width,
        left=label + 12.0,
        right=right,
        figure=right + _COLUMN_GAP + figure,
        beside=width,
        label=label,
        extra=extra,
    )


def row_texts(
    place: Lanes, top: float, label: str, figure: str, beside: str = "", kind: str = ""
) -> list[Shape]:
    """Label and figures of the row that begins at `top`; `kind`: CSS classes of the figure."""
    strong = f"strong {kind}".strip()
    if not place.narrow:
        y = place.middle(top) + 4
        found: list[Shape] = [
            Text("label", place.left - 12, y, text.fit(label, place.label, "end"), "end"),
            Text(strong, place.figure, y, figure, "end"),
        ]
        if beside:
            found.append(Text("faint", place.beside, y, beside, "end"))
        return found
    room = place.width - text.width(figure) * 1.08 - 12
    found = [
        Text("label", 0.0, top + 13, text.fit(label, room, "end")),
        Text(strong, place.figure, top + 13, figure, "end"),
    ]
    if beside:
        found.append(Text("faint", place.figure, top + 48, beside, "end"))
    return found


def group_title(place: Lanes, top: float, title: str) -> Text:
    """The title above a group of rows; see `title_height`."""
    return Text("group", 0.0, top + _TITLE - 9, text.fit(title, place.width))


def title_height(title: str) -> float:
    """Height of a group's title: nothing for a group without one."""
    return _TITLE if title else 0.0


def lying_axis(axis: Axis, top: float, bottom: float) -> list[Shape]:
    """Grid lines from `top` to `bottom`, tick labels and the title below them (38 px)."""
    found: list[Shape] = []
    for tick in axis.ticks:
        found.append(Line("grid", tick.at, top, tick.at, bottom))
        found.append(Text("tick", tick.at, bottom + 16, tick.text, tick.anchor))
    if axis.title:
        middle = (axis.scale.start + axis.scale.end) / 2
        title = text.fit(axis.title, abs(axis.scale.end - axis.scale.start))
        found.append(Text("faint", middle, bottom + 33, title, "middle"))
    return found


def _widest(texts: Sequence[str]) -> float:
    # Figures are bold: a little wider than the table of widths says.
    return max((1.08 * text.width(text.clean(each)) for each in texts), default=0.0)
