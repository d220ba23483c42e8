"""Locks as texts: what uv resolves, one line per package, and what differs between two."""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from duetbench.core.errors import SetupError
from duetbench.host import command
from duetbench.host.command import Tick
from duetbench.project import tools
from duetbench.store import files

_COMPILE: Final = ("pip", "compile", "--universal", "--generate-hashes", "--quiet")
_PINNED: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_SUBJECT: Final = 68  # characters
_NONE: Final = "No solution found"  # uv, where no release is old enough


@dataclass(frozen=True, slots=True)
class Move:
    """A package that is locked to another version than before; None: absent.

    `stack` is the one whose lock it is; none of the harness's own.
    """

    package: str
    before: str | None
    after: str | None
    stack: str = ""


def moves(before: Mapping[str, str], after: Mapping[str, str], stack: str = "") -> tuple[Move, ...]:
    """What differs between two locks (name → version), by name."""
    return tuple(
        Move(name, before.get(name), after.get(name), stack)
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def title(kind: str, moved: Sequence[Move]) -> str:
    """What moved as the subject of a commit: as many releases as a line has room for."""
    packages = list(dict.fromkeys(f"{move.package} {move.after or 'gone'}" for move in moved))
    if not packages:
        return f"{kind}: other files of the same versions"
    line = f"{kind}: {packages[0]}"
    for number, name in enumerate(packages[1:], start=1):
        left = len(packages) - number
        if len(f"{line}, {name} and {left} more") > _SUBJECT:
            return f"{line} and {left} more"
        line += f", {name}"
    return line


def listed(moved: Sequence[Move]) -> str:
    """The moves as a list in Markdown; names and versions have no special letters."""
    return "\n".join(
        f"- {move.package} {move.before or '(new)'} → {move.after or '(gone)'}" for move in moved
    )


def for_python(version: str) -> list[str | Path]:
    """Arguments of `uv pip compile` for an interpreter of this version, and newer ones."""
    # Any interpreter will do to resolve with; naming one saves uv a slow search for a 3.14.
    plain = ["--no-header", "--no-annotate", "--python", sys.executable]
    return [*plain, "--python-version", ".".join(version.split(".")[:2])]


def newest(requirement: str, day: date, tick: Tick = lambda _: None) -> str | None:
    """The newest release at the end of a day (UTC) that a requirement allows; None: there was none.

    `requirement`: A package, with its versions if not all will do: `uvicorn<0.50.0`.

    Raises:
        SetupError: uv cannot reach its index.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "asked.txt"
        place.write_text(f"{requirement}\n", "utf-8")
        argv: list[str | Path] = ["--no-header", "--no-annotate", "--no-deps"]
        argv += ["--python", sys.executable, "--exclude-newer", day.isoformat(), place]
        package = Requirement(requirement).name
        try:
            text = compiled(argv, requirement, f"newest-{package}", tick, Path(folder))
        except SetupError as error:
            if _NONE in str(error):
                return None
            raise
    return versions(text).get(canonicalize_name(package))


def compiled(
    argv: Sequence[str | Path],
    what: str,
    log_name: str,
    tick: Tick,
    cwd: Path,
    keep: str = "",
    *,
    config: bool = False,
) -> str:
    """What `uv pip compile` makes of its arguments; with `config` by the settings around `cwd`.

    The versions of `keep` are preferred.

    Raises:
        SetupError: There is no such set of packages, or no way to the index.
    """
    log = tools.new_log(f"lock-{log_name}")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "requirements.txt"
        if keep:
            output.write_text(keep, "utf-8")  # what uv finds there it prefers
        settled = () if config else ("--no-config",)
        full = [tools.uv(), *_COMPILE, *settled, *tools.no_build(), *argv, "--output-file", output]
        command.run(full, what=f"resolving {what}", log=log, tick=tick, cwd=cwd)
        return output.read_text("utf-8")


def versions(lock: str) -> Mapping[str, str]:
    """Name → version; of a package with one version per platform, all of them."""
    versions: dict[str, set[str]] = {}
    for name, version in _PINNED.findall(lock):
        versions.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(several)) for name, several in versions.items()}


def one_line_per_package(text: str) -> str:
    """Join uv's continuation lines, so that a bump is one line of a diff."""
    lines = (" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def write(file: Path, text: str) -> None:
    """Write a lock as a whole, and its folder.

    Raises:
        RecordError: It cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, text.encode())
