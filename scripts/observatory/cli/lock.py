"""`observatory lock`: the locks of the stacks under test."""

from typing import Annotated

from typer import Argument

from duetbench.host.console import Narrator, errors
from observatory.matrix.checkout import Checkout, lock_stacks


def lock_command(
    names: Annotated[list[str] | None, Argument(help="Stacks; default: all.")] = None,
) -> None:
    """Resolve stacks again, and write their locks; `git diff` shows which packages changed.

    The newest are those that have been out for `cooldown-days` (pyproject.toml; default 3).

    $ observatory lock current
    """
    project = Checkout.here()
    lock_stacks(project, Narrator(errors()), names, project.cooldown())
