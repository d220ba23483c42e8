"""The Python in which an application runs: its interpreter, and perhaps an environment.

The interpreter is the one that uv would give its project, from CPython 3.11 on. uv reads
`.python-version` and the metadata itself, finds an interpreter, those of our set-up first, or
installs one.

Whoever types a command has an environment in which the application starts and its tests pass. Both
sides use its packages, by links in an environment of the cache: what a launch compiles or adds (a
server that is not installed) stays there. What the repository installs of itself comes later on the
search path than each side's own copy of the files.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from duetbench.core.errors import SetupError
from duetbench.core.model import InterpreterKind, InterpreterRecord
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator

OLDEST: Final = Version("3.11")
"""The oldest Python for our code that runs beside an application."""

JIT: Final = "PYTHON_JIT"
"""Switches the JIT on, in an interpreter that has one."""

_PROOF: Final = """
import json, os, platform, sys, sysconfig
get = sysconfig.get_config_var
jit = getattr(sys, "_jit", None)
options = (get("CONFIG_ARGS") or "").split()
options = " ".join(word for word in options if not word.startswith("'--prefix="))
finders = [module for name, module in sys.modules.items() if name.startswith("__editable__")]
mapped = [place for module in finders for place in getattr(module, "MAPPING", {}).values()]
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "build": f"{platform.python_compiler()}; {options}; {get('PY_CFLAGS') or ''}",
    "jit": bool(jit and jit.is_available()),
    "sites": [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")],
    "folders": sys.path[1:] + [os.path.dirname(place) for place in mapped],
}))
"""
_ANSWER_S: Final = 30

_MARK: Final = re.compile(r"# installed for (.+) in (.+)\n")
"""The first line of an environment's lock: its Python and the repository."""

_FOLDERS: Final = (".venv", "venv", "env")
_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "poetry.lock": ("poetry", "env", "info", "--executable"),
    "pdm.lock": ("pdm", "info", "--python"),
    "Pipfile.lock": ("pipenv", "--py"),
}
"""Lock of a tool that may keep environments elsewhere → how it tells their Python."""

_SHEBANG: Final = 300  # bytes in which a script names its Python


class Interpreter(InterpreterRecord):
    """An installed interpreter; the name is that in `pyproject.toml`: 3.14, 3.14t, ….

    In a free-threaded prefix, `bin/python3.14` also runs without the GIL. So only the absolute path
    of the executable is started, never a name on PATH.
    """

    executable: Path

    @property
    def identity(self) -> str:
        """The key of its environments."""
        build = self.version, str(self.free_threaded), self.origin, self.build, str(self.executable)
        return hashlib.sha256("\0".join(build).encode()).hexdigest()[:12]


def read(name: str, target: Path) -> Interpreter | None:
    """Read the facts that set-up recorded of an interpreter; None if it is not there."""
    facts = cache.facts(target)
    if facts is None or not Path(facts["executable"]).is_file():
        return None
    return Interpreter.model_validate({**facts, "name": name})


def prove(executable: Path) -> dict[str, Any]:
    """Start an interpreter, perhaps of an environment, and let it describe itself.

    Returns:
        executable (the real one, behind a script or link), version, free_threaded (how it was
        built), gil (whether the GIL is on now), build (compiler and flags), jit (whether it was
        built with one), sites (folders of packages, in the order of its search path), folders
        (all that it imports from).

    Raises SetupError if it cannot be started, or prints something else.
    """
    try:
        process = subprocess.run(
            [executable, "-E", "-c", _PROOF],  # PYTHON_GIL=1 and the like do not belong to it
            capture_output=True, check=True, timeout=_ANSWER_S, cwd="/", text=True,
        )  # fmt: skip
        return dict(json.loads(process.stdout.splitlines()[-1]))
    except (IndexError, OSError, subprocess.SubprocessError, TypeError, ValueError) as error:
        raise SetupError(f"{executable} does not run: {error}; run `duetbench setup`") from error


