"""Stylesheet, modules and pictures: copied as a whole into a folder named by what is in it.

Modules import each other by relative paths, so one digest stands for all of them: a browser may
keep the folder for ever, and never mixes two versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from servebench.site.charts import figure

FOLDER: Final = Path(__file__).with_name("static")
STYLES: Final = "site.css"

_SERVED: Final = frozenset({".css", ".js", ".svg", ".txt", ".png"})
"""What else stands there is for those who work on it."""


def files() -> dict[str, bytes]:
    """Every file by its name below the folder; the stylesheet with the charts' part."""
    found = {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _SERVED and path.is_file()
    }
    found[STYLES] = figure.stylesheet().encode() + b"\n" + found.get(STYLES, b"")
    return found


def folder(served: Mapping[str, bytes]) -> str:
    """Where they are on the site: `static/3f2a9c17d0/`."""
    digest = hashlib.sha256()
    for name, data in served.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return f"static/{digest.hexdigest()[:10]}/"
