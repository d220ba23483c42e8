"""How series look: a colour, a dash and a marker, bound to the series' name. Pure.

Colours are those of Okabe & Ito (Color Universal Design, 2008), which people with any kind of
colour vision tell apart; dash and marker say the same without colour. The stylesheet has the
shades for light and dark pages.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from servebench.declare import settings
from servebench.declare.servers import SERVERS
from servebench.site.charts.svg import Marker


@dataclass(frozen=True, slots=True)
class Style:
    """How one series looks; `colour` and `dash` are names that the stylesheet knows."""

    colour: str
    dash: str
    marker: Marker

    @property
    def kind(self) -> str:
        """CSS classes."""
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


def _bound() -> dict[str, int]:
    """Series that appear on many pages, and look the same on all of them."""
    configured = settings.load()
    pythons = {configured.gil: 0, configured.free_threaded: 1}
    return {**_STACKS, **_SERVERS, **{name: slot for name, slot in pythons.items() if name}}


def assign(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name, all different up to `len(STYLES)` names.

    The known names have their own. For others the name chooses (CRC-32, the same on every build),
    and where two want the same, the alphabetically later one gets the next that is free.
    """
    bound = _bound()
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
