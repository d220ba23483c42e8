"""`observatory stack`: the stacks under test and their locks."""

from datetime import datetime
from typing import Annotated

from typer import Argument, Option, Typer

from duetbench.host.console import Console, Narrator, errors
from observatory.cli.options import DAY
from observatory.matrix.checkout import Checkout, renew

stack_app = Typer(
    help="The stacks under test and their locks.", no_args_is_help=True, rich_markup_mode=None
)


@stack_app.command("lock")
def lock_command(
    names: Annotated[list[str] | None, Argument(help="Stacks; default: all.")] = None,
    as_of: Annotated[
        datetime | None,
        Option("--as-of", metavar="DATE", formats=DAY, help="As of the end of this date (UTC)."),
    ] = None,
) -> None:
    """Resolve stacks again, write their locks, and show which packages changed.

    The newest are those that have been out for `cooldown-days` (pyproject.toml; default 3).

    $ observatory stack lock current
    $ observatory stack lock current --as-of 2026-03-01
    """
    project = Checkout.here()
    until = as_of.date() if as_of else project.cooldown()
    moves = renew(project, Narrator(errors()), names, until)
    for line in [f"{move.stack}: {move}" for move in moves] or ["no package moved"]:
        Console().say(line)
