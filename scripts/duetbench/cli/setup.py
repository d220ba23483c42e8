"""`duetbench setup`: install what measuring any application needs."""

from collections.abc import Mapping

from duetbench.app import tools
from duetbench.app.target import Configuration, configuration
from duetbench.counts import counted
from duetbench.host import paths
from duetbench.host.console import Console, Narrator


def setup_command() -> None:
    """Install the load generator; a second run only checks it.

    $ duetbench setup
    $ duetbench setup && duetbench doctor

    Interpreters and environments are made when an application is measured. Every lock has its own,
    and the cache keeps those of older locks, so that going back costs nothing. What nothing has
    used for a month is removed when a new one is made.
    """
    narrator = Narrator(Console())
    report(set_up(configuration(paths.project_root()), narrator), narrator)


def report(parts: Mapping[str, bool], narrator: Narrator) -> None:
    """Say which parts are new."""
    for label, is_new in parts.items():
        narrator.say(f"{'installed' if is_new else 'ready and checked'}: {label}")
    narrator.say(f"the cache is {paths.cache_dir()}")


def set_up(
    configured: Configuration, narrator: Narrator, build: tools.Build | None = None
) -> dict[str, bool]:
    """Install what is missing and check the rest; return each part, and whether it is new.

    `build` makes the load generator where it cannot be downloaded.

    It can be interrupted and repeated at any time, and uses the network only for missing parts.

    Raises SetupError if a part cannot be installed; earlier parts are kept.
    """
    oha_now = tools.ensure_oha(configured.oha, narrator, build)
    parts = {f"oha {configured.oha.version}": oha_now}
    if lacking := counted.missing():
        narrator.say(f"not installed: {lacking}")
    return parts
