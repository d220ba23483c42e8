"""Interpreters: what they say of themselves. `target_python` chooses that of an application."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from duetbench.app.configuration import Interpreter
from duetbench.core.errors import SetupError
from duetbench.core.model import InterpreterRecord
from duetbench.host import cache, paths

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


def installed() -> dict[Path, Interpreter]:
    """Find the interpreters that set-ups have installed, by their folders. Starts no process."""
    stamps = (paths.cache_dir() / "interpreters").glob(f"*/*/{cache.STAMP}")
    pythons = {stamp.parent: read(stamp.parent.name, stamp.parent) for stamp in stamps}
    return {folder: python for folder, python in pythons.items() if python}


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
    return interpreter.record().model_copy(update={"memory": memory})


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
