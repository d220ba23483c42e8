"""`duetbench setup`: install what measuring any application needs."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from duetbench.app import tools
from duetbench.app.target import Configuration, configuration
from duetbench.cli.options import machine
from duetbench.core.errors import SetupError
from duetbench.host import cache, paths
from duetbench.host.console import Console, Narrator

DAYS: Final = 30
"""A month: longer than most reviews take, and a night's locks are used only once."""

_UNUSED: Final = (
    "environments/*",
    "interpreters/*",
    "resolved/*",
    "tools/oha-*",
)
"""Folders of the cache with one entry per lock or build, whose time is that of its last use."""


def setup_command(
    prune: Annotated[
        bool, Option("--prune", help="Then remove what nothing has used for a month.")
    ] = False,
) -> None:
    """Install the load generator; a second run only checks it.

    $ duetbench setup
    $ duetbench setup --prune

    Interpreters and environments are made when an application is measured. Every lock has its own,
    and the cache keeps those of older locks, so that going back costs nothing. With --prune, it
    removes what nothing has used for a month, and can be installed again.
    """
    narrator = Narrator(Console())
    report(set_up(configuration(paths.project_root()), narrator), narrator, prune=prune)


def report(parts: Mapping[str, bool], narrator: Narrator, *, prune: bool) -> None:
    """Say which parts are new, and remove unused ones if asked to."""
    for label, is_new in parts.items():
        narrator.say(f"{'installed' if is_new else 'ready and checked'}: {label}")
    narrator.say(f"the cache is {paths.cache_dir()}")
    if prune:
        with machine():
            names = remove_unused()
        narrator.say(f"removed, unused for {DAYS} days: {'; '.join(names) or 'nothing'}")


def set_up(
    configured: Configuration, narrator: Narrator, build: tools.Build | None = None
) -> dict[str, bool]:
    """Install what is missing and check the rest; return each part, and whether it is new.

    `build` makes the load generator where it cannot be downloaded.

    It can be interrupted and repeated at any time, and uses the network only for missing parts.

    Raises SetupError if a part cannot be installed; earlier parts are kept.
    """
    if not shutil.which("git"):
        raise SetupError(
            "git is needed to say what is measured, but is not on PATH: install it (Debian: "
            "apt-get install git)"
        )
    oha_now = tools.ensure_oha(configured.oha, narrator, build)
    origin = tools.oha_origin(tools.find_oha(configured.oha))
    parts = {f"oha {configured.oha.version} ({origin})": oha_now}
    if not shutil.which(tools.VALGRIND):
        narrator.say(f"not installed: {tools.VALGRIND}; {tools.NO_VALGRIND}")
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
