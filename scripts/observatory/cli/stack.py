"""`observatory stack`: the stacks under test and their locks."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from duetbench.ci import actions
from duetbench.core.comparison import PackageChange
from duetbench.core.errors import UsageError
from duetbench.host.console import Console, Narrator, errors, write, write_summary
from observatory.cli.options import day
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
        str | None,
        Option("--as-of", metavar="DATE", help="Resolve as of the end of this date (UTC)."),
    ] = None,
) -> None:
    """Resolve stacks again, write their locks, and show which packages changed.

    $ observatory stack lock current
    $ observatory stack lock current --as-of 2026-03-01
    """
    resolved = day(as_of, "--as-of") if as_of else None
    moves = renew_locks(Checkout.here(), Narrator(errors()), names, resolved)
    for line in [f"{move.stack}: {move}" for move in moves] or ["no package moved"]:
        Console().say(line)


@stack_app.command("bump")
def bump_command(
    push: Annotated[
        bool, Option("--push", help=f"Commit them on {lock_branch.BRANCH}, and push it to origin.")
    ] = False,
    as_is: Annotated[
        bool,
        Option("--as-is", help="With --push: renew no lock, only update the branch's code."),
    ] = False,
) -> None:
    """Renew all locks to the newest releases, with the list of releases as the commit's message.

    $ observatory stack bump
    $ observatory stack bump --push

    The newest are those that have been out for `cooldown-days` (pyproject.toml; default 3), and no
    package gets an older release. The history of the locks is the axis of all trends, so such a
    commit contains nothing else. Without --push the locks are written, and the message is printed.
    With --push this checkout and its branch stay as they are.
    """
    if as_is and not push:
        raise UsageError("--as-is: only --push changes the branch: add it")
    project = Checkout.here()
    root, console = project.root, errors()

    def renew(place: Path) -> tuple[PackageChange, ...]:
        until = project.cooldown()
        narrator = Narrator(console)
        return () if as_is else renew_locks(Checkout(place), narrator, None, until)

    def report(moved: bool, commit: str) -> None:
        actions.outputs({"moved": str(moved).lower(), "commit": commit})

    if not push:
        write(lock_branch.message(renew(root)))
        return
    bump = lock_branch.advance(
        root,
        remote_of(root, "origin"),
        renew,
        say=console.say,
        reached=lambda tip: report(moved=False, commit=tip),
    )
    report(bump.moved, bump.commit)
    text = lock_branch.message(bump.moves) if bump.moved else "no package moved\n"
    write_summary(f"```text\n{text}```")
    write(f"{text}commit {bump.commit}\n")
