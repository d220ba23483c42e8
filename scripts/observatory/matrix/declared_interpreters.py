"""The interpreters that set-up installs: prebuilt ones from uv, or built from source.

All have the same origin, since a comparison of two builds made in different ways would compare the
compilers.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duetbench.app import interpreters, tools
from duetbench.app.configuration import ORIGINS, Configuration
from duetbench.app.schema import InterpreterSpec
from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator


def ensure(configured: Configuration, narrator: Narrator) -> bool:
    """Install all usual interpreters, of one origin; return whether anything was installed.

    Raises SetupError if that is not possible, with what is missing.
    """
    if _complete(configured):
        return False
    if not _fetch(configured, narrator):
        requests = [_request(name, configured) for name in configured.usual]
        command.require([f for asked in requests if asked for f in tools.faults(asked)])
        for name in configured.usual:
            _from_source(name, configured, narrator)
    return True


def _complete(configured: Configuration) -> bool:
    """Whether all usual interpreters are there, right, and of one origin."""
    return any(
        all(
            fault(spec, interpreters.place(name, origin, configured)) is None
            for name, spec in configured.usual.items()
        )
        for origin in ORIGINS
    )


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say what is wrong with an interpreter in its folder; None if nothing is."""
    interpreter = interpreters.read(target.name, target)
    if interpreter is None:
        return "it is not there"
    try:
        return mismatch(spec, interpreters.prove(interpreter.executable))
    except SetupError as error:
        return str(error)


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


def _fetch(configured: Configuration, narrator: Narrator) -> bool:
    """Install prebuilt interpreters, whose checksums uv knows; return whether all are there."""
    if os.environ.get(tools.ARCHIVE):
        sentence = "is set, so the interpreters are built from that source"
        narrator.say(f"{tools.ARCHIVE} {sentence}")
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
    target = interpreters.place(name, "prebuilt", configured)
    kind = "+freethreaded" if spec.free_threaded else ""

    def fill(_staging: Path) -> cache.Facts:
        # uv writes absolute paths into what it installs, so it works in the final place; it
        # renames complete installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            request = f"cpython@{spec.version}{kind}"
            interpreters.install(request, f"prebuilt-{name}", tick, "--install-dir", installs)
        pattern = f"cpython-{spec.version}{kind}-*/{_program(spec)}"
        programs = sorted(installs.glob(pattern))
        if not programs:
            raise SetupError(f"uv installed no {pattern} in {installs}")
        return interpreters.describe(programs[0], "prebuilt", jit=spec.jit)

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
    target = interpreters.place(name, "source", configured)

    def fill(staging: Path) -> cache.Facts:
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            log = command.new_log(f"source-{name}")
            tools.build(request, staging, log=log, tick=tick)
        facts = interpreters.describe(staging / _program(spec), "source", jit=spec.jit)
        return {**facts, "executable": str(target / _program(spec))}

    _make(target, spec, fill, narrator)


def _request(name: str, configured: Configuration) -> tools.Request | None:
    """Return what the builder has to know of an interpreter; None without a recipe."""
    spec = configured.interpreters[name]
    recipe = configured.source_build.get(spec.version)
    home = str(interpreters.place(name, "source", configured))
    facts = {"program": "cpython", "name": name, "home": home, **spec.model_dump()}
    return facts | recipe.model_dump() if recipe else None


def _program(spec: InterpreterSpec) -> Path:
    # The interpreter's own file, never an alias.
    minor = ".".join(spec.version.split(".")[:2])
    return Path("bin") / f"python{minor}{'t' if spec.free_threaded else ''}"
