"""asv's own site beside ours, at `asv/`: published again only if asv's results changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
from pathlib import Path
from typing import Final

from servebench.host.progress import Narrator
from servebench.site.folder import Folder

FOLDER: Final = "asv"
SIGN: Final = "asv.js"
"""A file that is there if asv made the site."""
NONE: Final = "asv has recorded nothing here"
ELSEWHERE: Final = "asv's site is only made of a checkout's own results"
LEFT_OUT: Final = "asv's site was left out as asked (--no-asv)"

_CONFIGURATION: Final = "asv.conf.json"
_COMPLETE: Final = "complete"


def bring(root: Path, results: Path, cache: Path, folder: Folder, narrator: Narrator) -> str:
    """Bring `asv/` up to date; `cache` is a folder of this function's own.

    Returns:
        Why there is no such site, in words; empty: there is.
    """
    recorded = results / "asv"
    if not (recorded / "benchmarks.json").is_file():
        return NONE
    if recorded.resolve() != (root / "results" / "asv").resolve():
        return ELSEWHERE
    place = cache / _digest(root, recorded)
    if not (place / _COMPLETE).is_file():
        try:
            _publish(root, cache, place, narrator)
        except Exception as problem:  # asv's own code may stumble over anything
            return f"asv's site could not be made ({type(problem).__name__}): {problem}"
    site = place / "html"
    for path in sorted(site.rglob("*")):
        if path.is_file():
            folder.put(f"{FOLDER}/{path.relative_to(site).as_posix()}", path.read_bytes())
    return ""


def _publish(root: Path, cache: Path, place: Path, narrator: Narrator) -> None:
    # asv takes half a second to import; only those whose results changed wait for it.
    from servebench.site import asv_publish  # noqa: PLC0415

    shutil.rmtree(cache, ignore_errors=True)
    place.mkdir(parents=True)
    asv_publish.publish(root, place / "html", narrator)
    (place / _COMPLETE).touch()


def _digest(root: Path, recorded: Path) -> str:
    """Of all that asv's site depends on besides the commits themselves, which never change."""
    digest = hashlib.sha256(importlib.metadata.version("asv").encode())
    ours = [
        Path(__file__).with_name("asv_publish.py"),
        *Path(__file__).with_name("vendor").glob("*"),
    ]
    every = [root / _CONFIGURATION, *sorted(recorded.rglob("*.json")), *sorted(ours)]
    for path in every:
        if path.is_file():
            digest.update(f"\0{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
