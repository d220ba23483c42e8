"""A badge: a name and a result in a few words, as a picture that any page can show.

It stands alone, where no stylesheet of ours is, and inside pages that forbid styles: all of its
looks are in attributes.
"""

import unicodedata
from typing import Final

from markupsafe import escape

from duetbench.core.text import clean

TONES: Final = {"worse": "#9a3d00", "better": "#005a8f", "same": "#4a5159", "open": "#635400"}
"""Colours of results: white text has five times their contrast, and more."""

_NAME: Final = "#1c1f23"
_PAD: Final = 7.0  # px at either side of a text
_HEIGHT: Final = 20
_FONT: Final = 12.0  # px
_WIDTHS: Final = {
    **dict.fromkeys("iIjl.,:;|!'`·", 0.30),
    **dict.fromkeys('frt()[]{}/\\-" ', 0.38),
    **dict.fromkeys("mwMW@%…—▲▼◆", 0.98),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+=<>−×~#", 0.76),
}
"""Widths in em of characters that are not near the average of common sans-serif faces."""


def badge(name: str, result: str, tone: str, said: str) -> str:
    """The badge as an `<svg>`; `said` is read aloud, and shown under the pointer."""
    left, right = (_width(text) + 2 * _PAD for text in (name, result))
    name, result, said = (str(escape(clean(text))) for text in (name, result, said))
    width = _px(left + right)
    size = f'viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
    right_half = f'x="{_px(left)}" width="{_px(right)}" height="{_HEIGHT}"'
    font = 'font-family="Verdana,DejaVu Sans,Arial,sans-serif" font-size="12" fill="#fff"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{said}">'
        f'<title>{said}</title><rect width="{_px(left)}" height="{_HEIGHT}" fill="{_NAME}"/>'
        f'<rect {right_half} fill="{TONES[tone]}"/>'
        f'<g {font}><text x="{_px(_PAD)}" y="14">{name}</text>'
        f'<text x="{_px(left + _PAD)}" y="14">{result}</text></g></svg>'
    )


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _width(text: str) -> float:
    """Width of a text in px; SVG has no way to ask for it before it is shown."""
    return _FONT * sum(map(_em, clean(text)))


def _em(character: str) -> float:
    if (known := _WIDTHS.get(character)) is not None:
        return known
    if character.isascii():
        return 0.63
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.72
