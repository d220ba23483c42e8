"""Entries of legends that several charts share. Each is drawn in a box of 28 × 14 px."""

from __future__ import annotations

from typing import Final

from servebench.site.charts.figure import Key
from servebench.site.charts.shapes import Line, Path, Rect, symbol
from servebench.site.charts.styles import Style


def bar(label: str, style: Style) -> Key:
    """A series of bars."""
    return Key(label, (Rect("bar", 4, 1, 20, 12),), style.kind)


def band(*, merged: bool, intervals: bool) -> Key:
    """A band around a line; `merged`: marks stand for several figures, which it spans."""
    label = _INTERVAL
    if merged:
        told = "95 % intervals of the figures" if intervals else "figures"
        label = f"lowest to highest of the {told} that share a mark"
    return Key(label, (Rect("band", 0, 2, 28, 10), Line("line trend-line", 0, 7, 28, 7)))


def line(label: str, style: Style) -> Key:
    """A line with markers."""
    marker = Path(f"dot m-{style.marker}", symbol(style.marker, 14, 7, 4))
    return Key(label, (Line("line", 0, 7, 28, 7), marker), style.kind)


_INTERVAL: Final = "95 % interval over launches"
_CEILING: Final = "ceiling: what arithmetic allows"
_HOLLOW: Final = "flagged, or too few launches: not judged"

WHISKER: Final = Key(
    _INTERVAL,
    (
        Line("whisker", 4, 7, 24, 7),
        Line("whisker", 4, 3, 4, 11),
        Line("whisker", 24, 3, 24, 11),
    ),
)
UPRIGHT: Final = Key(_INTERVAL, (Line("whisker", 14, 1, 14, 13),))
CEILING: Final = Key(_CEILING, (Line("ceiling", 14, 0, 14, 14),))
CEILING_LINE: Final = Key(_CEILING, (Line("ceiling", 0, 7, 28, 7),))
HOLLOW_BAR: Final = Key(_HOLLOW, (Rect("bar hollow", 4, 1, 20, 12),))
HOLLOW: Final = Key(_HOLLOW, (Path("dot hollow", symbol("circle", 14, 7, 4)),))
HOLLOW_CELL: Final = Key(_HOLLOW, (Rect("h0 hollow", 1, 1, 26, 12),), "cell")
PUBLISHED: Final = Key("published", (Path("published", symbol("diamond", 14, 7, 4)),))
MISSING: Final = Key("no figure", (Path("missing-mark", symbol("cross", 14, 7, 4)),), "gap")
RIBBON: Final = Key("noise of identical runs", (Rect("ribbon", 0, 1, 28, 12),))
BREAK: Final = Key("not comparable with before", (Line("break", 14, 0, 14, 14),))
BUMP: Final = Key("stack bump", (Path("bump", symbol("triangle", 14, 7, 3.5)),))
