"""`observatory plan` and `measure`: share a night's cases out, and measure a machine's share."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Option

from duetbench.cli.options import (
    SECONDS,
    SELECT,
    PlanOption,
    ProfileOption,
    ResultsOption,
    ShardOption,
    clean_up,
    machine,
    repository,
)
from duetbench.cli.run import execute, report
from duetbench.core.errors import NothingMeasuredError, UsageError
from duetbench.core.units import utc_now
from duetbench.github import actions
from duetbench.host.console import Console, duration
from duetbench.measure import runner
from duetbench.project import plan as planning
from duetbench.project.anchor import anchor_file, load_anchor
from duetbench.store import files, run_files
from observatory.store.night import NightPlan, assignment
from observatory.trend import nights


def plan_command(
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the night's plan, for `observatory measure`.",
        ),
    ],
    profile: ProfileOption = "nightly",
    select: Annotated[
        list[str] | None,
        Option("--select", metavar="GLOB", help=SELECT, envvar="DUETBENCH_SELECT"),
    ] = None,
    launches: Annotated[
        int | None,
        Option(
            "--launches",
            metavar="N",
            min=1,
            help="Server starts per case (1).",
            envvar="DUETBENCH_LAUNCHES",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        Option("--seconds", metavar="SECONDS", min=0.5, help=SECONDS, envvar="DUETBENCH_SECONDS"),
    ] = None,
) -> None:
    """Plan a night: a shard per machine of `tool.duetbench.fleet`, or one for any machine.

    $ observatory plan --output night.json
    $ observatory plan --output night.json --select 'asgi-wsgi/*'

    A machine launches the shard's cases (`observatory measure`). If an anchor is declared, it also
    measures them against it (`observatory anchor run --plan`). Each day has another order, so that
    a night that ends early does not always lack the same cases.
    """
    console = Console()
    project = repository(console)
    root = project.root
    day = datetime.now(UTC).toordinal()
    plan = planning.make_plan(project.cases, profile, list(select or ()), launches, day, seconds)
    if not plan.cases:
        raise NothingMeasuredError(f"profile {profile} has no cases: there is nothing to plan")
    shards = nights.share_out(plan, project.configuration.fleet)
    commit, _ = runner.revision(root)
    anchor = load_anchor(root).name if anchor_file(root).is_file() else None
    created = utc_now()
    name = run_files.run_id(created, plan.profile, commit)
    night = NightPlan(id=name, created=created, commit=commit, anchor=anchor, shards=shards)
    files.write(output, night)
    include = [{"shard": s.number, "runner": s.machine or nights.RUNNER} for s in shards]
    matrix = json.dumps({"include": include}, separators=(",", ":"))
    actions.outputs({"matrix": matrix, "shards": str(len(include)), "night": night.id})
    for shard in shards:
        where = f" on {shard.machine}" if shard.machine else ""
        console.say(
            f"shard {shard.number} of {len(shards)}{where}: {len(shard.plan.cases)} cases, "
            f"launches of {duration(planning.plan_seconds(shard.plan))}"
        )
        turns = [case.id for case in shard.plan.cases if anchor and case.scales]
        if turns:
            console.say(f"against the anchor {planning.without_duets(turns)}")
    console.say(f"{output}: night {night.id}")


def measure_command(
    plan_file: PlanOption = None, shard: ShardOption = None, results: ResultsOption = None
) -> None:
    """Measure a machine's share of a night: launch its cases, and record the figures.

    $ observatory measure --plan night.json --shard 1 --results measured

    A failed launch is a result, too: each has its reason, and the site shows cases that fail night
    after night. Exit code 0: all cases were launched.
    """
    assigned = assignment(plan_file, shard)
    if assigned is None:
        raise UsageError("expected --plan and --shard")
    console = Console()
    project = repository(console)
    clean_up(console)
    with machine(say=console.say):
        run, path = execute(
            assigned.plan, project, results or project.results, console, begin=assigned.begin
        )
    report(run, path, console)
