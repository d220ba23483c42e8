"""Making the interpreters: prebuilt ones through uv, or all of them from the same source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from servebench import interpreters, paths, tools
from servebench.errors import SetupError
from servebench.interpreters import Origin
from servebench.progress import Narrator
from servebench.settings import InterpreterSpec, Settings
from servebench.toolchain import archive, artefact, command, source


def ensure(configured: Settings, narrator: Narrator) -> bool:
    """Make sure that all declared interpreters are there, of one origin.

    Returns:
        Whether anything was made.

    Raises:
        SetupError: They cannot be made; says what is missing.
    """
    if whole(configured):
        return False
    if not fetch(configured, narrator):
        command.require(faults(configured))
        build(configured, narrator)
    return True


def whole(configured: Settings) -> bool:
    """Whether all declared interpreters are there and right, of one origin."""
    return any(
        all(
            _fault(spec, interpreters.place(name, origin, configured)) is None
            for name, spec in configured.interpreters.items()
        )
        for origin in interpreters.ORIGINS
    )


def faults(configured: Settings) -> list[str]:
    """Say what building them lacks: tools, headers, room."""
    return source.faults() + command.space_faults(paths.cache_dir(), configured.setup.disk_gb)


def build(configured: Settings, narrator: Narrator) -> None:
    """Build all declared interpreters from their source archive.

    Raises:
        SetupError: They cannot be made; says what is missing.
    """
    for name in configured.interpreters:
        _from_source(name, configured, narrator)


def _fault(spec: InterpreterSpec, target: Path) -> str | None:
    found = interpreters.read(target.name, target)
    if found is None:
        return "it is not there"
    try:
        return interpreters.mismatch(spec, interpreters.prove(found.executable))
    except SetupError as error:
        return str(error)


def fetch(configured: Settings, narrator: Narrator) -> bool:
    """Install prebuilt interpreters; uv knows the checksum of each.

    Returns:
        Whether all of them could be had; if not, that is told.
    """
    if os.environ.get(archive.VARIABLE):
        narrator.say(f"{archive.VARIABLE} is set: the interpreters are built from that source")
        return False
    try:
        for name in configured.interpreters:
            _install_prebuilt(name, configured, narrator)
    except SetupError as error:
        said = str(error).split("t said: ")[-1]  # what to do about it is not needed here
        narrator.say(
            f"prebuilt interpreters cannot be had ({said}): all are built from one source archive "
            "with the same flags, so that they differ in nothing but the GIL"
        )
        return False
    return True


def _install_prebuilt(name: str, configured: Settings, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    target = interpreters.place(name, "prebuilt", configured)
    request = f"cpython@{spec.version}" + ("+freethreaded" if spec.free_threaded else "")

    def build(_staging: Path) -> artefact.Facts:
        log = paths.cache_dir() / "logs" / f"prebuilt-{name}.log"
        log.unlink(missing_ok=True)
        # uv patches paths into what it installs, so it works in the final place; it renames whole
        # installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            command.run(
                [tools.uv(), "python", "install", "--no-bin", "--install-dir", installs, request],
                what=f"installing a prebuilt CPython {name}",
                log=log,
                tick=tick,
                env={"UV_HTTP_RETRIES": "0"},  # unreachable is not slow: ask once
            )
        return _described(_found(installs, spec), "prebuilt")

    artefact.make(target, fault=lambda place: _fault(spec, place), build=build, narrator=narrator)


def _found(installs: Path, spec: InterpreterSpec) -> Path:
    kind = "+freethreaded" if spec.free_threaded else ""
    pattern = f"cpython-{spec.version}{kind}-*/{source.binary(spec)}"
    found = sorted(installs.glob(pattern))
    if not found:
        raise SetupError(f"uv installed no {pattern} in {installs}")
    return found[0]


def _from_source(name: str, configured: Settings, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    recipe = configured.source_build.get(spec.version)
    if recipe is None:
        raise SetupError(
            f"interpreter {name}: uv could not install a prebuilt CPython {spec.version} "
            f"(log: {paths.cache_dir() / 'logs' / f'prebuilt-{name}.log'}), and pyproject.toml "
            f'has no [tool.servebench.source-build."{spec.version}"] to build it by: reach the '
            "prebuilt one, or declare its source archive as for the other versions"
        )
    target = interpreters.place(name, "source", configured)

    def build(staging: Path) -> artefact.Facts:
        packed = archive.fetch(recipe, paths.cache_dir() / "downloads", narrator)
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            source.build(spec, recipe, packed, staging=staging, home=target, tick=tick)
        remembered = _described(staging / source.binary(spec), "source")
        return {**remembered, "executable": str(target / source.binary(spec))}

    artefact.make(target, fault=lambda place: _fault(spec, place), build=build, narrator=narrator)


def _described(executable: Path, origin: Origin) -> dict[str, Any]:
    proof = interpreters.prove(executable)
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
