"""Scratch folders that know their owner: what a killed duetbench has left, the next one removes.

A folder's name says which process made it, and in which pid namespace. Standard library alone: what
counts instructions in the environments of stacks uses it.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from duetbench.host import proc


def make(prefix: str, base: Path) -> Path:
    """Make an empty folder below `base`, for the caller to remove; its path has a fixed length."""
    me = proc.stat(os.getpid())
    owner = f"{_namespace()}-{os.getpid():07}-{me.start if me else 0:012}"
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-{owner}-", dir=base))


def sweep(prefix: str, base: Path) -> None:
    """Remove the folders of that prefix whose owners are dead."""
    for place in base.glob(f"{prefix}-*-*-*-*"):
        with suppress(ValueError):
            namespace, pid, start, _ = place.name.removeprefix(f"{prefix}-").split("-")
            # Of another container nobody here can tell who lives.
            if namespace == _namespace() and not proc.lives(int(pid), int(start)):
                shutil.rmtree(place, ignore_errors=True)


def _namespace() -> str:
    return "".join(letter for letter in proc.pid_namespace() if letter.isdigit())
