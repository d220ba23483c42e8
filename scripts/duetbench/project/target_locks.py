"""The packages of a target, from its project's own lock, with a server added; and the project.

The lock is the first of these that exists: `uv.lock` (of the workspace, for a member),
`pylock.toml`, another tool's (see `foreign_locks`), `requirements.txt`, the requirements in
`pyproject.toml`, and the only other file of requirements for serving. A copy gets a lock in the
form of other stacks' and the project's requirements beside it, so that it can be resolved again
with other versions.
"""

import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from packaging.dependency_groups import resolve_dependency_groups
from packaging.pylock import Package, Pylock, PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.core.text import short
from duetbench.host import cache, command, proc
from duetbench.host.console import Narrator
from duetbench.project import foreign_locks, stacks, target, wheels
from duetbench.project.configuration import Interpreter
from duetbench.project.environment import Environment
from duetbench.project.pyproject import read_pyproject
from duetbench.project.stacks import Stack
from duetbench.project.target import NOWHERE, Target

UV: Final = "uv.lock"
PYLOCK: Final = "pylock.toml"
PYPROJECT: Final = "pyproject.toml"
LOCKS: Final = (UV, PYLOCK, *foreign_locks.LOCKS)

SITE: Final = f"{target.FOLDER}/site"
"""Folder of a copy with the installed parts of the project itself."""

_NO_PACKAGE: Final = re.compile(
    "No file/folder found for|Unable to determine which files to ship|Multiple top-level|"
    "Expected a Python module at"
)
"""What backends say of an application that is no package: it is installed without itself."""

_PROJECTS: Final = (PYPROJECT, "setup.py", "setup.cfg")
_FOR_OTHERS: Final = ("dev", "test", "doc", "lint", "build", "ci", "local")
"""Words in the name of a requirements file that is not for serving."""

_NO_SOURCES: Final = {"tests", "test", "docs", "examples", "build", "dist", "node_modules"}
"""Folders that are not searched for an application."""


@dataclass(frozen=True, slots=True)
class LockFile:
    """A file to read packages from, within a state of its project; `label` is for people."""

    root: Path
    file: Path
    label: str


@dataclass(frozen=True, slots=True)
class ProjectPackages:
    """A project's packages, from its own lock or metadata.

    Attributes:
        label: The source of the packages, for people.
        text: A lock, one line per package.
        packages: Name → version, of the packages that this platform gets.
        requirements: The project's own requirements, one per line.
    """

    label: str
    text: str
    packages: Mapping[str, str]
    requirements: tuple[str, ...]


NOTHING: Final = ProjectPackages(NOWHERE, "", {}, ())
"""The packages of a project that names none."""


def workspace(root: Path) -> Path:
    """Return the folder of the `uv.lock` of a project: that of its workspace, if it is a member."""
    root = root.resolve()
    for folder in root.parents:
        table = read_pyproject(folder).get("tool", {}).get("uv", {}).get("workspace", {})
        members, others = (
            {place for glob in table.get(key, ()) for place in folder.glob(glob)}
            for key in ("members", "exclude")
        )
        if root in members - others:
            return folder
    return root


def lock_of(root: Path) -> Path | None:
    """Find the file to read a project's packages from; None if it names no packages.

    Raises UsageError if several files are possible.
    """
    for file in (workspace(root) / UV, *(root / name for name in (*LOCKS, "requirements.txt"))):
        if file.is_file():
            return file
    document = read_pyproject(root)
    if "dependencies" in document.get("project", ()) or "poetry" in document.get("tool", ()):
        return root / PYPROJECT
    files = [*sorted(root.glob("requirements*.txt")), *sorted(root.glob("requirements/*.txt"))]
    serving = [file for file in files if not any(word in file.stem for word in _FOR_OTHERS)]
    production = [file for file in serving if "prod" in file.stem]
    for choice in (serving, production):
        if len(choice) == 1:
            return choice[0]
    if serving:
        names = ", ".join(p.relative_to(root).as_posix() for p in serving)
        raise UsageError(
            f"{root} has {names}: which one has the packages to serve with? Name it with "
            "--packages, or as requirements.txt"
        )
    only_tools = not {"project", "build-system"} & document.keys()
    places = (root / name for name in _PROJECTS[only_tools:])
    return next((place for place in places if place.is_file()), None)


def _indexes(root: Path) -> str:
    """Return lines with the indexes that a project declares, and uv does not read itself."""
    tools = read_pyproject(workspace(root)).get("tool", {})
    tables = [table for table in tools.get("uv", {}).get("index", ()) if table.get("explicit")]
    tables += [*tools.get("poetry", {}).get("source", ()), *tools.get("pdm", {}).get("source", ())]
    return "".join(f"--extra-index-url {table['url']}\n" for table in tables if "url" in table)


