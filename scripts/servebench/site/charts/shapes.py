"""What is drawn, as values: lines, rectangles, paths, texts, and marks that stand for data. Pure.

Lengths are px of the drawing; y grows downwards. `kind` is the shape's CSS classes: colours are the
stylesheet's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Literal

Anchor = Literal["start", "middle", "end"]
Marker = Literal["circle", "square", "triangle", "diamond", "cross", "wedge", "hourglass"]

WIDE: Final = 760.0
"""Width of drawings for wide pages, px."""
NARROW: Final = 358.0
"""Width of drawings for narrow pages: 390 px less the page's margins."""
MARKS: Final = 500
"""Most marks of a drawing: more cannot be told apart, and make a page slow."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line."""

    tag: ClassVar = "line"
    kind: str
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; its sides are never negative."""

    tag: ClassVar = "rect"
    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Path:
    """A path in SVG's notation."""

    tag: ClassVar = "path"
    kind: str
    d: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text on its baseline."""

    tag: ClassVar = "text"
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
        series: Which row of marks this belongs to, from 0.
        point: Place in that row, from 0, from left to right or from top to bottom.
        x: Where the mark stands, px.
        y: Where the mark stands, px.
        shapes: What is drawn.
        kind: CSS classes of the group.
        href: Where more about the datum is, for the page's script; the table has it as a link.
    """

    tag: ClassVar = "mark"
    say: str
    series: int
    point: int
    x: float
    y: float
    shapes: tuple[Shape, ...]
    kind: str = ""
    href: str = ""


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
        """The marks alone, in their order."""
        return tuple(shape for shape in self.shapes if isinstance(shape, Mark))


@lru_cache(maxsize=1 << 14)  # the same tenths again and again
def px(value: float) -> str:
    """A length as drawings have it: tenths of a px, without a useless zero."""
    return f"{value + 0.0:.1f}".removesuffix(".0")  # −0.0 is 0.0, which the cache takes it for


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """A path through the points."""
    return "M" + "L".join(f"{px(x)} {px(y)}" for x, y in points)


def band(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> str:
    """The area between two lines that have their points at the same places."""
    return polyline([*upper, *reversed(lower)]) + "Z"


def symbol(marker: Marker, x: float, y: float, r: float) -> str:
    """A marker about as large as a circle of radius `r`, as a path."""
    return f"M{px(x)} {px(y)}{_outline(marker, r)}"


@lru_cache(maxsize=64)
def _outline(marker: Marker, r: float) -> str:
    """A marker as a path from its centre."""
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
