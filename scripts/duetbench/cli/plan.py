"""`duetbench plan`: what would be run, and how long it would take. Starts nothing."""

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from typer import Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    SECONDS,
    SELECT,
    JsonOption,
    ProfileOption,
    SeedOption,
    repository,
    workflow_option,
)
from duetbench.cli.target_options import Options, PythonOption, placed, told, with_target
from duetbench.core import units
from duetbench.core.errors import DeclarationError, NothingMeasuredError, SetupError, UsageError
from duetbench.core.model import Plan
from duetbench.github import actions
from duetbench.host import paths
from duetbench.host.console import Console, print_json
from duetbench.host.progress import Narrator, duration
from duetbench.measure import runner, testbed
from duetbench.project import anchor as declared
from duetbench.project import run_plan as planning
from duetbench.project import stacks
from duetbench.project.duration import expected
from duetbench.project.experiments import load_experiments
from duetbench.store import files
from duetbench.trend import nights


def _from_environment(name: str) -> dict[str, Any]:
    return {"envvar": f"DUETBENCH_{name}", "show_envvar": False}


@with_target
def plan_command(
    profile: ProfileOption = "quick",
    select: Annotated[
        list[str] | None, Option("--select", help=SELECT, **_from_environment("SELECT"))
    ] = None,
    launches: Annotated[
        int | None,
        Option("--launches", min=1, help="Launches per case.", **_from_environment("LAUNCHES")),
    ] = None,
    shards: Annotated[
        int | None,
        workflow_option(
            "--shards",
            min=1,
            envvar="DUETBENCH_SHARDS",
            help="Share the cases out over so many machines.",
        ),
    ] = None,
    machines: Annotated[
        list[str] | None,
        workflow_option(
            "--machine",
            envvar="DUETBENCH_MACHINES",
            help="Id of a machine (`duetbench doctor`) that a shard is for; repeatable. Cases "
            "stay with the machine that has measured them. Without: whichever takes a shard.",
        ),
    ] = None,
    seconds: Annotated[
        float | None, Option("--seconds", min=0.5, help=SECONDS, **_from_environment("SECONDS"))
    ] = None,
    output: Annotated[
        Path | None,
        workflow_option("--output", "-o", help="Write the plan of the night, for `run --plan`."),
    ] = None,
    github_output: Annotated[
        bool,
        workflow_option(
            "--github-output",
            help="Hand the shards to a workflow: matrix, shards, night and sha256 (of the "
            "plan) in GITHUB_OUTPUT.",
        ),
    ] = False,
    cases: Annotated[bool, Option("--cases", help="List every case.")] = False,
    python: PythonOption = None,
    as_json: JsonOption = False,
    seed: SeedOption = DEFAULT_SEED,
    *,
    options: Options,
) -> None:
    """Show what a run would do: cases, launches and expected time per experiment.

    With --output it is the plan of a night, which plays its cases against the anchor as well: its
    shards are balanced by what launches have taken in the recorded runs (`duetbench ci history
    pull` fetches those of earlier nights), cases stay with their machine, and one calibration case
    is in every shard.
    """
    if github_output and output is None:
        raise UsageError("--github-output: the shards need their plan, too: add --output FILE")
    console = Console(quiet=as_json)
    root = repository(console)
    target, narrator = told(root, options, [python] if python else []), Narrator(console)
    with placed(root, target, narrator) as place:
        experiments = load_experiments(place)
        plan = planning.make_plan(profile, list(select or ()), launches, seed, experiments)
        if seconds is not None:
            plan = planning.lasting(plan, seconds)
        if not plan.cases:
            raise NothingMeasuredError(f"profile {profile} has no cases: there is nothing to plan")
        unready = _unready(plan, place)
    fleet = nights.fleet(shards, machines or ())
    commit, _ = runner.revision(root)
    anchor, duets = _anchor(root, plan, of_night=output is not None)
    night = nights.make(
        plan, fleet, results=paths.results_dir(), commit=commit, anchor=anchor, duets=duets
    )
    if output is not None:
        files.write(output, night)
    if github_output:
        actions.outputs(nights.outputs(night))
    if as_json:
        rows = [
            {
                "expected_seconds": round(planning.plan_seconds(shard.plan), 1),
                "load_seconds": round(planning.load_seconds(shard.plan), 1),
                "anchor_seconds": round(sum(duets.get(case.id, 0) for case in shard.plan.cases), 1),
                "plan": shard.plan.model_dump(mode="json"),
            }
            for shard in night.shards
        ]
        print_json({"shards": rows})
        return
    console.print(_table(plan))
    if cases:
        for case in plan.cases:
            taken = expected(case, profile).total
            console.say(f"{case.id}  {units.seconds(taken)}")
    for note in (*unready, *night.notes):
        console.say(f"note: {note}")
    if len(night.shards) > 1 or output is not None:
        for shard in night.shards:
            where = f" on {shard.machine}" if shard.machine else ""
            many = len(shard.plan.cases)
            against = sum(duets.get(case.id, 0) for case in shard.plan.cases)
            console.say(
                f"shard {shard.number} of {len(night.shards)}{where}: {many} "
                f"case{'s' * (many != 1)}, {duration(shard.expected_seconds)}"
                + (f", of which {duration(against)} against the anchor" if against else "")
            )
    if output is not None:
        console.say(f"{output}: night {night.id}")


def _anchor(root: Path, plan: Plan, *, of_night: bool) -> tuple[str | None, dict[str, float]]:
    """The anchor of a night, if one is declared, and what each case's duets with it take, in s."""
    if not of_night or not declared.place(root).is_file():
        return None, {}
    # Other plans do not wait for numpy.
    from duetbench.judge import inprocess  # noqa: PLC0415
    from duetbench.trend import anchored  # noqa: PLC0415

    suites = inprocess.available([root])
    return declared.load(root).name, anchored.expected(plan.cases, suites, anchored.NIGHTLY)


def _unready(plan: Plan, root: Path) -> tuple[str, ...]:
    """Why a run of it would be refused, as far as declarations and locks tell."""
    try:
        names = sorted({case.stack for case in plan.cases})
        testbed.require_packages(plan.cases, {name: stacks.read(name, root) for name in names})
    except (DeclarationError, SetupError) as problem:
        return (f"this cannot be run yet: {problem}",)
    return ()


def _table(plan: Plan) -> Table:
    table = Table(title=f"Profile {plan.profile}", title_justify="left", show_footer=True)
    for heading in ("experiment", "cases", "launches", "expected", "of it under load"):
        table.add_column(heading, justify="left" if heading == "experiment" else "right")
    for name, many in groupby(plan.cases, key=lambda case: case.experiment):
        table.add_row(name, *_figures(plan.model_copy(update={"cases": tuple(many)})))
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
