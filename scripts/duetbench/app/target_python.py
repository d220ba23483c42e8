"""The interpreter of a target: the one that uv would give its project, from CPython 3.11 on.

uv reads `.python-version` and the metadata itself, finds an interpreter, those of our set-up first,
or installs one. Without such a file it is the version of the project's image.
"""

import os
import re
from pathlib import Path
from typing import Final

from packaging.version import Version

from duetbench.app import interpreters
from duetbench.app.configuration import Interpreter
from duetbench.core.errors import SetupError
from duetbench.core.model import InterpreterKind
from duetbench.host import cache, command, proc
from duetbench.host.console import Narrator

OLDEST: Final = Version("3.11")
"""The oldest Python for our code that runs beside an application."""

_IMAGE: Final = re.compile(r"^FROM\s+\S*python:?(\d+\.\d+)", re.MULTILINE)
_JIT: Final = "-jit"


def of_image(root: Path, within: Path = Path()) -> str | None:
    """Find the version of Python in a project's Dockerfile, of the stage that runs.

    None if there is none, or `.python-version` is beside it or above, within a repository.
    """
    folders = (root, *root.parents[: len(within.parts)])
    file = root / "Dockerfile"
    if not file.is_file() or any((folder / ".python-version").is_file() for folder in folders):
        return None
    return next(reversed(_IMAGE.findall(file.read_text("utf-8", "replace"))), None)


def choose(root: Path, asked: str | None, narrator: Narrator) -> Interpreter:
    """Let uv find an interpreter for a project, or install one.

    `asked` is a version as uv writes it, such as 3.13t, perhaps with the JIT: 3.15-jit; None: what
    the project's files say. Raises SetupError if there is none, or it cannot be measured.
    """
    jit = bool(asked) and str(asked).endswith(_JIT)
    ours = interpreters.installed()
    ordered = sorted(ours.values(), key=lambda python: _order(python, jit=jit))
    search = [str(python.executable.parent) for python in ordered]
    what = f"Python {asked}" if asked else f"Python for {root.name}"
    with proc.scratch() as scratch, narrator.step(what, "asking uv for it") as tick:
        argv: list[str | Path] = [command.uv(), "venv", "--quiet", scratch / "venv"]
        argv += ["--python-preference", "system"]
        argv += ["--python", asked.removesuffix(_JIT)] if asked else []
        path = os.pathsep.join((*search, os.environ.get("PATH", os.defpath)))
        env = {"PATH": path, "UV_HTTP_RETRIES": "0"}  # an unreachable server is not slow
        log = command.new_log("python", cache.digest(str(root)))
        try:
            command.run(argv, what=f"finding {what}", log=log, tick=tick, cwd=root, env=env)
            found = describe(scratch / "venv/bin/python", jit=jit)
        except SetupError as error:
            raise SetupError(f"{error}; choose another one by --with python=") from error
    if found.jit != jit:
        raise SetupError(f"{found.executable} has no JIT: run `observatory setup --optional`")
    for folder, python in ours.items():
        if python.executable == found.executable and python.jit == jit:
            cache.touch(folder)
            return python
    return found


def _order(python: Interpreter, *, jit: bool) -> tuple[bool, bool, bool, tuple[int, ...]]:
    """Of ours uv takes the first that fits: final versions before others, then newer ones."""
    version = Version(python.version)
    newest = tuple(-number for number in version.release)
    return python.jit != jit, python.free_threaded, version.is_prerelease, newest


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
