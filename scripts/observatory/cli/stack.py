"""`observatory stack lock`: the stacks under test and their locks."""

from typing import Annotated, Literal

from typer import Argument

from duetbench.host.console import Console, Narrator, errors
from observatory.matrix.checkout import Checkout, renew


def stack_command(
    action: Annotated[Literal["lock"], Argument(help="What to do: lock.")],  # noqa: ARG001
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
