"""`duetbench stack`: the stacks under test and their locks."""

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from duetbench.cli.options import JsonOption, ResultsOption, day, tell
from duetbench.core.errors import UsageError
from duetbench.github import actions, lock_branch
from duetbench.github.lock_branch import StackBump
from duetbench.host import command
from duetbench.host.console import Narrator, errors, print_json, write
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
    as_json: JsonOption = False,
) -> None:
    """Resolve stacks again, write their locks, and show which packages moved."""
    resolved = day(as_of, "--as-of") if as_of else None
    with interruptible():
        moves = Project.here().renew_locks(Narrator(errors()), names, resolved)
    lines = [f"{m.stack}: {m.package} {m.before or '—'} → {m.after or '—'}" for m in moves]
    tell(lines or ["no package moved"], lambda: list(map(asdict, moves)), as_json=as_json)


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
        until, exempt = project.cooldown
        narrator = Narrator(console)
        return () if as_is else Project(place).renew_locks(narrator, None, until, exempt=exempt)

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
            links |= _links_of(project.lock(name), project.version, narrator)
    written = packages.remember(results or project.results, links, to)
    summary = f"{len(links)} versions of packages; {len(written)} files are new or have grown"
    tell([summary], lambda: [str(path) for path in written], as_json=as_json)


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
