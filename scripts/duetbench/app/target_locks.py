"""The packages of a target, from its project's own lock, with a server added.

The lock is the first of these that exists: `uv.lock` (of the workspace, for a member), Poetry's,
PDM's or Pipenv's, which that tool exports, `requirements.txt`, the requirements in
`pyproject.toml`, and the only other file of requirements for serving. A copy gets a lock in the
form of other stacks' and the project's requirements beside it, so that it can be resolved again
with other versions.
"""

import os
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from packaging.requirements import Requirement

from duetbench.app import stacks
from duetbench.app.declarations import read_pyproject
from duetbench.app.interpreters import Interpreter
from duetbench.app.stacks import Stack, name_of, parse_line
from duetbench.app.target import FOLDER, STACK, Target
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator

UV: Final = "uv.lock"
PYPROJECT: Final = "pyproject.toml"
_EXPORTS: Final = {
    "poetry.lock": (
        "--from poetry==2.5.1 --with poetry-plugin-export==1.10.1 poetry export --without-hashes",
        " --with {}", " --extras {}",
    ),
    "pdm.lock": (
        "--from pdm==2.29.4 pdm export -f requirements --without-hashes --no-default -G default",
        " -G {}", " -G {}",
    ),
    "Pipfile.lock": (
        "--from pipenv==2026.10.3 pipenv requirements --categories packages", ",{}", ",{}",
    ),
}  # fmt: skip
"""Lock → its own tool, which uv fetches and which prints it as requirements, and how that names a
group and an extra."""

LOCKS: Final = (UV, *_EXPORTS)

_TEXTS: Final = {".txt", ".in"}  # of requirements

PLACES: Final = f"{FOLDER}/places.txt"
"""File of a copy with the folders and archives that its lock names, which belong to its code."""

_PLACED: Final = re.compile(
    r"(?:-e\s+|[\w.-]+(?:\[[^\]]*\])?\s*@\s*)?"
    r"(?P<place>(?:file://|\.|(?![\w+]+:)[^\s=]*/)[^\s;]*)(?P<marker>.*)"
)
"""A folder or an archive on a line of a lock."""

_FOR_OTHERS: Final = ("dev", "test", "doc", "lint", "build", "ci", "local")
"""Words in the name of a requirements file that is not for serving."""


@dataclass(frozen=True, slots=True)
class LockFile:
    """A file to read packages from, within a state of its project; `label` is for people."""

    root: Path
    file: Path
    label: str


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


def lock_of(root: Path, within: Path = Path(), asked: str | None = None) -> LockFile | None:
    """Find the file to read a project's packages from; None if it names no packages.

    `asked` is the one that is wanted. A folder of a repository, `within` it, has those of the next
    folder above if it names none.

    Raises UsageError if several files are possible, or the wanted one is missing.
    """
    if asked:
        if not (root / asked).is_file():
            raise UsageError(f"packages={asked}: expected a file of the project, found none")
        return LockFile(root, root / asked, os.path.relpath(root / asked, root))
    for folder in (root, *root.parents[: len(within.parts)]):
        if file := _file_in(folder):
            return LockFile(folder, file, os.path.relpath(file, root))
    return None


def _file_in(root: Path) -> Path | None:
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
            f"{root} has {names}: which one has the packages to serve with? Name it by "
            "--with packages=, or as requirements.txt"
        )
    return root / PYPROJECT if {"project", "build-system"} & document.keys() else None


def _indexes(root: Path) -> str:
    """Return lines with the indexes that a project declares for some packages alone."""
    tables = read_pyproject(workspace(root)).get("tool", {}).get("uv", {}).get("index", ())
    urls = (table["url"] for table in tables if table.get("explicit") and "url" in table)
    return "".join(f"--extra-index-url {url}\n" for url in urls)


def read(
    root: Path, lock: LockFile, target: Target, python: Interpreter, narrator: Narrator
) -> Stack:
    """Read a project's packages from a file into the lock of a copy, and its places into another.

    Raises DeclarationError for an invalid file, and SetupError if uv finds no such packages.
    """
    text, places = _indexes(lock.root), list[str]()
    for line in _lines(lock, target, python, narrator).splitlines():
        if match := _PLACED.fullmatch(line.partition(" --hash=")[0]):
            place = (lock.root / unquote(match["place"].removeprefix("file://"))).resolve()
            if place != lock.root.resolve():
                places.append(f"{place}{match['marker']}\n")
        else:
            text += f"{line}\n"
    stacks.write_lock(root / PLACES, "".join(places))
    stacks.parse(text, str(lock.file), python.version)  # which names the project's file
    requirements = requirements_of(lock)
    # Tools write one version of each into a lock. What places require is among the names.
    pinned = all("==" in str(item.specifier) or item.url for item in requirements)
    if places or target.groups or target.extras or pinned:
        return put(root, text, _names(text), python)
    listed = lock.file.suffix in _TEXTS
    return put(root, text, [f"-r {lock.file}"] if listed else [*map(str, requirements)], python)


def requirements_of(lock: LockFile) -> list[Requirement]:
    """List what a project asks for itself, as far as the file or its metadata list it by name."""
    if lock.file.suffix in _TEXTS:
        lines = lock.file.read_text("utf-8", "replace").splitlines()
    else:
        lines = read_pyproject(lock.root).get("project", {}).get("dependencies", [])
    words = (line.partition(" #")[0].rstrip(" \\") for line in lines)
    return [*filter(None, map(parse_line, words))]


