"""Entries of legends. Each is drawn in a box of 28 × 14 px."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from servebench.site.charts.data import Value
from servebench.site.charts.styles import Style
from servebench.site.charts.svg import Line, Path, Rect, Shape, symbol


@dataclass(frozen=True, slots=True)
class LegendKey:
    """One entry: what is drawn, what it is, and its CSS classes."""

    label: str
    shapes: tuple[Shape, ...]
    kind: str = ""


def line(label: str, style: Style) -> LegendKey:
    """A series of a line with markers."""
    return LegendKey(label, (Line("line", 0, 7, 28, 7), *_marker(style)), style.kind)


def dot(label: str, style: Style) -> LegendKey:
    """A series of markers without a line."""
    return LegendKey(label, _marker(style), style.kind)


def _marker(style: Style) -> tuple[Path]:
    return (Path(f"dot m-{style.marker}", symbol(style.marker, 14, 7, 4)),)


def beside(values: Iterable[Value], *, lying: bool) -> Iterator[LegendKey]:
    """What stands beside dots; `lying`: along a lying axis."""
    known = [value for value in values if value.mean is not None]
    if any(value.ends for value in known):
        yield _WHISKER if lying else _UPRIGHT
    if any(value.ceiling is not None for value in known):
        yield _CEILING if lying else _CEILING_LINE
    if any(value.published is not None for value in known):
        yield _PUBLISHED
    if any(not value.valid for value in known):
        yield HOLLOW


INTERVAL: Final = "95 % interval over launches"
_LIMIT: Final = "ceiling: what arithmetic allows"
UNSURE: Final = "flagged, or too few launches: not judged"
_WHISKER: Final = LegendKey(INTERVAL, (Line("whisker", 2, 7, 26, 7),))
_UPRIGHT: Final = LegendKey(INTERVAL, (Line("whisker", 14, 1, 14, 13),))
_CEILING: Final = LegendKey(_LIMIT, (Line("ceiling", 14, 0, 14, 14),))
_CEILING_LINE: Final = LegendKey(_LIMIT, (Line("ceiling", 0, 7, 28, 7),))
_PUBLISHED: Final = LegendKey("published", (Path("published", symbol("diamond", 14, 7, 4)),))
HOLLOW: Final = LegendKey(UNSURE, (Path("dot hollow", symbol("circle", 14, 7, 4)),))
MISSING: Final = LegendKey("no figure", (Path("missing-mark", symbol("cross", 14, 7, 4)),))
BAND: Final = LegendKey(
    INTERVAL, (Rect("band", 0, 2, 28, 10), Line("line trend-line", 0, 7, 28, 7))
)
BREAK: Final = LegendKey("not comparable with before", (Line("break", 14, 0, 14, 14),))
BUMP: Final = LegendKey("stack bump", (Path("bump", symbol("triangle", 14, 7, 3.5)),))
