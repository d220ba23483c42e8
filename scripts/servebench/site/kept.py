"""What the site's cache keeps, and where; all of it may be lost, and is made again.

packs/<folder>/results          of one results folder: which one it is,
digests.json     SHA-256 of its files, with size and date,
nights.pack      its nights of run files,
asv.pack         its nights of asv's results,
asv.json         and which of its files they are of
runs/<format>/<source>.night    nights of run files that are in no pack yet
asv/<format>/<source>.night     the same of asv's results
asv-site/                       asv's own pages
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from servebench.errors import SetupError
from servebench.files import swap

PACKS: Final = "packs"
ORIGIN: Final = "results"
"""The file with the path of the results folder that the ones beside it are of."""

_DIGESTS: Final = "digests.json"

Stamp = tuple[int, int, str]
"""Size in bytes, date in ns, and SHA-256 of a file."""


@dataclass(slots=True)
class Digests:
    """SHA-256 of files by path; read again only if size or date moved."""

    known: dict[str, Stamp]
    seen: dict[str, Stamp] = field(default_factory=dict)

    def of(self, path: Path | os.DirEntry[str]) -> str:
        """The digest of a file, given by its absolute path."""
        name, status = os.fspath(path), path.stat()
        stamp = self.known.get(name)
        if stamp is None or (stamp[0], stamp[1]) != (status.st_size, status.st_mtime_ns):
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            stamp = (status.st_size, status.st_mtime_ns, digest)
        self.seen[name] = stamp
        return stamp[2]


def digests(place_: Path) -> Digests:
    """The digests of the last time; none if they are not there, or damaged."""
    try:
        stored = json.loads((place_ / _DIGESTS).read_bytes())
        return Digests(
            {name: (int(size), int(date), str(sha)) for name, (size, date, sha) in stored.items()}
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return Digests({})


def remember(place_: Path, found: Digests) -> None:
    """Keep the digests of what was seen for the next time.

    Raises:
        SetupError: They cannot be written.
    """
    if found.seen != found.known:
        write(place_ / _DIGESTS, json.dumps(found.seen).encode())


def place(cache: Path, results: Path) -> Path:
    """Where is what was read of a results folder, given by its absolute path."""
    return cache / PACKS / hashlib.sha256(os.fsencode(results)).hexdigest()[:16]


def sign(place_: Path, results: Path) -> None:
    """Say of which results folder this is, if anything was kept.

    Raises:
        SetupError: It cannot be written.
    """
    if place_.is_dir() and not (place_ / ORIGIN).is_file():
        write(place_ / ORIGIN, os.fsencode(results))


def orphaned(place_: Path) -> bool:
    """Whether the results folder that this was read of is gone, or not known."""
    try:
        return not Path(os.fsdecode((place_ / ORIGIN).read_bytes())).is_dir()
    except (OSError, ValueError):  # ValueError: a path that can be none
        return True


def below(folder: Path | str, suffix: str) -> Iterator[os.DirEntry[str]]:
    """All files of a kind below a folder, by name; there are thousands of them."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # nothing there, or nothing that can be looked at
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from below(entry.path, suffix)
        elif entry.name.endswith(suffix):
            yield entry


def write(path: Path, data: bytes) -> None:
    """Write a file of the cache as a whole; unlike a run file it may be lost.

    Raises:
        SetupError: It cannot be written.
    """
    try:
        # Another process may be at the same file: the name is this one's own.
        swap(path, data, path.with_name(f"{path.name}.{os.getpid()}.partial"))
    except OSError as problem:
        raise SetupError(
            f"{path}: the cache cannot be written ({problem.strerror}); make room, or set "
            "XDG_CACHE_HOME to a folder that can be written"
        ) from problem
