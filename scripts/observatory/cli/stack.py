"""`observatory stack`: the stacks under test and their locks."""

from typing import Annotated

from typer import Argument, Typer

from duetbench.host.console import Console, Narrator, errors
from observatory.matrix.checkout import Checkout, renew

stack_app = Typer(
    help="The stacks under test and their locks.", no_args_is_help=True, rich_markup_mode=None
)


@stack_app.command("lock")
def lock_command(
    names: Annotated[list[str] | None, Argument(help="Stacks; default: all.")] = None,
) -> None:
    """Resolve stacks again, write their locks, and show which packages changed.

    The newest are those that have been out for `cooldown-days` (pyproject.toml; default 3).

    $ observatory stack lock current
    """
    project = Checkout.here()
    moves = renew(project, Narrator(errors()), names, project.cooldown())
    for line in [f"{move.stack}: {move}" for move in moves] or ["no package moved"]:
        Console().say(line)
