"""What is drawn, as values, and how they are written as SVG or as a table's rows. Pure.

Lengths are px of the drawing; y grows downwards; `kind` is CSS classes. No template writes them: a
page has thousands of shapes, and each would take thirty times as long. Every text is cleaned and
escaped; classes and paths are the charts' own. SVG has no line breaks and no way to ask for a
text's width before it is shown: widths are those of common sans-serif faces (Arial, Helvetica,
DejaVu Sans: none is much wider), rounded up.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Final, Literal

from duetbench.core.text import clean
from duetbench.show.site.charts.data import Link, check_href

Anchor = Literal["start", "middle", "end"]
Marker = Literal["circle", "square", "triangle", "diamond", "cross", "wedge", "hourglass"]

WIDE: Final = 760.0
"""Width of drawings for wide pages, px."""
NARROW: Final = 358.0
"""Width of drawings for narrow pages: 390 px less the page's margins."""
MARKS: Final = 500
"""Most marks of a drawing: more cannot be told apart, and make a page slow."""
_ESCAPED: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"}
)
_SPECIAL: Final = re.compile(r"[&<>'\"]")
_FONT: Final = 12.0  # px, of all text
_WIDTHS: Final = {
    **dict.fromkeys("iIjl.,:;|!'`·", 0.30),
    **dict.fromkeys('frt()[]{}/\\-" ', 0.38),
    **dict.fromkeys("mwMW@%…—▲▼◆", 0.98),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+=<>−×~#", 0.76),
}
"""Widths in em of characters that are not near the average."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line."""

    kind: str
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; its sides are never negative."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Path:
    """A path in SVG's notation."""

    kind: str
    d: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text on its baseline."""

    kind: str
    x: float
    y: float
    text: str
    anchor: Anchor = "start"


Shape = Line | Rect | Path | Text


@dataclass(frozen=True, slots=True)
class Mark:
    """Shapes that stand for one datum.

    Attributes:
        say: The datum as a sentence: shown under the pointer, read aloud by the page's script.
        point: Place in that row, from 0, from left to right or from top to bottom.
        href: Where more about the datum is, for the page's script; the table has it as a link.
        linked: Whether it is a link without the script too, which takes the focus.
    """

    say: str
    series: int
    point: int
    x: float
    y: float
    shapes: tuple[Shape, ...]
    kind: str = ""
    href: str = ""
    linked: bool = False

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True)
class Drawing:
    """One SVG."""

    width: float
    height: float
    shapes: tuple[Shape | Mark, ...]

    def __post_init__(self) -> None:
        if len(self.marks) > MARKS:
            raise ValueError(f"{len(self.marks)} marks; at most {MARKS}: a chart thins its data")

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(shape for shape in self.shapes if isinstance(shape, Mark))


@lru_cache(maxsize=1 << 14)  # the same tenths again and again
def px(value: float) -> str:
    """A length as drawings have it: tenths of a px, without a useless zero."""
    return f"{value + 0.0:.1f}".removesuffix(".0")  # −0.0 is 0.0, which the cache takes it for


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """A path through the points."""
    return "M" + "L".join(f"{px(x)} {px(y)}" for x, y in points)


def symbol(marker: Marker, x: float, y: float, r: float) -> str:
    """A marker about as large as a circle of radius `r`, as a path."""
    return f"M{px(x)} {px(y)}{_outline(marker, r)}"


@lru_cache(maxsize=64)
def _outline(marker: Marker, r: float) -> str:
    return _SYMBOLS[marker].format(
        r=px(r), n=px(-r), d=px(2 * r), m=px(-2 * r), k=px(1.3 * r), l=px(-1.3 * r), t=px(2.6 * r)
    )


_SYMBOLS: Final[dict[Marker, str]] = {
    "circle": "m{n} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 {m} 0z",
    "square": "m{n} {n}h{d}v{d}h{m}z",
    "triangle": "m0 {l}l{k} {t}h-{t}z",
    "wedge": "m0 {k}l{k} -{t}h-{t}z",
    "diamond": "m0 {l}l{k} {k}l{l} {k}l{l} {l}z",
    "hourglass": "m{n} {n}h{d}l{m} {d}h{d}z",
    "cross": "m{n} {n}l{d} {d}m0 {m}l{m} {d}",
}
"""Paths from the marker's centre."""


