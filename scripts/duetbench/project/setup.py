"""Making everything that measuring needs, in the order in which it fails fastest."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from duetbench.core.errors import SetupError
from duetbench.host import command, paths
from duetbench.host.console import Narrator
from duetbench.project import interpreters, oha, stacks, tools
from duetbench.project.project import Project


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
    pythons_built = pythons_now and not interpreters.fetch(configured, narrator)
    oha_built = oha_now and not oha.fetch(configured.oha, narrator)
    # All that is still needed is tried before the first build, whose end is minutes away.
    remedy = "install it (Debian: apt-get install git)"
    lacking = command.missing("git", "to say what is measured", remedy)
    lacking += interpreters.faults(configured) if pythons_built else []
    lacking += oha.faults(configured) if oha_built else []
    command.require(lacking)
    if pythons_built:
        interpreters.build(configured, narrator)
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
    wanted_packages = [one for one in tools.PACKAGES if tests or not one.tests_only]
    had = {package.name: tools.ensure(package, narrator) for package in wanted_packages}
    for name, spec in configured.go_tools.items() if tests else ():
        had[f"{name} {spec.version}"] = tools.ensure_go_tool(name, spec, narrator)
    made |= {what: now for what, now in had.items() if now is not None}
    return SetupOutcome(
        made=tuple(what for what, now in made.items() if now),
        ready=tuple(what for what, now in made.items() if not now),
    )
