"""`observatory anchor`: points of trends, by duets against the frozen stack."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.options import budget_option, budget_seconds, clean_up
from duetbench.host import files, git
from duetbench.host.console import Console
from duetbench.judge.duet_loop import Reporter
from observatory.cli.options import PLAN, ResultsOption
from observatory.matrix.checkout import Checkout
from observatory.store.night import assignment
from observatory.store.points import Points
from observatory.trend.anchored import Effort, Wanted, measure


def anchor_command(
    file: Annotated[Path, Option("--plan", metavar="FILE", help=PLAN)],
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    results: ResultsOption = None,
) -> None:
    """Measure this checkout against the anchor by duets: a point of every case's trend.

    $ observatory plan --output night.json --select 'asgi-wsgi/*'
    $ observatory anchor --plan night.json --budget 36m --results measured

    A case gets 5 duets, and more until its ratio's standard error is 0.5 %, at most 20; one whose
    duets take 8 s or longer gets 3 to 5.

    Exit code 0: cases have points, or the reason why not. 3: none has a point.
    """
    (night, shard), console = assignment(file), Console()
    plan = shard.plan
    checkout = Checkout.here(plan.profile)
    folder, (commit, dirty) = results or checkout.results, git.revision(checkout.root)
    files.require_room(folder)
    clean_up(console)

    def save(points: Points) -> None:  # what a sandbox hands out, whatever ends it
        files.save(folder, night.mark(points, shard.number))

    label = "the checkout" if dirty or not commit else commit[:8]
    effort = Effort(seed=plan.seed, limit=budget_seconds(budget) or math.inf)
    tonight = Wanted(label, datetime.now(UTC), checkout, commit)
    cases = [case.id for case in plan.cases]
    (points,) = measure(checkout, [tonight], cases, Reporter(console), effort, keep=save)
    save(points)
    console.say(f"{points}, in {folder / night.mark(points, shard.number).path}")
    if not points.cases:
        raise Exit(3)
