"""`duetbench stack`: the stacks under test and their locks."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Argument, Option, Typer

from duetbench.cli.options import JsonOption, ResultsOption, day, tell
from duetbench.core.errors import SetupError, UsageError
from duetbench.github import actions, lock_branch
from duetbench.github.lock_branch import StackBump
from duetbench.host.console import Console, Narrator, errors, print_json, write
from duetbench.host.git import remote_of
from duetbench.host.signals import interruptible
from duetbench.project import metadata, resolution
from duetbench.project.locks import Move
from duetbench.project.project import Project
from duetbench.store import packages

stack_app = Typer(help="The stacks under test and their locks.", no_args_is_help=True)


@stack_app.command("lock")
def lock_command(
    names: Annotated[list[str] | None, Argument(help="Stacks; all if none.")] = None,
    as_of: Annotated[
        str | None,
        Option("--as-of", metavar="DATE", help="Resolve as of the end of this date (UTC)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve stacks again, write their locks, and show which packages moved."""
    resolved = day(as_of, "--as-of") if as_of else None
    with interruptible():
        moves = resolution.lock(Project.here(), Narrator(errors()), names, resolved)
    if as_json:
        print_json([asdict(move) for move in moves])
    elif moves:
        table = Table("stack", "package", "before", "after")
        for move in moves:
            table.add_row(move.stack, move.package, move.before or "—", move.after or "—")
        Console().print(table)
    else:
        Console().say("no package moved")


@stack_app.command("bump")
def bump_command(
    commit: Annotated[bool, Option("--commit", help="Commit the locks, and nothing else.")] = False,
    push: Annotated[
        bool,
        Option(
            "--push",
            help="With --commit: on a branch of its own, from its tip and this checkout's code, "
            "and push it.",
        ),
    ] = False,
    as_is: Annotated[
        bool, Option("--as-is", help="Renew nothing: only take that branch to this code.")
    ] = False,
    branch: Annotated[str, Option("--branch", help="Its name.")] = lock_branch.BRANCH,
    remote: Annotated[str, Option("--remote", help="Where to.")] = "origin",
    as_json: JsonOption = False,
) -> None:
    """Renew all locks to the newest releases, with the list of releases as the commit's message.

    The newest are those that have been out for `cooldown-days` (pyproject.toml; 3, if not set),
    and what is locked already is not taken back. The history of the locks is what all trends are
    shown over: such a commit holds nothing else. Without --commit the locks are written, and the
    message is shown. With --push this checkout and its branch stay as they are.
    """
    if push and not commit:
        raise UsageError("--push: there is nothing to push without --commit")
    project = Project.here()
    root, console = project.root, errors()

    def renew(place: Path) -> tuple[Move, ...]:
        if as_is:
            return ()
        until, exempt = resolution.cooled(project)
        return resolution.lock(Project(place), Narrator(console), None, until, exempt=exempt)

    def hand_on(moved: bool, commit: str) -> None:
        actions.outputs({"moved": str(moved).lower(), "commit": commit})

    with interruptible():
        if push:
            bumped = lock_branch.advance(
                root,
                remote_of(root, remote),
                renew,
                branch=branch,
                say=console.say,
                reached=lambda tip: hand_on(moved=False, commit=tip),
            )
        else:
            moves = renew(root)
            text = lock_branch.message(moves)
            bump = lock_branch.commit(root, text) if commit else StackBump(bool(moves), "")
            bumped = replace(bump, moves=moves)
    hand_on(bumped.moved, bumped.commit)
    text = lock_branch.message(bumped.moves) if bumped.moved else "no package moved\n"
    actions.summary(f"```text\n{text}```")
    if as_json:
        rows = [asdict(move) for move in bumped.moves]
        print_json({"moved": bumped.moved, "commit": bumped.commit or None, "moves": rows})
        return
    write(text, None)
    if bumped.commit and bumped.moved:
        write(f"commit {bumped.commit}\n", None)


@stack_app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """Show the declared stacks, their locks and the interpreters they are made for."""
    table, rows = Table("stack", "interpreters", "packages", "lock"), []
    project = Project.here()
    for name, made_for in project.stacks.items():
        pythons = list(made_for)
        row: dict[str, object] = {"name": name, "interpreters": pythons}
        try:
            stack = project.lock(name)
        except SetupError as error:
            rows.append({**row, "digest": None, "packages": None, "missing": str(error)})
            cells = ("—", str(error))
        else:
            found = {"digest": stack.digest, "packages": stack.packages, "missing": None}
            rows.append({**row, **found})
            cells = (str(len(stack.packages)), f"SHA-256 {stack.digest[:12]}")
        table.add_row(name, ", ".join(pythons), *cells)
    if as_json:
        print_json(rows)
    else:
        Console().print(table)


@stack_app.command("links")
def links_command(
    results: ResultsOption = None,
    to: Annotated[
        Path | None, Option("--to", help="Write what is new there; default: where the others are.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Keep where the stacks' packages lead, by their own metadata, in results/packages/.

    The site's pages of packages link there: home page, source, changelog. What is known of a
    version stays. Packages are unpacked, and nothing of them is run.
    """
    project, narrator = Project.here(), Narrator(errors())
    links: dict[tuple[str, str], packages.VersionLinks] = {}
    with interruptible():
        for name in project.stacks:
            links |= metadata.of_lock(project.lock(name), project.version, narrator)
    written = packages.remember(results or project.results, links, to)
    summary = f"{len(links)} versions of packages; {len(written)} files are new or have grown"
    tell([summary], lambda: [str(path) for path in written], as_json=as_json)