def put(root: Path, text: str, requirements: Sequence[str], python: Interpreter) -> Stack:
    """Write the lock of a copy, and what it was resolved from beside it."""
    addresses = {name_of(line): line for line in _names(text) if " @ " in line}
    file = root / FOLDER / f"{STACK}.txt"
    lines = (f"{addresses.get(name_of(line), line)}\n" for line in requirements)
    stacks.write_lock(file.with_suffix(".in"), stacks.indexes(text) + "".join(lines))
    stacks.write_lock(file, text)
    return stacks.read_lock(STACK, file, python.version, root)


def _names(text: str) -> tuple[str, ...]:
    """List a lock's packages with their markers, and the file of those without a version."""
    return tuple(
        str(item) if item.url else f"{item.name} ; {item.marker}" if item.marker else item.name
        for item in filter(None, map(parse_line, text.splitlines()))
    )


def differing(roots: Sequence[Path], within: Path, program: Path) -> str:
    """Name the locks by which states of a project get other packages; empty if they get the same.

    A lock may differ in what an application does not get: its own version, or a group's packages.
    """

    def content(lock: LockFile) -> str | bytes:
        if lock.file.name == UV:
            return _of_uv(lock.root, (), program)
        listed = requirements_of(lock) if lock.file.name == PYPROJECT else ()
        return str(listed) if listed else lock.file.read_bytes()

    locks = [lock for root in roots if (lock := lock_of(root, within))]
    same = len(locks) in {0, len(roots)} and (
        len({lock.file.read_bytes() for lock in locks}) <= 1 or len(set(map(content, locks))) == 1
    )
    return "" if same else " and ".join(sorted({lock.file.name for lock in locks}))


def _lines(lock: LockFile, target: Target, python: Interpreter, narrator: Narrator) -> str:
    """Read the lines of a project's lock, in which packages may be folders and git commits."""
    root, file = lock.root, lock.file
    options = [word for extra in target.extras for word in ("--extra", extra)]
    options += [word for group in target.groups for word in ("--group", group)]
    if file.name == UV:
        return _of_uv(root, options, python.executable)
    if file.name in _EXPORTS:
        options, file = [], root / FOLDER / "exported.txt"
        stacks.write_lock(file, _exported(lock, target))
    what = f"packages of {lock.label}"
    with narrator.step(what, "resolving them") as tick:
        return stacks.compile_lock(
            [file, *options], f"the {what}", tick, version=python.version, home=root
        )


def _exported(lock: LockFile, target: Target) -> str:
    """Let the tool of a lock print it as requirements; SetupError if that is not possible."""
    words, group, extra = _EXPORTS[lock.file.name]
    for form, names in ((group, target.groups), (extra, target.extras)):
        words += "".join(map(form.format, names))
    argv = [f"{command.uv()}", "tool", "run", "--quiet", *words.split()]
    env = {**os.environ, "PDM_CHECK_UPDATE": "0", "PDM_USE_VENV": "0"}
    try:
        process = subprocess.run(
            argv, capture_output=True, text=True, check=True, cwd=lock.root, env=env
        )
    except (OSError, subprocess.CalledProcessError) as error:
        printed = command.last_words(getattr(error, "stderr", None) or str(error))
        raise SetupError(
            f"{lock.label}: `uv tool run {words}` failed: {printed.replace(str(lock.root), '.')}; "
            "let that work here, or name a file that was exported before by --with packages="
        ) from error
    # Pipenv names the index of the file; uv asks those of this machine.
    return re.sub(r"(?m)^-i .*\n", "", process.stdout)


def _of_uv(root: Path, options: Sequence[str], python: Path) -> str:
    argv: list[str | Path] = [command.uv(), "export", "--frozen", "--no-emit-project", "--quiet"]
    argv += ["--no-header", "--no-default-groups", "--no-annotate", "--no-python-downloads"]
    argv += ["--format", "requirements.txt", "--python", python, *options]
    with paths.scratch() as folder:
        out = folder / "exported.txt"
        log = command.new_log("export", cache.digest(str(Path.cwd())))
        argv += ["--output-file", out]
        command.run(argv, what=f"reading {UV}", log=log, tick=lambda _: None, cwd=root)
        return stacks.one_line_per_package(out.read_text("utf-8"))


def add_packages(
    root: Path,
    stack: Stack,
    names: Collection[str],
    python: Interpreter,
    narrator: Narrator,
    like: tuple[Stack, Stack] | None = None,
) -> Stack:
    """Add packages to a copy's lock: those of `names` that are lacking, and all they need.

    The given ones stay as they are. `like` is the other side, before and after: the additions have
    its versions. If it was given the same packages, the lock is the same.

    Raises SetupError if uv finds no such set of packages, or cannot reach its index.
    """
    lacking = sorted(set(names) - stack.packages.keys())
    listed = stack.lock.with_suffix(".in").read_text("utf-8").splitlines()
    requirements = [line for line in listed if not line.startswith("--")]
    text = stack.lock.read_text("utf-8")
    if like is not None and like[0].digest == stack.digest:
        text = like[1].lock.read_text("utf-8")
    elif lacking:
        what = ", ".join(lacking)
        with narrator.step(what, "adding what serves") as tick:
            added = stacks.compile_lock(
                [], what, tick,
                lines=(*stacks.indexes(text).splitlines(), *lacking),
                keep=like[1].lock.read_text("utf-8") if like else "",
                pins=[line.partition(" --hash=")[0] for line in text.splitlines() if name_of(line)],
                version=python.version,
                home=root,
            ).splitlines()  # fmt: skip
        own = {"", *stack.packages}
        text += "".join(f"{line}\n" for line in added if name_of(line) not in own)
    return put(root, text, [*requirements, *lacking], python)