def written(drawing: Drawing, label: str, fitting: str = "any", more: str = "") -> str:
    """A drawing as an `<svg>`.

    `fitting`: CSS class of its size: wide, narrow, spark or any.
    `more`: Markup before the shapes.
    """
    width, height = px(drawing.width), px(drawing.height)
    shapes = "".join(f"{shape(each)}\n" for each in drawing.shapes)
    role = "group" if any(mark.linked for mark in drawing.marks) else "img"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart-drawing {fitting}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="{role}" '
        f'aria-label="{escaped(label)}">\n{more}{shapes}</svg>'
    )


def shape(each: Shape | Mark) -> str:
    """One shape as an element."""
    match each:
        case Mark():
            href = f' data-href="{escaped(each.href)}"' if each.href else ""
            opening = f'<a href="{escaped(each.href)}">' if each.linked else ""
            return (
                f'{opening}<g class="mark {each.kind}" data-series="{each.series}" '
                f'data-point="{each.point}" data-x="{px(each.x)}" data-y="{px(each.y)}"{href}>'
                f"<title>{escaped(clip(each.say))}</title>{''.join(map(shape, each.shapes))}</g>"
                + "</a>"
                * each.linked
            )
        case Path(kind, d):
            return f'<path class="{kind}" d="{d}"/>'
        case Line(kind, x1, y1, x2, y2):
            ends = f'x1="{px(x1)}" y1="{px(y1)}" x2="{px(x2)}" y2="{px(y2)}"'
            return f'<line class="{kind}" {ends}/>'
        case Rect(kind, x, y, width, height):
            size = f'width="{px(width)}" height="{px(height)}"'
            return f'<rect class="{kind}" x="{px(x)}" y="{px(y)}" {size}/>'
    anchor = "" if each.anchor == "start" else f' text-anchor="{each.anchor}"'
    place = f'x="{px(each.x)}" y="{px(each.y)}"'
    return f'<text class="{each.kind}" {place}{anchor}>{escaped(each.text)}</text>'


def rows(cells: Iterable[Sequence[str | Link]], numbers: Sequence[bool]) -> str:
    """Rows of a table's body; the first cell of each is its heading.

    `numbers`: Per column, whether it holds figures.
    """
    opening = ['<td class="number">' if number else "<td>" for number in numbers[1:]]
    found = []
    for first, *others in (map(_cell, row) for row in cells):
        rest = "".join(f"{start}{cell}</td>" for start, cell in zip(opening, others, strict=True))
        found.append(f'<tr><th scope="row">{first}</th>{rest}</tr>\n')
    return "".join(found)


def _cell(cell: str | Link) -> str:
    if isinstance(cell, Link):
        return f'<a href="{escaped(cell.href)}">{escaped(cell.text)}</a>'
    return escaped(cell)


@lru_cache(maxsize=4096)  # both drawings of a chart say the same, and rows lead where marks do
def escaped(word: str) -> str:
    """A text for HTML, without what HTML forbids."""
    found = clean(word)
    return found.translate(_ESCAPED) if _SPECIAL.search(found) else found


def text_width(text: str) -> float:
    """Width of a text in px."""
    return _FONT * sum(map(_em, text))


def _em(character: str) -> float:
    if (known := _WIDTHS.get(character)) is not None:
        return known
    if character.isascii():
        return 0.63
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.72


def fit(text: str, room: float, keep: Literal["start", "end"] = "start") -> str:
    """The text, or as much of it as fits into `room` px; what is cut is marked by an ellipsis.

    Sentences keep their start. Names keep their end: they are long on the left (`asgi-wsgi/…`).
    """
    text = clean(text)
    if text_width(text) <= room:
        return text
    widths = accumulate(_FONT * _em(each) for each in (text if keep == "start" else text[::-1]))
    kept = sum(1 for _ in takewhile(lambda width: width <= room - text_width("…"), widths))
    return (
        text[:kept].rstrip() + "…" if keep == "start" else "…" + text[len(text) - kept :].lstrip()
    )


def clip(text: str, most: int = 240) -> str:
    """At most so many characters, for what is read aloud or shown under the pointer."""
    text = clean(text)
    return text if len(text) <= most else text[: most - 1] + "…"
