"""A machine without programs, for tests of set-up."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from duetbench.host.console import Narrator

QUIET: Final = Narrator(Console(quiet=True))
NOBODY: Final = "http://127.0.0.1:9"  # the discard port, where nothing listens


@dataclass(frozen=True)
class Programs:
    """A folder of programs, which is the whole PATH by default."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return program
