"""`duetbench backfill`: stacks of other times, measured today."""

import os
from datetime import UTC, date, datetime
from functools import partial
from typing import Annotated, Final

from typer import Exit, Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    ProfileOption,
    ResultsOption,
    SeedOption,
    SelectOption,
    clean_up,
    day,
    resumable,
)
from duetbench.host import paths
from duetbench.host.console import Console
from duetbench.judge import revisions
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.sides import Scope
from duetbench.project.project import Project
from duetbench.project.settings import load_anchor
from duetbench.show.comparison_text import print_points
from duetbench.store import files
from duetbench.trend import backfill
from duetbench.trend.anchored import Precision
from duetbench.trend.backfill import BackfillTask, PastStack

TODAY: Final = "today"


def backfill_command(
    since: Annotated[str, Option("--since", metavar="DATE", help="The first date, 2026-01-01.")],
    until: Annotated[
        str, Option("--until", metavar="DATE", help="The last date, or today.")
    ] = TODAY,
    every: Annotated[
        str, Option("--every", metavar="INTERVAL", help="day, week or month.")
    ] = "month",
    releases: Annotated[
        str | None,
        Option("--releases", metavar="PACKAGES", help="Instead of dates all releases of these."),
    ] = None,
    select: SelectOption = None,
    profile: ProfileOption = "nightly",
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be measured.")] = False,
    results: ResultsOption = None,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Measure the stacks of other times against the anchor: years of trend on day one.

    $ duetbench backfill --since 2026-01-01 --select 'asgi-wsgi/*' --results past
    $ duetbench backfill --since 2026-07-01 --releases fastapi,granian --dry-run

    Each is resolved as of the end of its date, installed, and measured together with a few others
    in random order. Packages are installed from wheels only, unless UV_NO_BUILD=0 is set: what has
    none for an interpreter is recorded as missing, with the reason. Every duet is kept at once: the
    same command goes on where one was interrupted, and leaves out what has its points.

    Exit code 0: every stack has points. 1: some have none. 3: none has.
    """
    project = Project.here()
    folder = results or project.results
    console = Console()
    reporter = Reporter(console)
    anchor = load_anchor(project.root)
    first, today = day(since, "--since"), datetime.now(UTC).date()
    last = today if until == TODAY else day(until, "--until", ", or today")
    # Whoever sets the variable knows why; a release from its source takes minutes, or a compiler.
    os.environ.setdefault("UV_NO_BUILD", "1")
    saved = []
    with resumable():
        stacks = _wanted(first, last, every, releases, reporter)
        console.say(f"{len(stacks)} stacks: {', '.join(one.label for one in stacks)}")
        if dry_run:
            return
        files.require_room(folder)
        clean_up(console)
        with revisions.copies() as copies:
            globs, logs = tuple(select or ()), paths.state_dir() / "logs"
            scope = Scope(profile, globs, logs, reporter, copies)
            task = BackfillTask(project, anchor, folder, scope, Precision(), seed, Real)
            for points in backfill.backfill(task, stacks, reporter):
                saved.append(points)
                print_points(console, points)
    console.say(f"{len(saved)} of {len(stacks)} stacks measured now")
    if saved and not all(one.cases for one in saved):
        raise Exit(1 if any(one.cases for one in saved) else 3)


def _wanted(
    first: date, last: date, every: str, releases: str | None, reporter: Reporter
) -> tuple[PastStack, ...]:
    if releases is None:
        return tuple(PastStack(one) for one in backfill.dates(first, last, every))
    stacks: list[PastStack] = []
    for package in releases.replace(",", " ").split():
        with reporter.step(f"releases of {package}", "asking the index") as tick:
            newest = partial(backfill.newest, package, tick)
            stacks += backfill.releases(package, first, last, newest)
    return tuple(stacks)
