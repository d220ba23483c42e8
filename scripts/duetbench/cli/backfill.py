"""`duetbench backfill`: stacks of other times, measured today."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from typing import Annotated, Final

from packaging.utils import canonicalize_name
from typer import Exit, Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    JsonOption,
    ProfileOption,
    ResultsOption,
    SeedOption,
    SelectOption,
    clean_up,
    day,
)
from duetbench.core.errors import UsageError
from duetbench.host import command, paths
from duetbench.host.console import Console, print_json
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.judge import revisions
from duetbench.judge.loop import Reporter
from duetbench.judge.sides import Scope
from duetbench.project.project import Project
from duetbench.project.settings import load_anchor
from duetbench.show.report import print_points
from duetbench.store import files
from duetbench.store.points import Points
from duetbench.trend import backfill
from duetbench.trend.anchored import Precision
from duetbench.trend.backfill import BackfillTask, PastStack
from duetbench.trend.narrowing import unmeasured
from duetbench.trend.releases import axes

TODAY: Final = "today"
STACK_GB: Final = 0.15
"""Disk that a stack takes for one interpreter, at most, in 10⁹ bytes."""


def backfill_command(
    from_: Annotated[str, Option("--from", metavar="DATE", help="The first date.")],
    to: Annotated[str, Option("--to", metavar="DATE", help="The last date, or today.")] = TODAY,
    every: Annotated[
        str, Option("--every", help="day, week, month, or so many days such as 10d.")
    ] = "month",
    releases: Annotated[
        str | None,
        Option(
            "--releases",
            metavar="PACKAGES",
            help="Instead of dates every release of these packages, e.g. fastapi,granian: the "
            "anchor's stack with that one in it.",
        ),
    ] = None,
    narrow: Annotated[
        bool,
        Option(
            "--narrow",
            help="Of the releases only the first, the last, and the middle between two of which "
            "one did something over the other, until that is one release: some ten of a hundred.",
        ),
    ] = False,
    select: SelectOption = None,
    profile: ProfileOption = "nightly",
    se: Annotated[
        float,
        Option("--se", min=0.0005, help="Play a case until its ratio's standard error is this."),
    ] = 0.005,
    most: Annotated[
        int, Option("--most", min=2, help="Duets of a case, however far it scatters.")
    ] = 20,
    at_once: Annotated[
        int, Option("--at-once", min=1, help="Stacks that are on the disk at the same time.")
    ] = backfill.AT_ONCE,
    plan: Annotated[bool, Option("--plan", help="Only say what would be measured.")] = False,
    results: ResultsOption = None,
    as_json: JsonOption = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Measure the stacks of other times against the anchor: years of trend on day one.

    Each is resolved as of the end of its date, installed, and measured together with a few others
    in random order. Packages are installed from wheels only, unless UV_NO_BUILD=0 is set: what has
    none for an interpreter is recorded as missing, with the reason. Every duet is kept at once: the
    same command goes on where one was interrupted, and leaves out what has its points.

    Exit code 0: every stack has points. 1: some have none. 3: none has.
    """
    if narrow and releases is None:
        raise UsageError("--narrow: expected --releases with it")
    project = Project.here()
    folder = results or project.results
    console = Console(stderr=as_json)
    reporter = Reporter(console)
    anchor = load_anchor(project.root)
    first = day(from_, "--from")
    last = datetime.now(UTC).date() if to == TODAY else day(to, "--to", ", or today")
    # Whoever sets the variable knows why; a release from its source takes minutes, or a compiler.
    os.environ.setdefault("UV_NO_BUILD", "1")
    try:
        with interruptible():
            stacks = _wanted(first, last, every, releases, reporter)
            console.say(f"{len(stacks)} stacks: {', '.join(one.label for one in stacks)}")
            gigabytes = at_once * 2 * STACK_GB
            console.say(
                f"disk: {command.free_gb(paths.cache_dir()):.1f} GB free; at most {at_once} stacks "
                f"at once, about {gigabytes:.1f} GB for each that the cases need"
            )
            if plan:
                return
            files.require_room(folder)
            clean_up(console)
            saved = []
            with revisions.copies() as copies:
                scope = Scope(
                    profile, tuple(select or ()), paths.state_dir() / "logs", reporter, copies
                )
                task = BackfillTask(
                    project, anchor, folder, scope, Precision(se, most=most), seed, at_once
                )
                for batch in _narrower(stacks, task) if narrow else (stacks,):
                    for points in backfill.backfill(task, batch, reporter):
                        saved.append(points)
                        if as_json:
                            print_json(points.model_dump(mode="json"))
                        else:
                            print_points(Console(), points)
    except InterruptedRun as interruption:
        interruption.advice = "all duets are kept; the same command goes on"
        raise
    free = command.free_gb(paths.cache_dir())
    console.say(f"{len(saved)} of {len(stacks)} stacks measured now; {free:.1f} GB free")
    if saved and not all(one.cases for one in saved):
        raise Exit(1 if any(one.cases for one in saved) else 3)


def _narrower(stacks: Sequence[PastStack], task: BackfillTask) -> Iterator[list[PastStack]]:
    """Those on the way to releases that did something, by what is known when they are asked for."""
    spans: dict[str, dict[str, PastStack]] = {}
    for one in stacks:
        if one.release is not None:
            package = canonicalize_name(one.release.package)
            spans.setdefault(package, {})[one.release.version] = one
    visited: set[PastStack] = set()
    while True:
        known = axes(_selected(points, task.scope.select) for points in backfill.kept(task))
        batch = [
            one
            for package, span in spans.items()
            for version in unmeasured(tuple(span), next(iter(known.get(package, ())), None))
            if (one := span[version]) not in visited
        ]
        if not batch:
            return
        yield batch
        visited.update(batch)


def _selected(points: Points, select: tuple[str, ...]) -> Points:
    """Without cases that are not asked for: another one says nothing of these."""

    def chosen(case: str) -> bool:
        return not select or any(fnmatchcase(case, glob) for glob in select)

    cases = tuple(one for one in points.cases if chosen(one.case))
    missing = tuple(one for one in points.missing if chosen(one.case))
    release = points.release if cases or missing else None
    return points.model_copy(update={"cases": cases, "missing": missing, "release": release})


def _wanted(
    first: date, last: date, every: str, releases: str | None, reporter: Reporter
) -> tuple[PastStack, ...]:
    if releases is None:
        return tuple(PastStack(one) for one in backfill.dates(first, last, every))
    stacks: list[PastStack] = []
    for package in releases.replace(",", " ").split():
        with reporter.step(f"releases of {package}", "asking the index") as tick:
            newest = backfill.newest_of(package, tick)
            stacks += backfill.releases(package, first, last, newest)
    return tuple(stacks)
