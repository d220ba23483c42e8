"""Drawings and the rows of tables as text. Pure.

A page has thousands of shapes and cells, and all cases get a new page every night: by a template
each shape costs thirty times as much as here. Every text that comes from outside is cleaned and
escaped, with the same characters as markupsafe's; CSS classes and paths are the charts' own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from servebench.site.charts import text
from servebench.site.charts.data import Link
from servebench.site.charts.shapes import Drawing, Line, Mark, Path, Rect, Shape, Text, px

_ESCAPED: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"}
)
_SPECIAL: Final = re.compile(r"[&<>'\"]")


def svg(drawing: Drawing, label: str, fitting: str) -> str:
    """A drawing as an `<svg>`.

    Args:
        drawing: What is drawn.
        label: What it is, for those who do not see it.
        fitting: CSS class of its size.
    """
    width, height = _length(drawing.width), _length(drawing.height)
    shapes = "".join(
        f"{_mark(each) if isinstance(each, Mark) else shape(each)}\n" for each in drawing.shapes
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart-drawing {escaped(fitting)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escaped(label)}">\n{shapes}</svg>'
    )


def shape(each: Shape) -> str:
    """One shape as an element."""
    if isinstance(each, Path):
        return f'<path class="{each.kind}" d="{each.d}"/>'
    if isinstance(each, Line):
        return (
            f'<line class="{each.kind}" x1="{_length(each.x1)}" y1="{_length(each.y1)}" '
            f'x2="{_length(each.x2)}" y2="{_length(each.y2)}"/>'
        )
    if isinstance(each, Rect):
        return (
            f'<rect class="{each.kind}" x="{_length(each.x)}" y="{_length(each.y)}" '
            f'width="{_length(each.width)}" height="{_length(each.height)}"/>'
        )
    return _text(each)


def rows(cells: Iterable[Sequence[str | Link]], numbers: Sequence[bool]) -> str:
    """Rows of a table's body; the first cell of each is its heading.

    Args:
        cells: Row by row.
        numbers: Per column, whether it holds figures.
    """
    opening = ['<td class="number">' if number else "<td>" for number in numbers]
    return "".join(f"<tr>{_row(row, opening)}</tr>\n" for row in cells)


@lru_cache(maxsize=4096)  # both drawings of a chart say the same, and rows lead where marks do
def escaped(word: str) -> str:
    """A text for HTML, without what HTML forbids."""
    clean = text.clean(word)
    return clean.translate(_ESCAPED) if _SPECIAL.search(clean) else clean


def _row(row: Sequence[str | Link], opening: Sequence[str]) -> str:
    first, *others = map(_cell, row)
    rest = (f"{start}{cell}</td>" for start, cell in zip(opening[1:], others, strict=True))
    return f'<th scope="row">{first}</th>{"".join(rest)}'


def _cell(cell: str | Link) -> str:
    if isinstance(cell, Link):
        return f'<a href="{escaped(cell.href)}">{escaped(cell.text)}</a>'
    return escaped(cell)


def _mark(mark: Mark) -> str:
    kind = f" {escaped(mark.kind)}" if mark.kind else ""
    href = f' data-href="{escaped(mark.href)}"' if mark.href else ""
    return (
        f'<g class="mark{kind}" data-series="{mark.series}" data-point="{mark.point}" '
        f'data-x="{_length(mark.x)}" data-y="{_length(mark.y)}"{href}>'
        f"<title>{escaped(mark.say)}</title>{''.join(map(shape, mark.shapes))}</g>"
    )


def _text(each: Text) -> str:
    kind = f' class="{each.kind}"' if each.kind else ""
    anchor = "" if each.anchor == "start" else f' text-anchor="{each.anchor}"'
    place = f'x="{_length(each.x)}" y="{_length(each.y)}"'
    return f"<text{kind} {place}{anchor}>{escaped(each.text)}</text>"


def _length(value: float) -> str:
    """Px in tenths; whole numbers as they are."""
    return px(value) if type(value) is float else str(value)
