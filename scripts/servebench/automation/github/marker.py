"""The hidden first line by which servebench knows its own comments and issues again. Pure.

    <!-- servebench:comparison {"head":"…","run":17,"state":"queued"} -->

Anybody can write such a line; it counts only where the account that wrote it is ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

_LINE: Final = re.compile(r"<!-- servebench:([a-z][a-z/-]*) (\{[^\n]*\}) -->")

Values = dict[str, str | int]


def line(kind: str, values: Mapping[str, str | int]) -> str:
    """Write the line. Nothing in it can end the HTML comment."""
    text = json.dumps(dict(values), separators=(",", ":"), sort_keys=True)
    # JSON may write any letter as an escape; these could be the end of the comment.
    safe = text.replace(">", "\\u003e").replace("<", "\\u003c").replace("--", "-\\u002d")
    return f"<!-- servebench:{kind} {safe} -->"


def values(kind: str, body: str | None) -> Values | None:
    """Read the first line of a body; None: there is none of this kind."""
    first = (body or "").partition("\n")[0].rstrip("\r")
    found = _LINE.fullmatch(first)
    if found is None or found[1] != kind:
        return None
    try:
        read = json.loads(found[2])
    except ValueError:
        return None
    return {
        key: value
        for key, value in read.items()
        if isinstance(value, str | int) and not isinstance(value, bool)
    }


def rest(body: str | None) -> str:
    """A body without its first line. Where somebody has edited it, lines end as on Windows."""
    return (body or "").replace("\r\n", "\n").partition("\n")[2]
