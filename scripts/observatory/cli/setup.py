"""`observatory setup`: install all that the experiments need."""

from typing import Annotated

from typer import Option

from duetbench.app import stacks
from duetbench.cli import setup as of_tool
from duetbench.host.console import Console, Narrator
from observatory.matrix import declared_interpreters, source_builds
from observatory.matrix.checkout import Checkout


def setup_command(
    no_stacks: Annotated[
        bool,
        Option("--no-stacks", help="Skip the stacks' environments, whose packages run code."),
    ] = False,
) -> None:
    """Install interpreters, load generator and environments; a second run only checks them.

    $ observatory setup
    $ observatory setup --no-stacks

    The cache keeps environments of older locks, so that going back costs nothing. What nothing has
    used for a month is removed when a new one is made.
    """
    narrator = Narrator(Console())
    parts = set_up(Checkout.here(), narrator, with_stacks=not no_stacks)
    of_tool.report(parts, narrator)


def set_up(checkout: Checkout, narrator: Narrator, *, with_stacks: bool = True) -> dict[str, bool]:
    """Install what is missing and check the rest; return each part, and whether it is new.

    It can be interrupted and repeated at any time, and uses the network only for missing parts.

    Raises DeclarationError if the declarations are wrong, and SetupError if a part cannot be
    installed; earlier parts are kept.
    """
    configured = checkout.declared
    locks = [(checkout.lock(name), pythons) for name, pythons in checkout.stacks.items()]
    parts = of_tool.set_up(checkout.configuration, narrator, source_builds.build_oha)
    pythons_now = declared_interpreters.ensure(configured, narrator)
    located = {name: checkout.interpreter(name) for name in configured.usual}
    origins = ", ".join(sorted({python.origin for python in located.values()}))
    parts[f"interpreters {', '.join(located)} ({origins})"] = pythons_now
    for stack, pythons in locks if with_stacks else ():
        for python in pythons:
            is_new = stacks.make_environment(stack, located[python], narrator)
            parts[f"stack {stack.name} for {python}"] = is_new
    return parts
