"""Other programs' own words in a reason that is kept, and nothing of this machine beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from servebench import paths

_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_LOG_TAIL: Final = 400  # characters of a server's own words in a reason


def read(path: Path) -> str:
    """Read a log as far as it is there; what is no text is replaced."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def tail(path: Path) -> str:
    """Give a log's last words, on one line."""
    return " ".join(read(path).split())[-_LOG_TAIL:] or "nothing"


def scrub(text: str) -> str:
    """Take this machine's folders out of a text that is kept."""
    for folder, name in (
        (paths.project_root(), "."),
        (paths.cache_dir(), "$CACHE"),
        (Path.home(), "~"),
    ):
        text = text.replace(str(folder), name)
    # A server's own words may hold anything; escape sequences would act on the reader's terminal.
    return re.sub(r"\s+", " ", _CONTROL.sub("", text))
