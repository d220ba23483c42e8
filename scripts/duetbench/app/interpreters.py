"""Interpreters: what they say of themselves, and which one is an application's.

That is the one that uv would give its project, from CPython 3.11 on. uv reads `.python-version` and
the metadata itself, finds an interpreter, those of our set-up first, or installs one. Without such
a file it is the version of the project's image.
"""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from duetbench.core.errors import SetupError
from duetbench.core.model import InterpreterKind, InterpreterRecord
from duetbench.host import cache, command, paths, proc
from duetbench.host.console import Narrator

OLDEST: Final = Version("3.11")
"""The oldest Python for our code that runs beside an application."""

_IMAGE: Final = re.compile(r"^FROM\s+\S*python:?(\d+\.\d+)", re.MULTILINE)
_JIT_SUFFIX: Final = "-jit"

JIT: Final = "PYTHON_JIT"
"""Switches the JIT on, in an interpreter that has one."""

_PROOF: Final = """
import json, os, platform, re, sys, sysconfig
get = sysconfig.get_config_var
jit = getattr(sys, "_jit", None)
allocator = "pymalloc" if get("WITH_PYMALLOC") else "malloc"
if get("Py_GIL_DISABLED"):
    allocator = "mimalloc"
try:
    policy = open("/sys/kernel/mm/transparent_hugepage/enabled").read()
    mode = re.search(r"\\[(.+)\\]", policy)[1]
    maps = open("/proc/self/smaps").read()
    advice = "asked for" if re.search("^VmFlags:.* hg( |$)", maps, re.M) else "not asked for"
except OSError:
    mode = advice = "unknown"
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "compiler": platform.python_compiler(),
    "configure": get("CONFIG_ARGS") or "",
    "cflags": get("PY_CFLAGS") or "",
    "jit": bool(jit and jit.is_available()),
    "memory": f"{allocator}; huge pages {advice} (transparent_hugepage: {mode})",
}))
"""
_PROOF_TIMEOUT_S: Final = 30


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
    fields = {key: facts[key] for key in ("version", "free_threaded", "origin", "build")}
    jit = facts.get("jit", False)
    return Interpreter(name=name, executable=Path(facts["executable"]), jit=jit, **fields)


def prove(executable: Path) -> dict[str, Any]:
    """Start an interpreter and let it describe itself.

    Returns:
        executable (the real one, behind a script or link), version, free_threaded (how it was
        built), gil (whether the GIL is on now), compiler, configure, cflags, jit (whether it was
        built with one), memory.

    Raises SetupError if it cannot be started, or prints something else.
    """
    try:
        process = subprocess.run(
            [executable, "-I", "-S", "-c", _PROOF],
            capture_output=True,
            check=True,
            timeout=_PROOF_TIMEOUT_S,
            env={},  # PYTHON_GIL=1 and the like do not belong to the build
        )
        return dict(json.loads(process.stdout))
    except (OSError, subprocess.SubprocessError, TypeError, ValueError) as error:
        raise SetupError(f"{executable} does not run: {error}; run `duetbench setup`") from error


def record(interpreter: Interpreter) -> InterpreterRecord:
    """Describe an interpreter as it is now; raises SetupError if it does not run."""
    # Its memory also depends on settings of the machine.
    memory = prove(interpreter.executable)["memory"]
    fields = interpreter.model_dump(exclude={"executable"})
    return InterpreterRecord.model_validate({**fields, "memory": memory})


def describe(executable: Path, origin: str, *, jit: bool = False) -> cache.Facts:
    """Return the facts of an interpreter, all but its name, to record or to use at once.

    `executable` may be a script or a link that starts it. Raises SetupError if it does not run.
    """
    proof = prove(executable)
    options = " ".join(
        option for option in proof["configure"].split() if not option.startswith("'--prefix=")
    )
    return {
        "origin": origin,
        "executable": proof["executable"],
        "version": proof["version"],
        "free_threaded": proof["free_threaded"],
        "jit": jit and proof["jit"],
        "build": f"{proof['compiler']}; {options}; {proof['cflags']}",
    }


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
    jit = bool(asked) and str(asked).endswith(_JIT_SUFFIX)
    folders = [
        file.parent for file in (paths.cache_dir() / "interpreters").glob(f"*/*/{cache.STAMP}")
    ]
    ours = {place: python for place in folders if (python := read(place.name, place))}
    ordered = sorted(ours.values(), key=lambda python: _order(python, jit=jit))
    search = [str(python.executable.parent) for python in ordered]
    what = f"Python {asked}" if asked else f"Python for {root.name}"
    with proc.scratch() as scratch, narrator.step(what, "asking uv for it") as tick:
        argv: list[str | Path] = [command.uv(), "venv", "--quiet", scratch / "venv"]
        argv += ["--python-preference", "system"]
        argv += ["--python", asked.removesuffix(_JIT_SUFFIX)] if asked else []
        path = os.pathsep.join((*search, os.environ.get("PATH", os.defpath)))
        env = {"PATH": path, "UV_HTTP_RETRIES": "0"}  # an unreachable server is not slow
        log = command.new_log("python", cache.digest(str(root)))
        try:
            command.run(argv, what=f"finding {what}", log=log, tick=tick, cwd=root, env=env)
            found = identify(scratch / "venv/bin/python", jit=jit)
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


def identify(program: Path, *, jit: bool = False) -> Interpreter:
    """Describe the interpreter behind a program, such as an environment's or a script.

    Raises SetupError if it does not run, or is too old.
    """
    facts = describe(program, "found", jit=jit)
    if Version(facts["version"]) < OLDEST:
        raise SetupError(f"{program} is Python {facts['version']}: expected {OLDEST} or newer")
    kind = InterpreterKind(free_threaded=facts["free_threaded"], jit=facts["jit"])
    name = ".".join(facts["version"].split(".")[:2]) + kind.suffix
    return Interpreter.model_validate({"name": name, **facts})
