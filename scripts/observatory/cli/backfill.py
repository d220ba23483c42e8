"""`observatory backfill`: stacks of other times, measured today."""

import os
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.app import revisions
from duetbench.cli.options import ResultsOption, clean_up, day, resumable
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import files
from duetbench.host.console import Console
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.preparation import Scope
from duetbench.judge.session import DEFAULT_SEED
from duetbench.report.comparison_text import print_comparison
from observatory.cli.options import ProfileOption, SelectOption
from observatory.matrix.anchor import load_anchor
from observatory.matrix.checkout import Checkout
from observatory.show.run_text import print_points
from observatory.trend import backfill, quotes, reading
from observatory.trend.anchored import Precision
from observatory.trend.backfill import BackfillTask, PastStack
from observatory.trend.releases import axes


def backfill_command(
    since: Annotated[str, Option("--since", metavar="DATE", help="First date, e.g. 2026-01-01.")],
    until: Annotated[
        str, Option("--until", metavar="DATE", help="The last date, or today.")
    ] = "today",
    every: Annotated[
        str, Option("--every", metavar="INTERVAL", help="day, week or month.")
    ] = "month",
    releases: Annotated[
        str | None,
        Option("--releases", metavar="PACKAGES", help="Instead of dates: all releases of these."),
    ] = None,
    start: Annotated[
        bool, Option("--start", help="Measure how long the servers take to start, without load.")
    ] = False,
    effects: Annotated[
        bool,
        Option(
            "--effects",
            help="Compare what one request does before and after each release that moved it.",
        ),
    ] = False,
    select: SelectOption = None,
    profile: ProfileOption = "nightly",
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would be measured.")] = False,
    results: ResultsOption = None,
) -> None:
    """Measure the stacks of past dates against the anchor: years of trend on day one.

    $ observatory backfill --since 2026-01-01 --select 'asgi-wsgi/*' --results past
    $ observatory backfill --since 2026-07-01 --releases fastapi,granian --dry-run
    $ observatory backfill --since 2026-07-01 --releases pydantic --select 'start-up/*' --start
    $ observatory backfill --since 2026-01-01 --effects

    Each stack is resolved as of the end of its date, installed, and measured together with a few
    others in random order. Packages are installed from wheels only, unless UV_NO_BUILD=0 is set: a
    package without a wheel for an interpreter is recorded as missing. Every duet is saved at once:
    the same command continues an interrupted one, and skips cases that have their points.

    --effects loads no server, and takes seconds for each release that the site quotes with a
    change of requests or starts by the limit or more. It saves a comparison of each, which the
    release's page shows. A release whose effects are known is skipped.

    Exit code 0: every stack has points. 1: some have none. 3: none has.
    """
    if start and releases is None:
        raise UsageError("--start: expected --releases too, as trends have no points of starts")
    if effects and start:
        raise UsageError("--effects and --start were given: choose one")
    project = Checkout.here(profile)
    folder = results or project.results
    console = Console()
    reporter = Reporter(console)
    first, today = day(since, "--since"), datetime.now(UTC).date()
    last = today if until == "today" else day(until, "--until", ", or today")
    # Building a release from source takes minutes, or a compiler: only a set variable allows it.
    os.environ.setdefault("UV_NO_BUILD", "1")
    if effects:
        _observe(project, folder, (first, last), releases, console, dry_run=dry_run)
        return
    anchor = load_anchor(project.root)
    measured = []
    with resumable():
        stacks = _stacks(first, last, every, releases, reporter, start=start)
        console.say(f"{len(stacks)} stacks: {', '.join(stack.label for stack in stacks)}")
        if dry_run:
            return
        files.require_room(folder)
        clean_up(console)
        with revisions.copies() as copies:
            globs = tuple(select or ())
            scope = Scope(globs, reporter, copies, loaded=not start)
            # Each start scatters by a few per cent, so 20 are often not enough for 1 %.
            precision = Precision(se=0.01) if start else Precision()
            task = BackfillTask(project, anchor, folder, scope, precision, DEFAULT_SEED, Real)
            for points in backfill.backfill(task, stacks, reporter):
                measured.append(points)
                print_points(console, points)
    console.say(f"{len(measured)} of {len(stacks)} stacks measured now")
    if measured and not all(points.cases for points in measured):
        raise Exit(1 if any(points.cases for points in measured) else 3)


def _observe(
    project: Checkout,
    folder: Path,
    span: tuple[date, date],
    packages: str | None,
    console: Console,
    *,
    dry_run: bool,
) -> None:
    """Compare what requests do before and after the releases of a span; save the comparisons.

    Raises typer.Exit if a release could not be observed.
    """
    sources = reading.read(folder, with_runs=False)
    every = [axis for of_package in axes(sources.points).values() for axis in of_package]
    first, last = span
    chosen = [
        quote
        for quote in quotes.quotes(quotes.judged(every), sources.changes).values()
        if first <= quote.when.date() <= last
        if packages is None or quote.package in packages.replace(",", " ").split()
    ]
    cases, failed = project.cases(), 0
    known = sources.comparisons
    with resumable():
        for quote, case in [*backfill.to_observe(chosen, cases, known)]:
            console.say(f"{quote.package} {quote.previous} → {quote.version}: {case.id}")
            if dry_run:
                continue
            try:
                comparison = backfill.observe(project, quote, case, Reporter(console))
            except (SetupError, UsageError) as problem:
                failed += 1
                console.say(f"not observed: {problem}")
                continue
            print_comparison(console, comparison, details=False)
            files.save(folder, comparison)
    if failed:
        raise Exit(1)


def _stacks(
    first: date, last: date, every: str, releases: str | None, reporter: Reporter, *, start: bool
) -> tuple[PastStack, ...]:
    if releases is None:
        return tuple(PastStack(when) for when in backfill.dates(first, last, every))
    stacks: list[PastStack] = []
    for package in releases.replace(",", " ").split():
        with reporter.step(f"releases of {package}", "asking the index") as tick:
            newest = partial(backfill.newest, package, tick)
            found = backfill.releases(package, first, last, newest)
            stacks += [replace(stack, start=start) for stack in found]
    return tuple(stacks)
