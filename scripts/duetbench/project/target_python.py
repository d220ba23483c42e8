"""The interpreter of somebody's project: any CPython from 3.10 on that the machine has, or uv gets.

It is one that the project asks for, in `.python-version` or else by its metadata: the newest of
those that set-up has made, or the first that uv finds here.
"""

import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import InterpreterRecord
from duetbench.host import command
from duetbench.host.cache import Facts
from duetbench.host.console import Narrator
from duetbench.project import interpreters, other_locks
from duetbench.project.schema import InterpreterSpec
from duetbench.project.settings import Settings, read_pyproject

OLDEST: Final = Version("3.10")
"""What of ours runs beside an application runs from here on."""

_TIMEOUT_S: Final = 60
_NAMED: Final = re.compile(
    r"(?:cpython[@-]?|python)?(?P<version>\d+(?:\.\d+){0,2}(?:[abrc]+\d+)?)"
    r"(?P<free>t|\+freethreaded)?(?P<jit>-jit)?(?:-[a-z].*)?"
)
"""As uv and pyenv write one: 3.13, 3.13.5, 3.13t, cpython-3.13.5-linux-x86_64-gnu; or 3.15-jit."""


@dataclass(frozen=True, slots=True)
class PythonRequest:
    """What a project asks for: which versions, without the GIL, with the JIT, in its words."""

    versions: SpecifierSet
    free_threaded: bool
    text: str
    source: str
    jit: bool = False

    def fits(self, one: InterpreterSpec | InterpreterRecord) -> bool:
        version = Version(one.version)
        return (
            (one.free_threaded, one.jit) == (self.free_threaded, self.jit)
            and version >= OLDEST
            and self.versions.contains(version, prereleases=True)
        )


def request(root: Path, chosen: str | None = None, within: Path = Path()) -> PythonRequest:
    """What a project, or whoever has chosen one for it, asks for.

    `.python-version` may also stand in a folder of the repository around the one that this is.

    UsageError: it is no CPython, or none that can be measured.
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
    if text := other_locks.interpreter(root):
        return read(text, "the project's bounds")
    return PythonRequest(SpecifierSet(), free_threaded=False, text="any", source=str(root))


def read(text: str, source: str) -> PythonRequest:
    """Read a request such as 3.13, 3.13t or >=3.11; errors as in `request`."""
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


def choose(wanted: PythonRequest, configured: Settings, narrator: Narrator) -> InterpreterSpec:
    """Find an interpreter that a project asks for, or have uv install one.

    It goes by `name_of` its declaration from then on.

    SetupError: none is here, and uv cannot have one.
    """
    made = []
    for name, spec in configured.interpreters.items():
        with suppress(SetupError):
            interpreters.locate(name, configured)
            if wanted.fits(spec):
                made.append(spec)
    if made:
        # Who asks for no version gets the usual one, whatever else was made here.
        newest = max(made, key=lambda spec: (not spec.optional, Version(spec.version)))
        return newest.model_copy(update={"optional": False})
    try:
        # Itself, in place of a script that starts it (pyenv's), which loses an environment.
        proof = interpreters.prove(_find(wanted) or _install(wanted, narrator))
    except SetupError as error:
        raise SetupError(
            f"{wanted.source} asks for Python {wanted.text}, which is not here; {error}. Install "
            "it, or choose one that is here with --python"
        ) from error
    executable = Path(proof["executable"])
    spec = InterpreterSpec(
        version=proof["version"], free_threaded=proof["free_threaded"], jit=wanted.jit
    )
    if not wanted.fits(spec):
        raise SetupError(
            f"{wanted.source} asks for Python {wanted.text}, and uv has found {spec.version} "
            f"({executable}): choose one with --python"
        )
    extended = configured.model_copy(update={"interpreters": {name_of(spec): spec}})
    target = interpreters.place(name_of(spec), "found", extended)

    def fill(_staging: Path) -> Facts:
        return interpreters.described(executable, "found", jit=spec.jit)

    interpreters.make(target, spec, fill, narrator)
    return spec


def name_of(spec: InterpreterSpec) -> str:
    """What an interpreter is called: 3.13, 3.13t, or 3.15-jit."""
    return ".".join(spec.version.split(".")[:2]) + spec.suffix


def _find(wanted: PythonRequest) -> Path | None:
    """The first that uv finds on this machine, in no environment, which brings its packages."""
    argv: list[str | Path] = [command.uv(), "python", "find", "--system", "--no-project"]
    done = subprocess.run(
        [*argv, "--no-python-downloads", _spelled(wanted)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
        env={**os.environ, "PATH": _without_shims()},
    )
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def _without_shims() -> str:
    """The search path with pyenv's interpreters in place of scripts that start none elsewhere."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    versions = sorted(map(str, home.glob("versions/*/bin")), reverse=True)
    return os.pathsep.join([name for name in folders if Path(name) != home / "shims"] + versions)


def _install(wanted: PythonRequest, narrator: Narrator) -> Path:
    request = _spelled(wanted)
    with narrator.step(f"CPython {request}", "asking uv for a prebuilt one") as tick:
        interpreters.install(request, "python-install", tick)
    if (executable := _find(wanted)) is None:
        raise SetupError("uv installed another one")
    return executable


def _spelled(wanted: PythonRequest) -> str:
    """A request as uv reads it; what is said by no range is any that can be measured."""
    if match := _NAMED.fullmatch(wanted.text.strip()):
        return match["version"] + "t" * bool(match["free"])
    return str(wanted.versions & SpecifierSet(f">={OLDEST}"))
