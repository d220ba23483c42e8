"""`observatory backfill`: stacks of other times, measured today."""

import os
from datetime import UTC, date, datetime
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from duetbench.cli.options import clean_up
from duetbench.host import files
from duetbench.host.console import Console
from duetbench.judge.comparison import DEFAULT_SEED
from duetbench.judge.duet_loop import Reporter
from observatory.cli.options import ProfileOption, ResultsOption, SelectOption
from observatory.matrix.checkout import Checkout
from observatory.store.points import Points
from observatory.trend import backfill
from observatory.trend.anchored import Effort, measure


def backfill_command(
    *,
    since: date,
    until: date | None = None,
    releases: Annotated[str | None, Parameter(metavar="PACKAGES")] = None,
    select: SelectOption = (),
    profile: ProfileOption = "nightly",
    dry_run: bool = False,
    results: ResultsOption = None,
) -> int:
    """Measure the stacks of each month against the anchor: years of trend on day one.

    $ observatory backfill --since 2026-01-01 --select 'asgi-wsgi/*' --results past
    $ observatory backfill --since 2026-07-01 --releases fastapi,granian --dry-run

    Each stack is resolved as of the end of its date, from wheels only, unless UV_NO_BUILD=0 is set.
    The points of each stack are saved: the same command continues an interrupted one.

    Exit code 0: every stack has points. 1: some have none. 3: none has.

    Args:
        since: First date, e.g. 2026-01-01.
        until: The last date; default: today.
        releases: Instead of dates: all releases of these.
        dry_run: Only list what would be measured.
    """
    checkout, console = Checkout.here(profile), Console()
    folder, reporter = results or checkout.results, Reporter(console)
    first, last = since, until or datetime.now(UTC).date()
    # Building a release from source takes minutes, or a compiler: only a set variable allows it.
    os.environ.setdefault("UV_NO_BUILD", "1")
    anchor, measured = checkout.anchor, list[Points]()
    wanted = [backfill.of_day(when) for when in backfill.dates(first, last)]
    if releases is not None:
        with reporter.step(f"releases of {releases}", "asking the index") as tick:
            wanted = [
                stack
                for name in releases.replace(",", " ").split()
                for stack in backfill.releases(
                    name, first, last, partial(backfill.newest, name, tick)
                )
            ]
    console.say(f"{len(wanted)} stacks: {', '.join(stack.label for stack in wanted)}")
    if dry_run:
        return 0
    files.require_room(folder)
    clean_up(console)
    wanted = backfill.without_known(wanted, folder, anchor)
    for points in measure(checkout, wanted, select, reporter, Effort(seed=DEFAULT_SEED)):
        console.say(f"{points}, in {files.save(folder, points)}")
        measured.append(points)
    console.say(f"{len(measured)} of {len(wanted)} stacks measured now")
    if all(points.cases for points in measured):
        return 0
    return 1 if any(points.cases for points in measured) else 3
