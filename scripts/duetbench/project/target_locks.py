"""The packages of somebody's project, by the lock that it has, with a server added; and itself.

The lock is `uv.lock` (of a member of a workspace: that one's), `pylock.toml`, another tool's (see
`other_locks`), `requirements*.txt` here or in `requirements/` or, without these, what
`pyproject.toml` asks for: the first that is there. In a copy it becomes a lock as any other
stack's, beside what the project asks for, so that it can be resolved again with other versions.
"""

import os
import tempfile
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.dependency_groups import resolve_dependency_groups
from packaging.pylock import Package, Pylock, PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.host import cache, command
from duetbench.host.console import Narrator
from duetbench.project import other_locks, settings, stacks, wheels
from duetbench.project.settings import Interpreter, Target, read_pyproject
from duetbench.project.stacks import Stack

UV: Final = "uv.lock"
PYLOCK: Final = "pylock.toml"
PYPROJECT: Final = "pyproject.toml"
LOCKS: Final = (UV, PYLOCK, *other_locks.LOCKS)

SITE: Final = f"{settings.FOLDER}/site"
"""Folder of a copy with what is installed of the project itself."""

_PROJECTS: Final = (PYPROJECT, "setup.py", "setup.cfg")
_FOR_OTHERS: Final = ("dev", "test", "doc", "lint", "build", "ci", "local")
"""In the name of a file of requirements: it is not for serving."""

_FOR_SERVING: Final = ("requirements", "prod", "deploy", "base", "common", "main")
"""In such a name, the best first."""

_NO_SOURCES: Final = {"tests", "test", "docs", "examples", "build", "dist", "node_modules"}
"""Folders in which no application is looked for."""


@dataclass(frozen=True, slots=True)
class ProjectPackages:
    """A project's packages, as its own lock or metadata have them.

    Attributes:
        label: Where it does, for people.
        text: A lock, one line per package.
        packages: Name → version, of the packages that this platform gets.
        requirements: What it asks for itself, one line each; see `Project.resolve`.
    """

    label: str
    text: str
    packages: Mapping[str, str]
    requirements: tuple[str, ...]


NOTHING: Final = ProjectPackages("nowhere", "", {}, ())
"""Of a project that names no packages."""


def workspace(root: Path) -> Path:
    """The folder whose `uv.lock` holds for a project: the workspace's that it is a member of."""
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
    """The file that a project's packages are read from; None: it names none.

    UsageError: several files could be it.
    """
    for file in (workspace(root) / UV, *(root / name for name in LOCKS)):
        if file.is_file():
            return file
    for pattern in ("requirements*.txt", "requirements/*.txt", "requirements*.in"):
        files = sorted(root.glob(pattern))
        serving = [p for p in files if not any(word in p.stem for word in _FOR_OTHERS)]
        exact = [p for p in serving if p.stem == "requirements"]
        alike = ([p for p in serving if word in p.name] for word in _FOR_SERVING[1:])
        for choice in (exact, serving, *alike):
            if len(choice) == 1:
                return choice[0]
        if serving:
            names = ", ".join(p.relative_to(root).as_posix() for p in serving)
            raise UsageError(
                f"{root} has {names}: which are the packages to be served with? Name one with "
                "--packages, or as requirements.txt"
            )
    for name in _PROJECTS:
        if (root / name).is_file() and (name != PYPROJECT or _asks(root)):
            return root / name
    return None


def _asks(root: Path) -> bool:
    """Whether a `pyproject.toml` says what a project needs: it may be for tools alone."""
    document = read_pyproject(root)
    poetry = "poetry" in document.get("tool", ())
    return poetry or bool({"project", "build-system"} & document.keys())


