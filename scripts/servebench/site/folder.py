"""The site's folder: files that did not change are not written, files that are gone are removed.

What the site consists of is made again from `results/` at any time, so that nothing is flushed to
the disk, and a file that was cut short by an interruption is found by its size.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from servebench.errors import RecordError, UsageError

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
            # Not a Path: thousands of files are asked for, and making one takes longer than this.
            found = os.stat(self._place(name)).st_size == size  # noqa: PTH116
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

    def follow(self, name: str, source: Path) -> str:
        """Copy a file that may change: the copy is as it is if both have one size and one date.

        Returns:
            Its name.

        Raises:
            RecordError: It cannot be written.
        """
        status = source.stat()  # before reading: what is written meanwhile has another date
        path = self._path(name)
        with suppress(OSError):
            there = path.stat()
            if (there.st_size, there.st_mtime_ns) == (status.st_size, status.st_mtime_ns):
                self.names.add(name)
                self.kept += 1
                return name
        self.put(name, source.read_bytes())
        with suppress(OSError):  # it is compared byte by byte next time
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
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
        others = [name for folder in folders for name in _below(self._place(folder), folder)]
        others = [name for name in others if name not in self.names]
        for name in others:
            self._path(name).unlink()
        return len(others)

    def _path(self, name: str) -> Path:
        return Path(self._place(name))

    def _place(self, name: str) -> str:
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise UsageError(f"{name!r}: expected the name of a file inside the site")
        return f"{self.root}/{name}"


def _below(place: str, name: str) -> Iterator[str]:
    """Names of all files below a folder with this name."""
    try:
        with os.scandir(place) as entries:
            found = list(entries)
    except OSError:  # nothing is there
        return
    for entry in found:
        inside = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, inside)
        else:
            yield inside


def _unwritable(path: Path, problem: OSError) -> RecordError:
    return RecordError(
        f"{path}: cannot be written ({problem.strerror}); make room or choose another folder (-o)"
    )
