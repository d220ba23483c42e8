"""Text in drawings: what may stand in it, and how wide it is. Pure.

SVG has no line breaks and no way to ask for a text's width before it is shown. Widths are those of
common sans-serif faces (Arial, Helvetica, DejaVu Sans: none is much wider), rounded up.
"""

from __future__ import annotations

import unicodedata
from typing import Final, Literal

from servebench.core import text as foreign

SIZE: Final = 12.0
"""Font size of all text in drawings, px."""

_WIDTHS: Final = {
    **dict.fromkeys("iIjl.,:;|!'`·", 0.30),
    **dict.fromkeys('frt()[]{}/\\-" ', 0.38),
    **dict.fromkeys("mwMW@%…—▲▼◆", 0.98),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+=<>−×~#", 0.76),
}
"""Widths in em of characters that are not near the average."""
_AVERAGE: Final = 0.63
_ELLIPSIS: Final = "…"

clean: Final = foreign.clean


def width(text: str, size: float = SIZE) -> float:
    """Width of a text in px."""
    return size * sum(map(_em, text))


def _em(character: str) -> float:
    known = _WIDTHS.get(character)
    if known is not None:
        return known
    if character.isascii():
        return _AVERAGE
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.72


def fit(text: str, room: float, keep: Literal["start", "end"] = "start") -> str:
    """The text, or as much of it as fits into `room` px; what is cut is marked by an ellipsis.

    Sentences keep their start. Names keep their end: they are long on the left (`asgi-wsgi/…`).
    """
    text = clean(text)
    if len(text) * 0.3 * SIZE <= room and width(text) <= room:
        return text
    kept: list[str] = []
    left = room - width(_ELLIPSIS)
    for character in text if keep == "start" else reversed(text):
        left -= SIZE * _em(character)
        if left < 0:
            break
        kept.append(character)
    if keep == "start":
        return "".join(kept).rstrip() + _ELLIPSIS
    return _ELLIPSIS + "".join(reversed(kept)).lstrip()


def clip(text: str, most: int = 240) -> str:
    """At most so many characters, for what is read aloud or shown under the pointer."""
    text = clean(text)
    return text if len(text) <= most else text[: most - 1] + _ELLIPSIS
