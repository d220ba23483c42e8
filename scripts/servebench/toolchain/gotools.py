"""Programs that Go builds from its module proxy: wanted by tests of the workflows, never required.

Go checks every module against the checksum database; the module of the program itself is checked
against our own pin as well, by what the linker wrote into it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from servebench.core.errors import SetupError
from servebench.declare.settings import GoToolSpec
from servebench.host import cache, command, paths
from servebench.host.progress import Narrator
from servebench.toolchain import tools

_ROOM_GB: Final = 2.0
"""What sources and objects take while they are built (10⁹ bytes)."""


def ensure(name: str, spec: GoToolSpec, narrator: Narrator) -> bool | None:
    """Make sure that a program is there; what cannot be built is told, and is no error.

    Returns:
        Whether it was made now; None: it cannot be had.
    """

    def build(staging: Path) -> cache.Facts:
        command.require_space(paths.cache_dir(), _ROOM_GB)
        return _build(name, spec, staging, narrator)

    try:
        return cache.make(
            tools.go_place(name, spec),
            fault=lambda place: tools.fault(name, place),
            build=build,
            narrator=narrator,
        )
    except SetupError as error:
        narrator.say(f"{name} is not here ({error}); tests of the workflows use it")
        return None


def _build(name: str, spec: GoToolSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    go = command.need(
        "go", f"to build {name}", "install Go (Debian: apt-get install golang-go, or its own site)"
    )
    log = paths.cache_dir() / "logs" / f"{name}.log"
    log.unlink(missing_ok=True)
    objects = paths.cache_dir() / "building" / f"go-{name}-{spec.version}"
    with narrator.step(f"{name} {spec.version}", "building it, about a minute") as tick:
        command.run(
            [go, "install", "-trimpath", f"{spec.package}@v{spec.version}"],
            what=f"building {name}",
            log=log,
            tick=tick,
            # Another folder for programs, or another system to build for, would lose it.
            env={"GOBIN": str(staging / "bin"), "GOCACHE": str(objects), "GOOS": "", "GOARCH": ""},
        )
    program = staging / "bin" / name
    _require_module(go, program, spec)
    shutil.rmtree(objects, ignore_errors=True)
    return {"version": spec.version, "sha256": cache.sha256(program)}


def _require_module(go: str, program: Path, spec: GoToolSpec) -> None:
    """Compare the module that a program was built from with the pin."""
    done = subprocess.run(
        [go, "version", "-m", program], capture_output=True, text=True, check=False
    )
    words = next(
        (line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["mod"]), []
    )
    expected = [spec.module, f"v{spec.version}", spec.sum]
    if words[1:4] != expected:
        raise SetupError(
            f"{program.name}: expected module {' '.join(expected)}, found "
            f"{' '.join(words[1:4]) or 'none'}: do not use it; compare the pin in pyproject.toml"
        )
