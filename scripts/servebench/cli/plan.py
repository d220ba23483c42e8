"""`servebench plan`: what would be run, and how long it would take. Starts nothing."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from servebench import actions, files, header, paths, rig, stacks, units
from servebench import plan as planning
from servebench.cli.options import (
    DEFAULT_SEED,
    FOR_WORKFLOWS,
    ProfileOption,
    SeedOption,
    repository,
)
from servebench.errors import DeclarationError, NothingMeasuredError, SetupError, UsageError
from servebench.model import Plan
from servebench.night import planning as nights
from servebench.night.model import NightPlan
from servebench.printing import Console
from servebench.progress import duration


def plan_command(
    profile: ProfileOption = "quick",
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            envvar="SERVEBENCH_SELECT",
            show_envvar=False,
            help="Only cases whose id matches this glob, e.g. 'asgi-wsgi/*/py3.14t/*'; repeatable.",
        ),
    ] = None,
    launches: Annotated[
        int | None,
        typer.Option(
            "--launches",
            min=1,
            envvar="SERVEBENCH_LAUNCHES",
            show_envvar=False,
            help="Launches per case.",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            min=1,
            envvar="SERVEBENCH_SHARDS",
            rich_help_panel=FOR_WORKFLOWS,
            help="Share the cases out over so many machines.",
        ),
    ] = None,
    machines: Annotated[
        list[str] | None,
        typer.Option(
            "--machine",
            envvar="SERVEBENCH_MACHINES",
            rich_help_panel=FOR_WORKFLOWS,
            help="Id of a machine (`servebench doctor`) that a shard is for; repeatable. Cases "
            "stay with the machine that has measured them. Without: whichever takes a shard.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            min=0.5,
            envvar="SERVEBENCH_SECONDS",
            show_envvar=False,
            help="Load every case for so long, instead of the profile's durations: for trying out.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            rich_help_panel=FOR_WORKFLOWS,
            help="Write the plan of the night, for `run --plan`.",
        ),
    ] = None,
    github_output: Annotated[
        bool,
        typer.Option(
            "--github-output",
            rich_help_panel=FOR_WORKFLOWS,
            help="Hand the shards to a workflow: matrix, shards, night and sha256 (of the "
            "plan) in GITHUB_OUTPUT.",
        ),
    ] = False,
    cases: Annotated[bool, typer.Option("--cases", help="List every case.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan of each shard as JSON.")
    ] = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Show what a run would do: cases, launches and expected time per experiment.

    With --output it is the plan of a night: its shards are balanced by what launches have taken in
    the recorded runs (`servebench ci history pull` fetches those of earlier nights), cases stay
    with their machine, and one calibration case is in every shard.
    """
    console = Console(highlight=False, quiet=as_json)
    root = repository(console)
    plan = planning.make_plan(profile, list(select or ()), launches, seed)
    if seconds is not None:
        plan = planning.lasting(plan, seconds)
    if not plan.cases:
        raise NothingMeasuredError(f"profile {profile} has no cases: there is nothing to plan")
    unready = _unready(plan)
    night = _night(root, plan, shards, machines)
    if output is not None:
        files.write(output, night)
    if github_output:
        if output is None:
            raise UsageError("--github-output: the shards need their plan, too: add --output FILE")
        actions.outputs(nights.outputs(night))
    if as_json:
        parts = [_described(shard.plan) for shard in night.shards]
        Console(highlight=False).print_json(json.dumps({"shards": parts}))
        return
    console.print(_table(plan))
    if cases:
        for case in plan.cases:
            taken = planning.expected_seconds(case, profile)
            console.print(f"{case.id}  {units.seconds(taken)}", soft_wrap=True, markup=False)
    for note in (*unready, *night.notes):
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    if len(night.shards) > 1 or output is not None:
        for shard in night.shards:
            where = f" on {shard.machine}" if shard.machine else ""
            console.print(
                f"shard {shard.number} of {len(night.shards)}{where}: {len(shard.plan.cases)} "
                f"case{'s' * (len(shard.plan.cases) != 1)}, {duration(shard.expected_seconds)}",
                markup=False,
                soft_wrap=True,
            )
    if output is not None:
        console.print(f"{output}: night {night.id}", markup=False, soft_wrap=True)


def _night(root: Path, plan: Plan, shards: int | None, machines: list[str] | None) -> NightPlan:
    """The plan shared out."""
    commit, _ = header.revision(root)
    return nights.make(
        plan,
        nights.fleet(shards, machines or ()),
        results=paths.results_dir(),
        commit=commit,
    )


def _unready(plan: Plan) -> tuple[str, ...]:
    """Why a run of it would be refused, as far as declarations and locks tell."""
    try:
        names = sorted({case.stack for case in plan.cases})
        rig.require_packages(plan.cases, {name: stacks.read(name) for name in names})
    except (DeclarationError, SetupError) as problem:
        return (f"this cannot be run yet: {problem}",)
    return ()


def _described(plan: Plan) -> dict[str, object]:
    return {
        "expected_seconds": round(planning.plan_seconds(plan), 1),
        "load_seconds": round(planning.load_seconds(plan), 1),
        "plan": plan.model_dump(mode="json"),
    }


def _table(plan: Plan) -> Table:
    table = Table(title=f"Profile {plan.profile}", title_justify="left", show_footer=True)
    for heading in ("experiment", "cases", "launches", "expected", "of it under load"):
        table.add_column(heading, justify="left" if heading == "experiment" else "right")
    rows = [
        plan.model_copy(update={"cases": tuple(many)})
        for _, many in groupby(plan.cases, key=lambda case: case.experiment)
    ]
    for row in rows:
        table.add_row(row.cases[0].experiment, *_figures(row))
    for column, text in zip(table.columns, ("all", *_figures(plan)), strict=True):
        column.footer = text
    return table


def _figures(plan: Plan) -> tuple[str, ...]:
    seconds = planning.plan_seconds(plan)
    return (
        str(len(plan.cases)),
        str(len(plan.cases) * plan.launches),
        duration(seconds),
        units.share(planning.load_seconds(plan) / seconds) if seconds else "—",
    )
