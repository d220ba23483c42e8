"""Lines of JSON that are appended as things happen, and survive whatever ends the program."""

import json
import os
from pathlib import Path
from typing import Any

from duetbench.store import files


class Journal:
    """Events so far, as `lines`, oldest first; it begins with what an earlier program left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text("utf-8") if path.is_file() else ""
        whole = text[: text.rfind("\n") + 1]  # a killed program may have left half a line
        if whole != text:
            files.replace(path, whole.encode())
        self.lines: list[Any] = [json.loads(line) for line in whole.splitlines()]
        self.begun = bool(self.lines)

    def add(self, line: Any) -> None:
        """Append a value that JSON has; it is on the disk when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self.lines.append(line)

    def forget(self) -> None:
        """Remove the file: all is over, or starts again."""
        self._path.unlink(missing_ok=True)
        self.lines.clear()
        self.begun = False
