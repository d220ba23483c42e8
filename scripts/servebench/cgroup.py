"""What the control groups allow this process: a limit on cores or memory skews what is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNT: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
_UNLIMITED_BYTES: Final = 1 << 60
"""Version 1 writes "no limit" as a number near 2⁶³, rounded to pages."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the control groups; None: unlimited, or not to be seen.

    Attributes:
        cores: Core time per time, e.g. 1.5.
        memory: Bytes.
    """

    cores: float | None
    memory: int | None


def limits(mount: Path = _MOUNT, own: Path = _SELF) -> Limits:
    """Read the tightest limits from this process's group up to the root (versions 1 and 2)."""
    cores: list[float] = []
    memory: list[int] = []
    for folder in _folders(mount, own):
        cores += _quota_v2(folder) + _quota_v1(folder)
        memory += [
            int(text)
            for name in ("memory.max", "memory.limit_in_bytes")
            if (text := _read(folder / name)).isdigit() and int(text) < _UNLIMITED_BYTES
        ]
    return Limits(min(cores, default=None), min(memory, default=None))


def _folders(mount: Path, own: Path) -> list[Path]:
    found: list[Path] = []
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        bases = [mount] if not controllers else [mount / name for name in controllers.split(",")]
        for base in bases:
            group = base / path.lstrip("/")
            # Inside a container the path may be the host's: then the mount itself is the group.
            found += [group, *(up for up in group.parents if up.is_relative_to(base))]
    return list(dict.fromkeys(folder for folder in found if folder.is_dir()))


def _quota_v2(folder: Path) -> list[float]:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return [int(quota) / int(period)] if quota.isdigit() and period.isdigit() else []


def _quota_v1(folder: Path) -> list[float]:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return [int(quota) / int(period)] if quota.isdigit() and period.isdigit() else []


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
