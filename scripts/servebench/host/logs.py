"""Other programs' own words in a reason that is kept, and nothing of this machine beside them."""

from __future__ import annotations

import re
from pathlib import Path

from servebench.core.text import without_control
from servebench.host import paths


def read(path: Path) -> str:
    """Read a log as far as it is there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def tail(path: Path, most: int = 400) -> str:
    """Give a log's last words (characters), on one line."""
    return " ".join(read(path).split())[-most:] or "nothing"


def scrub(text: str) -> str:
    """Take this machine's folders, and what acts on a reader's terminal, out of a text."""
    for folder, name in (
        (paths.project_root(), "."),
        (paths.cache_dir(), "$CACHE"),
        (Path.home(), "~"),
    ):
        text = text.replace(str(folder), name)
    return without_control(re.sub(r"\s+", " ", text))