def choose(
    root: Path, asked: str | None, narrator: Narrator, usual: Path | None = None
) -> Interpreter:
    """Let uv find an interpreter for a project, or install one.

    `asked` is a version as uv writes it, such as 3.13t; None: what the project's files say, first
    the `usual` one, of an environment. Raises SetupError if there is none, or it is too old.
    """
    stamps = (paths.cache_dir() / "interpreters").glob(f"*/*/{cache.STAMP}")
    installed = {file.parent: read(file.parent.name, file.parent) for file in stamps}
    ours = {place: python for place, python in installed.items() if python and not python.jit}

    def rank(python: Interpreter) -> tuple[bool, bool, Version]:
        """Of ours uv takes the first that fits: final versions before others, then newer ones."""
        version = Version(python.version)
        return not python.free_threaded, not version.is_prerelease, version

    ranked = sorted(ours.values(), key=rank, reverse=True)
    search = [str(python.executable.parent) for python in ranked]
    if usual:
        search.insert(0, str(usual.resolve().parent))
    what = f"Python {asked}" if asked else f"Python for {root.name}"
    with paths.scratch() as scratch, narrator.step(what, "asking uv for it") as tick:
        argv: list[str | Path] = [command.uv(), "venv", "--quiet", scratch / "venv"]
        argv += ["--python-preference", "system", *(["--python", asked] if asked else [])]
        path = os.pathsep.join((*search, os.environ.get("PATH", os.defpath)))
        env = {"PATH": path, "UV_HTTP_RETRIES": "0"}  # an unreachable server is not slow
        log = command.new_log("python", cache.digest(str(root)))
        try:
            command.run(argv, what=f"finding {what}", log=log, tick=tick, cwd=root, env=env)
            choice = identify(scratch / "venv/bin/python")
        except SetupError as error:
            raise SetupError(f"{error}; choose another one by --with python=") from error
    for place, python in ours.items():
        if python.executable == choice.executable:
            cache.touch(place)
            return python
    return choice


def identify(
    program: Path, name: str = "", origin: str = "found", *, jit: bool = False
) -> Interpreter:
    """Describe the interpreter behind a program, such as an environment's, a link or a script.

    The default name is that of its version. Raises SetupError if it does not run, or is too old.
    """
    proof = prove(program)
    if Version(proof["version"]) < OLDEST:
        raise SetupError(f"{program} is Python {proof['version']}: expected {OLDEST} or newer")
    kind = InterpreterKind(free_threaded=proof["free_threaded"], jit=jit and proof["jit"])
    usual = ".".join(proof["version"].split(".")[:2]) + kind.suffix
    facts = {key: proof[key] for key in ("executable", "version", "build")}
    more = {"name": name or usual, "origin": origin, **kind.model_dump()}
    return Interpreter.model_validate({**facts, **more})


