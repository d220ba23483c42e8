"""Stacks: locked sets of packages, how uv resolves them, and environments made from them.

The lock of a stack has one line per package with its hashes. A target has one stack, the packages
of its project.
"""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from itertools import count
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

from duetbench.app.declarations import read_pyproject
from duetbench.app.interpreters import Environment, Interpreter, of_lock
from duetbench.core.errors import DeclarationError, SetupError
from duetbench.core.model import StackRecord
from duetbench.host import cache, command, files, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator

_PROGRAM: Final = "bin/python"
_PINNED: Final = "name==version, one per line, with hashes; renew it with `observatory lock`"
_VERSION: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_COMPILE: Final = ("pip", "compile", "--universal", "--generate-hashes", "--quiet", "--no-header")
GIT: Final = "git+"
"""Begins addresses of commits, and what stands for the versions of their packages."""

_INDEX: Final = re.compile(r"^--extra-index-url[ =]\S+", re.MULTILINE)
_ANY_INDEX: Final = ("--index-strategy", "unsafe-best-match")
"""As pip reads such lines; what is installed is pinned by its hash."""


UNVERSIONED: Final = dict.fromkeys(
    (
        "SETUPTOOLS_SCM_PRETEND_VERSION",
        "PDM_BUILD_SCM_VERSION",
        "POETRY_DYNAMIC_VERSIONING_BYPASS",
        "UV_DYNAMIC_VERSIONING_BYPASS",
        "PBR_VERSION",
    ),
    "0.0.0",  # some read the third part
)
"""Variables with versions for a copy, which has no history to read one from."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A locked set of packages.

    Attributes:
        digest: SHA-256 of the lock file, 64 hex digits.
        packages: Normalised name → version, of the packages that this platform gets.
        home: Folder whose settings of uv (its index) apply to them; None: uv's own.
        environment: Where they are installed already, all but what was added.
    """

    name: str
    lock: Path
    digest: str
    packages: dict[str, str]
    home: Path | None = None
    environment: Environment | None = None

    def record(self) -> StackRecord:
        return StackRecord(name=self.name, digest=self.digest, packages=self.packages)


def read_lock(name: str, lock: Path, version: str, home: Path | None = None) -> Stack:
    """Read a lock for a version of Python; `home` as in `Stack`.

    Raises SetupError if there is none, DeclarationError for a line that is no pinned package.
    """
    if not lock.is_file():
        raise SetupError(f"stack {name} has no lock {lock}: run `observatory lock {name}`")
    text = lock.read_text("utf-8")
    for line in () if home else _lines(text):
        if "--hash" not in line:
            raise DeclarationError(str(lock), "line", line, _PINNED)
    packages, digest = parse(text, str(lock), version), cache.sha256(lock)
    return Stack(name, lock, digest, packages, home, of_lock(text))


def parse(text: str, file: str, version: str) -> dict[str, str]:
    """Read name → version from a lock's text, for a Python of this version on this platform.

    Raises DeclarationError for a line that is no pinned package.
    """
    packages = dict[str, str]()
    platform = {  # otherwise our own Python's
        "python_full_version": version,
        "python_version": ".".join(version.split(".")[:2]),
        "implementation_version": version,
    }
    for line in _lines(text):
        requirement, own = parse_line(line), None
        if requirement and requirement.url:
            own = _of_address(requirement.url)
        elif exact := re.fullmatch(r"==([^=,]+)", str(requirement and requirement.specifier)):
            own = exact[1]
        if requirement is None or own is None:
            raise DeclarationError(file, "line", line.partition(" --hash")[0], _PINNED)
        if requirement.marker is None or requirement.marker.evaluate(platform):
            packages[canonicalize_name(requirement.name)] = own
    return dict(sorted(packages.items()))


def parse_line(line: str) -> Requirement | None:
    """Parse a requirement, or a line of a lock; None if it names no package."""
    with contextlib.suppress(InvalidRequirement):
        return Requirement(line.partition(" --hash=")[0])
    return None


def name_of(line: str) -> str:
    """Return the package of such a line; empty if it names none."""
    requirement = parse_line(line)
    return canonicalize_name(requirement.name) if requirement else ""


def indexes(text: str) -> str:
    """Return the lines of a lock, or of requirements, that name further indexes."""
    return "".join(f"{line}\n" for line in _INDEX.findall(text))


def _lines(text: str) -> Iterator[str]:
    """Split a lock into packages, each with its hashes on one line."""
    lines = (" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines())
    return (line for line in lines if line and not line.startswith(("#", "--")))


def _of_address(address: str) -> str | None:
    """Return the version in the file name of a package that is locked by its address; or a commit.

    A commit is `git+` and its first digits.
    """
    if address.startswith(GIT):
        return GIT + urlsplit(address).path.rpartition("@")[2][:8]
    name = unquote(urlsplit(address).path).rpartition("/")[2]
    with contextlib.suppress(InvalidWheelFilename):
        return str(parse_wheel_filename(name)[1])
    with contextlib.suppress(InvalidSdistFilename):
        return str(parse_sdist_filename(name)[1])
    return None


def versions(lock: str) -> Mapping[str, str]:
    """Read name → version; if a package has one version per platform, all of them."""
    by_name: dict[str, set[str]] = {}
    for name, version in _VERSION.findall(lock):
        by_name.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(values)) for name, values in by_name.items()}


