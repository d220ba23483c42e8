"""`duetbench stack`: the stacks under test and their locks."""

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from duetbench.cli.options import ResultsOption, day
from duetbench.core.errors import UsageError
from duetbench.github import actions, lock_branch
from duetbench.host import command
from duetbench.host.console import Console, Narrator, errors, write
from duetbench.host.git import remote_of
from duetbench.host.signals import interruptible
from duetbench.project.project import Project
from duetbench.project.stacks import Move, Stack
from duetbench.store import packages

stack_app = Typer(help="The stacks under test and their locks.", no_args_is_help=True)


@stack_app.command("lock")
def lock_command(
    names: Annotated[list[str] | None, Argument(help="Stacks; all if none.")] = None,
    as_of: Annotated[
        str | None,
        Option("--as-of", metavar="DATE", help="Resolve as of the end of this date (UTC)."),
    ] = None,
) -> None:
    """Resolve stacks again, write their locks, and show which packages moved.

    $ duetbench stack lock current
    $ duetbench stack lock current --as-of 2026-03-01
    """
    resolved = day(as_of, "--as-of") if as_of else None
    with interruptible():
        moves = Project.here().renew_locks(Narrator(errors()), names, resolved)
    lines = [f"{m.stack}: {m.package} {m.before or '—'} → {m.after or '—'}" for m in moves]
    for line in lines or ["no package moved"]:
        Console().say(line)


@stack_app.command("bump")
def bump_command(
    push: Annotated[
        bool, Option("--push", help=f"Commit them on {lock_branch.BRANCH}, and push it to origin.")
    ] = False,
    as_is: Annotated[
        bool,
        Option("--as-is", help="With --push: renew nothing, only take that branch to this code."),
    ] = False,
) -> None:
    """Renew all locks to the newest releases, with the list of releases as the commit's message.

    $ duetbench stack bump
    $ duetbench stack bump --push

    The newest are those that have been out for `cooldown-days` (pyproject.toml; 3, if not set),
    and what is locked already is not taken back. The history of the locks is what all trends are
    shown over: such a commit holds nothing else. Without --push the locks are written, and the
    message is shown. With it this checkout and its branch stay as they are.
    """
    if as_is and not push:
        raise UsageError("--as-is: no branch is taken anywhere without --push")
    project = Project.here()
    root, console = project.root, errors()

    def renew(place: Path) -> tuple[Move, ...]:
        until = project.cooldown
        narrator = Narrator(console)
        return () if as_is else Project(place).renew_locks(narrator, None, until)

    def hand_on(moved: bool, commit: str) -> None:
        actions.outputs({"moved": str(moved).lower(), "commit": commit})

    with interruptible():
        if not push:
            write(lock_branch.message(renew(root)), None)
            return
        bumped = lock_branch.advance(
            root,
            remote_of(root, "origin"),
            renew,
            say=console.say,
            reached=lambda tip: hand_on(moved=False, commit=tip),
        )
    hand_on(bumped.moved, bumped.commit)
    text = lock_branch.message(bumped.moves) if bumped.moved else "no package moved\n"
    actions.summary(f"```text\n{text}```")
    write(f"{text}commit {bumped.commit}\n", None)


@stack_app.command("links")
def links_command(
    results: ResultsOption = None,
    to: Annotated[
        Path | None,
        Option("--to", metavar="FOLDER", help="Write what is new there; default: to the others."),
    ] = None,
) -> None:
    """Keep where the stacks' packages lead, by their own metadata, in results/packages/.

    $ duetbench stack links
    $ duetbench stack links --to closed

    The site's pages of packages link there: home page, source, changelog. What is known of a
    version stays. Packages are unpacked, and nothing of them is run.
    """
    project, narrator = Project.here(), Narrator(errors())
    links: dict[tuple[str, str], packages.VersionLinks] = {}
    with interruptible():
        for name in project.stacks:
            links |= _links_of(project.lock(name), project.version, narrator)
    written = packages.remember(results or project.results, links, to)
    new = f"{len(written)} files are new or have grown"
    Console().say(f"{len(links)} versions of packages; {new}")


def _links_of(stack: Stack, version: str, narrator: Narrator) -> packages.LinksByVersion:
    """Read the metadata of what a lock has for a version of Python; none of it is run.

    SetupError: a package cannot be had, or only as its source.
    """
    with tempfile.TemporaryDirectory(prefix="duetbench-metadata-") as folder:
        argv: list[str | Path] = [command.uv(), "pip", "sync", "--no-config", "--require-hashes"]
        argv += ["--no-build", "--target", folder, stack.lock]
        argv += ["--python-version", version]
        with narrator.step(f"stack {stack.name}", "unpacking its packages") as tick:
            log = command.new_log(f"metadata-{stack.name}")
            command.run(argv, what=f"unpacking stack {stack.name}", log=log, tick=tick)
        return packages.of_folder(Path(folder))
