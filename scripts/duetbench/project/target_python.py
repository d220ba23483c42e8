"""The interpreter of a target: any CPython from 3.10 that the machine has, or uv installs.

The project asks for it in `.python-version`, or else in its metadata. By default it is the newest
one here for which its locked packages have wheels.
"""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import InterpreterRecord
from duetbench.core.text import some
from duetbench.host import command
from duetbench.host.cache import Facts
from duetbench.host.console import Narrator
from duetbench.project import foreign_locks, interpreters, stacks
from duetbench.project.configuration import Configuration
from duetbench.project.pyproject import read_pyproject
from duetbench.project.schema import InterpreterSpec

OLDEST: Final = Version("3.10")
"""The oldest Python for our code that runs beside an application."""

_TIMEOUT_S: Final = 60
_NAMED_PACKAGES: Final = 3
_NAMED: Final = re.compile(
    r"(?:cpython[@-]?|python)?(?P<version>\d+(?:\.\d+){0,2}(?:[abrc]+\d+)?)"
    r"(?P<free>t|\+freethreaded)?(?P<jit>-jit)?(?:-[a-z].*)?"
)
"""As uv and pyenv write it: 3.13, 3.13.5, 3.13t, cpython-3.13.5-linux-x86_64-gnu; or 3.15-jit."""


@dataclass(frozen=True, slots=True)
class PythonRequest:
    """What a project asks for: versions, without the GIL or not, with the JIT or not, its words."""

    versions: SpecifierSet
    free_threaded: bool
    text: str
    source: str
    jit: bool = False

    def fits(self, python: InterpreterSpec | InterpreterRecord) -> bool:
        version = Version(python.version)
        return (
            (python.free_threaded, python.jit) == (self.free_threaded, self.jit)
            and version >= OLDEST
            and self.versions.contains(version, prereleases=True)
        )


def request(root: Path, chosen: str | None = None, within: Path = Path()) -> PythonRequest:
    """Read what a project asks for, or what the user has chosen instead.

    `.python-version` may also be in a folder of the repository above this one.

    Raises UsageError if it is no CPython, or one that cannot be measured.
    """
    if chosen is not None:
        return read(chosen, "--python")
    for folder in (root, *root.parents[: len(within.parts)]):
        if (file := folder / ".python-version").is_file():
            lines = (
                line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines()
            )
            if text := next(filter(None, lines), ""):
                return read(text, os.path.relpath(file, root))
    if text := str(read_pyproject(root).get("project", {}).get("requires-python", "")):
        return read(text, "requires-python")
    if text := foreign_locks.interpreter(root):
        return read(text, "the project's bounds")
    return PythonRequest(SpecifierSet(), free_threaded=False, text="any", source=str(root))


def read(text: str, source: str) -> PythonRequest:
    """Read a request such as 3.13, 3.13t or >=3.11; raises like `request`."""
    if match := _NAMED.fullmatch(text.strip()):
        exact = match["version"].count(".") == 2
        versions = SpecifierSet(f"=={match['version']}{'' if exact else '.*'}")
        if Version(match["version"]).release[:2] < OLDEST.release and len(match["version"]) > 1:
            raise UsageError(f"{source} {text}: expected Python {OLDEST} or newer")
        return PythonRequest(versions, bool(match["free"]), text, source, bool(match["jit"]))
    try:
        return PythonRequest(SpecifierSet(text), free_threaded=False, text=text, source=source)
    except InvalidSpecifier as error:
        raise UsageError(
            f"{source} {text!r}: expected a CPython such as 3.13, 3.13t or 3.13.5"
        ) from error


def choose(
    need: PythonRequest, configured: Configuration, narrator: Narrator, *, download: bool = True
) -> InterpreterSpec:
    """Find an interpreter that a project asks for, or let uv install one if it may.

    From then on its name is `name_of` the result.

    Raises SetupError if there is none here, and uv cannot get one.
    """
    specs = []
    for name, spec in configured.interpreters.items():
        with suppress(SetupError):
            interpreters.locate(name, configured)
            if need.fits(spec):
                specs.append(spec)
    if specs:
        # Without a requested version, a usual interpreter wins over optional ones.
        newest = max(specs, key=lambda spec: (not spec.optional, Version(spec.version)))
        return newest.model_copy(update={"optional": False})
    try:
        # The interpreter itself, not a script that starts it (pyenv's) and loses an environment.
        proof = interpreters.prove(_find(need) or _install(need, narrator, download=download))
    except SetupError as error:
        raise SetupError(
            f"{need.source} asks for Python {need.text}, which is not installed; {error}. Install "
            "it, or choose an installed one with --python"
        ) from error
    executable = Path(proof["executable"])
    spec = InterpreterSpec(
        version=proof["version"], free_threaded=proof["free_threaded"], jit=need.jit
    )
    if not need.fits(spec):
        raise SetupError(
            f"{need.source} asks for Python {need.text}, and uv found {spec.version} "
            f"({executable}): choose one with --python"
        )
    extended = configured.model_copy(update={"interpreters": {name_of(spec): spec}})
    target = interpreters.place(name_of(spec), "found", extended)

    def fill(_staging: Path) -> Facts:
        return interpreters.describe(executable, "found", jit=spec.jit)

    interpreters.make(target, spec, fill, narrator)
    return spec


