"""Foreign text: whether it may be kept, and how it is shown in a log."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from servebench.errors import ArtifactError

MOST: Final = 4000
"""Characters that a text in a result may have; the longest of ours, a note, has a tenth of it."""

_SHOWN: Final = 120
_CATEGORIES: Final = {"Cc": "a control character", "Cs": "half a character", "Zl": "a line end",
                      "Zp": "a line end"}  # fmt: skip
_TURNING: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that turn the direction of what follows: they show another text than there is."""


def shown(text: str, most: int = _SHOWN) -> str:
    """Foreign text as a short piece of one line, which neither a log nor Markdown acts on.

    GitHub's runner takes `::name::` at the beginning of a line and `##[name]` anywhere in it for
    commands; a backtick would end the code that the text is quoted as.
    """
    quoted = ascii(text).replace("##[", "# #[").replace("`", "'")
    return quoted if len(quoted) <= most else f"{quoted[:most]}…"


def require_plain(document: Any) -> None:
    """Refuse a JSON document with a text that could not be shown as it is.

    Args:
        document: As `json.loads` gives it; keys count as texts.

    Raises:
        ArtifactError: A text is too long, or holds characters that act on whoever shows them.
    """
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            _require_plain(value)
        elif isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _require_plain(text: str) -> None:
    if len(text) > MOST:
        raise ArtifactError(
            f"a text of {len(text):,} characters, expected at most {MOST:,}: {shown(text)}"
        )
    if text.isascii() and text.isprintable():
        return
    for character in text:
        what = _CATEGORIES.get(unicodedata.category(character))
        what = "a character that turns the text" if character in _TURNING else what
        if what:
            raise ArtifactError(f"{what} (U+{ord(character):04X}) in the text {shown(text)}")
