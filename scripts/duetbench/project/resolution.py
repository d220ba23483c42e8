"""Resolving a project's stacks with uv: as of a date, with pins, or as nights do it."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from packaging.version import Version

from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project import locks, stacks
from duetbench.project.project import Project

_NEVER: Final = "9999-01-01"
"""A date before which everything was released."""


def cooled(project: Project) -> tuple[datetime | None, tuple[str, ...]]:
    """Until when a release has to be out for nights to lock it (None: any), and whose need not.

    Raises:
        DeclarationError: The settings are wrong.
    """
    settings = project.settings
    if not settings.cooldown_days:
        return None, ()
    until = datetime.now(UTC).replace(microsecond=0) - timedelta(days=settings.cooldown_days)
    return until, settings.cooldown_exempt


def lock(
    project: Project,
    narrator: Narrator,
    names: Sequence[str] | None = None,
    as_of: date | None = None,
    *,
    exempt: Sequence[str] = (),
) -> tuple[locks.Move, ...]:
    """Resolve stacks (all if none are named) anew, write their locks, all or none: what moved.

    It is as of the end of a date (UTC), of a moment, or of now, but for `exempt` packages. What is
    locked already is not taken back to a moment: that would be two changes of nothing.

    Raises:
        UsageError: No such stack.
        SetupError: uv cannot resolve it, or reach its index; no lock was changed.
    """
    chosen = tuple(names or project.stacks)
    for name in chosen:
        project.pythons(name)  # refuses unknown names before anything is resolved
    moved: list[locks.Move] = []
    resolved: dict[Path, str] = {}
    for name in chosen:
        file = project.lock_file(name)
        before = project.lock(name).packages if file.exists() else {}
        with narrator.step(f"stack {name}", f"resolving it as of {as_of or 'now'}") as tick:
            text = resolve(project, name, as_of, tick, exempt=exempt)
            after = stacks.parse(text, str(file), project.version)
            older = {
                package: before[package]
                for package, version in after.items()
                if package in before and Version(version) < Version(before[package])
            }
            if isinstance(as_of, datetime) and older:
                pins = [f"{package}<={version}" for package, version in older.items()]
                text = resolve(project, name, as_of, tick, exempt=(*exempt, *older), pins=pins)
                after = stacks.parse(text, str(file), project.version)
            resolved[file] = text
        moved += locks.moves(before, after, name)
    for file, text in resolved.items():
        locks.write(file, text)
    return tuple(moved)


def resolve(
    project: Project,
    name: str,
    as_of: date | None,
    tick: Tick = lambda _: None,
    *,
    keep: str = "",
    pins: Sequence[str] = (),
    exempt: Sequence[str] = (),
) -> str:
    """Resolve one stack; the lock's text. Dates, `exempt` and errors as in `lock`.

    The versions of `keep`, a lock's text, are kept where they can be; `pins`, requirements such as
    `granian==2.7.8`, hold for whatever is installed.
    """
    foreign = project.deployment is not None  # somebody's project, whose own index it may take
    requirements: list[str | Path] = [
        "--group",
        f"{project.root / 'apps' / 'pyproject.toml'}:{name}",
    ]
    if foreign:
        requirements = [project.lock_file(name).with_suffix(".in")]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "pins.txt"
        constraints.write_text("".join(f"{pin}\n" for pin in pins), "utf-8")
        argv = [*locks.for_python(project.version), *requirements, "--constraint", constraints]
        if as_of is not None:
            argv += ["--exclude-newer", as_of.isoformat()]
            for package in exempt:
                argv += ["--exclude-newer-package", f"{package}={_NEVER}"]
        place = project.root if foreign else project.root / "apps"
        text = locks.compiled(argv, f"stack {name}", name, tick, place, keep, config=foreign)
    return locks.one_line_per_package(text)
