"""`observatory plan`, `measure` and `anchor`: share a night's cases out, and measure a share."""

import json
import math
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from rich.text import Text

from duetbench.ci import actions
from duetbench.cli import run as of_tool
from duetbench.cli.options import (
    LaunchesOption,
    budget_option,
    budget_seconds,
    clean_up,
    machine,
    repository,
)
from duetbench.core.errors import NothingMeasuredError
from duetbench.core.units import utc_now
from duetbench.host import files, git
from duetbench.host.console import Console, Narrator
from duetbench.judge.duet_loop import Reporter
from duetbench.load import runner
from observatory.cli.options import OUTPUT, ProfileOption, ResultsOption, SelectOption
from observatory.matrix.checkout import Checkout
from observatory.matrix.published import load_published
from observatory.matrix.sides import unmeasurable
from observatory.show import findings
from observatory.store import night as nights
from observatory.store.night import NightPlan, assignment
from observatory.store.points import Points
from observatory.trend import anchored
from observatory.trend.anchored import Effort, Wanted

_PLAN: Final = Parameter(
    "--plan", metavar="FILE", help="Measure this machine's shard of a night (`observatory plan`)."
)


def plan_command(
    *,
    output: Annotated[Path, OUTPUT],
    profile: ProfileOption = "nightly",
    select: Annotated[SelectOption, Parameter(env_var="DUETBENCH_SELECT")] = (),
) -> None:
    """Plan a night: a shard per machine of `tool.observatory.fleet`, or one for any machine.

    $ observatory plan --output night.json
    $ observatory plan --output night.json --select 'asgi-wsgi/*'

    A machine launches the shard's cases (`observatory measure`). If an anchor is declared, it also
    measures them against it (`observatory anchor --plan`). Each day has another order, so that
    a night that ends early does not always lack the same cases.

    Args:
        output: Write the night's plan, for `observatory measure`.
    """
    console = Console()
    checkout = Checkout(repository(console), profile)
    root = checkout.root
    day = datetime.now(UTC).toordinal()
    plan = checkout.plan(select, seed=day)
    if not plan.cases:
        raise NothingMeasuredError(f"profile {profile} has no cases: there is nothing to plan")
    shards = nights.share_out(plan, checkout.settings.fleet)
    commit, _ = git.revision(root)
    anchor = checkout.anchor.name if checkout.anchor_file.is_file() else None
    name = files.result_id(utc_now(), plan.profile, commit)
    night = NightPlan(id=name, commit=commit, anchor=anchor, shards=shards)
    files.write(output, night)
    include = [{"shard": s.number, "runner": s.machine or nights.RUNNER} for s in shards]
    matrix = json.dumps({"include": include}, separators=(",", ":"))
    actions.outputs({"matrix": matrix})
    for shard in shards:
        where = f" on {shard.machine}" if shard.machine else ""
        console.say(f"shard {shard.number} of {len(shards)}{where}: {len(shard.plan.cases)} cases")
    console.say(f"{output}: night {night.id}")


def measure_command(
    *,
    profile: ProfileOption = "quick",
    select: SelectOption = (),
    launches: LaunchesOption = 1,
    results: ResultsOption = None,
    file: Annotated[Path | None, _PLAN] = None,
) -> int:
    """Measure experiments: launch each case's server, load it, and record the figures.

    $ observatory measure --select 'asgi-wsgi/*/py3.14t/*' --launches 3
    $ observatory measure --plan night.json --results measured

    What was measured is shown beside what was published. With --plan it is this machine's share of
    a night. The run file is saved after every launch. A failed launch is a result, too, with its
    reason. Exit code 0: all launches were valid, or it is a night. 1: some failed, the others are
    recorded. 3: none was usable.
    """
    console = Console()
    checkout = Checkout(repository(console), profile)
    night, shard = assignment(file) if file else (None, None)
    plan = shard.plan if shard else checkout.plan(select, launches)
    folder = results or checkout.results
    narrator = Narrator(console)
    with machine(None, console):
        absent = unmeasurable(plan.cases, checkout, narrator)
        begin = partial(night.mark, number=shard.number) if night and shard else lambda run: run
        run, path = runner.launch_all(plan, checkout, folder, console, begin=begin, missing=absent)
    if not night:
        console.print(Text(findings.write_run(run, load_published(checkout.root))), soft_wrap=True)
    return 1 if of_tool.report(run, path, console) and not night else 0


def anchor_command(
    *,
    file: Annotated[Path, _PLAN],
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    results: ResultsOption = None,
) -> int:
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

    def save(points: Points) -> Path:  # what a sandbox hands out, whatever ends it
        return files.save(folder, night.mark(points, shard.number))

    label = "the checkout" if dirty or not commit else commit[:8]
    effort = Effort(seed=plan.seed, limit=budget_seconds(budget) or math.inf)
    tonight = Wanted(label, datetime.now(UTC), checkout, commit)
    cases = [case.id for case in plan.cases]
    (points,) = anchored.measure(checkout, [tonight], cases, Reporter(console), effort, keep=save)
    console.say(f"{points}, in {save(points)}")
    return 0 if points.cases else 3
