"""How series look, and the entries of legends, each in a box of 28 × 14 px.

Colours are those of Okabe & Ito (Color Universal Design, 2008), which people with any kind of
colour vision tell apart; dash and marker say the same without colour. The stylesheet has the
shades for light and dark pages.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.show.site.charts.data import Value
from duetbench.show.site.charts.svg import Line, Marker, Path, Rect, Shape, symbol


@dataclass(frozen=True, slots=True)
class Style:
    """How one series looks; `colour` and `dash` are names that the stylesheet knows."""

    colour: str
    dash: str
    marker: Marker

    @property
    def kind(self) -> str:
        return f"s-{self.colour} d-{self.dash}"


DASHES: Final = ("solid", "dash", "dot", "dashdot", "long")

STYLES: Final = (
    Style("blue", "solid", "circle"),
    Style("orange", "dash", "square"),
    Style("green", "dashdot", "hourglass"),
    Style("purple", "dot", "triangle"),
    Style("ink", "long", "wedge"),
    Style("blue", "dot", "hourglass"),
    Style("orange", "dashdot", "triangle"),
    Style("green", "solid", "wedge"),
    Style("purple", "long", "circle"),
    Style("ink", "dash", "cross"),
)
"""All styles; the first five have colours of their own. Charts show at most so many series."""

_STACKS: Final = {"pydantic-v2": 2, "pydantic-v1": 3, "current": 4}
_SERVERS: Final = {one.name: one.style for one in SERVERS.values() if one.style is not None}


def assign(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name, all different up to `len(STYLES)` names.

    The known names have their own. For others the name chooses (CRC-32, the same on every build),
    and where two want the same, the alphabetically later one gets the next that is free.
    """
    return dict(_assigned(tuple(names)))


@lru_cache(maxsize=1024)  # the charts of a page have the same few, and settings are a file
def _assigned(names: tuple[str, ...]) -> dict[str, Style]:
    configured = Project.here().settings
    pythons = {configured.gil: 0, configured.free_threaded: 1}
    bound = {**_STACKS, **_SERVERS, **{name: slot for name, slot in pythons.items() if name}}
    wanted = sorted(dict.fromkeys(names), key=lambda name: (name not in bound, name))
    taken: dict[str, int] = {}
    for name in wanted:
        if name in bound:
            taken[name] = bound[name]
            continue
        start = zlib.crc32(name.encode("utf-8", "replace"))
        free = [slot for slot in range(len(STYLES)) if slot not in taken.values()]
        colours = {STYLES[slot].colour for slot in taken.values()}
        # A colour of its own before another dash of the same colour.
        fresh = [slot for slot in free if slot < len(DASHES) and STYLES[slot].colour not in colours]
        choice = fresh or free or list(range(len(STYLES)))
        taken[name] = choice[start % len(choice)]
    return {name: STYLES[slot] for name, slot in taken.items()}


@dataclass(frozen=True, slots=True)
class LegendKey:
    """One entry: what is drawn, what it is, and its CSS classes."""

    label: str
    shapes: tuple[Shape, ...]
    kind: str = ""


def series(label: str, style: Style, *, joined: bool) -> LegendKey:
    """A series of markers, `joined` by a line or not."""
    marker = Path(f"dot m-{style.marker}", symbol(style.marker, 14, 7, 4))
    return LegendKey(label, (*[Line("line", 0, 7, 28, 7)] * joined, marker), style.kind)


def beside(values: Iterable[Value], *, lying: bool, change: bool = False) -> Iterator[LegendKey]:
    """What stands beside dots; `lying`: along a lying axis; `change`: of ratios over duets."""
    known = [value for value in values if value.mean is not None]
    if any(value.ends for value in known):
        whisker = Line("whisker", 2, 7, 26, 7) if lying else Line("whisker", 14, 1, 14, 13)
        yield LegendKey("95 % interval" if change else INTERVAL, (whisker,))
    if any(value.ceiling is not None for value in known):
        ceiling = Line("ceiling", 14, 0, 14, 14) if lying else Line("ceiling", 0, 7, 28, 7)
        yield LegendKey("ceiling: what arithmetic allows", (ceiling,))
    if any(value.published is not None for value in known):
        yield LegendKey("published", (Path("published", symbol("diamond", 14, 7, 4)),))
    if any(not value.valid for value in known):
        yield HOLLOW


INTERVAL: Final = "95 % interval over launches"
UNSURE: Final = "flagged, or too few launches: not judged"
HOLLOW: Final = LegendKey(UNSURE, (Path("dot hollow", symbol("circle", 14, 7, 4)),))
MISSING: Final = LegendKey("no figure", (Path("missing-mark", symbol("cross", 14, 7, 4)),))
BAND: Final = LegendKey(
    INTERVAL, (Rect("band", 0, 2, 28, 10), Line("line trend-line", 0, 7, 28, 7))
)
BREAK: Final = LegendKey("not comparable with before", (Line("break", 14, 0, 14, 14),))
DUETS: Final = replace(BAND, label="95 % interval over duets")
CIRCUMSTANCE: Final = replace(BREAK, label="another machine, kernel or interpreter")
BUMP: Final = LegendKey("stack bump", (Path("bump", symbol("triangle", 14, 7, 3.5)),))
