"""Packages that a lock names by place (a folder, a git commit), built, so that they have a hash.

A wheel is kept in the cache by what it was built from, so that the same state of a package is the
same file, and a lock that names it is the same lock.
"""

import hashlib
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.utils import parse_wheel_filename

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator
from duetbench.project import settings, tools
from duetbench.project.types import Interpreter

_NAME: Final = r"[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?\s*"
_NAMED: Final = re.compile(rf"{_NAME}(?:==|@\s)")
_PLACED: Final = re.compile(rf"(?:-e\s+)?(?:{_NAME}@\s*)?(?P<place>\S+)")
_MARKER: Final = re.compile(r"\s;\s*(?P<marker>.+)$")
_LEFT_OUT: Final = frozenset(
    {".git", ".venv", "__pycache__", "node_modules", settings.FOLDER, settings.FILE}
)
_ALLOWED: Final = {"UV_NO_BUILD": "0"}
"""That is for releases, which come by night; this is somebody's own."""

_UNVERSIONED: Final = {
    "SETUPTOOLS_SCM_PRETEND_VERSION": "0",
    "PDM_BUILD_SCM_VERSION": "0",
    "POETRY_DYNAMIC_VERSIONING_BYPASS": "0",
}
"""A copy has no history that a version could be read from."""


def hashed(text: str, root: Path, python: Interpreter, narrator: Narrator) -> str:
    """A lock, one line per package, with a wheel in place of what has no hash.

    Folders are relative to `root`; the project there itself is left out.

    Raises:
        SetupError: One cannot be built, or be had in a way that is sure to be the same again.
    """
    lines = (_line(line, root, python, narrator) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def _line(line: str, root: Path, python: Interpreter, narrator: Narrator) -> str:
    plain, hashes, _ = line.partition(" --hash=")
    if hashes and _NAMED.match(plain):
        return line
    marker = _MARKER.search(plain)
    placed = _PLACED.fullmatch(plain[: marker.start()] if marker else plain)
    place = placed["place"] if placed else ""
    if place.startswith("git+"):
        source = _of_git(place.removeprefix("git+"), narrator)
    elif not place or "://" in place.removeprefix("file://") or "==" in place:
        raise SetupError(
            # Not its address, which may hold a password.
            f"the project's lock has {plain.partition('@')[0].strip()!r} without a hash, which "
            "could be another file next time: lock it with hashes (uv lock does), or name it by a "
            "folder or a git commit"
        )
    else:
        source = (root / unquote(place.removeprefix("file://"))).resolve()
        if source == root.resolve():
            return ""
    wheel = build(source, python, narrator)
    name = parse_wheel_filename(wheel.name)[0]
    condition = f" ; {marker['marker']}" if marker else ""
    return f"{name} @ {wheel.as_uri()}{condition} --hash=sha256:{cache.sha256(wheel)}"


def _of_git(address: str, narrator: Narrator) -> Path:
    """The folder of a commit in the cache, or of one below it."""
    parts = urlsplit(address)
    path, _, commit = parts.path.rpartition("@")
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise SetupError(f"{Path(path or parts.path).stem}: expected a whole commit behind @")
    remote = parts._replace(path=path, fragment="", query="").geturl()
    place = paths.cache_dir() / "sources" / cache.digest(remote, commit)

    def fetch(staging: Path) -> cache.Facts:
        with narrator.step(Path(path).stem, f"fetching commit {commit[:8]}") as tick:
            tree, what = str(staging / "tree"), f"fetching {Path(path).stem}"
            for argv in (
                ["git", "clone", "--quiet", "--no-checkout", remote, tree],
                ["git", "-C", tree, "checkout", "--quiet", "--detach", commit],
            ):
                command.run(argv, what=what, log=_log(path), tick=tick)
        return {"commit": commit}

    cache.make(
        place,
        fault=lambda folder: None if cache.facts(folder) else "it is not there",
        build=fetch,
        say=narrator.say,
    )
    cache.touch(place)
    below = parse_qs(parts.fragment).get("subdirectory", [""])[0]
    return place / "tree" / below


def build(source: Path, python: Interpreter, narrator: Narrator) -> Path:
    """Build the wheel of a folder or archive, if it was not built from the same files before.

    SetupError: it cannot be built.
    """
    place = paths.cache_dir() / "wheels" / cache.digest(_state(source), python.identity)

    def make(staging: Path) -> cache.Facts:
        if source.suffix == ".whl":
            shutil.copy(source, staging)
        else:
            argv: list[str | Path] = [tools.uv(), "build", "--wheel", "--quiet", "--python"]
            argv += [python.executable, "--out-dir", staging, source]
            # A copy's own name says nothing.
            what = f"wheel of {settings.project_name(source) if source.is_dir() else source.name}"
            cloned = source.is_relative_to(paths.cache_dir() / "sources")
            with narrator.step(what, "building it") as tick:
                command.run(
                    argv,
                    what=f"building the {what}",
                    log=_log(source.name),
                    tick=tick,
                    cwd=source if source.is_dir() else source.parent,
                    env=_ALLOWED if cloned else {**_ALLOWED, **_UNVERSIONED},
                )
        (wheel,) = staging.glob("*.whl")
        return {"wheel": wheel.name}

    def fault(folder: Path) -> str | None:
        facts = cache.facts(folder)
        return None if facts and (folder / facts["wheel"]).is_file() else "it is not there"

    cache.make(place, fault=fault, build=make, say=narrator.say)
    cache.touch(place)
    remembered: Mapping[str, str] = cache.facts(place) or {}
    return place / remembered["wheel"]


def unpack(wheel: Path, folder: Path, *, whole: bool) -> None:
    """Lay out what a wheel installs: all of it, or only what says which distribution it is."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            top, _, rest = member.filename.partition("/")
            kind, _, below = rest.partition("/")
            data = top.endswith(".data")
            name = below if data else member.filename
            installed = whole and (not data or kind in {"purelib", "platlib"})
            if member.is_dir() or not (top.endswith(".dist-info") or installed):
                continue
            place = (folder / name).resolve()
            if not place.is_relative_to(folder.resolve()):
                raise SetupError(f"{wheel.name} has a file outside of it: {member.filename}")
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, place.open("wb") as out:
                shutil.copyfileobj(source, out)


def is_pure(wheel: Path) -> bool:
    """Whether a wheel has nothing that was compiled for one machine."""
    return all(tag.platform == "any" for tag in parse_wheel_filename(wheel.name)[3])


def modules(wheel: Path) -> frozenset[str]:
    """The names at the top of what a wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {
            member.partition("/")[0].partition(".")[0]
            for member in archive.namelist()
            if ".dist-info/" not in member and ".data/" not in member
        }
    return frozenset(tops)


def _state(source: Path) -> str:
    """A digest of a file, or of a folder's files without what programs have left there."""
    if not source.exists():
        raise SetupError(f"the project's lock names {source.name}, which is not there")
    digest = hashlib.sha256()
    for path in _files(source) if source.is_dir() else (source,):
        digest.update(f"{path.relative_to(source)}\0{path.stat().st_mode & 0o111}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterable[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _LEFT_OUT or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _log(name: str) -> Path:
    return tools.new_log(f"wheel-{Path(name).stem}")
