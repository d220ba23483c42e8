"""The site's folder: files that did not change are not written, files that are gone are removed.

What the site consists of is made again from `results/` at any time, so that nothing is flushed to
the disk, and a file that was cut short by an interruption is found by its size.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from servebench.errors import RecordError, UsageError

_HASH: Final = 10
_PARTIAL: Final = ".partial"


@dataclass(slots=True)
class Folder:
    """Files below a folder.

    Attributes:
        root: The folder; made when the first file is written.
        written: How many files were written.
        kept: How many were there already.
    """

    root: Path
    written: int = 0
    kept: int = 0
    names: set[str] = field(default_factory=set)

    def has(self, name: str, size: int) -> bool:
        """Whether the file is there with this size; if so it stays."""
        try:
            found = self._path(name).stat().st_size == size
        except OSError:
            return False
        if found:
            self.names.add(name)
            self.kept += 1
        return found

    def put(self, name: str, data: bytes) -> str:
        """Write a file, unless it is there with these bytes.

        Returns:
            Its name.

        Raises:
            RecordError: It cannot be written.
        """
        path = self._path(name)
        self.names.add(name)
        try:
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                self.kept += 1
                return name
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + _PARTIAL)
            partial.write_bytes(data)
            partial.replace(path)
        except OSError as problem:
            raise _unwritable(path, problem) from problem
        self.written += 1
        return name

    def put_hashed(self, stem: str, suffix: str, data: bytes) -> str:
        """Write a file whose name ends in a digest of its bytes."""
        digest = hashlib.sha256(data).hexdigest()[:_HASH]
        return self.put(f"{stem}-{digest}{suffix}", data)

    def copy(self, name: str, source: Path) -> str:
        """Copy a file that never changes: its name and size tell whether it is there.

        Raises:
            RecordError: It cannot be written.
        """
        if self.has(name, source.stat().st_size):
            return name
        path = self._path(name)
        self.names.add(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + _PARTIAL)
            shutil.copyfile(source, partial)
            partial.replace(path)
        except OSError as problem:
            raise _unwritable(path, problem) from problem
        self.written += 1
        return name

    def keep(self, folder: str) -> None:
        """Leave everything below a folder as it is."""
        for path in self._path(folder).rglob("*"):
            if path.is_file():
                self.names.add(path.relative_to(self.root).as_posix())
                self.kept += 1

    def remove_others(self, *folders: str) -> int:
        """Remove the files below these folders that were neither written nor kept.

        Returns:
            How many there were.
        """
        removed = 0
        for folder in folders:
            for place, _, files in os.walk(self._path(folder)):
                inside = Path(place).relative_to(self.root).as_posix()
                for name in files:
                    if f"{inside}/{name}" not in self.names:
                        Path(place, name).unlink()
                        removed += 1
        return removed

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name.startswith("/"):
            raise UsageError(f"{name!r}: expected the name of a file inside the site")
        return self.root.joinpath(*parts)


def _unwritable(path: Path, problem: OSError) -> RecordError:
    return RecordError(
        f"{path}: cannot be written ({problem.strerror}); make room or choose another folder (-o)"
    )
