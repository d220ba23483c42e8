"""Asking for disk space before it runs out in the middle of a build."""

from __future__ import annotations

import shutil
from pathlib import Path

from servebench.errors import SetupError


def free_gb(folder: Path) -> float:
    """Free space (10⁹ bytes) where a folder is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free / 1e9


def faults(folder: Path, needed_gb: float) -> list[str]:
    """Say that a build would fill the disk: less than `needed_gb` (10⁹ bytes) is free."""
    free = free_gb(folder)
    if free >= needed_gb:
        return []
    sentence = (
        f"{folder} has {free:.1f} GB free, and building needs {needed_gb:g} GB: make room, or set "
        "XDG_CACHE_HOME to a folder on a larger disk"
    )
    return [sentence]


def require(folder: Path, needed_gb: float) -> None:
    """Refuse to start a build that would fill the disk: SetupError."""
    if lacking := faults(folder, needed_gb):
        raise SetupError(lacking[0])
