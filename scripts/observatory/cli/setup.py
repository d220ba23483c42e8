"""`observatory setup` and `lock`: install all that the experiments need, and renew it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from cyclopts import Parameter, validators

from duetbench.app import stacks
from duetbench.cli import setup as of_tool
from duetbench.host.console import Console, Narrator, errors
from observatory.matrix import declared_interpreters, source_builds
from observatory.matrix.checkout import Checkout, lock_stacks


def setup_command(*, no_stacks: bool = False) -> None:
    """Install interpreters, load generator and environments; a second run only checks them.

    $ observatory setup
    $ observatory setup --no-stacks

    It can be interrupted and repeated at any time, and uses the network only for missing parts.

    The cache keeps environments of older locks, so that going back costs nothing. What nothing has
    used for a month is removed when a new one is made.

    Args:
        no_stacks: Skip the stacks' environments, whose packages run code.
    """
    checkout, narrator = Checkout.here(), Narrator(Console())
    declared = checkout.declared
    parts = of_tool.set_up(checkout.configuration, narrator, source_builds.build_oha)
    are_new = declared_interpreters.ensure(declared, narrator)
    located = {name: checkout.interpreter(name) for name in declared.usual}
    origins = ", ".join(sorted({python.origin for python in located.values()}))
    parts[f"interpreters {', '.join(located)} ({origins})"] = are_new
    for name, pythons in () if no_stacks else checkout.stacks.items():
        for python in pythons:
            is_new = stacks.make_environment(checkout.lock(name), located[python], narrator)
            parts[f"stack {name} for {python}"] = is_new
    of_tool.report(parts, narrator)


def lock_command(
    *names: str, cooldown_days: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 3
) -> None:
    """Resolve stacks again, and write their locks; `git diff` shows which packages changed.

    $ observatory lock current

    Args:
        names: Stacks; default: all.
        cooldown_days: How long a release has to be out; 0: any, of an index without upload times.
    """
    latest = datetime.now(UTC).replace(microsecond=0) - timedelta(days=cooldown_days)
    as_of = latest if cooldown_days else None
    lock_stacks(Checkout.here(), Narrator(errors()), names or None, as_of)