def read(
    lock: LockFile,
    target: Target,
    python: Interpreter,
    narrator: Narrator,
    day: date | None = None,
) -> ProjectPackages:
    """Read a project's packages from a file; build those that are folders and git commits.

    What has no version there is as of the end of a day (UTC), if its index knows the days.

    Raises DeclarationError for an invalid file, SetupError if uv finds no such packages or cannot
    build one, and UsageError for an unknown kind of file, or one that is no text.
    """
    root, file = lock.root, lock.file
    stacks.require_text(file, lock.label, empty=True)  # of a project without requirements
    asked = _of_requirements(root, file) if file.suffix in {".txt", ".in"} else None
    day = day if asked or file.name in _PROJECTS else None
    try:
        text = _lines(lock, target, python, narrator, day)
    except SetupError:
        if day is None:
            raise
        day, text = None, _lines(lock, target, python, narrator, None)
    text = _indexes(root) + text
    text = wheels.add_wheels(text, root, python, narrator)
    packages = stacks.parse(text, str(file), python.version)
    direct = _direct(root, target)
    direct = asked if direct is None else direct
    requirements = direct if direct is not None else _names(text)
    label = f"{lock.label}{f' as of {day}' if day else ''}"
    return ProjectPackages(label, text, packages, requirements)


def of_environment(environment: Environment) -> ProjectPackages:
    """Return what is installed in an environment."""
    return ProjectPackages(environment.label, environment.lock, environment.packages, ())


def differing(roots: Sequence[Path], target: Target, program: Path) -> str:
    """Name the locks by which states of a project get other packages; empty if they get the same.

    A lock may differ in what an application does not get: its own version, or a group's packages.
    """
    locks = {root: lock_of(root) for root in roots}
    contents = {file.read_bytes() if file else b"" for file in locks.values()}
    if len(contents) > 1:
        contents = {_content(root, file, target, program) for root, file in locks.items()}
    names = sorted({file.name for file in locks.values() if file})
    return " and ".join(names) * (len(contents) > 1)


def _content(root: Path, file: Path | None, target: Target, program: Path) -> bytes:
    """Return what tells in a project's lock which packages an application gets."""
    if file is not None and file.name == UV:
        return _of_uv(root, (), program).encode()
    if file is not None and file.name == PYPROJECT:
        return repr(_direct(root, target) or file.read_bytes()).encode()
    return file.read_bytes() if file else b""


def direct(root: Path, target: Target) -> list[Requirement]:
    """List what a project asks for itself on this machine; raises UsageError.

    Of a lock that only lists packages these are all of them.
    """
    file = lock_of(root)
    texts = _direct(root, target)
    if texts is None and file is not None and file.suffix in {".txt", ".in"}:
        texts = tuple(line.partition(" #")[0] for line in file.read_text("utf-8").splitlines())
    found = []
    for text in texts or ():
        with suppress(InvalidRequirement):
            requirement = Requirement(text.partition(" --hash")[0].rstrip(" \\"))
            if requirement.marker is None or requirement.marker.evaluate():
                found.append(requirement)
    return found


def _lines(
    lock: LockFile, target: Target, python: Interpreter, narrator: Narrator, day: date | None
) -> str:
    """Read the lines of a project's lock, in which packages may be folders and git commits."""
    root, file, label = lock.root, lock.file, lock.label
    options = [word for extra in target.extras for word in ("--extra", extra)]
    if file.name == UV:
        options += [word for group in target.groups for word in ("--group", group)]
        return _of_uv(root, options, python.executable)
    if file.stem.partition(".")[0] == "pylock" and file.suffix == ".toml":
        return _of_pylock(lock, target, python)
    if file.name in foreign_locks.LOCKS:
        return _of_others(lock, target, python, narrator)
    why = "finding what has no version"
    until = [] if day is None else ["--exclude-newer", day.isoformat()]
    if file.suffix in {".txt", ".in"}:
        return _compile(root, [file, *until], python, label, why, narrator)
    if file.name in _PROJECTS:
        if file.name == PYPROJECT and _direct(root, target) == ():
            return ""
        options += [word for group in target.groups for word in ("--group", f"{file}:{group}")]
        return _compile(root, [file, *options, *until], python, label, why, narrator)
    raise UsageError(f"{label}: expected {', '.join(LOCKS)}, a requirements.txt or {PYPROJECT}")