@dataclass(frozen=True)
class Environment:
    """An environment of somebody's, which is only read.

    Attributes:
        executable: Its Python, as a path in it.
        label: What people call it: `.venv`.
        top: The repository.
        chosen: Whether somebody made it for the project, or entered it.
    """

    executable: Path
    label: str
    top: Path
    chosen: bool = True

    @cached_property
    def _proof(self) -> Mapping[str, Any]:
        return prove(self.executable)

    @property
    def sites(self) -> list[Path]:
        """Its folders of packages, in the order of its search path; SetupError: it does not run."""
        return [*map(Path, self._proof["sites"])]

    @cached_property
    def _infos(self) -> dict[str, Path]:
        """Map names to the metadata of the installed packages, the first on the search path."""
        infos: dict[str, Path] = {}
        for site in self.sites:
            for place in sorted(site.glob("*.dist-info")):
                name, _, version = place.stem.rpartition("-")
                with suppress(InvalidVersion):
                    Version(version)
                    infos.setdefault(canonicalize_name(name), place)
        return infos

    @cached_property
    def packages(self) -> dict[str, str]:
        """Name → version of what is installed in it."""
        return {name: place.stem.rpartition("-")[2] for name, place in self._infos.items()}

    def lacking(self, requirements: Iterable[Requirement]) -> list[str]:
        """List those of some requirements for this machine that its packages do not meet."""

        def meets(requirement: Requirement) -> bool:
            version = self.packages.get(canonicalize_name(requirement.name))
            return version is not None and requirement.specifier.contains(version, prereleases=True)

        needed = (item for item in requirements if item.marker is None or item.marker.evaluate())
        return [str(item) for item in needed if not meets(item)]

    @cached_property
    def lock(self) -> str:
        """What is installed, as lines of a lock; another one after any change."""
        lines = [f"# installed for {self.executable} in {self.top}"]
        for name, place in sorted(self._infos.items()):
            listed = next((f for f in (place / "RECORD", place / "METADATA") if f.is_file()), None)
            digest = hashlib.sha256(listed.read_bytes() if listed else b"").hexdigest()
            lines.append(f"{name}=={self.packages[name]} --hash=sha256:{digest}")
        return "\n".join((*lines, ""))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the repository that it imports from, relative to the top."""
        sites, places = {*self.sites}, map(Path, self._proof["folders"])
        own = (place for place in places if place.is_relative_to(self.top) and place not in sites)
        return tuple(dict.fromkeys(place.relative_to(self.top) for place in own))

    def link(self, target: Path, final: Path) -> None:
        """Fill an empty environment, which will be in the folder `final`, with links to it."""
        (site,) = target.glob("lib/python*/site-packages")
        for source in self.sites:
            _link_files(source, site)
        used = {place.name for place in self._infos.values()}
        for info in site.glob("*.dist-info"):
            if info.name not in used:
                shutil.rmtree(info)
        here = os.fsencode(self.executable.parent / "python")
        there = os.fsencode(final / "bin/python")
        for file in self.executable.parent.iterdir():
            if file.is_file() and here in file.open("rb").read(_SHEBANG):
                (target / "bin" / file.name).write_bytes(file.read_bytes().replace(here, there))
                (target / "bin" / file.name).chmod(0o755)


def of_lock(text: str) -> Environment | None:
    """Return the environment that a lock describes; None if it is one to install."""
    match = _MARK.match(text)
    return Environment(Path(match[1]), "", Path(match[2])) if match else None


def find_environment(root: Path, top: Path) -> Environment | None:
    """Find the environment in which a project of a repository runs; None if there is none."""
    for executable, label in _candidates(root, top):
        if os.access(executable, os.X_OK):
            return Environment(executable.absolute(), label, top)
    program = shutil.which("python") or shutil.which("python3")
    return Environment(Path(program), program, top, chosen=False) if program else None


def _candidates(root: Path, top: Path) -> Iterator[tuple[Path, str]]:
    """Yield Pythons with what people call their environments, as their tools would choose."""
    for name in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"):
        if place := os.environ.get(name):
            folder = root / place
            yield (
                folder / "bin/python",
                os.path.relpath(folder, root) if folder.is_relative_to(top) else str(folder),
            )
    for folder in (root, *(above for above in root.parents if above.is_relative_to(top))):
        for name in _FOLDERS:
            if (folder / name / "pyvenv.cfg").is_file():
                yield folder / name / "bin/python", os.path.relpath(folder / name, root)
    for file, argv in _TOOLS.items():
        if (root / file).is_file() and shutil.which(argv[0]):
            process = subprocess.run(
                argv, capture_output=True, check=False, timeout=_ANSWER_S, cwd=root, text=True
            )
            yield Path(process.stdout.strip() or "none"), f"{argv[0]}'s environment"


def _link_files(source: Path, target: Path) -> None:
    """Link to all files of a folder that are not there yet, or copy what cannot be linked to."""

    def place(file: str, there: str) -> None:
        if not os.path.lexists(there):
            try:
                os.link(file, there)
            except OSError:  # on another file system, or another user's
                shutil.copy2(file, there)

    shutil.copytree(source, target, copy_function=place, symlinks=True, dirs_exist_ok=True)