def read(
    root: Path, file: Path, wanted: Target, python: Interpreter, narrator: Narrator
) -> ProjectPackages:
    """Read a project's packages from a file; what has no version there is found by uv.

    DeclarationError: the file is not right. SetupError: uv finds no such packages, or one of them
    cannot be built. UsageError: it is of no kind that is known.
    """
    direct = _direct(root, wanted)
    label = os.path.relpath(file, root) if file.is_relative_to(workspace(root)) else file.name
    chosen = [word for extra in wanted.extras for word in ("--extra", extra)]
    if file.name == UV:
        chosen += [word for group in wanted.groups for word in ("--group", group)]
        text = _of_uv(root, chosen, python)
    elif file.stem.partition(".")[0] == "pylock" and file.suffix == ".toml":
        text = _of_pylock(file, wanted, python)
    elif file.name in other_locks.LOCKS:
        text = _of_others(root, file, wanted, python, narrator)
    elif file.suffix in {".txt", ".in"}:
        direct = direct if direct is not None else _of_requirements(root, file)
        text = _compiled(root, [file], python, label, "finding what has no version", narrator)
    elif file.name in _PROJECTS:
        chosen += [word for group in wanted.groups for word in ("--group", f"{file}:{group}")]
        text, why = "", "finding what has no version"
        if file.name != PYPROJECT or direct != ():
            text = _compiled(root, [file, *chosen], python, label, why, narrator)
    else:
        raise UsageError(f"{label}: expected {', '.join(LOCKS)}, a requirements.txt or {PYPROJECT}")
    text = wheels.hashed(text, root, python, narrator)
    packages = stacks.parse(text, str(file), python.version)
    requirements = direct if direct is not None else _names(text)
    return ProjectPackages(label, text, packages, requirements)


def _of_others(
    root: Path, file: Path, wanted: Target, python: Interpreter, narrator: Narrator
) -> str:
    """The lines of another tool's lock; where it lacks hashes, uv finds those of its versions."""
    lines = other_locks.read(file, root, wanted, stacks.markers(python.version))
    text = "".join(f"{line}\n" for line in lines)
    if all(" --hash=" in line or " @ " in line for line in lines):
        return text
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "locked.txt"
        given.write_text(text, "utf-8")
        return _compiled(root, [given], python, file.name, "finding what has no hash", narrator)


def _of_requirements(root: Path, file: Path) -> tuple[str, ...] | None:
    """What a file of requirements asks for; None: it is a lock, which does not tell."""
    text = file.read_text("utf-8").replace("\\\n", " ")
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    requirements = [line for line in lines if _name(line)]
    if requirements and all("==" in line or " @ " in line for line in requirements):
        return None
    return (f"-r {os.path.relpath(file, root / settings.FOLDER)}",)


def _of_uv(root: Path, chosen: Sequence[str], python: Interpreter) -> str:
    argv: list[str | Path] = [command.uv(), "export", "--frozen", "--no-emit-project", "--quiet"]
    argv += ["--no-header", "--no-default-groups", "--no-annotate", "--no-python-downloads"]
    argv += ["--format", "requirements.txt", "--python", python.executable, *chosen]
    with tempfile.TemporaryDirectory() as folder:
        out, log = (
            Path(folder) / "exported.txt",
            command.new_log("export", cache.digest(str(Path.cwd()))),
        )
        argv += ["--output-file", out]
        command.run(argv, what=f"reading {UV}", log=log, tick=lambda _: None, cwd=root)
        return stacks.one_line_per_package(out.read_text("utf-8"))


def _of_pylock(file: Path, wanted: Target, python: Interpreter) -> str:
    try:
        lock = Pylock.from_dict(tomllib.loads(file.read_text("utf-8")))
    except (OSError, ValueError, PylockValidationError) as error:
        raise DeclarationError(str(file), "file", str(error), "a pylock.toml (PEP 751)") from error
    values: dict[str, Any] = {
        **stacks.markers(python.version),
        "extras": frozenset(wanted.extras),
        "dependency_groups": frozenset((*wanted.groups, *(lock.default_groups or ()))),
    }
    chosen = [
        p for p in lock.packages if p.marker is None or p.marker.evaluate(values, "lock_file")
    ]
    return "".join(f"{line}\n" for line in sorted(map(_locked_line, chosen)))


def _locked_line(package: Package) -> str:
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
    """The package of a line in a lock or of a requirement; empty: it names none."""
    try:
        return canonicalize_name(Requirement(line.split(" --hash=", 1)[0]).name)
    except InvalidRequirement:
        return ""


def _names(text: str) -> tuple[str, ...]:
    """Each package of a lock, with where it is wanted, and its file where it has no version."""
    return tuple(
        plain if " @ " in plain else f"{_name(plain)}{sign}{marker}"
        for line in text.splitlines()
        for plain in [line.split(" --hash=", 1)[0]]
        for _, sign, marker in [plain.partition(" ; ")]
    )


