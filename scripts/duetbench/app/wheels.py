"""Builds wheels of packages that a lock names by place (a folder, a git commit), to hash them.

The cache keeps a wheel by what it was built from. So the same state of a package is the same file,
and a lock that names it is the same lock.
"""

import hashlib
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.utils import parse_wheel_filename

from duetbench.app import pyproject, target
from duetbench.app.configuration import Interpreter
from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator

_PLACED: Final = re.compile(
    r"(?:-e\s+|[\w.-]+(?:\[[^\]]*\])?\s*@\s*)?"
    r"(?P<place>(?:git\+|file://|\.|(?!\w+://)[^\s=]*/)\S*)"
    r"(?P<marker>\s;.+)?"
)
"""A folder, an archive or a git commit on a line of a lock."""

_LEFT_OUT: Final = frozenset(
    {".git", ".venv", "__pycache__", "node_modules", target.FOLDER, pyproject.FILE}
)
_ALLOWED: Final = {"UV_NO_BUILD": "0"}
"""Allows building: the ban is for releases, which come by night; this is the user's own code."""

_UNVERSIONED: Final = dict.fromkeys(
    (
        "SETUPTOOLS_SCM_PRETEND_VERSION",
        "PDM_BUILD_SCM_VERSION",
        "POETRY_DYNAMIC_VERSIONING_BYPASS",
        "UV_DYNAMIC_VERSIONING_BYPASS",
        "PBR_VERSION",
    ),
    "0.0.0",  # some read the third part
)
"""Versions for a copy, which has no history to read one from."""


def unversioned(root: Path) -> Mapping[str, str]:
    """Return variables with a version for a project that does not write down its own."""
    return {} if "version" in pyproject.read_pyproject(root).get("project", {}) else _UNVERSIONED


def add_wheels(text: str, root: Path, python: Interpreter, narrator: Narrator) -> str:
    """Return a lock, one line per package, with a built wheel for each folder and git commit.

    Folders are relative to `root`; the project there is left out.

    Raises SetupError if a package cannot be built.
    """
    lines = (_line(line, root, python, narrator) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def _line(line: str, root: Path, python: Interpreter, narrator: Narrator) -> str:
    plain, hashes, _ = line.partition(" --hash=")
    match = _PLACED.fullmatch(plain)
    if match is None or (hashes and " @ " in plain):
        return line
    place, marker = match["place"], match["marker"] or ""
    if place.startswith("git+"):
        source = _of_git(place.removeprefix("git+"), narrator)
    else:
        source = (root / unquote(place.removeprefix("file://"))).resolve()
        if source == root.resolve():
            return ""
    wheel = build(source, python, narrator)
    name = parse_wheel_filename(wheel.name)[0]
    return f"{name} @ {wheel.as_uri()}{marker} --hash=sha256:{cache.sha256(wheel)}"


def _of_git(address: str, narrator: Narrator) -> Path:
    """Return the cache's folder of a commit, or of a subdirectory in it."""
    parts = urlsplit(address)
    path, _, commit = parts.path.rpartition("@")
    remote = parts._replace(path=path, fragment="", query="").geturl()
    place = paths.cache_dir() / "sources" / cache.digest(remote, commit)

    def fetch(staging: Path) -> cache.Facts:
        log = command.new_log(f"source-{Path(path).stem}", place.name)
        with narrator.step(Path(path).stem, f"fetching commit {commit[:8]}") as tick:
            tree, what = str(staging / "tree"), f"fetching {Path(path).stem}"
            for argv in (
                ["git", "clone", "--quiet", "--no-checkout", remote, tree],
                ["git", "-C", tree, "checkout", "--quiet", "--detach", commit],
            ):
                command.run(argv, what=what, log=log, tick=tick)
        return {"commit": commit}

    cache.make(place, build=fetch, say=narrator.say)
    below = parse_qs(parts.fragment).get("subdirectory", [""])[0]
    return place / "tree" / below


def build(source: Path, python: Interpreter, narrator: Narrator) -> Path:
    """Build the wheel of a folder or archive, unless the same files were built before.

    Raises SetupError if it cannot be built.
    """
    place = paths.cache_dir() / "wheels" / cache.digest(_state(source), python.identity)

    def make(staging: Path) -> cache.Facts:
        if source.suffix == ".whl":
            shutil.copy(source, staging)
        else:
            argv: list[str | Path] = [command.uv(), "build", "--wheel", "--python"]
            argv += [python.executable, "--out-dir", staging, source]
            # The folder name of a copy means nothing to the user.
            what = f"wheel of {pyproject.project_name(source) if source.is_dir() else source.name}"
            clone = source.is_relative_to(paths.cache_dir() / "sources")
            log = command.new_log(f"wheel-{source.stem}", place.name)
            with narrator.step(what, "building it") as tick:
                env = _ALLOWED if clone else {**_ALLOWED, **_UNVERSIONED}
                cwd = source if source.is_dir() else source.parent
                before = {*source.rglob("*")}
                try:
                    command.run(
                        argv, what=f"building the {what}", log=log, tick=tick, cwd=cwd, env=env
                    )
                finally:
                    # A build must leave nothing in the copy: next time the cache has the wheel.
                    for path in sorted({*source.rglob("*")} - before, reverse=True):
                        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        return {"wheel": next(staging.glob("*.whl")).name}

    cache.make(place, build=make, say=narrator.say)
    (wheel,) = place.glob("*.whl")
    return wheel


def unpack(wheel: Path, folder: Path, sources: Sequence[Path]) -> None:
    """Lay out what a wheel installs and the source lacks, in a folder.

    Files that only its build created, such as a compiled module or one with the version, go beside
    the source of their package.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            top, _, rest = member.filename.partition("/")
            if top.endswith(".data"):
                kind, _, member.filename = rest.partition("/")
                if kind not in {"purelib", "platlib"}:
                    continue
            if member.is_dir() or any((source / member.filename).exists() for source in sources):
                continue
            package = member.filename.partition("/")[0]
            beside = (source for source in sources if (source / package).is_dir())
            archive.extract(member, next(beside, folder))  # which stays inside the folder


def _state(source: Path) -> str:
    """Digest a file, or a folder's files without those that programs leave there."""
    if not source.exists():
        raise SetupError(f"the project's lock names {source.name}, which is not there")
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")) if source.is_dir() else (source,):
        name = path.relative_to(source)
        if path.is_file() and not path.is_symlink() and not _LEFT_OUT.intersection(name.parts):
            digest.update(f"{name}\0{path.stat().st_mode & 0o111}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
