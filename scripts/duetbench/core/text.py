"""Foreign text made harmless: for terminals, for logs, for SVG, and for the files that are kept.

Standard library only: verbs that print plain text wait for no more. The others print through
`host.console`.
"""

import base64
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Unicode's control characters, but for tabs and line ends."""

TURNING: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that turn the direction of what follows: they show another text than there is."""

TO_REPEAT: Final = "to repeat it, "
"""Begins the note that says which options the command of a comparison leaves out."""

ASCII: Final = str.maketrans(
    dict(zip("−▼▲✕×—µ·\u2019\u00a0●├┤─┼│┊◄►", "-v^xx-u*' o[]-+|:<>", strict=True))
    | {"…": "..", "→": "->", "±": "+/-", "≥": ">=", "≤": "<="}
)
"""Our typography where only ASCII can be shown."""

_DATA: Final = "data:;base64,"
"""Begins the text of bytes that are none (RFC 2397)."""

_SEQUENCE: Final = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|{CONTROL.pattern}")
_UNESCAPED: Final = re.compile(r"[\x7f-\x9f]")
_REPLACED: Final = frozenset({"Cc", "Cs", "Cn"})
_REPLACEMENT: Final = "\ufffd"


def visible(text: str) -> str:
    """Text with a picture in place of each control character (`␛` of ESC); lines and tabs stay."""
    return CONTROL.sub(_picture, text)


def visible_json(document: str) -> str:
    """The same JSON without control characters: its writers leave some of them as they are."""
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def without_control(text: str) -> str:
    """Text without control characters and without terminals' colour and movement sequences."""
    return _SEQUENCE.sub("", text)


def short(text: str, limit: int = 300) -> str:
    """One printable line of at most so many characters; an ellipsis marks what is cut."""
    letters = (letter if letter.isprintable() else " " for letter in text)
    line = " ".join("".join(letters).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def printable(text: str, most: int = 120) -> str:
    """Foreign text as a short piece of one line, which neither a log nor Markdown acts on.

    GitHub's runner takes `::name::` at the beginning of a line and `##[name]` anywhere in it for
    commands; a backtick would end the code that the text is quoted as.
    """
    quoted = ascii(text).replace("##[", "# #[").replace("`", "'")
    return quoted if len(quoted) <= most else f"{quoted[:most]}…"


def clean(text: str) -> str:
    """Text that XML allows and that cannot disturb its surroundings.

    White space becomes a space; other control characters, halves of surrogate pairs, unassigned
    code points and marks that turn the writing direction become the replacement character.
    """
    # Nothing that is replaced is printable: most texts are done here.
    return text if text.isprintable() else "".join(map(_clean, text))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # U+2400 to U+241F picture the first 32 characters
    return "\u2421" if code == 0x7F else _REPLACEMENT  # C1 has no pictures


def _clean(character: str) -> str:
    if character.isspace():
        return " "
    if character in TURNING or unicodedata.category(character) in _REPLACED:
        return _REPLACEMENT
    return character


def some(names: Sequence[str], at_most: int) -> str:
    """Name the first few and count the others: `a, b and 3 more`."""
    first, others = ", ".join(names[:at_most]), len(names) - at_most
    return f"{first} and {others} more" if others > 0 else first


def from_bytes(data: bytes) -> str:
    """The text that stands for any bytes: they are UTF-8, or else in a data URL."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _DATA
    return f"{_DATA}{base64.b64encode(data).decode()}" if text.startswith(_DATA) else text


def to_bytes(text: str) -> bytes:
    """The bytes that a text of `from_bytes` stands for."""
    data = text.removeprefix(_DATA)
    return text.encode() if data == text else base64.b64decode(data)
