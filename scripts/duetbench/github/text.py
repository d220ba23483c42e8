"""Text in comments and issues: what others wrote is shown and does nothing; ours is marked. Pure.

Markdown's own characters are escaped where a report is written (`report.layout.escape`). What
GitHub adds afterwards knows no escapes: mentions call people, references leave marks on other
conversations, addresses become links (github/cmark-gfm#181, github/cmark-gfm#389). A zero-width
space in the middle keeps each of them from being one.

By a hidden first line duetbench knows its own comments and issues again:

    <!-- duetbench:comparison {"head":"…","run":17,"state":"queued"} -->

Anybody can write such a line; it counts only where the account that wrote it is ours.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from duetbench.show import layout

LIMIT: Final = 60_000
"""Characters of a comment or issue. GitHub refuses more than 65,536."""

_BREAK: Final = "\u200b"
_ACTIVE: Final = re.compile(
    r"@(?=\w)"  # mentions, and mail addresses
    r"|\#(?=\d)|\bGH-(?=\d)"  # references to issues
    r"|&(?=[#A-Za-z])"  # entities, which could be any of these
    r"|(?<=:)(?=//)|\bwww(?=\.)",  # addresses
    re.IGNORECASE | re.ASCII,
)
_CODE: Final = "    "
_CUT: Final = "\n\n… the rest did not fit.\n"
_FOLD: Final = re.compile(r"<(/?)details>")


def plain(text: str) -> str:
    """Other people's text inside of ours: on one line, and nothing but text."""
    return _broken(layout.escape(text))


def report(text: str) -> str:
    """A report in Markdown that names things which others named; indented code stays as it is."""
    return "".join(
        line if line.startswith(_CODE) else _broken(line) for line in text.splitlines(keepends=True)
    )


def bounded(text: str, limit: int = LIMIT) -> str:
    """Cut a text at the end of a line, so that it fits; what was folded stays folded."""
    if len(text) <= limit:
        return text
    closing = "\n</details>"
    room = max(limit - len(_CUT) - len(closing), 0)
    part = text[:room].rpartition("\n")[0]
    folds = [match[1] for match in _FOLD.finditer(part)]
    is_open = folds.count("") > folds.count("/")
    return part + (closing if is_open else "") + _CUT


def _broken(text: str) -> str:
    return _ACTIVE.sub(lambda match: match[0] + _BREAK, text)


_MARKER: Final = re.compile(r"<!-- duetbench:([a-z][a-z/-]*) (\{[^\n]*\}) -->")

Values = dict[str, str | int]


def marker(kind: str, values: Mapping[str, str | int]) -> str:
    """Write the line. Nothing in it can end the HTML comment."""
    written = json.dumps(dict(values), separators=(",", ":"), sort_keys=True)
    # JSON may write any letter as an escape; these could be the end of the comment.
    safe = written.replace(">", "\\u003e").replace("<", "\\u003c").replace("--", "-\\u002d")
    return f"<!-- duetbench:{kind} {safe} -->"


def marker_values(kind: str, body: str | None) -> Values | None:
    """Read the first line of a body; None: there is none of this kind."""
    first = (body or "").partition("\n")[0].rstrip("\r")
    match = _MARKER.fullmatch(first)
    if match is None or match[1] != kind:
        return None
    try:
        read = json.loads(match[2])
    except ValueError:
        return None
    return {
        key: value
        for key, value in read.items()
        if isinstance(value, str | int) and not isinstance(value, bool)
    }
