"""The interpreter of somebody's project: any CPython from 3.10 on that the machine has, or uv gets.

It is the one that the project asks for: in `.python-version`, or else the newest within its
`requires-python`, or the newest that is here. Those that set-up has made come first.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from duetbench.core.errors import SetupError, UsageError
from duetbench.host import cache, command
from duetbench.host.console import Narrator
from duetbench.project import interpreters, tools
from duetbench.project.schema import read_toml
from duetbench.project.types import InterpreterSpec, Settings

OLDEST: Final = Version("3.10")
"""What of ours runs beside an application runs from here on."""

_TIMEOUT_S: Final = 60
_NAMED: Final = re.compile(
    r"(?:cpython[@-]?|python)?(?P<version>\d+(?:\.\d+){0,2}(?:[abrc]+\d+)?)"
    r"(?P<free>t|\+freethreaded)?(?:-[a-z].*)?"
)
"""As uv and pyenv write one: 3.13, 3.13.5, 3.13t, cpython-3.13.5-linux-x86_64-gnu."""


@dataclass(frozen=True, slots=True)
class PythonRequest:
    """What a project asks for: which versions, without the GIL or with it, in its words."""

    versions: SpecifierSet
    free_threaded: bool
    text: str
    source: str

    def fits(self, version: Version, *, free_threaded: bool) -> bool:
        return (
            free_threaded == self.free_threaded
            and version >= OLDEST
            and self.versions.contains(version, prereleases=True)
        )


@dataclass(frozen=True, slots=True)
class _LocalPython:
    """An interpreter of the machine; `name`: set-up has made it."""

    version: Version
    free_threaded: bool
    executable: Path
    name: str = ""


def request(root: Path, chosen: str | None = None) -> PythonRequest:
    """What a project, or whoever has chosen one for it, asks for.

    Raises:
        UsageError: It is no CPython, or none that can be measured.
    """
    if chosen is not None:
        return read(chosen, "--python")
    file = root / ".python-version"
    if file.is_file():
        lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
        if text := next(filter(None, lines), ""):
            return read(text, ".python-version")
    project = root / "pyproject.toml"
    document = read_toml(project) if project.is_file() else {}
    if text := str(document.get("project", {}).get("requires-python", "")):
        return read(text, "requires-python")
    return PythonRequest(SpecifierSet(), free_threaded=False, text="any", source=str(root))


def read(text: str, source: str) -> PythonRequest:
    """Read a request such as 3.13, 3.13t or >=3.11; errors as in `request`."""
    if match := _NAMED.fullmatch(text.strip()):
        exact = match["version"].count(".") == 2
        versions = SpecifierSet(f"=={match['version']}{'' if exact else '.*'}")
        if Version(match["version"]).release[:2] < OLDEST.release and len(match["version"]) > 1:
            raise UsageError(f"{source} {text}: expected Python {OLDEST} or newer")
        return PythonRequest(versions, bool(match["free"]), text, source)
    try:
        return PythonRequest(SpecifierSet(text), free_threaded=False, text=text, source=source)
    except InvalidSpecifier as error:
        raise UsageError(
            f"{source} {text!r}: expected a CPython such as 3.13, 3.13t or 3.13.5"
        ) from error


def choose(wanted: PythonRequest, configured: Settings, narrator: Narrator) -> InterpreterSpec:
    """Find the newest interpreter that a project asks for, or have uv install one.

    It goes by `name_of` its declaration from then on.

    Raises:
        SetupError: None is here, and uv cannot have one.
    """
    local = _best(wanted, configured)
    if local is None:
        try:
            _install(wanted, narrator)
        except SetupError as error:
            raise _none(wanted, configured, str(error)) from error
        local = _best(wanted, configured)
    if local is None:
        raise _none(wanted, configured, "uv installed another one")
    spec = InterpreterSpec(version=str(local.version), free_threaded=local.free_threaded)
    if not local.name:
        name, executable = name_of(spec), _itself(local.executable)
        extended = configured.model_copy(update={"interpreters": {name: spec}})
        cache.make(
            interpreters.place(name, "found", extended),
            fault=lambda place: _fault(spec, place),
            build=lambda _: interpreters.described(executable, "found"),
            say=narrator.say,
        )
    return spec


def name_of(spec: InterpreterSpec) -> str:
    """What an interpreter is called: 3.13, or 3.13t."""
    return ".".join(spec.version.split(".")[:2]) + "t" * spec.free_threaded


def _itself(executable: Path) -> Path:
    """An interpreter in place of a script that starts it (pyenv's), which loses an environment."""
    return Path(interpreters.prove(executable)["executable"])


def _fault(spec: InterpreterSpec, place: Path) -> str | None:
    interpreter = interpreters.read(place.name, place)
    if interpreter is not None and interpreter.executable != _itself(interpreter.executable):
        return "it is started by another program"
    return interpreters.fault(spec, place)


def _best(wanted: PythonRequest, configured: Settings) -> _LocalPython | None:
    fitting = [
        local
        for local in _local(configured)
        if wanted.fits(local.version, free_threaded=local.free_threaded)
    ]
    # Finished releases first; of the same version one that set-up has made.
    order = [(not o.version.is_prerelease, o.version, bool(o.name)) for o in fitting]
    return fitting[order.index(max(order))] if fitting else None


def _local(configured: Settings) -> Iterator[_LocalPython]:
    for name in configured.interpreters:
        with suppress(SetupError):
            interpreter = interpreters.locate(name, configured)
            yield _LocalPython(
                Version(interpreter.version),
                interpreter.free_threaded,
                interpreter.executable,
                name,
            )
    try:
        done = subprocess.run(
            [tools.uv(), "python", "list", "--only-installed", "--output-format", "json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
        )
        listed = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SetupError(f"uv cannot say which interpreters are here: {error}") from error
    visited: set[Path] = set()
    for entry in listed:
        path = Path(entry["path"])
        real = path.resolve()
        # One of an environment brings its packages along.
        if entry["implementation"] != "cpython" or (path.parent.parent / "pyvenv.cfg").exists():
            continue
        if real not in visited:
            visited.add(real)
            yield _LocalPython(Version(entry["version"]), entry["variant"] == "freethreaded", path)


def _install(wanted: PythonRequest, narrator: Narrator) -> None:
    request = wanted.text
    if match := _NAMED.fullmatch(wanted.text.strip()):
        request = match["version"] + "t" * bool(match["free"])
    with narrator.step(f"CPython {request}", "asking uv for a prebuilt one") as tick:
        command.run(
            [tools.uv(), "python", "install", "--no-bin", request],
            what=f"installing CPython {request}",
            log=tools.new_log("python-install"),
            tick=tick,
            env={"UV_HTTP_RETRIES": "0"},  # unreachable is not slow: ask once
        )


def _none(wanted: PythonRequest, configured: Settings, why: str) -> SetupError:
    here = dict.fromkeys(
        f"{local.version}{'t' * local.free_threaded}" for local in _local(configured)
    )
    return SetupError(
        f"{wanted.source} asks for Python {wanted.text}, and this machine has "
        f"{', '.join(here) or 'none'}; {why}. Install it, or choose one that is here with --python"
    )
