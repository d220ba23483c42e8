"""Text that others wrote, made fit for a comment: it is shown, and does nothing. Pure.

Markdown's own characters are escaped where a report is written (`report.markdown.escape`). What
GitHub adds afterwards knows no escapes: mentions call people, references leave marks on other
conversations, addresses become links (github/cmark-gfm#181, github/cmark-gfm#389). A zero-width
space in the middle keeps each of them from being one.
"""

from __future__ import annotations

import re
from typing import Final

from servebench.report import markdown

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
    return _broken(markdown.escape(text))


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
    kept = text[:room].rpartition("\n")[0]
    folds = [found[1] for found in _FOLD.finditer(kept)]
    is_open = folds.count("") > folds.count("/")
    return kept + (closing if is_open else "") + _CUT


def _broken(text: str) -> str:
    return _ACTIVE.sub(lambda found: found[0] + _BREAK, text)
