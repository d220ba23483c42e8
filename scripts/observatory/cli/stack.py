"""`observatory stack`: the stacks under test and their locks."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from duetbench.ci import actions
from duetbench.core.comparison import PackageChange
from duetbench.host.console import Console, Narrator, errors, write, write_summary
from observatory.cli.options import DAY
from observatory.github import lock_branch
from observatory.matrix.checkout import Checkout
from observatory.matrix.checkout import renew as renew_locks
from observatory.store.history_branch import remote_of

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
    moves = renew_locks(project, Narrator(errors()), names, until)
    for line in [f"{move.stack}: {move}" for move in moves] or ["no package moved"]:
        Console().say(line)


@stack_app.command("bump")
def bump_command(
    as_is: Annotated[
        bool, Option("--as-is", help="Renew no lock, only update the branch's code.")
    ] = False,
) -> None:
    """Renew all locks, commit them on duetbench/stack, and push it to origin.

    $ observatory stack bump

    Packages are as of `observatory stack lock`. This checkout and its branch stay as they are.
    """
    project, console = Checkout.here(), errors()

    def renew(place: Path) -> tuple[PackageChange, ...]:
        until = project.cooldown()
        return () if as_is else renew_locks(Checkout(place), Narrator(console), None, until)

    def report(commit: str) -> None:
        actions.outputs({"commit": commit})

    remote = remote_of(project.root, "origin")
    commit, moves = lock_branch.advance(
        project.root, remote, renew, say=console.say, reached=report
    )
    report(commit)
    text = lock_branch.message(moves) if moves else "no package moved\n"
    write_summary(f"```text\n{text}```")
    write(f"{text}commit {commit}\n")
