"""Renewing the harness's own lock, `requirements.txt`: resolved by uv, and what moved."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench import paths, tools
from servebench.progress import Narrator
from servebench.stacklock import write
from servebench.toolchain import command

LOCK: Final = "requirements.txt"

_OLDEST: Final = "3.11"  # the oldest Python that the harness runs on
_PINNED: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_SUBJECT: Final = 68  # characters


@dataclass(frozen=True, slots=True)
class Move:
    """A package that is locked to another version than before; None: absent."""

    package: str
    before: str | None
    after: str | None


def renew(root: Path, narrator: Narrator) -> tuple[Move, ...]:
    """Resolve the lock anew, with the newest releases, and write it.

    Args:
        root: The checkout.
        narrator: Told what is being done.

    Returns:
        What moved, by name.

    Raises:
        SetupError: uv cannot resolve it, or reach its index; the lock was not changed.
    """
    file = root / LOCK
    before = file.read_text("utf-8") if file.is_file() else ""
    log = paths.cache_dir() / "logs" / "lock-harness.log"
    log.unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        narrator.step("the harness's lock", "resolving it as of now") as tick,
    ):
        output = Path(folder) / LOCK
        argv: list[str | Path] = [tools.uv(), "pip", "compile", "--no-config", "--universal"]
        argv += ["--generate-hashes", "--no-header", "--quiet", "--upgrade"]
        argv += ["--python-version", _OLDEST, "--group", "dev", "--output-file", output]
        command.run(
            [*argv, "pyproject.toml"], what="resolving the lock", log=log, tick=tick, cwd=root
        )
        after = output.read_text("utf-8")
    write(file, after)
    return moves(before, after)


def moves(before: str, after: str) -> tuple[Move, ...]:
    """What differs between two locks, by name. Pure."""
    old, new = _versions(before), _versions(after)
    return tuple(
        Move(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )


def title(moved: tuple[Move, ...]) -> str:
    """The moves in a line of a commit's length. Pure."""
    named = [f"{move.package} {move.after or 'gone'}" for move in moved]
    if not named:
        return "Harness: other files of the same versions"
    line = f"Harness: {named[0]}"
    for number, name in enumerate(named[1:], start=1):
        left = len(named) - number
        if len(f"{line}, {name} and {left} more") > _SUBJECT:
            return f"{line} and {left} more"
        line += f", {name}"
    return line


def listed(moved: tuple[Move, ...]) -> str:
    """The moves as a list in Markdown; names and versions have no special letters. Pure."""
    return "\n".join(
        f"- {move.package} {move.before or '(new)'} → {move.after or '(gone)'}" for move in moved
    )


def _versions(lock: str) -> Mapping[str, str]:
    """Name → version; of a package with one version per platform, all of them."""
    found: dict[str, set[str]] = {}
    for name, version in _PINNED.findall(lock):
        found.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(versions)) for name, versions in found.items()}
