"""`duetbench setup`: make everything that measuring needs."""

import time
from typing import Annotated

from typer import Option

from duetbench.cli.options import machine
from duetbench.core import units
from duetbench.core.errors import UsageError
from duetbench.host import paths
from duetbench.host.console import Console, Narrator, duration
from duetbench.host.signals import interruptible
from duetbench.project import prune as pruning
from duetbench.project import setup
from duetbench.project.project import Project


def setup_command(
    tests: Annotated[
        bool, Option("--tests", help="Also what only tests want: a browser, act.")
    ] = False,
    no_stacks: Annotated[
        bool,
        Option("--no-stacks", help="Leave the stacks' environments, whose packages run code, out."),
    ] = False,
    prune: Annotated[
        bool, Option("--prune", help="Then remove what nothing has used for --days.")
    ] = False,
    days: Annotated[
        float, Option("--days", min=0, help="With --prune: unused for so long.")
    ] = pruning.DAYS,
) -> None:
    """Make interpreters, load generator and environments; a second run only checks them.

    Every lock has environments of its own, and the cache keeps those of older ones, since going
    back costs nothing then. With --prune, what no run has used for a month goes; what this checkout
    declares stays, and anything else can be made again.
    """
    if days != pruning.DAYS and not prune:
        raise UsageError("--days belongs to --prune: what has been unused for so long is removed")
    console = Console()
    narrator = Narrator(console)
    started = time.monotonic()
    project = Project.here()
    with interruptible():
        outcome = setup.set_up(project, narrator, tests=tests, with_stacks=not no_stacks)
    if outcome.made:
        passed = duration(time.monotonic() - started)
        made = "; ".join(outcome.made)
        narrator.say(f"made in {passed}: {made}. What is ours is in {paths.cache_dir()}")
    if outcome.ready:
        narrator.say(f"ready and checked: {'; '.join(outcome.ready)}")
    if prune:
        _prune(project, narrator, days)


def _prune(project: Project, narrator: Narrator, days: float) -> None:
    with machine():
        done = pruning.prune(project, days)
    if done.names:
        narrator.say(f"removed, {units.size(done.freed)}: {'; '.join(done.names)}")
    else:
        narrator.say(f"nothing has been unused for {days:g} days")
    if done.busy:
        narrator.say(f"kept, somebody is making it: {'; '.join(done.busy)}")
