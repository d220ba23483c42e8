"""Renewing the stacks' locks: resolved by uv, one line per package, and what moved."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import rich.console
from packaging.version import Version

from servebench import interpreters, paths, settings, stacks, tools
from servebench.progress import Narrator, Tick
from servebench.toolchain import command

_NEVER: Final = "9999-01-01"
"""A date before which everything was released."""


@dataclass(frozen=True, slots=True)
class Move:
    """A package that is locked to another version than before; None: absent."""

    stack: str
    package: str
    before: str | None
    after: str | None


def cooled(root: Path) -> tuple[datetime | None, tuple[str, ...]]:
    """Until when a release has to be out for nights to lock it (None: any), and whose need not.

    Raises:
        DeclarationError: The settings are wrong.
    """
    found = settings.load(root)
    if not found.cooldown_days:
        return None, ()
    until = datetime.now(UTC).replace(microsecond=0) - timedelta(days=found.cooldown_days)
    return until, found.cooldown_exempt


def lock(
    names: Sequence[str] | None = None,
    as_of: date | None = None,
    narrator: Narrator | None = None,
    *,
    root: Path | None = None,
    exempt: Sequence[str] = (),
) -> tuple[Move, ...]:
    """Resolve stacks anew and write their locks; all or none.

    Args:
        names: Which; all declared ones if None or empty.
        as_of: Resolve as of the end of this date (UTC), or of this moment; None: now.
        narrator: Told what is being done.
        root: The checkout; by default the one around us.
        exempt: Packages whose releases count whatever `as_of` says. What is locked already is not
            taken back either.

    Returns:
        What moved, in the order of the stacks and packages.

    Raises:
        UsageError: No such stack.
        SetupError: uv cannot resolve it, or reach its index; no lock was changed.
    """
    narrator = narrator or Narrator(rich.console.Console(quiet=True))
    root = root or paths.project_root()
    chosen = tuple(names or stacks.names(root))
    for name in chosen:
        stacks.pythons(name, root)  # refuses unknown names before anything is resolved
    moves: list[Move] = []
    resolved: dict[Path, str] = {}
    for name in chosen:
        file = stacks.lock_file(name, root)
        before = stacks.read(name, root).packages if file.exists() else {}
        with narrator.step(f"stack {name}", f"resolving it as of {as_of or 'now'}") as tick:
            text = resolve(name, as_of, tick, root=root, exempt=exempt)
            after = stacks.parse(text, str(file), root)
            if isinstance(as_of, datetime) and (kept := _taken_back(before, after)):
                pins = [f"{package}<={version}" for package, version in kept.items()]
                text = resolve(name, as_of, tick, root=root, exempt=(*exempt, *kept), pins=pins)
                after = stacks.parse(text, str(file), root)
            resolved[file] = text
        moves += _moves(name, before, after)
    for file, text in resolved.items():
        write(file, text)
    return tuple(moves)


def resolve(
    name: str,
    as_of: date | None,
    tick: Tick = lambda _: None,
    *,
    root: Path | None = None,
    keep: str = "",
    pins: Sequence[str] = (),
    exempt: Sequence[str] = (),
) -> str:
    """Resolve one stack; the lock's text. Errors as in `lock`.

    Args:
        name: Which.
        as_of: As of the end of this date (UTC), or of this moment; None: now.
        tick: Told what uv says.
        root: The checkout that declares it; by default the one around us.
        keep: Text of a lock whose versions are kept where they can be.
        pins: Requirements that hold for whatever is installed, as `granian==2.7.8`.
        exempt: Packages to which `as_of` does not apply.
    """
    root = root or paths.project_root()
    version = next(iter(interpreters.declared(root).values())).version
    log = paths.cache_dir() / "logs" / f"lock-{name}.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        if keep:
            output.write_text(keep, "utf-8")  # what uv finds there it prefers
        argv: list[str | Path] = [tools.uv(), "pip", "compile", "--no-config", "--universal"]
        argv += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
        # Any interpreter will do to resolve with; naming one saves uv a slow search for a 3.14.
        argv += ["--python", sys.executable, "--python-version", ".".join(version.split(".")[:2])]
        argv += ["--group", f"{root / 'apps' / 'pyproject.toml'}:{name}"]
        argv += ["--output-file", output]
        if pins:
            constraints = Path(folder) / "pins.txt"
            constraints.write_text("".join(f"{pin}\n" for pin in pins), "utf-8")
            argv += ["--constraint", constraints]
        if as_of is not None:
            argv += ["--exclude-newer", as_of.isoformat()]
            for package in exempt:
                argv += ["--exclude-newer-package", f"{package}={_NEVER}"]
        command.run(argv, what=f"resolving stack {name}", log=log, tick=tick, cwd=root / "apps")
        return one_line_per_package(output.read_text())


def _taken_back(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """Packages that would go back to an older release, with the one that is locked.

    Somebody has locked it without waiting; a step back and forth would be two changes of nothing.
    """
    return {
        package: before[package]
        for package, version in after.items()
        if package in before and Version(version) < Version(before[package])
    }


def one_line_per_package(text: str) -> str:
    """Join uv's continuation lines, so that a bump is one line of a diff."""
    joined = text.replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in joined.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def _moves(stack: str, before: dict[str, str], after: dict[str, str]) -> list[Move]:
    return [
        Move(stack, package, before.get(package), after.get(package))
        for package in sorted(before.keys() | after.keys())
        if before.get(package) != after.get(package)
    ]


def write(file: Path, text: str) -> None:
    """Write a lock as a whole: whoever reads it sees the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)
