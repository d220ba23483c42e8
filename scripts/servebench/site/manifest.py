"""Which data files there are, what is in them, and what they were made from.

A file whose inputs did not change is not made again: the manifest remembers, beside the digest of
its bytes, a digest of what it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from servebench.site.folder import Folder
from servebench.site.shards import FORMAT, dense

NAME: Final = "manifest.json"
SECTIONS: Final = ("series", "across", "nights", "parquet")
"""Folders of the files, in the order in which they are listed."""

_HASH: Final = 10

Entry = tuple[str, int, str]
"""Digest of a file's bytes, its size, and a digest of what it was made from."""
Key = tuple[str, str, str]
"""Section, folder in it, and year."""


def digest(data: bytes) -> str:
    """A digest of bytes, as files are named by it."""
    return hashlib.sha256(data).hexdigest()[:_HASH]


@dataclass(slots=True)
class Manifest:
    """The files of one build, looked up in the one before.

    Attributes:
        folder: The site's.
        before: The manifest of the build before.
        now: Section → folder → year → entry.
    """

    folder: Folder
    before: Mapping[str, Any]
    now: dict[str, dict[str, dict[str, Entry]]] = field(default_factory=dict)

    def keep(self, key: Key, suffix: str, inputs: str) -> bool:
        """Take a file over from the last build, if it was made from the same.

        Args:
            key: Which one.
            suffix: Of the file's name.
            inputs: Digest of what it is made from.
        """
        section, name, year = key
        entries = self.now.setdefault(section, {}).setdefault(name, {})
        entry = _entry(self.before, key)
        if entry and entry[2] == inputs and self.folder.has(_name(key, entry[0], suffix), entry[1]):
            entries[year] = entry
            return True
        entries[year] = ("", 0, inputs)  # its place in the order
        return False

    def put(self, key: Key, suffix: str, data: bytes) -> None:
        """Write a file that could not be kept.

        Raises:
            RecordError: It cannot be written.
        """
        section, name, year = key
        named = digest(data)
        self.folder.put(_name(key, named, suffix), data)
        entries = self.now[section][name]
        entries[year] = (named, len(data), entries[year][2])

    def keep_or_make(self, key: Key, suffix: str, inputs: str, make: Callable[[], bytes]) -> None:
        """Take a file over from the last build, or make it."""
        if not self.keep(key, suffix, inputs):
            self.put(key, suffix, make())

    def write(self) -> dict[str, Any]:
        """Write `manifest.json`; last, because it vouches for the files.

        Returns:
            What is in it.
        """
        told: dict[str, Any] = {"format": FORMAT}
        told |= {name: self.now[name] for name in SECTIONS if name in self.now}
        self.folder.put(NAME, dense(told))
        return told


def of_last_build(folder: Folder) -> Mapping[str, Any]:
    """The manifest of the last build; nothing if it is damaged or of another format."""
    path: Path = folder.root / NAME
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) and stored.get("format") == FORMAT else {}


def _entry(manifest: Mapping[str, Any], key: Key) -> Entry | None:
    try:
        section, name, year = key
        found, size, inputs = manifest[section][name][year]
        return str(found), int(size), str(inputs)
    except (KeyError, TypeError, ValueError):
        return None


def _name(key: Key, named: str, suffix: str) -> str:
    return f"{'/'.join(key)}-{named}{suffix}"
