"""`observatory anchor`: points of trends, of the checkout's stacks or of those of other times."""

import math
import os
from datetime import UTC, date, datetime
from typing import Annotated

from cyclopts import Parameter

from duetbench.cli.options import budget_option, budget_seconds, clean_up
from duetbench.host import files, git
from duetbench.host.console import Console
from duetbench.judge.duet_loop import Reporter
from observatory.cli.options import ProfileOption, ResultsOption, SelectOption
from observatory.matrix.checkout import Checkout
from observatory.store.points import Points
from observatory.trend import backfill
from observatory.trend.anchored import Effort, Wanted, measure


def anchor_command(
    *,
    since: date | None = None,
    until: date | None = None,
    releases: Annotated[str | None, Parameter(metavar="PACKAGES")] = None,
    select: SelectOption = (),
    profile: ProfileOption = "nightly",
    budget: Annotated[str | None, budget_option("Stop a stack after this time")] = None,
    results: ResultsOption = None,
) -> int:
    """Measure stacks against the anchor by duets: a point of every case's trend.

    $ observatory anchor --budget 36m --results measured
    $ observatory anchor --since 2026-01-01 --select 'asgi-wsgi/*' --results past
    $ observatory anchor --since 2026-07-01 --releases fastapi,granian

    Without a date it measures the stacks of this checkout, else those of each month since: years of
    trend on day one. Those are resolved as of the end of their date, from wheels only, unless
    UV_NO_BUILD=0 is set. The points of each stack are saved: the same command continues an
    interrupted one.

    A case gets 5 duets, and more until its ratio's standard error is 0.5 %, at most 20; one whose
    duets take 8 s or longer gets 3 to 5.

    Exit code 0: every stack has points. 1: some have none. 3: none has.

    Args:
        since: First date, e.g. 2026-01-01.
        until: The last date; default: today.
        releases: Instead of months: all releases of these.
    """
    checkout, console = Checkout.here(profile), Console()
    folder, reporter = results or checkout.results, Reporter(console)
    anchor, measured = checkout.anchor, list[Points]()
    now = datetime.now(UTC)
    first, last = since or until or now.date(), until or now.date()
    tonight = (since or until or releases) is None
    if not tonight:
        # Building an old release takes minutes, or a compiler: only a set variable allows it.
        os.environ.setdefault("UV_NO_BUILD", "1")
    if tonight:
        commit, dirty = git.revision(checkout.root)
        label = "the checkout" if dirty or not commit else commit[:8]
        wanted = [Wanted(label, now, checkout, commit)]
    elif releases is None:
        wanted = [backfill.of_day(when) for when in backfill.dates(first, last)]
    else:
        with reporter.step(f"releases of {releases}", "asking the index") as tick:
            wanted = [
                stack
                for name in releases.replace(",", " ").split()
                for stack in backfill.releases(name, first, last, tick)
            ]
    console.say(f"{len(wanted)} stacks: {', '.join(stack.label for stack in wanted)}")
    files.require_room(folder)
    clean_up(console)
    effort = Effort(seed=now.toordinal(), limit=budget_seconds(budget) or math.inf)
    left = backfill.without_known(wanted, folder, anchor)
    for points in measure(checkout, left, select, reporter, effort):
        console.say(f"{points}, in {files.save(folder, points)}")
        measured.append(points)
    console.say(f"{len(measured)} of {len(wanted)} stacks measured now")
    usable = [bool(points.cases) for points in measured]
    return 0 if all(usable) else 1 if any(usable) else 3
