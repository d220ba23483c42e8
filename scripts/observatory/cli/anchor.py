"""`observatory anchor`: the frozen stack that all trend points are measured against."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from typer import Argument, Exit, Typer

from duetbench.app import revisions
from duetbench.cli.options import budget_option, budget_seconds, clean_up
from duetbench.core.errors import UsageError
from duetbench.host import files, git, machine
from duetbench.host.console import Console
from duetbench.judge.comparison import DEFAULT_SEED
from duetbench.judge.duet_loop import Reporter
from observatory.cli.options import (
    PlanOption,
    ProfileOption,
    ResultsOption,
    SelectOption,
    ShardOption,
)
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
    select: SelectOption = None,
    profile: ProfileOption = "nightly",
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    plan_file: PlanOption = None,
    shard: ShardOption = None,
    results: ResultsOption = None,
) -> None:
    """Measure this checkout against the anchor by duets: a point of every case's trend.

    $ observatory anchor run --select 'asgi-wsgi/*' --budget 20m
    $ observatory anchor run --plan night.json --shard 1 --results measured

    A case gets 5 duets, and more until its ratio's standard error is 0.5 %, at most 20; one whose
    duets take 8 s or longer gets 3 to 5. If the time is too short for 3 of each, cases take turns.

    Exit code 0: every case has a point; with --plan also if some have none, since the reason is a
    result. 1: some have none. 3: none has.
    """
    checkout, console = Checkout.here(profile), Console()
    folder, globs, seed = results or checkout.results, tuple(select or ()), DEFAULT_SEED
    commit, dirty = git.revision(checkout.root)
    assigned = assignment(plan_file, shard)
    if assigned is not None:
        if select:
            raise UsageError("--plan selects the cases: leave --select out")
        assigned.require(machine.fingerprint().id, commit)
        plan = assigned.shard.plan
        checkout = replace(checkout, profile=plan.profile)
        globs, seed = tuple(case.id for case in plan.cases), plan.seed
    files.require_room(folder)
    clean_up(console)
    saved = list[Points]()

    def keep(measured: Points) -> None:  # what a sandbox hands out, whatever ends it
        saved[:] = [assigned.mark(measured) if assigned else measured]
        files.save(folder, saved[0])

    label = "the checkout" if dirty or not commit else commit[:8]
    effort = Effort(seed=seed, limit=budget_seconds(budget) or math.inf)
    tonight = Wanted(label, datetime.now(UTC), checkout, commit)
    try:
        for points in measure(checkout, [tonight], globs, Reporter(console), effort, keep=keep):
            keep(points)
    finally:
        for points in saved:
            print_points(console, points)
            console.say(f"saved: {folder / points.path}")
    (measured,) = saved
    if measured.missing and not (assigned and measured.cases):
        raise Exit(1 if measured.cases else 3)


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
