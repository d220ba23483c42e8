"""Sparklines: a series in the height of a line of text, for a table's cell. Pure.

Word-sized graphics without axes (Tufte, Beautiful Evidence, 2006). They have no figure and no table
of their own: they stand beside the figures that they sketch, and lead nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from servebench.site.charts import figure
from servebench.site.charts.scale import Scale
from servebench.site.charts.shapes import Drawing, Path, Shape, polyline, symbol

WIDTH: Final = 120.0
HEIGHT: Final = 28.0
_EDGE: Final = 4.0  # room for the last value's dot
_MOST: Final = 110  # points: about one per px
_LEAST: Final = 0.01  # to each side, so that noise does not look like a landslide


def spark(label: str, values: Sequence[float | None], tone: str = "") -> str:
    """Draw the values, evenly spaced, oldest first; None interrupts the line.

    Of more values than there is room for, every so-manieth is drawn, the last always.

    Args:
        label: What it shows, for those who do not see it.
        values: Figures of one series; SI, though nobody can tell.
        tone: CSS class of the last dot: worse, better, same or open.
    """
    step = -(-len(values) // _MOST) or 1
    kept = list(values[::-1][::step][::-1])
    drawn = [value for value in kept if value is not None]
    shapes: list[Shape] = []
    if drawn:
        middle = sum(drawn) / len(drawn)
        least = _LEAST * abs(middle) or 1.0
        low, high = min(*drawn, middle - least), max(*drawn, middle + least)
        x = Scale(0.0, max(1.0, len(kept) - 1.0), _EDGE, WIDTH - _EDGE)
        y = Scale(low, high, HEIGHT - _EDGE, _EDGE)
        shapes += _lines(kept, x, y)
        last = max(index for index, value in enumerate(kept) if value is not None)
        at = x.at(last), y.at(drawn[-1])
        shapes.append(Path(f"dot {tone}".strip(), symbol("circle", *at, 3)))
    return figure.svg(Drawing(WIDTH, HEIGHT, tuple(shapes)), label, "spark")


def _lines(values: Sequence[float | None], x: Scale, y: Scale) -> list[Shape]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((x.at(index), y.at(value)))
    return [Path("line", polyline(piece)) for piece in pieces if len(piece) > 1]
