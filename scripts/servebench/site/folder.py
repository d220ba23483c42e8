"""The site's folder: files that did not change are not written, files that are gone are removed.

What the site consists of is made again from `results/` at any time, so that nothing is flushed to
the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from servebench.core.errors import RecordError, UsageError

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
            if path.is_file() and path.read_bytes() == data:
                self.kept += 1
                return name
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + _PARTIAL)
            partial.write_bytes(data)
            partial.replace(path)
        except OSError as problem:
            raise RecordError(
                f"{path}: cannot be written ({problem.strerror}); make room or choose another "
                "folder (-o)"
            ) from problem
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
        others = [
            path
            for folder in folders
            for path in self._path(folder).rglob("*")
            if not path.is_dir() and path.relative_to(self.root).as_posix() not in self.names
        ]
        for path in others:
            path.unlink()
        return len(others)

    def _path(self, name: str) -> Path:
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise UsageError(f"{name!r}: expected the name of a file inside the site")
        return self.root / name
