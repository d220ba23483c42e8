"""Renewing locks with uv: the stacks', one line per package, and the harness's own."""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from duetbench.core.errors import SetupError
from duetbench.host import command
from duetbench.host.console import Narrator, Tick
from duetbench.project import stacks, tools
from duetbench.project.project import Project
from duetbench.store import files

_NEVER: Final = "9999-01-01"
"""A date before which everything was released."""
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
) -> tuple[Move, ...]:
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
    moved: list[Move] = []
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
        moved += moves(before, after, name)
    for file, text in resolved.items():
        write(file, text)
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
    own = project.deployment is not None  # somebody's project, whose own index it may take
    requirements: list[str | Path] = [
        "--group",
        f"{project.root / 'apps' / 'pyproject.toml'}:{name}",
    ]
    if own:
        requirements = [project.lock_file(name).with_suffix(".in")]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "pins.txt"
        constraints.write_text("".join(f"{pin}\n" for pin in pins), "utf-8")
        argv = [*for_python(project.version), *requirements, "--constraint", constraints]
        if as_of is not None:
            argv += ["--exclude-newer", as_of.isoformat()]
            for package in exempt:
                argv += ["--exclude-newer-package", f"{package}={_NEVER}"]
        place = project.root if own else project.root / "apps"
        text = compiled(argv, f"stack {name}", name, tick, place, keep, config=own)
    return one_line_per_package(text)


def for_python(version: str) -> list[str | Path]:
    """Arguments of `uv pip compile` for an interpreter of this version, and newer ones."""
    # Any interpreter will do to resolve with; naming one saves uv a slow search for a 3.14.
    plain = ["--no-header", "--no-annotate", "--python", sys.executable]
    return [*plain, "--python-version", ".".join(version.split(".")[:2])]


def newest(requirement: str, day: date, tick: Tick = lambda _: None) -> str | None:
    """The newest release at the end of a day (UTC) that a requirement allows; None: there was none.

    `asked`: A package, with its versions if not all will do: `uvicorn<0.50.0`.

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
