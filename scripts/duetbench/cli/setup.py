"""`duetbench setup`: install everything that measuring needs, first what fails fastest."""

import time
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from duetbench.cli.options import machine
from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Console, Narrator, duration
from duetbench.project import interpreters, stacks, tools
from duetbench.project.project import Project

DAYS: Final = 30
"""A month: longer than most reviews take, and a night's locks are used only once."""

_UNUSED: Final = (
    "environments/*",
    "interpreters/*",
    "resolved/*",
    "tools/oha-*",
    "wheels/*",
    "sources/*",
)
"""Folders of the cache with one entry per lock or build, whose time is that of its last use."""


def setup_command(
    no_stacks: Annotated[
        bool,
        Option("--no-stacks", help="Skip the stacks' environments, whose packages run code."),
    ] = False,
    optional: Annotated[
        bool, Option("--optional", help="Also install optional interpreters, where possible.")
    ] = False,
    prune: Annotated[
        bool, Option("--prune", help="Then remove what nothing has used for a month.")
    ] = False,
) -> None:
    """Install interpreters, load generator and environments; a second run only checks them.

    $ duetbench setup
    $ duetbench setup --prune

    Every lock has its own environments, and the cache keeps those of older locks, so that going
    back costs nothing. With --prune, it removes what nothing has used for a month. What this set-up
    has installed or checked stays, and the rest can be installed again.
    """
    narrator, started = Narrator(Console()), time.monotonic()
    parts = set_up(Project.here(), narrator, with_stacks=not no_stacks, optional=optional)
    installed = "; ".join(label for label, is_new in parts.items() if is_new)
    ready = "; ".join(label for label, is_new in parts.items() if not is_new)
    if installed:
        passed = duration(time.monotonic() - started)
        narrator.say(f"installed in {passed}: {installed}. The cache is {paths.cache_dir()}")
    if ready:
        narrator.say(f"ready and checked: {ready}")
    if prune:
        with machine():
            names = remove_unused()
        removed = f"removed, unused for {DAYS} days: {'; '.join(names)}"
        narrator.say(removed if names else f"nothing has been unused for {DAYS} days")


def set_up(
    project: Project, narrator: Narrator, *, with_stacks: bool = True, optional: bool = False
) -> dict[str, bool]:
    """Install what is missing and check the rest; return each part, and whether it is new.

    It can be interrupted and repeated at any time, and uses the network only for missing parts. If
    an optional interpreter or valgrind is not available, it says what is lacking, without an error.

    Raises DeclarationError if the declarations are wrong, and SetupError if a part cannot be
    installed; earlier parts are kept.
    """
    configured = project.configuration
    locks = [(project.lock(name), pythons) for name, pythons in project.known_stacks.items()]
    parts: dict[str, bool] = {}
    # Without declarations, an application's needs are installed when it is measured.
    pythons_now = bool(locks) and not interpreters.complete(configured)
    oha_now = tools.oha_fault(configured.oha, tools.oha_place(configured.oha)) is not None
    pythons_built = pythons_now and not interpreters.fetch(configured, narrator)
    oha_built = oha_now and not tools.fetch_oha(configured.oha, narrator)
    # Everything a build needs is checked before the first build, which takes minutes.
    remedy = "install it (Debian: apt-get install git)"
    lacking = command.missing("git", "to say what is measured", remedy)
    lacking += interpreters.faults(configured) if pythons_built else []
    lacking += tools.oha_faults(configured.oha) if oha_built else []
    command.require(lacking)
    if pythons_built:
        interpreters.build(configured, narrator)
    located = {name: project.interpreter(name) for name in configured.usual if locks}
    origins = ", ".join(sorted({python.origin for python in located.values()}))
    if located:
        parts[f"interpreters {', '.join(located)} ({origins})"] = pythons_now
    for name in [n for n in configured.interpreters if optional and n not in configured.usual]:
        try:
            parts[f"interpreter {name}"] = interpreters.ensure(configured.adding({name}), narrator)
        except SetupError as error:
            narrator.say(f"the optional interpreter {name} is not available here: {error}")
    for stack, pythons in locks if with_stacks else ():
        for python in pythons:
            is_new = stacks.make_environment(stack, located[python], narrator)
            parts[f"stack {stack.name} for {python}"] = is_new
    if oha_built:
        tools.build_oha(configured.oha, narrator)
    origin = tools.oha_origin(tools.find_oha(configured.oha))
    parts[f"oha {configured.oha.version} ({origin})"] = oha_now
    if (valgrind_now := tools.ensure_valgrind(narrator)) is not None:
        parts[tools.VALGRIND] = valgrind_now
    return parts


def remove_unused() -> list[str]:
    """Remove from the cache what nothing has used for a month, except unfinished builds.

    The caller holds the machine. Parts that set-up has just checked are in use.
    """
    folders = [path for pattern in _UNUSED for path in sorted(paths.cache_dir().glob(pattern))]
    return [path.name for path in folders if _is_unused(path) and cache.remove(path)]


def _is_unused(path: Path) -> bool:
    # Links lead to folders of others, which duetbench only uses.
    if not path.is_dir() or path.is_symlink() or path.parent.is_symlink() or path.name[0] == ".":
        return False
    # Folders of several artefacts are as old as the newest in them.
    used = max(entry.lstat().st_mtime for entry in (path, *path.iterdir()))
    return time.time() - used > DAYS * 86400
