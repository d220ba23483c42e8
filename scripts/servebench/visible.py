"""Text that does nothing on a terminal: its control characters are shown as pictures.

Names and reasons in a file of somebody else's may hold terminal escape sequences, which could hide
or rewrite what else is printed. Standard library only: verbs that print plain text wait for no
more (`printing` is the console of the others).
"""

from __future__ import annotations

import re
from typing import Final

ACTING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Unicode's control characters, but for tabs and line ends."""

_UNESCAPED: Final = re.compile(r"[\x7f-\x9f]")
_PICTURES: Final = 0x2400  # U+2400 to U+241F picture the first 32 characters
_DELETE: Final = "\u2421"
_UNPICTURED: Final = "\ufffd"  # of C1, which has none


def visible(text: str) -> str:
    """Text with a picture in place of each control character (`␛` of ESC); lines and tabs stay."""
    return ACTING.sub(_picture, text)


def visible_json(document: str) -> str:
    """The same JSON without control characters: its writers leave some of them as they are."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    return _DELETE if code == 0x7F else _UNPICTURED
