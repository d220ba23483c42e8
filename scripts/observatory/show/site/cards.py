"""Social cards: the picture that a chat or a feed shows below the address of a page.

They use the site's light colours and Pillow's own font.
"""

import io
import itertools
from functools import cache
from typing import Final, Literal

from PIL import Image, ImageDraw, ImageFont

from duetbench.core.text import ASCII, clean, short
from observatory.show.site.pages.site import CARD_SIZE, Card

_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 1128, 412, 548
"""Pixels: the area of the series, and the margins of the text."""
_INK, _FAINT, _PAPER, _BASE, _SERIES = "#1c1f23", "#555c64", "#ffffff", "#d5d9de", "#0072b2"
_BRAND: Final = "#005a8f"
_TONES: Final = {
    "worse": ("#9a3d00", "#fbe3d2"),
    "better": (_BRAND, "#dcebf7"),
    "same": (_FAINT, "#f2f4f6"),
    "open": ("#635400", "#f7f0d2"),
}
_SMALL: Final = 28
_COLOURS: Final = 32  # includes the shades of letters' edges; takes a third of the bytes
_LETTERS: Final = {**ASCII, ord("…"): "…", ord("·"): "·", ord("→"): "to"}


def png(card: Card) -> bytes:
    """Draw a card; the same card gives the same bytes."""
    image = Image.new("RGB", CARD_SIZE, _PAPER)
    drawing = ImageDraw.Draw(image)
    tone, paper = _TONES[card.tone]
    drawing.rectangle((0, 0, 20, CARD_SIZE[1]), fill=tone)
    _write(drawing, (_LEFT, 70), "duetbench", 34, _BRAND, bold=True)
    _write(drawing, (_RIGHT, 70), card.when, _SMALL, _FAINT, anchor="rs")
    _write(drawing, (_LEFT, 148), card.what, 54, _INK, bold=True)
    _write(drawing, (_LEFT, 192), card.variant, _SMALL, _FAINT)
    end = _write(drawing, (_LEFT, 312), card.figure, 108, tone, bold=True)
    pill = (end + 28, 242, end + 64 + _font(44).getlength(_plain(card.verdict)), 318)
    drawing.rounded_rectangle(pill, 12, fill=paper)
    _write(drawing, (end + 46, 295), card.verdict, 44, tone)
    _write(drawing, (_LEFT, 376), card.sure, _SMALL, _FAINT)
    _series(drawing, card, tone)
    _write(drawing, (_LEFT, 600), card.release, 36, _INK, bold=True)
    stream = io.BytesIO()
    image.quantize(_COLOURS, Image.Quantize.FASTOCTREE).save(stream, "PNG")
    return stream.getvalue()


def _series(drawing: ImageDraw.ImageDraw, card: Card, tone: str) -> None:
    """Draw the series, with a bar at its step."""
    figures = [(place, value) for place, value in enumerate(card.values) if value is not None]
    if len(figures) < 2:
        return
    low, high = (end(value for _, value in figures) for end in (min, max))
    first, last = figures[0][0], figures[-1][0]
    across = (_RIGHT - _LEFT) / (last - first)
    up = (_BOTTOM - _TOP - 24) / max(high - low, 0.02 * abs(high), 1e-12)
    points = [
        (_LEFT + across * (place - first), (_TOP + _BOTTOM) / 2 - up * (value - (low + high) / 2))
        for place, value in figures
    ]
    drawing.line((_LEFT, _BOTTOM, _RIGHT, _BOTTOM), fill=_BASE, width=2)
    if first < card.step <= last:
        bar = _LEFT + across * (card.step - first - 0.5)
        drawing.line((bar, _TOP, bar, _BOTTOM), fill=tone, width=4)
    for ends in itertools.pairwise(points):
        drawing.line(ends, fill=_SERIES, width=4)
    for x, y in points:
        drawing.ellipse((x - 5, y - 5, x + 5, y + 5), fill=_SERIES)


def _write(
    drawing: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    size: int,
    colour: str,
    *,
    anchor: Literal["ls", "rs"] = "ls",
    bold: bool = False,
) -> float:
    """Write a line of text, smaller or shorter if it is too wide; return where it ends."""
    text, room = _plain(text), _RIGHT - (at[0] if anchor == "ls" else _LEFT)
    while (width := _font(size).getlength(text)) > room and text:
        if size > _SMALL:
            size -= 4
        else:
            text = short(text, len(text) - 1) if len(text) > 1 else ""
    drawing.text(at, text, colour, _font(size), anchor, stroke_width=size / 60 if bold else 0)
    return at[0] + width


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _plain(text: str) -> str:
    """Return the text as one line, in letters that the font has."""
    return short(clean(text)).translate(_LETTERS).encode("cp1252", "replace").decode("cp1252")