def compile_lock(
    argv: Sequence[str | Path],
    what: str,
    tick: Tick,
    *,
    lines: Sequence[str] = (),
    as_of: date | None = None,
    version: str | None = None,
    keep: str = "",
    pins: Sequence[str] = (),
    home: Path | None = None,
) -> str:
    """Compile a lock with `uv pip compile`, so that a new version is one line of a diff.

    `lines` are requirements beside those of `argv`; `as_of` is the last day (UTC) or moment of
    releases. The lock is for Pythons of `version` and newer; with a `home`, settings of uv there
    apply. The versions of `keep`, a lock, are preferred. `pins` are requirements that limit all.

    Raises SetupError if there is no such set of packages, or the index cannot be reached.
    """
    # Any interpreter can resolve; naming one saves uv a slow search for a 3.14.
    full: list[str | Path] = [command.uv(), *_COMPILE, "--no-annotate", "--python", sys.executable]
    full += [] if home else ["--no-config"]
    full += ["--exclude-newer", as_of.isoformat()] if as_of else []
    full += ["--python-version", ".".join(version.split(".")[:2])] if version else []
    listed = (word.read_text("utf-8", "replace") for word in argv if isinstance(word, Path)
              and word.suffix in {".txt", ".in"})  # fmt: skip
    more = indexes("\n".join([*lines, *listed]))
    full += _ANY_INDEX if more else ()
    log = command.new_log("lock", cache.digest(what, str(Path.cwd())))
    with paths.scratch() as folder:
        asked, limits, output = (folder / name for name in ("asked.in", "limits.txt", "lock.txt"))
        # uv prefers versions that it finds in the output.
        for file, texts in ((asked, lines), (limits, pins), (output, [keep])):
            file.write_text("\n".join(texts), "utf-8")
        full += [*argv, asked, *command.no_build()]
        full += ["--constraint", limits, "--output-file", output]
        versioned = home is None or "version" in read_pyproject(home).get("project", {})
        env = {} if versioned else UNVERSIONED
        command.run(full, what=f"resolving {what}", log=log, tick=tick, cwd=home, env=env)
        return more + one_line_per_package(output.read_text("utf-8"))


def one_line_per_package(text: str) -> str:
    """Join uv's continuation lines."""
    return "".join(f"{line}\n" for line in _lines(text))


def write_lock(file: Path, text: str) -> None:
    """Write a whole lock, and create its folder; raises RecordError if that fails."""
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, text.encode())


def executable(stack: Stack, python: Interpreter) -> Path:
    """Find the Python executable of the environment of a lock. Starts no process.

    Raises SetupError if it is not installed yet.
    """
    target = place(stack, python)
    if cache.facts(target) is None:
        what = f"stack {stack.name} has no environment for {python.name} and its present lock"
        raise SetupError(f"{what}: run `observatory setup`")
    cache.touch(target)
    return target / _PROGRAM


def make_environment(stack: Stack, python: Interpreter, narrator: Narrator) -> bool:
    """Install a stack's environment for an interpreter if it is missing; return whether it was.

    Raises SetupError if a package is not available.
    """

    def build(staging: Path) -> cache.Facts:
        log = command.new_log("stack", place(stack, python).name)
        what = f"installing stack {stack.name} for {python.name}"
        venv: list[str | Path] = [command.uv(), "venv", "--relocatable", "--no-project"]
        venv += ["--no-config", "--allow-existing", "--python", python.executable, staging]
        text, lacking = stack.lock.read_text("utf-8"), {*stack.packages}
        if stack.environment:
            lacking -= {*stack.environment.packages}
        lines = [line for line in _lines(text) if name_of(line) in lacking]
        lock = staging / "lock.txt"
        sync: list[str | Path] = [command.uv(), "pip", "install", "--no-deps"]
        # Hashes that a project's lock has are checked, but its settings may name ranges.
        sync += [] if stack.home else ["--no-config", "--require-hashes"]
        sync += [*command.no_build(), *(_ANY_INDEX if indexes(text) else ())]
        # Compile now, so that the first start of a server is no slower than the others.
        sync += ["--compile-bytecode", "--python", staging / _PROGRAM, "--requirements", lock]
        why = f"installing {len(lacking)} packages"
        with narrator.step(f"stack {stack.name} for {python.name}", why) as tick:
            command.run(venv, what=what, log=log, tick=tick)
            if stack.environment:
                stack.environment.link(staging, place(stack, python))
            if lacking:
                lock.write_text(indexes(text) + "\n".join(lines), "utf-8")
                command.run(sync, what=what, log=log, tick=tick, cwd=stack.home)
        return {"stack": stack.name, "digest": stack.digest, "python": str(python.executable)}

    def fault(target: Path) -> str | None:
        there = cache.facts(target) is not None and (target / _PROGRAM).exists()
        return None if there else "its Python is not there"

    return cache.make(place(stack, python), fault=fault, build=build, say=narrator.say)


def compile_code(places: Iterable[tuple[Path, Interpreter]]) -> None:
    """Compile the code of copies, all at once, with the interpreters that run them.

    A process that compiles its imports keeps memory for that and executes other instructions than
    one that finds them compiled, so neither side should. Code that cannot be compiled is left as it
    is, and so are tests, which are not served.
    """

    def compile_copy(copy: tuple[Path, Interpreter], number: int) -> None:
        folder, python = copy
        argv: list[str | Path] = [python.executable, "-I", "-m", "compileall", "-q", "-q"]
        argv += ["-x", r"/(tests?|node_modules)/", "."]
        log = command.new_log("compile", python.name, cache.digest(str(Path.cwd())), str(number))
        with contextlib.suppress(SetupError):  # a file is not Python of this version
            command.run(argv, what="compiling", log=log, tick=lambda _: None, cwd=folder)

    with ThreadPoolExecutor() as pool:
        list(pool.map(compile_copy, places, count()))


def place(stack: Stack, python: Interpreter) -> Path:
    """Return an environment's folder, which differs for every lock and build of the interpreter."""
    key = cache.digest(stack.digest, python.identity)
    return paths.cache_dir() / "environments" / f"{stack.name}-py{python.name}-{key}"
