"""The interpreters that set-up installs: prebuilt ones from uv, or built from source.

All have the same origin, since a comparison of two builds made in different ways would compare the
compilers. A target uses an interpreter of the machine; see `target_python`.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import InterpreterRecord
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project import source_builds
from duetbench.project.configuration import (
    ORIGINS,
    Configuration,
    Interpreter,
)
from duetbench.project.schema import InterpreterSpec

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


def locate(name: str, configured: Configuration) -> Interpreter:
    """Find an installed interpreter. Starts no process.

    Raises UsageError if no interpreter of this name is declared, and SetupError if it is not
    installed yet.
    """
    if name not in configured.interpreters:
        raise UsageError(
            f"no interpreter {name!r}; pyproject.toml declares "
            f"{', '.join(sorted(configured.interpreters))}"
        )
    usual = configured.adding({name}).usual
    for origin in ORIGINS:
        candidates = {n: read(n, place(n, origin, configured)) for n in usual}
        # All must have one origin, so an incomplete set of the better origin does not count.
        if all(candidates.values()) and (interpreter := candidates[name]) is not None:
            cache.touch(place(name, origin, configured))
            return interpreter
    optional = "" if name in configured.usual else " --optional"
    raise SetupError(
        f"interpreter {name} ({configured.interpreters[name].version}) is not installed: "
        f"run `observatory setup{optional}`"
    )


def place(name: str, origin: str, configured: Configuration) -> Path:
    """Return the folder of an interpreter, which differs for every way to build it."""
    spec = configured.interpreters[name]
    kind = f"{origin}-{spec.version}"
    if origin == "source":
        build = configured.source_build.get(spec.version)
        recipe = build.model_dump_json(exclude_defaults=True) if build else ""
        kind = f"source-{spec.version}-{cache.digest(recipe)}"
    return paths.cache_dir() / "interpreters" / kind / name


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


def mismatch(spec: InterpreterSpec, proof: dict[str, Any]) -> str | None:
    """Say how an interpreter differs from its declaration; None if it does not."""
    free = spec.free_threaded
    expected = {"version": spec.version, "free_threaded": free, "gil": not free}
    expected |= {"jit": True} if spec.jit else {}  # others may have one that is off
    differences = (
        f"{key} is {proof.get(key)!r} instead of {value!r}"
        for key, value in expected.items()
        if proof.get(key) != value
    )
    return "; ".join(differences) or None


def _complete(configured: Configuration) -> bool:
    """Whether all usual interpreters are there, right, and of one origin."""
    return any(
        all(
            fault(spec, place(name, origin, configured)) is None
            for name, spec in configured.usual.items()
        )
        for origin in ORIGINS
    )


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say what is wrong with an interpreter in its folder; None if nothing is."""
    interpreter = read(target.name, target)
    if interpreter is None:
        return "it is not there"
    try:
        return mismatch(spec, prove(interpreter.executable))
    except SetupError as error:
        return str(error)


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


def install(request: str, log_name: str, tick: Tick, *options: str | Path) -> None:
    """Let uv install a prebuilt interpreter, whose checksum uv knows; raises SetupError."""
    command.run(
        [command.uv(), "python", "install", "--no-bin", *options, request],
        what=f"installing CPython {request}",
        log=command.new_log(log_name),
        tick=tick,
        env={"UV_HTTP_RETRIES": "0"},  # an unreachable server is not slow: ask once
    )


def ensure(configured: Configuration, narrator: Narrator) -> bool:
    """Install all usual interpreters, of one origin; return whether anything was installed.

    Raises SetupError if that is not possible, with what is missing.
    """
    if _complete(configured):
        return False
    if not _fetch(configured, narrator):
        requests = [_request(name, configured) for name in configured.usual]
        command.require([f for asked in requests if asked for f in source_builds.faults(asked)])
        for name in configured.usual:
            _from_source(name, configured, narrator)
    return True


def _fetch(configured: Configuration, narrator: Narrator) -> bool:
    """Install prebuilt interpreters, whose checksums uv knows; return whether all are there."""
    if os.environ.get(source_builds.ARCHIVE):
        sentence = "is set, so the interpreters are built from that source"
        narrator.say(f"{source_builds.ARCHIVE} {sentence}")
        return False
    try:
        for name in configured.usual:
            _install_prebuilt(name, configured, narrator)
    except SetupError as error:
        reason = str(error).split("t said: ")[-1]  # without the advice
        narrator.say(
            f"prebuilt interpreters are not available ({reason}): all are built from source, with "
            "the same flags, so that those of one version differ only in the GIL, or the JIT"
        )
        return False
    return True


def _install_prebuilt(name: str, configured: Configuration, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    target = place(name, "prebuilt", configured)
    kind = "+freethreaded" if spec.free_threaded else ""

    def fill(_staging: Path) -> cache.Facts:
        # uv writes absolute paths into what it installs, so it works in the final place; it
        # renames complete installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            request = f"cpython@{spec.version}{kind}"
            install(request, f"prebuilt-{name}", tick, "--install-dir", installs)
        pattern = f"cpython-{spec.version}{kind}-*/{_program(spec)}"
        programs = sorted(installs.glob(pattern))
        if not programs:
            raise SetupError(f"uv installed no {pattern} in {installs}")
        return describe(programs[0], "prebuilt", jit=spec.jit)

    _make(target, spec, fill, narrator)


def _make(
    target: Path, spec: InterpreterSpec, fill: Callable[[Path], cache.Facts], narrator: Narrator
) -> None:
    cache.make(target, fault=lambda there: fault(spec, there), build=fill, say=narrator.say)


def _from_source(name: str, configured: Configuration, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    request = _request(name, configured)
    if request is None:
        raise SetupError(
            f"interpreter {name}: uv could not install a prebuilt CPython {spec.version} "
            f"(log: {paths.cache_dir() / 'logs' / f'prebuilt-{name}.log'}), and pyproject.toml "
            f'has no [tool.duetbench.source-build."{spec.version}"] to build it: connect to the '
            "network, or declare its source archive as for the other versions"
        )
    target = place(name, "source", configured)

    def fill(staging: Path) -> cache.Facts:
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            log = command.new_log(f"source-{name}")
            source_builds.build(request, staging, log=log, tick=tick)
        facts = describe(staging / _program(spec), "source", jit=spec.jit)
        return {**facts, "executable": str(target / _program(spec))}

    _make(target, spec, fill, narrator)


def _request(name: str, configured: Configuration) -> source_builds.Request | None:
    """Return what the builder has to know of an interpreter; None without a recipe."""
    spec = configured.interpreters[name]
    recipe = configured.source_build.get(spec.version)
    home = str(place(name, "source", configured))
    facts = {"program": "cpython", "name": name, "home": home, **spec.model_dump()}
    return facts | recipe.model_dump() if recipe else None


def _program(spec: InterpreterSpec) -> Path:
    # The interpreter's own file, never an alias.
    minor = ".".join(spec.version.split(".")[:2])
    return Path("bin") / f"python{minor}{'t' if spec.free_threaded else ''}"
