"""What set-up has made to measure with: interpreters (by `cpython`) and oha (by `tools`).

All interpreters have the same origin, prebuilt (through uv) or built from the same source: a
comparison of two builds made in different ways would compare the compilers. A target's own is what
the machine has; see `target_python`.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Final, Literal

from duetbench.core.errors import SetupError, UsageError
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.project.settings import (
    ORIGINS,
    Interpreter,
    InterpreterSpec,
    OhaSpec,
    Origin,
    Settings,
)

_PROOF: Final = """
import json, os, platform, sys, sysconfig
get = sysconfig.get_config_var
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "compiler": platform.python_compiler(),
    "configure": get("CONFIG_ARGS") or "",
    "cflags": get("PY_CFLAGS") or "",
}))
"""
_PROOF_TIMEOUT_S: Final = 30


def locate(name: str, configured: Settings) -> Interpreter:
    """Find an interpreter that set-up made. Starts no process.

    UsageError: no interpreter of this name is declared. SetupError: it is declared and was not made
    yet.
    """
    if name not in configured.interpreters:
        raise UsageError(
            f"no interpreter {name!r}; pyproject.toml declares "
            f"{', '.join(sorted(configured.interpreters))}"
        )
    for origin in ORIGINS:
        candidates = {n: read(n, place(n, origin, configured)) for n in configured.interpreters}
        # One origin for all: an incomplete set of the better origin does not count.
        if all(candidates.values()) and (interpreter := candidates[name]) is not None:
            cache.touch(place(name, origin, configured))
            return interpreter
    raise SetupError(
        f"interpreter {name} ({configured.interpreters[name].version}) has not been made: "
        "run `duetbench setup`"
    )


def place(name: str, origin: Origin, configured: Settings) -> Path:
    """Where set-up puts an interpreter: another place for every way of building it."""
    spec = configured.interpreters[name]
    kind = f"{origin}-{spec.version}"
    if origin == "source":
        build = configured.source_build.get(spec.version)
        declared = build.model_dump_json() if build else ""
        kind = f"source-{spec.version}-{cache.digest(declared)}"
    return paths.cache_dir() / "interpreters" / kind / name


def read(name: str, target: Path) -> Interpreter | None:
    """Read what set-up remembered of an interpreter; None when it is not there."""
    facts = cache.facts(target)
    if facts is None or not Path(facts["executable"]).is_file():
        return None
    fields = {key: facts[key] for key in ("version", "free_threaded", "origin", "build")}
    return Interpreter(name=name, executable=Path(facts["executable"]), **fields)


def prove(executable: Path) -> dict[str, Any]:
    """Start an interpreter and let it say what it is.

    Returns:
        executable (itself, where a script or link led to it), version, free_threaded (how it was
        built), gil (whether the GIL is on now), compiler, configure, cflags.

    SetupError: it cannot be started or says something else.
    """
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", _PROOF],
            capture_output=True,
            check=True,
            timeout=_PROOF_TIMEOUT_S,
            env={},  # PYTHON_GIL=1 and its like are no property of the build
        )
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, TypeError, ValueError) as error:
        raise SetupError(f"{executable} does not run: {error}; run `duetbench setup`") from error


def mismatch(spec: InterpreterSpec, proof: dict[str, Any]) -> str | None:
    """Say in what an interpreter differs from its declaration; None if in nothing."""
    free = spec.free_threaded
    expected = {"version": spec.version, "free_threaded": free, "gil": not free}
    different = (
        f"{key} is {proof.get(key)!r} instead of {value!r}"
        for key, value in expected.items()
        if proof.get(key) != value
    )
    return "; ".join(different) or None


def whole(configured: Settings) -> bool:
    """Whether all declared interpreters are there and right, of one origin."""
    return any(
        all(
            fault(spec, place(name, origin, configured)) is None
            for name, spec in configured.interpreters.items()
        )
        for origin in ORIGINS
    )


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say what is wrong with an interpreter in its place; None if nothing is."""
    interpreter = read(target.name, target)
    if interpreter is None:
        return "it is not there"
    try:
        return mismatch(spec, prove(interpreter.executable))
    except SetupError as error:
        return str(error)


def described(executable: Path, origin: Origin) -> cache.Facts:
    """What is remembered of an interpreter; SetupError: it does not run."""
    proof = prove(executable)
    options = " ".join(
        option for option in proof["configure"].split() if not option.startswith("'--prefix=")
    )
    return {
        "origin": origin,
        "executable": str(executable),
        "version": proof["version"],
        "free_threaded": proof["free_threaded"],
        "build": f"{proof['compiler']}; {options}; {proof['cflags']}",
    }


def install(request: str, log_name: str, tick: Tick, *options: str | Path) -> None:
    """Have uv install a prebuilt interpreter, whose checksum it knows; SetupError: it cannot."""
    command.run(
        [command.uv(), "python", "install", "--no-bin", *options, request],
        what=f"installing CPython {request}",
        log=command.new_log(log_name),
        tick=tick,
        env={"UV_HTTP_RETRIES": "0"},  # unreachable is not slow: ask once
    )


def find_oha(spec: OhaSpec) -> Path:
    """Find the load generator that set-up made. Starts no process.

    SetupError: it was not made yet.
    """
    program = oha_place(spec) / "bin" / "oha"
    if cache.facts(oha_place(spec)) is None or not program.is_file():
        raise SetupError(f"oha {spec.version} has not been made: run `duetbench setup`")
    cache.touch(oha_place(spec))
    return program


def oha_place(spec: OhaSpec) -> Path:
    """Where set-up puts it, prebuilt or not: another place for every version."""
    pin = cache.digest(spec.model_dump_json(exclude={"prebuilt"}))
    return paths.cache_dir() / "tools" / f"oha-{spec.version}-{pin}"


def oha_version(program: Path) -> str:
    """The version of a load generator, as proven when it was made."""
    return str((cache.facts(program.parent.parent) or {}).get("version", ""))


def oha_origin(program: Path) -> Literal["prebuilt", "source"]:
    """How a load generator was made."""
    facts = cache.facts(program.parent.parent) or {}
    return "prebuilt" if facts.get("origin") == "prebuilt" else "source"
