"""`servebench stack`: the stacks under test and their locks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from servebench import actions, paths, stackbump, stacklock, stacks
from servebench.cli.options import FOR_WORKFLOWS, day
from servebench.errors import SetupError, UsageError
from servebench.git import remote_of
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.signals import interruptible
from servebench.stackbump import Bumped
from servebench.stacklock import Move

stack_app = typer.Typer(help="The stacks under test and their locks.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@stack_app.command("lock")
def lock_command(
    names: Annotated[list[str] | None, typer.Argument(help="Stacks; all if none.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="DATE", help="Resolve as of the end of this date (UTC)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Resolve stacks anew, write their locks, and show which packages moved."""
    progress = Narrator(Console(stderr=True))
    resolved = day(as_of, "--as-of") if as_of else None
    with interruptible():
        moves = stacklock.lock(names, resolved, progress)
    console = Console()
    if as_json:
        rows = [
            {"stack": m.stack, "package": m.package, "before": m.before, "after": m.after}
            for m in moves
        ]
        console.print_json(json.dumps(rows))
    elif moves:
        table = Table("stack", "package", "before", "after")
        for move in moves:
            table.add_row(move.stack, move.package, move.before or "—", move.after or "—")
        console.print(table)
    else:
        console.print("no package moved")


@stack_app.command("bump")
def bump_command(
    commit: Annotated[
        bool, typer.Option("--commit", help="Commit the locks, and nothing else.")
    ] = False,
    push: Annotated[
        bool,
        typer.Option(
            "--push",
            help="With --commit: on a branch of its own, from its tip and this checkout's code, "
            "and push it.",
        ),
    ] = False,
    branch: Annotated[str, typer.Option("--branch", help="Its name.")] = stackbump.BRANCH,
    remote: Annotated[str, typer.Option("--remote", help="Where to.")] = "origin",
    github_output: Annotated[
        bool,
        typer.Option(
            "--github-output",
            rich_help_panel=FOR_WORKFLOWS,
            help="Hand on whether a lock moved, and the commit, in GITHUB_OUTPUT.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Renew all locks to the newest releases, with the list of releases as the commit's message.

    The newest are those that have been out for `cooldown-days` (pyproject.toml; 3, if not set),
    and what is locked already is not taken back. The history of the locks is what all trends are
    shown over: such a commit holds nothing else. Without --commit the locks are written, and the
    message is shown. With --push this checkout and its branch stay as they are.
    """
    if push and not commit:
        raise UsageError("--push: there is nothing to push without --commit")
    if github_output and not commit:
        raise UsageError("--github-output: the commit is handed on, so add --commit")
    root = paths.project_root()
    errors = Console(stderr=True, highlight=False)

    def renew(place: Path) -> tuple[Move, ...]:
        until, exempt = stacklock.cooled(root)
        return stacklock.lock(None, until, Narrator(errors), root=place, exempt=exempt)

    def hand_on(found: Bumped) -> None:
        if github_output:
            moved = "true" if found.moved else "false"
            actions.outputs({"moved": moved, "commit": found.commit})

    with interruptible():
        if push:
            bumped = stackbump.advance(
                root,
                remote_of(root, remote),
                renew,
                branch=branch,
                told=lambda line: errors.print(line, markup=False, soft_wrap=True),
                reached=lambda tip: hand_on(Bumped(moved=False, commit=tip)),
            )
        else:
            moves = renew(root)
            text = stackbump.message(moves)
            made = stackbump.commit(root, text) if commit else Bumped(bool(moves), "")
            bumped = replace(made, moves=moves)
    hand_on(bumped)
    text = stackbump.message(bumped.moves) if bumped.moved else "no package moved\n"
    actions.summary(f"```text\n{text}```")
    if as_json:
        rows = [
            {"package": m.package, "stack": m.stack, "before": m.before, "after": m.after}
            for m in bumped.moves
        ]
        found = {"moved": bumped.moved, "commit": bumped.commit or None, "moves": rows}
        typer.echo(json.dumps(found))
        return
    typer.echo(text, nl=False)
    if bumped.commit and bumped.moved:
        typer.echo(f"commit {bumped.commit}")


@stack_app.command("list")
def list_command(as_json: Json = False) -> None:
    """Show the declared stacks, their locks and the interpreters they are made for."""
    rows = [_row(name) for name in stacks.names()]
    console = Console()
    if as_json:
        console.print_json(json.dumps(rows))
        return
    table = Table("stack", "interpreters", "packages", "lock")
    for row in rows:
        packages = row["packages"]
        table.add_row(
            str(row["name"]),
            ", ".join(stacks.pythons(str(row["name"]))),
            str(len(packages)) if isinstance(packages, dict) else "—",
            f"SHA-256 {str(row['digest'])[:12]}" if row["digest"] else str(row["missing"]),
        )
    console.print(table)


def _row(name: str) -> dict[str, object]:
    row: dict[str, object] = {"name": name, "interpreters": list(stacks.pythons(name))}
    try:
        stack = stacks.read(name)
    except SetupError as error:
        return {**row, "digest": None, "packages": None, "missing": str(error)}
    return {**row, "digest": stack.digest, "packages": stack.packages, "missing": None}
