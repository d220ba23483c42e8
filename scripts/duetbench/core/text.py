"""Make foreign text harmless: for terminals, logs, SVG, and stored files.

Standard library only, for a fast start of commands that print plain text. The others print through
`host.console`.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Unicode's control characters, except tabs and line ends."""

_TURNING: Final = r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
"""Characters that reverse the direction of text: it then looks like other text."""

_UNSAFE: Final = re.compile(
    rf"{_CONTROL.pattern}|{_TURNING}|[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""What stands in no output: those, halves of surrogate pairs, and what is no character."""

UNFIT: Final = re.compile(rf"{_CONTROL.pattern}|{_TURNING}|[\t\n\u2028\u2029\ud800-\udfff]")
"""What stands in no text of a stored file from elsewhere."""

ENDLESS: Final = "an answer without end"
"""In the reason of a request whose answer does not end, or never begins."""

LARGEST_ANSWER: Final = 256_000_000
"""Bytes of an answer from which on it counts as one without end."""

HIDDEN: Final = 4
"""Fewest characters of a private value that texts hide: shorter ones occur everywhere, and are no
secrets."""

_DATA: Final = "data:;base64,"
"""Start of the text for bytes that are not UTF-8 (RFC 2397)."""

_SEQUENCE: Final = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|{_CONTROL.pattern}")
_UNESCAPED: Final = re.compile(r"[\x7f-\x9f]|(?<=##)\[")


def endless(where: str, seconds: float, size: int) -> str:
    """Say which answer has not ended, after how many seconds and bytes."""
    return f"{where}: {ENDLESS}: more than {seconds:.2g} s and {size / 1000:,.0f} kB"


def visible(text: str) -> str:
    """Replace each control character by its picture (`␛` for ESC); line ends and tabs stay.

    What has no picture becomes the replacement character: the text is valid XML, and harmless.
    """
    return text if text.isprintable() else _UNSAFE.sub(_picture, text)


def visible_json(document: str) -> str:
    """Escape control characters in JSON, whose writers leave some, and GitHub's `##[`."""
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def without_control(text: str) -> str:
    """Remove control characters, and terminals' colour and movement sequences."""
    return _SEQUENCE.sub("", text)


def short(text: str, limit: int = 300) -> str:
    """One printable line of at most `limit` characters; an ellipsis marks a cut."""
    letters = (letter if letter.isprintable() else " " for letter in text)
    line = " ".join("".join(letters).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def hider(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return what replaces each of some texts by its name, also if an ellipsis cuts it."""
    texts = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, texts)) or "(?!)")

    def hide(text: str) -> str:
        text = re.sub(r"\s+…", "…", pattern.sub(lambda match: names[match[0]], text))
        for name in texts if "…" in text else ():
            for n in range(len(name) - 1, HIDDEN - 1, -1):
                text = text.replace(f"{name[:n]}…", f"{names[name]}…")
                text = text.replace(f"…{name[-n:]}", f"…{names[name]}")
        return text

    return hide


def printable(text: str, most: int = 120) -> str:
    """Quote foreign text on one short line that neither a log nor Markdown interprets.

    GitHub's runner interprets `::name::` at the beginning of a line and `##[name]` anywhere in it;
    a backtick would end the code span around the text.
    """
    quoted = ascii(text).replace("##[", "# #[").replace("`", "'")
    return quoted if len(quoted) <= most else f"{quoted[:most]}…"


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # U+2400 to U+241F picture the first 32 characters
    return "\u2421" if code == 0x7F else "\ufffd"


def some(names: Sequence[str], at_most: int) -> str:
    """Name the first few and count the others: `a, b and 3 more`."""
    first, others = ", ".join(names[:at_most]), len(names) - at_most
    return f"{first} and {others} more" if others > 0 else first


def from_bytes(data: bytes) -> str:
    """Represent bytes as text: UTF-8 as it is, anything else as a data URL."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _DATA
    return f"{_DATA}{base64.b64encode(data).decode()}" if text.startswith(_DATA) else text


def to_bytes(text: str) -> bytes:
    """The bytes that a text from `from_bytes` represents."""
    data = text.removeprefix(_DATA)
    return text.encode() if data == text else base64.b64decode(data)