def _of_others(lock: LockFile, target: Target, python: Interpreter, narrator: Narrator) -> str:
    """Read the lines of another tool's lock; uv finds the hashes that it lacks."""
    root, file = lock.root, lock.file
    lines, why = foreign_locks.read(file, target, stacks.markers(python.version)), "hash"
    if pins := foreign_locks.ungrouped(file):
        lines, why = _direct(root, target) or foreign_locks.asked(root, target), "group"
    text = "".join(f"{line}\n" for line in lines)
    if not pins and all(" --hash=" in line or " @ " in line for line in lines):
        return text
    with proc.scratch() as folder:
        lines_file = folder / "locked.txt"
        lines_file.write_text(text, "utf-8")
        what = f"finding what has no {why}"
        return _compile(root, [lines_file], python, lock.label, what, narrator, pins=pins)


def _of_requirements(root: Path, file: Path) -> tuple[str, ...] | None:
    """Return the requirements of a file; None for a lock, which does not show them."""
    text = file.read_text("utf-8").replace("\\\n", " ")
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    requirements = [line for line in lines if _name(line)]
    if requirements and all("==" in line or " @ " in line for line in requirements):
        return None
    return (f"-r {os.path.relpath(file, root / target.FOLDER)}",)


def _of_uv(root: Path, options: Sequence[str], python: Path) -> str:
    argv: list[str | Path] = [command.uv(), "export", "--frozen", "--no-emit-project", "--quiet"]
    argv += ["--no-header", "--no-default-groups", "--no-annotate", "--no-python-downloads"]
    argv += ["--format", "requirements.txt", "--python", python, *options]
    with proc.scratch() as folder:
        out, log = (
            folder / "exported.txt",
            command.new_log("export", cache.digest(str(Path.cwd()))),
        )
        argv += ["--output-file", out]
        command.run(argv, what=f"reading {UV}", log=log, tick=lambda _: None, cwd=root)
        return stacks.one_line_per_package(out.read_text("utf-8"))


def _of_pylock(lock: LockFile, target: Target, python: Interpreter) -> str:
    try:
        found = Pylock.from_dict(tomllib.loads(lock.file.read_text("utf-8")))
    except (OSError, ValueError, PylockValidationError) as error:
        allowed = "a pylock.toml (PEP 751)"
        raise DeclarationError(lock.label, "file", str(error), allowed) from error
    values: dict[str, Any] = {
        **stacks.markers(python.version),
        "extras": frozenset(target.extras),
        "dependency_groups": frozenset((*target.groups, *(found.default_groups or ()))),
    }
    packages = [
        p for p in found.packages if p.marker is None or p.marker.evaluate(values, "lock_file")
    ]
    return "".join(f"{line}\n" for line in sorted(map(_lock_line, packages)))


def _lock_line(package: Package) -> str:
    name = package.name
    if (vcs := package.vcs) is not None:
        below = f"#subdirectory={vcs.subdirectory}" if vcs.subdirectory else ""
        return f"{name} @ {vcs.type}+{vcs.url or vcs.path}@{vcs.commit_id}{below}"
    if (folder := package.directory) is not None:
        return f"{name} @ {Path(folder.path) / (folder.subdirectory or '')}"
    if (archive := package.archive) is not None:
        return f"{name} @ {archive.url or archive.path}{_hashes([archive.hashes])}"
    hashes = [wheel.hashes for wheel in package.wheels or ()]
    hashes += [package.sdist.hashes] if package.sdist is not None else []
    return f"{name}=={package.version}{_hashes(hashes)}"


def _hashes(digests: Sequence[Mapping[str, str]]) -> str:
    options = dict.fromkeys(
        f" --hash={kind}:{value}" for entry in digests for kind, value in entry.items()
    )
    return "".join(options)


def _name(line: str) -> str:
    """Return the package of a line in a lock or of a requirement; empty if it names none."""
    try:
        return canonicalize_name(Requirement(line.split(" --hash=", 1)[0]).name)
    except InvalidRequirement:
        return ""


def _names(text: str) -> tuple[str, ...]:
    """List a lock's packages with their markers, and the file of those without a version."""
    return tuple(
        plain if " @ " in plain else f"{_name(plain)}{sign}{marker}"
        for line in text.splitlines()
        if not line.startswith("--")
        for plain in [line.split(" --hash=", 1)[0]]
        for _, sign, marker in [plain.partition(" ; ")]
    )


def _direct(root: Path, target: Target) -> tuple[str, ...] | None:
    """Return the requirements of a project's metadata; None if the file does not list them."""
    document = read_pyproject(root)
    project = document.get("project", {})
    if "dependencies" not in project:
        return None
    extras = {canonicalize_name(k): v for k, v in project.get("optional-dependencies", {}).items()}
    try:
        groups = resolve_dependency_groups(document.get("dependency-groups", {}), *target.groups)
        of_extras = [text for e in target.extras for text in extras[canonicalize_name(e)]]
    except (LookupError, ValueError) as error:
        raise UsageError(f"{root / PYPROJECT}: no such extra or group: {error}") from error
    name = canonicalize_name(project.get("name", ""))
    texts = (*project["dependencies"], *of_extras, *groups)
    return tuple(text for text in texts if _name(text) != name)


