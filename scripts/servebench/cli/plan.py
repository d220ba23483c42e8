"""`servebench plan`: what would be run, and how long it would take. Starts nothing."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from servebench import plan as planning
from servebench import units
from servebench.cli.options import (
    DEFAULT_SEED,
    LaunchesOption,
    ProfileOption,
    SeedOption,
    SelectOption,
)
from servebench.model import Plan
from servebench.progress import duration


def plan_command(
    profile: ProfileOption = "quick",
    select: SelectOption = None,
    launches: LaunchesOption = None,
    seed: SeedOption = DEFAULT_SEED,
    shards: Annotated[
        int, typer.Option("--shards", min=1, help="Share the cases out over so many machines.")
    ] = 1,
    cases: Annotated[bool, typer.Option("--cases", help="List every case.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan of each shard as JSON.")
    ] = False,
) -> None:
    """Show what a run would do: cases, launches and expected time per experiment."""
    plan = planning.make_plan(profile, list(select or ()), launches, seed)
    parts = planning.shard(plan, shards)
    console = Console(highlight=False)
    if as_json:
        console.print_json(json.dumps({"shards": [_described(part) for part in parts]}))
        return
    console.print(_table(plan))
    if cases:
        for case in plan.cases:
            seconds = planning.expected_seconds(case, profile)
            console.print(f"{case.id}  {units.seconds(seconds)}", soft_wrap=True, markup=False)
    if shards > 1:
        for number, part in enumerate(parts, start=1):
            passed = duration(planning.plan_seconds(part))
            console.print(f"shard {number} of {len(parts)}: {len(part.cases)} cases, {passed}")


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
