"""`observatory anchor`: the frozen stack that all trend points are measured against."""

import math
from datetime import UTC, datetime
from typing import Annotated

from typer import Argument, Exit, Typer

from duetbench.app import revisions
from duetbench.cli.options import budget_option, budget_seconds, clean_up
from duetbench.core.errors import UsageError
from duetbench.host import files, git, machine
from duetbench.host.console import Console
from duetbench.judge.duet_loop import Reporter
from observatory.cli.options import PlanOption, ResultsOption, ShardOption
from observatory.matrix.anchor import Anchor, anchor_file, anchor_text, load_anchor
from observatory.matrix.checkout import Checkout
from observatory.show.findings import print_points
from observatory.store.night import assignment
from observatory.store.points import Points
from observatory.trend.anchored import DUET_PROTOCOL, Effort, Wanted, measure

anchor_app = Typer(
    no_args_is_help=True,
    help="The frozen stack that trends are measured against.",
    rich_markup_mode=None,
)


@anchor_app.command("run")
def run_command(
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    plan_file: PlanOption = None,
    shard: ShardOption = None,
    results: ResultsOption = None,
) -> None:
    """Measure this checkout against the anchor by duets: a point of every case's trend.

    $ observatory plan --output night.json --select 'asgi-wsgi/*'
    $ observatory anchor run --plan night.json --shard 1 --budget 36m --results measured

    A case gets 5 duets, and more until its ratio's standard error is 0.5 %, at most 20; one whose
    duets take 8 s or longer gets 3 to 5.

    Exit code 0: cases have points, or the reason why not. 3: none has a point.
    """
    assigned, console = assignment(plan_file, shard), Console()
    if assigned is None:
        raise UsageError("expected --plan and --shard, of `observatory plan`")
    plan = assigned.shard.plan
    checkout = Checkout.here(plan.profile)
    folder, (commit, dirty) = results or checkout.results, git.revision(checkout.root)
    assigned.require(machine.fingerprint().id, commit)
    files.require_room(folder)
    clean_up(console)
    saved = list[Points]()

    def keep(measured: Points) -> None:  # what a sandbox hands out, whatever ends it
        saved[:] = [assigned.mark(measured)]
        files.save(folder, saved[0])

    label = "the checkout" if dirty or not commit else commit[:8]
    effort = Effort(seed=plan.seed, limit=budget_seconds(budget) or math.inf)
    tonight = Wanted(label, datetime.now(UTC), checkout, commit)
    cases = [case.id for case in plan.cases]
    try:
        for points in measure(checkout, [tonight], cases, Reporter(console), effort, keep=keep):
            keep(points)
    finally:
        for points in saved:
            print_points(console, points)
            console.say(f"saved: {folder / points.path}")
    if not saved[0].cases:
        raise Exit(3)


@anchor_app.command("renew")
def renew_command(
    name: Annotated[str, Argument(help="Name of the new anchor, e.g. 2027-01.")],
) -> None:
    """Make the commit of this checkout the anchor that later points are measured against.

    $ observatory anchor renew 2027-11

    Trends begin again, as points of two anchors are never mixed. `observatory backfill` measures
    the stacks of past dates against the new one.
    """
    project, console = Checkout.here(), Console()
    root, state = project.root, revisions.working(project.root)
    if state.dirty:
        raise UsageError("expected a checkout without changes, found some: commit them first")
    before = load_anchor(root) if anchor_file(root).is_file() else None
    if before is not None and before.name == name:
        raise UsageError(f"{name!r} is the name of the present anchor: choose another one")
    renewed = Anchor(
        name=name, commit=state.commit, since=datetime.now(UTC).date(), protocol=DUET_PROTOCOL
    )
    files.replace(anchor_file(root), anchor_text(renewed).encode())
    console.say(f"{anchor_file(root)}: commit it; later nights are measured against {name}")
