"""Making everything that measuring and tests need, in the order in which it fails fastest."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator
from duetbench.project import cpython, interpreters, oha, stacks, tools
from duetbench.project.project import Project
from duetbench.project.types import GoToolSpec

_GO_ROOM_GB: Final = 2.0
"""What sources and objects of a Go program take while they are built (10⁹ bytes)."""


class SetupOutcome(NamedTuple):
    """What set-up did: the names of what was made now, and of what was there and right."""

    made: tuple[str, ...]
    ready: tuple[str, ...]


@contextlib.contextmanager
def _writable_cache() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SetupError(
            f"{error.filename or paths.cache_dir()}: {error.strerror or error}: the cache must be "
            "a folder that can be written; set XDG_CACHE_HOME to choose another"
        ) from error


@_writable_cache()
def set_up(
    project: Project, narrator: Narrator, *, tests: bool = False, with_stacks: bool = True
) -> SetupOutcome:
    """Make what is missing and check what is there. Can be interrupted and repeated at any time.

    Reaches for the network only for what is missing. Programs of the system's own packages that
    cannot be had are told, with the command that installs them, and are no error; some are for
    `tests` only.

    Raises:
        DeclarationError: The declarations are wrong.
        SetupError: Something cannot be made; what was made before is kept.
    """
    configured = project.settings
    wanted = [(project.lock(name), pythons) for name, pythons in project.known_stacks.items()]
    made: dict[str, bool] = {}
    # Where nothing is declared, what an application needs is made when it is measured.
    pythons_now = bool(wanted) and not interpreters.whole(configured)
    oha_now = oha.fault(configured.oha, oha.place(configured.oha)) is not None
    pythons_built = pythons_now and not cpython.fetch(configured, narrator)
    oha_built = oha_now and not oha.fetch(configured.oha, narrator)
    # All that is still needed is tried before the first build, whose end is minutes away.
    remedy = "install it (Debian: apt-get install git)"
    lacking = command.missing("git", "to say what is measured", remedy)
    lacking += cpython.faults(configured) if pythons_built else []
    lacking += oha.faults(configured) if oha_built else []
    command.require(lacking)
    if pythons_built:
        cpython.build(configured, narrator)
    located = {name: project.interpreter(name) for name in configured.interpreters if wanted}
    origins = ", ".join(sorted({python.origin for python in located.values()}))
    if located:
        made[f"interpreters {', '.join(located)} ({origins})"] = pythons_now
    for stack, pythons in wanted if with_stacks else ():
        for python in pythons:
            now = stacks.make_environment(stack, located[python], narrator)
            made[f"stack {stack.name} for {python}"] = now
    if oha_built:
        oha.build(configured.oha, narrator)
    made[f"oha {configured.oha.version} ({oha.origin(oha.find(configured.oha))})"] = oha_now
    wanted_packages = [package for package in tools.PACKAGES if tests or not package.tests_only]
    had = {package.name: tools.ensure(package, narrator) for package in wanted_packages}
    for name, spec in configured.go_tools.items() if tests else ():
        had[f"{name} {spec.version}"] = ensure_go_tool(name, spec, narrator)
    made |= {label: now for label, now in had.items() if now is not None}
    return SetupOutcome(
        made=tuple(label for label, now in made.items() if now),
        ready=tuple(label for label, now in made.items() if not now),
    )


def go_place(name: str, spec: GoToolSpec) -> Path:
    """Where set-up puts a program that Go builds: another place for every pin."""
    return tools.place(name, spec.version, spec.model_dump_json())


def ensure_go_tool(name: str, spec: GoToolSpec, narrator: Narrator) -> bool | None:
    """Build a program if it is not there, as `tools.ensure` installs packages."""
    try:
        return cache.make(
            go_place(name, spec),
            fault=lambda target: tools.fault(name, target),
            build=lambda staging: _build_go_tool(name, spec, staging, narrator),
            say=narrator.say,
        )
    except SetupError as error:
        narrator.say(f"{name} is not here ({error}); tests of the workflows use it")
        return None


def _build_go_tool(name: str, spec: GoToolSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    command.require(command.space_faults(paths.cache_dir(), _GO_ROOM_GB))
    go = command.need(
        "go", f"to build {name}", "install Go (Debian: apt-get install golang-go, or its own site)"
    )
    objects = paths.cache_dir() / "building" / f"go-{name}-{spec.version}"
    with narrator.step(f"{name} {spec.version}", "building it, about a minute") as tick:
        command.run(
            [go, "install", "-trimpath", f"{spec.package}@v{spec.version}"],
            what=f"building {name}",
            log=tools.new_log(name),
            tick=tick,
            # Another folder for programs, or another system to build for, would lose it.
            env={"GOBIN": str(staging / "bin"), "GOCACHE": str(objects), "GOOS": "", "GOARCH": ""},
        )
    program = staging / "bin" / name
    shutil.rmtree(objects, ignore_errors=True)
    return {"version": spec.version, "sha256": cache.sha256(program)}