def lock_copy(
    root: Path,
    packages: ProjectPackages,
    names: Collection[str],
    python: Interpreter,
    narrator: Narrator,
    like: Stack | None = None,
) -> Stack:
    """Write a copy's lock: the given packages, plus those of `names` it lacks, and all they need.

    The given ones stay as they are. The additions have the versions of `like`, the lock of the
    other side. If that side was given the same packages, the lock is the same.

    Raises SetupError if uv finds no such set of packages, or cannot reach its index.
    """
    file = root / target.FOLDER / f"{target.STACK}.txt"
    lacking = sorted(set(names) - packages.packages.keys())
    text = packages.text
    places = {_name(line): line for line in _names(text) if " @ " in line}
    if like is not None and like.lock.with_suffix(".given").read_text("utf-8") == text:
        text = like.lock.read_text("utf-8")
    elif lacking:
        others = like.packages if like else {}
        own = packages.packages
        asked = [f"{name}=={others[name]}" if name in others else name for name in lacking]
        with proc.scratch() as folder:
            server = folder / "server.in"
            server.write_text("\n".join([stacks.indexes(text), *places.values(), *asked]), "utf-8")
            added = _compile(
                root, [server], python, packages.label, f"adding {', '.join(lacking)}", narrator,
                "\n".join(f"{name}=={version}" for name, version in others.items()),
                [f"{name}=={version}" for name, version in own.items()],
            )  # fmt: skip
        text += "".join(f"{line}\n" for line in added.splitlines() if _name(line) not in {"", *own})
    lines = [places.get(_name(line), line) for line in (*packages.requirements, *lacking)]
    asked_for = stacks.indexes(text) + "".join(f"{line}\n" for line in lines)
    stacks.write_lock(file.with_suffix(".in"), asked_for)
    stacks.write_lock(file.with_suffix(".given"), packages.text)
    stacks.write_lock(file, text)
    return stacks.read_lock(target.STACK, file, python.version, root)


def _compile(
    root: Path,
    argv: Sequence[str | Path],
    python: Interpreter,
    label: str,
    why: str,
    narrator: Narrator,
    keep: str = "",
    pins: Sequence[str] = (),
) -> str:
    with narrator.step(f"packages of {label}", why) as tick:
        return stacks.compile_lock(
            argv,
            f"the packages of {label}",
            target.STACK,
            tick,
            root,
            version=python.version,
            keep=keep,
            pins=pins,
            config=True,
            env=wheels.unversioned(root),
        )


def install(root: Path, module: str, python: Interpreter, narrator: Narrator) -> tuple[str, ...]:
    """Lay out what a project installs of itself in a copy; return the import folders, in order.

    Code is imported from its source folder. What only its wheel has, such as metadata and compiled
    modules, comes first.
    """
    site = root / SITE
    site.mkdir(parents=True, exist_ok=True)
    folders = source_folders(root, module)
    document = read_pyproject(root)
    tools = document.get("tool", {})
    modes = tools.get("poetry", {}).get("package-mode"), tools.get("uv", {}).get("package")
    if "build-system" in document and False not in modes:
        try:
            wheel = wheels.build(root, python, narrator)
        except SetupError as error:
            if not _NO_PACKAGE.search(str(error)):
                narrator.say(
                    f"note: {short(str(error))}. Its code is measured from its source, without "
                    "metadata and compiled modules"
                )
        else:
            wheels.unpack(wheel, site, [root / name for name in folders])
    return (SITE, *folders)


def module_files(module: str) -> tuple[Path, Path]:
    """Return the two files that a dotted module may be, from its import folder."""
    name = Path(*module.split("."))
    return name.with_suffix(".py"), name / "__init__.py"


def source_folders(root: Path, module: str) -> tuple[str, ...]:
    """List the folders to import a project's code from: `src/`, the top, and perhaps another.

    The other comes first: the only folder that contains the module, if the first two do not.
    """
    usual = tuple(name for name in ("src", ".") if (root / name).is_dir())
    names = module_files(module)
    if any((root / folder / name).is_file() for folder in usual for name in names):
        return usual
    places = {
        file.relative_to(root).parents[len(name.parts) - 1]
        for name in names
        for file in root.rglob(str(name))
    }
    homes = [
        place.as_posix()
        for place in places
        if not any(part in _NO_SOURCES or part.startswith(".") for part in place.parts)
    ]
    return (*homes, *usual) if len(homes) == 1 else usual
