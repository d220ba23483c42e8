"""Stacks: locked sets of packages, and the environments made from them.

A stack is a dependency group of `apps/pyproject.toml` with its lock `apps/stacks/<stack>.txt`: one
line per package with its hashes. `[tool.duetbench.stacks.<stack>]` beside the group may narrow the
interpreters that it is made for. A target has one stack, its project's packages (see `projects`).
"""

import contextlib
import hashlib
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from duetbench.core.errors import DeclarationError, SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator
from duetbench.project import tools
from duetbench.project.types import Interpreter, Stack

_PROGRAM: Final = "bin/python"
_PINNED: Final = "name==version, one per line, with hashes; renew it with `duetbench stack lock`"


def lock_file(name: str, root: Path) -> Path:
    """The file of a declared stack's lock."""
    return root / "apps" / "stacks" / f"{name}.txt"


def read_lock(name: str, lock: Path, version: str, home: Path | None = None) -> Stack:
    """Read a lock for a version of Python; `home` as of a `Stack`.

    Raises:
        SetupError: There is none.
        DeclarationError: It has lines that are not pinned packages.
    """
    try:
        content = lock.read_bytes()
    except FileNotFoundError as error:
        raise SetupError(
            f"stack {name} has no lock {lock}: run `duetbench stack lock {name}`"
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    packages = parse(content.decode(), str(lock), version)
    return Stack(name, lock, digest, packages, home)


def parse(text: str, file: str, version: str) -> dict[str, str]:
    """Read name → version from a lock's text, without the packages of other platforms.

    They are those for a Python of this version.

    Raises:
        DeclarationError: A line is no pinned package.
    """
    platform = markers(version)
    packages = {}
    for line in text.replace("\\\n", " ").splitlines():
        pinned = line.split(" --hash")[0].strip()
        if not pinned or pinned.startswith("#"):
            continue
        try:
            requirement = Requirement(pinned)
        except InvalidRequirement as error:
            raise DeclarationError(file, "line", pinned, _PINNED) from error
        pins = list(requirement.specifier)
        exact = [pin.version for pin in pins if len(pins) == 1 and pin.operator == "=="]
        pin_version = _of_file(requirement.url) if requirement.url else next(iter(exact), None)
        if pin_version is None or "--hash" not in line:
            raise DeclarationError(file, "line", pinned, _PINNED)
        if requirement.marker is None or requirement.marker.evaluate(platform):
            packages[canonicalize_name(requirement.name)] = pin_version
    return dict(sorted(packages.items()))


def markers(version: str) -> dict[str, str]:
    """Values of environment markers for a Python of a version, where they are not our own's."""
    return {
        "python_full_version": version,
        "python_version": ".".join(version.split(".")[:2]),
        "implementation_version": version,
    }


def _of_file(address: str) -> str | None:
    """The version of a package that is a file somewhere, by the file's name."""
    name = unquote(urlsplit(address).path).rpartition("/")[2]
    with contextlib.suppress(InvalidWheelFilename):
        return str(parse_wheel_filename(name)[1])
    with contextlib.suppress(InvalidSdistFilename):
        return str(parse_sdist_filename(name)[1])
    return None


def executable(stack: Stack, python: Interpreter) -> Path:
    """Find the Python executable of the environment of a lock. Starts no process.

    SetupError: it was not made yet.
    """
    target = place(stack, python)
    if cache.facts(target) is None:
        raise SetupError(
            f"stack {stack.name} has no environment for {python.name} and its present lock: "
            "run `duetbench setup`"
        )
    cache.touch(target)
    return target / _PROGRAM


def make_environment(stack: Stack, python: Interpreter, narrator: Narrator) -> bool:
    """Make a stack's environment for an interpreter, if it is not there: whether it was made now.

    Raises:
        SetupError: A package cannot be had, or comes in another version.
    """

    def build(staging: Path) -> cache.Facts:
        log = tools.new_log(f"stack-{stack.name}-{python.name}")
        what = f"installing stack {stack.name} for {python.name}"
        venv: list[str | Path] = [tools.uv(), "venv", "--relocatable", "--no-project"]
        venv += ["--no-config", "--allow-existing", "--python", python.executable, staging]
        sync: list[str | Path] = [tools.uv(), "pip", "sync", "--require-hashes"]
        sync += [] if stack.home else ["--no-config"]
        # Compiled now, the first start of a server is no slower than the others.
        sync += [
            *tools.no_build(),
            "--compile-bytecode",
            "--python",
            staging / _PROGRAM,
            stack.lock,
        ]
        why = f"installing {len(stack.packages)} packages"
        with narrator.step(f"stack {stack.name} for {python.name}", why) as tick:
            command.run(venv, what=what, log=log, tick=tick)
            command.run(sync, what=what, log=log, tick=tick, cwd=stack.home)
        return {"stack": stack.name, "digest": stack.digest, "python": str(python.executable)}

    return cache.make(
        place(stack, python),
        fault=lambda target: environment_fault(stack, target, python.version),
        build=build,
        say=narrator.say,
    )


def place(stack: Stack, python: Interpreter) -> Path:
    """Where an environment is: another place for every lock and build of the interpreter."""
    key = cache.digest(stack.digest, python.identity)
    return paths.cache_dir() / "environments" / f"{stack.name}-py{python.name}-{key}"


def environment_fault(stack: Stack, target: Path, version: str | None = None) -> str | None:
    """Say in what an environment differs from its lock; None if in nothing. Reads names only.

    `version` is that of its Python, where it may not be the one that the stack was read for.
    """
    if cache.facts(target) is None or not (target / _PROGRAM).exists():
        return "it is not there"
    installed: dict[str, str] = {}
    for folder in target.glob("lib/python*/site-packages/*.dist-info"):
        name, _, version_there = folder.name.removesuffix(".dist-info").rpartition("-")
        installed[canonicalize_name(name)] = version_there
    wanted = stack.packages
    if version is not None:
        wanted = parse(stack.lock.read_text("utf-8"), str(stack.lock), version)
    return (
        "; ".join(
            f"{name} is {installed.get(name, 'absent')} instead of {wanted.get(name, 'absent')}"
            for name in sorted({*wanted, *installed})
            if wanted.get(name) != installed.get(name)
        )
        or None
    )