def prefer(
    need: PythonRequest,
    chosen: InterpreterSpec,
    locks: Callable[[], Sequence[str]],
    home: Path,
    configured: Configuration,
    narrator: Narrator,
) -> InterpreterSpec:
    """Return the newest interpreter here for which all locked packages have wheels.

    If there is none, it is one that uv can install, or else the one that lacks the fewest; offline
    it is `chosen`. A package without wheels for any of them counts for none. `locks` returns the
    texts of the locks, which it reads only if there is a choice; `home` is the folder whose
    settings of uv apply.
    """
    current = Version(chosen.version).minor
    newest = max(Version(s.version).minor for s in (chosen, *configured.usual.values()))
    minors = [
        minor
        for minor in range(newest, OLDEST.minor - 1, -1)
        if minor == current
        or any(need.versions.contains(f"3.{minor}{patch}") for patch in ("", ".99"))
    ]
    if need.free_threaded or need.jit or len(minors) == 1:
        return chosen

    def find(minor: int, *, download: bool = False) -> InterpreterSpec | None:
        versions = need.versions & SpecifierSet(f"==3.{minor}.*")
        asked = replace(need, versions=versions, text=str(versions))
        with suppress(SetupError):
            return choose(asked, configured, narrator, download=download)
        return chosen if minor == current else None

    texts, lacks = locks(), dict[int, set[str]]()
    for minor in minors:
        try:
            lists = [stacks.without_wheel(text, f"3.{minor}", home, narrator) for text in texts]
        except SetupError:
            return chosen  # offline, where what is installed may work
        if None not in lists:
            lacks[minor] = {name for names in lists if names for name in names}
            if not lacks[minor] and find(minor):
                break  # no older one is better
    order = sorted(lacks, key=lambda minor: (len(lacks[minor]), -minor))
    best = [minor for minor in order if len(lacks[minor]) == len(lacks[order[0]])]
    tries = [*((minor, False) for minor in best), *((minor, True) for minor in best[:1])]
    tries += ((minor, False) for minor in order)
    spec = next(filter(None, (find(minor, download=get) for minor, get in tries)), chosen)
    passed = [minor for minor in minors if minor > Version(spec.version).minor]
    own = lacks.get(Version(spec.version).minor, set())
    names = sorted(set().union(*(lacks.get(minor, ()) for minor in passed)) - own)
    why = f"with wheels of {some(names, _NAMED_PACKAGES)}" if names else ""
    if not names and not lacks.keys() >= {*passed}:
        why = "that the locked packages allow"
    if why:
        narrator.say(f"Python {spec.version}: the newest here {why}")
    return spec


def name_of(spec: InterpreterSpec) -> str:
    """Return the name of an interpreter: 3.13, 3.13t, or 3.15-jit."""
    return ".".join(spec.version.split(".")[:2]) + spec.suffix


def _find(need: PythonRequest) -> Path | None:
    """Find the first one on this machine with uv, outside of environments, which add packages."""
    argv: list[str | Path] = [command.uv(), "python", "find", "--system", "--no-project"]
    process = subprocess.run(
        [*argv, "--no-python-downloads", _spell(need)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
        env={**os.environ, "PATH": _without_shims()},
    )
    return Path(process.stdout.strip()) if process.returncode == 0 else None


def _without_shims() -> str:
    """Return the search path with pyenv's interpreters instead of scripts that may start none."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    versions = sorted(map(str, home.glob("versions/*/bin")), reverse=True)
    return os.pathsep.join([name for name in folders if Path(name) != home / "shims"] + versions)


def _install(need: PythonRequest, narrator: Narrator, *, download: bool) -> Path:
    request = _spell(need)
    if not download:
        raise SetupError(f"no {request} is here")
    with narrator.step(f"CPython {request}", "asking uv for a prebuilt one") as tick:
        interpreters.install(request, "python-install", tick)
    if (executable := _find(need)) is None:
        raise SetupError("uv installed another one")
    return executable


def _spell(need: PythonRequest) -> str:
    """Spell a request as uv reads it; other requests become a range that can be measured."""
    if match := _NAMED.fullmatch(need.text.strip()):
        return match["version"] + "t" * bool(match["free"])
    return str(need.versions & SpecifierSet(f">={OLDEST}"))
