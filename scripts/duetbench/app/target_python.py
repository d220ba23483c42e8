"""The interpreter of a target: any CPython from 3.11 that the machine has, or uv installs.

Unless the project runs in an environment here, it asks for one in `.python-version`, or else in the
files that it is deployed with, or in its metadata. By default it is the newest one here.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from duetbench.app import foreign_locks, interpreters
from duetbench.app.configuration import Interpreter
from duetbench.app.pyproject import read_pyproject
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import InterpreterKind, InterpreterRecord
from duetbench.host import cache, command
from duetbench.host.console import Narrator

OLDEST: Final = Version("3.11")
"""The oldest Python for our code that runs beside an application."""

_DEPLOYED: Final = {
    "runtime.txt": r"^python-(\d+\.\d+)",
    "Dockerfile": r"^FROM\s+\S*python:?(\d+\.\d+)",
}
"""File of a project → how it names the Python that it is deployed on."""

_TIMEOUT_S: Final = 60
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

    def fits(self, python: InterpreterRecord) -> bool:
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
        return read(chosen, "--with python")
    for folder in (root, *root.parents[: len(within.parts)]):
        file = folder / ".python-version"
        if found := re.search(r"^[ \t]*([^#\s][^#\n]*)", _text(file), re.MULTILINE):
            return read(found[1].strip(), os.path.relpath(file, root))
    for name, pattern in _DEPLOYED.items():
        if versions := re.findall(pattern, _text(root / name), re.MULTILINE):
            return read(versions[-1], name)  # of a Dockerfile the stage that runs
    return required(root)


def required(root: Path) -> PythonRequest:
    """Read what a project's metadata ask for; raises like `request`."""
    if text := str(read_pyproject(root).get("project", {}).get("requires-python", "")):
        return read(text, "requires-python")
    text, name = foreign_locks.interpreter(root)
    if text:
        return read(text, name)
    return PythonRequest(SpecifierSet(), free_threaded=False, text="any", source=str(root))


def _text(file: Path) -> str:
    return file.read_text("utf-8") if file.is_file() else ""


def read(text: str, source: str) -> PythonRequest:
    """Read a request such as 3.13, 3.13t or >=3.11; raises like `request`."""
    if match := _NAMED.fullmatch(text.strip()):
        exact = match["version"].count(".") == 2
        versions = SpecifierSet(f"=={match['version']}{'' if exact else '.*'}")
        if Version(match["version"]).release[:2] < OLDEST.release and len(match["version"]) > 1:
            raise UsageError(
                f"{source} {text}: expected Python {OLDEST} or newer; if the application runs on "
                f"that, add --with python={OLDEST}"
            )
        return PythonRequest(versions, bool(match["free"]), text, source, bool(match["jit"]))
    try:
        return PythonRequest(SpecifierSet(text), free_threaded=False, text=text, source=source)
    except InvalidSpecifier as error:
        raise UsageError(
            f"{source} {text!r}: expected a CPython such as 3.13, 3.13t or 3.13.5"
        ) from error


def choose(need: PythonRequest, narrator: Narrator) -> Interpreter:
    """Find an interpreter that a project asks for, or let uv install one.

    Raises SetupError if there is none here, and uv cannot get one.
    """
    if ours := {f: python for f, python in interpreters.installed().items() if need.fits(python)}:
        folder = max(ours, key=lambda folder: _preference(ours[folder]))
        cache.touch(folder)
        return ours[folder]
    request = _spell(need)
    try:
        if (program := _find(request)) is None:
            with narrator.step(f"CPython {request}", "asking uv for a prebuilt one") as tick:
                interpreters.install(request, "python-install", tick)
            if (program := _find(request)) is None:
                raise SetupError("uv installed another one")  # noqa: TRY301
        found = describe(program, jit=need.jit)
    except SetupError as error:
        raise SetupError(
            f"{need.source} asks for Python {need.text}, which is not installed; {error}. Install "
            "it, or choose an installed one by --with python="
        ) from error
    if not need.fits(found):
        raise SetupError(
            f"{need.source} asks for Python {need.text}, and uv found {found.version} "
            f"({found.executable}): choose one by --with python="
        )
    return found


def _preference(python: Interpreter) -> tuple[bool, Version, str]:
    """Put final versions before others, then newer ones; two of one version have one origin."""
    version = Version(python.version)
    return not version.is_prerelease, version, python.origin


def describe(program: Path, *, jit: bool = False) -> Interpreter:
    """Describe the interpreter behind a program, such as an environment's or a script.

    Raises SetupError if it does not run, or is too old.
    """
    facts = interpreters.describe(program, "found", jit=jit)
    if Version(facts["version"]) < OLDEST:
        raise SetupError(f"{program} is Python {facts['version']}: expected {OLDEST} or newer")
    kind = InterpreterKind(free_threaded=facts["free_threaded"], jit=facts["jit"])
    name = ".".join(facts["version"].split(".")[:2]) + kind.suffix
    return Interpreter.model_validate({"name": name, **facts})


def _find(request: str) -> Path | None:
    """Find the first one on this machine with uv, outside of environments, which add packages."""
    argv: list[str | Path] = [command.uv(), "python", "find", "--system", "--no-project"]
    process = subprocess.run(
        [*argv, "--no-python-downloads", request],
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


def _spell(need: PythonRequest) -> str:
    """Spell a request as uv reads it; other requests become a range that can be measured."""
    if match := _NAMED.fullmatch(need.text.strip()):
        return match["version"] + "t" * bool(match["free"])
    return str(need.versions & SpecifierSet(f">={OLDEST}"))
