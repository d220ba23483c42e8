"""`duetbench setup`: make everything that measuring needs, first what fails fastest."""

import time
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from duetbench.cli.options import machine
from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Console, Narrator, duration
from duetbench.host.signals import interruptible
from duetbench.project import interpreters, stacks, tools
from duetbench.project.project import Project

DAYS: Final = 30
"""A month: longer than a pull request is usually looked at, and a night's locks are used once."""

_UNUSED: Final = (
    "environments/*",
    "interpreters/*",
    "resolved/*",
    "tools/oha-*",
    "site/columns/*",
    "wheels/*",
    "sources/*",
)
"""Where the cache has a folder for every lock and every build, whose time is that of its use."""


def setup_command(
    no_stacks: Annotated[
        bool,
        Option("--no-stacks", help="Leave the stacks' environments, whose packages run code, out."),
    ] = False,
    optional: Annotated[
        bool, Option("--optional", help="Make the optional interpreters that can be had, too.")
    ] = False,
    prune: Annotated[
        bool, Option("--prune", help="Then remove what nothing has used for a month.")
    ] = False,
) -> None:
    """Make interpreters, load generator and environments; a second run only checks them.

    $ duetbench setup
    $ duetbench setup --prune

    Every lock has environments of its own, and the cache keeps those of older ones, since going
    back costs nothing then. With --prune, what nothing has used for a month goes; what this set-up
    has made or checked stays, and anything else can be made again.
    """
    narrator, started = Narrator(Console()), time.monotonic()
    with interruptible():
        done = set_up(Project.here(), narrator, with_stacks=not no_stacks, optional=optional)
    made = "; ".join(label for label, now in done.items() if now)
    ready = "; ".join(label for label, now in done.items() if not now)
    if made:
        passed = duration(time.monotonic() - started)
        narrator.say(f"made in {passed}: {made}. What is ours is in {paths.cache_dir()}")
    if ready:
        narrator.say(f"ready and checked: {ready}")
    if prune:
        with machine():
            names = remove_unused()
        gone = f"removed, unused for {DAYS} days: {'; '.join(names)}"
        narrator.say(gone if names else f"nothing has been unused for {DAYS} days")


def set_up(
    project: Project, narrator: Narrator, *, with_stacks: bool = True, optional: bool = False
) -> dict[str, bool]:
    """Make what is missing and check what is there: what it is, and whether it was made now.

    It can be interrupted and repeated at any time, and reaches for the network only for what is
    missing. Where an optional interpreter or valgrind cannot be had, what it lacks is told, and
    that is no error.

    DeclarationError: the declarations are wrong. SetupError: something cannot be made; what was
    made before is kept.
    """
    configured = project.settings
    wanted = [(project.lock(name), pythons) for name, pythons in project.known_stacks.items()]
    made: dict[str, bool] = {}
    # Where nothing is declared, what an application needs is made when it is measured.
    pythons_now = bool(wanted) and not interpreters.complete(configured)
    oha_now = tools.oha_fault(configured.oha, tools.oha_place(configured.oha)) is not None
    pythons_built = pythons_now and not interpreters.fetch(configured, narrator)
    oha_built = oha_now and not tools.fetch_oha(configured.oha, narrator)
    # All that is still needed is tried before the first build, whose end is minutes away.
    remedy = "install it (Debian: apt-get install git)"
    lacking = command.missing("git", "to say what is measured", remedy)
    lacking += interpreters.faults(configured) if pythons_built else []
    lacking += tools.oha_faults(configured.oha) if oha_built else []
    command.require(lacking)
    if pythons_built:
        interpreters.build(configured, narrator)
    located = {name: project.interpreter(name) for name in configured.usual if wanted}
    origins = ", ".join(sorted({python.origin for python in located.values()}))
    if located:
        made[f"interpreters {', '.join(located)} ({origins})"] = pythons_now
    for name in [n for n in configured.interpreters if optional and n not in configured.usual]:
        try:
            made[f"interpreter {name}"] = interpreters.ensure(configured.asking({name}), narrator)
        except SetupError as error:
            narrator.say(f"the optional interpreter {name} cannot be had here: {error}")
    for stack, pythons in wanted if with_stacks else ():
        for python in pythons:
            now = stacks.make_environment(stack, located[python], narrator)
            made[f"stack {stack.name} for {python}"] = now
    if oha_built:
        tools.build_oha(configured.oha, narrator)
    origin = tools.oha_origin(tools.find_oha(configured.oha))
    made[f"oha {configured.oha.version} ({origin})"] = oha_now
    if (valgrind_now := tools.ensure_valgrind(narrator)) is not None:
        made[tools.VALGRIND] = valgrind_now
    return made


def remove_unused() -> list[str]:
    """Remove from the cache what nothing has used for a month, but what somebody is making.

    The caller holds the machine. What set-up has just looked at is in use.
    """
    folders = [path for pattern in _UNUSED for path in sorted(paths.cache_dir().glob(pattern))]
    return [path.name for path in folders if _is_unused(path) and cache.remove(path)]


def _is_unused(path: Path) -> bool:
    # What is linked is somebody else's, which we only use.
    if not path.is_dir() or path.is_symlink() or path.parent.is_symlink() or path.name[0] == ".":
        return False
    # Folders of several artefacts are as old as the newest in them.
    used = max(entry.lstat().st_mtime for entry in (path, *path.iterdir()))
    return time.time() - used > DAYS * 86400