def _direct(root: Path, wanted: Target) -> tuple[str, ...] | None:
    """What a project's metadata asks for; None: they are not, or not plainly, in the file."""
    document = read_pyproject(root)
    project = document.get("project", {})
    if "dependencies" not in project:
        return None
    extras = {canonicalize_name(k): v for k, v in project.get("optional-dependencies", {}).items()}
    try:
        groups = resolve_dependency_groups(document.get("dependency-groups", {}), *wanted.groups)
        of_extras = [text for e in wanted.extras for text in extras[canonicalize_name(e)]]
    except (LookupError, ValueError) as error:
        raise UsageError(f"{root / PYPROJECT}: no such extra or group: {error}") from error
    name = canonicalize_name(project.get("name", ""))
    texts = (*project["dependencies"], *of_extras, *groups)
    return tuple(text for text in texts if _name(text) != name)


def locked(
    root: Path,
    packages: ProjectPackages,
    added: Collection[str],
    python: Interpreter,
    narrator: Narrator,
    like: Stack | None = None,
) -> Stack:
    """Write a copy's lock: what is given, and what of `added` it lacks, with all it needs.

    What is added has the versions of `like`, the lock of the other side; where the same was given
    there, it is the same lock.

    SetupError: uv finds no such set of packages, or cannot reach its index.
    """
    file = root / settings.FOLDER / f"{settings.STACK}.txt"
    lacking = sorted(set(added) - packages.packages.keys())
    text = packages.text
    if like is not None and like.lock.with_suffix(".given").read_text("utf-8") == text:
        text = like.lock.read_text("utf-8")
    elif lacking:
        others = like.packages if like else {}
        pins = [f"{name}=={others[name]}" if name in others else name for name in lacking]
        keep = [f"{n}=={v}" for n, v in others.items() if n not in packages.packages]
        with tempfile.TemporaryDirectory() as folder:
            given, wanted = Path(folder) / "locked.txt", Path(folder) / "server.in"
            given.write_text(text, "utf-8")
            wanted.write_text("\n".join(pins), "utf-8")
            text = _compiled(
                root, [given, wanted], python, packages.label, f"adding {', '.join(lacking)}",
                narrator, "\n".join([text, *keep]),
            )  # fmt: skip
        text = wheels.hashed(text, root, python, narrator)
    placed = {_name(line): line for line in _names(text) if " @ " in line}
    lines = [placed.get(_name(line), line) for line in (*packages.requirements, *lacking)]
    stacks.write_lock(file.with_suffix(".in"), "".join(f"{line}\n" for line in lines))
    stacks.write_lock(file.with_suffix(".given"), packages.text)
    stacks.write_lock(file, text)
    return stacks.read_lock(settings.STACK, file, python.version, root)


def _compiled(
    root: Path,
    argv: Sequence[str | Path],
    python: Interpreter,
    label: str,
    why: str,
    narrator: Narrator,
    keep: str = "",
) -> str:
    with narrator.step(f"packages of {label}", why) as tick:
        return stacks.compiled(
            argv,
            f"the packages of {label}",
            settings.STACK,
            tick,
            root,
            version=python.version,
            keep=keep,
            config=True,
        )


def install(root: Path, module: str, python: Interpreter, narrator: Narrator) -> tuple[str, ...]:
    """Lay out in a copy what its project installs of itself: folders to import from, by order.

    Its code is imported from its source, from where that lies. Of a wheel that has more to it
    (compiled modules, or a module that no source has) all is laid out, and comes first.
    """
    site = root / SITE
    site.mkdir(parents=True, exist_ok=True)
    folders = source_folders(root, module)
    if "build-system" in read_pyproject(root):
        top = module.partition(".")[0]
        names = (root / folder / name for folder in folders for name in (top, f"{top}.py"))
        there = any(place.exists() for place in names)
        try:
            wheel = wheels.build(root, python, narrator)
        except SetupError as error:
            narrator.say(
                f"note: {error}. Its code is measured from its source, without metadata and "
                "compiled modules"
            )
        else:
            sources = [root / name for name in folders]
            wheels.unpack(wheel, site, sources, "" if there else top)
    return (SITE, *folders)


def module_files(module: str) -> tuple[Path, Path]:
    """The files that a module of a dotted name may be, from where it is imported."""
    name = Path(*module.split("."))
    return name.with_suffix(".py"), name / "__init__.py"


def source_folders(root: Path, module: str) -> tuple[str, ...]:
    """Folders of a project that its code is imported from: `src/`, the top, and another's.

    The last is the one folder in which the module is, where it is in neither of these.
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
