"""`servebench stack`: the stacks under test and their locks."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from servebench import stacklock, stacks
from servebench.errors import SetupError
from servebench.signals import interruptible
from servebench.toolchain.narrator import Narrator

stack_app = typer.Typer(help="The stacks under test and their locks.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@stack_app.command("lock")
def lock_command(
    names: Annotated[list[str] | None, typer.Argument(help="Stacks; all if none.")] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(help="Resolve as of the end of this date.", formats=["%Y-%m-%d"]),
    ] = None,
    as_json: Json = False,
) -> None:
    """Resolve stacks anew, write their locks, and show which packages moved."""
    progress = Narrator(Console(stderr=True))
    with interruptible():
        moves = stacklock.lock(names, as_of.date() if as_of else None, progress)
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
