"""Full disks: writes go to the kernel's full device, which fails each with ENOSPC."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Let files of a folder be opened for writing by this process, but not written."""
    real = io.open

    def open_(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        full = "w" in mode and Path(file).is_relative_to(folder)
        return real("/dev/full" if full else file, mode, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", open_)
        yield
