"""`observatory anchor`: the frozen stack that all trend points are measured against."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Exit, Option, Typer

from duetbench.app import revisions
from duetbench.cli.options import ResultsOption, budget_option, budget_seconds, clean_up
from duetbench.core.errors import UsageError
from duetbench.host import files, git, machine
from duetbench.host.console import Console
from duetbench.host.signals import InterruptedRun
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.preparation import Scope
from duetbench.judge.session import DEFAULT_SEED
from observatory.cli.options import (
    PlanOption,
    ProfileOption,
    SeedOption,
    SelectOption,
    ShardOption,
)
from observatory.matrix.anchor import Anchor, anchor_file, anchor_text, load_anchor
from observatory.matrix.checkout import Checkout
from observatory.show.run_text import print_points
from observatory.store import points
from observatory.store.night import assignment
from observatory.store.points import Points
from observatory.trend import anchored
from observatory.trend.anchored import DUET_PROTOCOL, NIGHTLY, Precision

anchor_app = Typer(
    no_args_is_help=True,
    help="The frozen stack that trends are measured against.",
    rich_markup_mode=None,
)

RENEWED: Final = Precision(se=0.001, least=20, most=60, seconds=160.0)
"""For the ratio of a new anchor to the old one, which enters all later points: ± 0.2 to 0.3 % of a
quick case, in 4 minutes of it."""


@anchor_app.command("run")
def run_command(
    select: SelectOption = None,
    profile: ProfileOption = "nightly",
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    plan_file: PlanOption = None,
    shard: ShardOption = None,
    results: ResultsOption = None,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Measure this checkout against the anchor by duets: a point of every case's trend.

    $ observatory anchor run --select 'asgi-wsgi/*' --budget 20m
    $ observatory anchor run --plan night.json --shard 1 --results measured

    A case gets 5 duets, and more until its ratio's standard error is 0.5 %, at most 20. A case
    whose duets take 8 s or longer, because it waits or is paced, gets 3 to 5. If the time is up
    earlier, intervals are wider. If it is too short for 3 duets of every case, cases take turns by
    --seed, which a night's plan sets to the day.

    Exit code 0: every case has a point; with --plan also if some have none, since the reason is a
    result. 1: some have none. 3: none has.
    """
    project = Checkout.here()
    root, folder = project.root, results or project.results
    assigned = assignment(plan_file, shard)
    if assigned is not None and select:
        raise UsageError("--plan selects the cases: leave --select out")
    files.require_room(folder)
    console = Console()
    clean_up(console)
    globs, commit = select or [], None
    if assigned is not None:
        assigned.require(machine.fingerprint().id, git.revision(root)[0])
        # The commit's name: a machine's other user can write files, but not what git reads by it.
        commit = assigned.commit and assigned.commit[:12]
        profile, globs = assigned.plan.profile, [case.id for case in assigned.plan.cases]
        seed = assigned.plan.seed

    def keep(measured: Points) -> Path:  # what a sandbox hands out, whatever ends it
        marks = {} if assigned is None else assigned.marks(measured.id)
        return files.save(folder, measured.model_copy(update=marks))

    measured, interruption = _measure(
        replace(project, profile=profile), load_anchor(root), globs, console,
        precision=NIGHTLY, seed=seed, limit=budget_seconds(budget), commit=commit, keep=keep,
    )  # fmt: skip
    _show(keep(measured), measured, console)
    if interruption is not None:
        raise interruption
    if measured.missing and (assigned is None or not measured.cases):
        raise Exit(1 if measured.cases else 3)


@anchor_app.command("renew")
def renew_command(
    name: Annotated[str, Argument(help="Name of the new anchor, e.g. 2027-01.")],
    budget: Annotated[str | None, budget_option("Time for its duets", "Default: none.")] = None,
    fresh: Annotated[
        bool, Option("--fresh", help="Measure nothing: the old anchor no longer starts.")
    ] = False,
    results: ResultsOption = None,
) -> None:
    """Make the commit of this checkout the anchor, and measure it against the one before.

    $ observatory anchor renew 2027-11 --results renewed
    $ observatory anchor renew 2027-11 --fresh

    Its ratios to the old anchor continue the series. If --budget ends first, or the old anchor
    cannot serve a case any more, that case's series starts again; with --fresh, all do. Without an
    old anchor, nothing is measured.

    Exit code 1: it is the anchor now, but some series start again.
    """
    project = Checkout.here("nightly")
    root, folder = project.root, results or project.results
    console = Console()
    state = revisions.working(root)
    if state.dirty:
        raise UsageError("expected a checkout without changes, found some: commit them first")
    before = load_anchor(root) if anchor_file(root).is_file() else None
    if before is not None and before.name == name:
        raise UsageError(f"{name!r} is the name of the present anchor: choose another one")
    renewed = Anchor(
        name=name, commit=state.commit, since=datetime.now(UTC).date(), protocol=DUET_PROTOCOL,
        previous=before.name if before and not fresh else None,
        canary=before.canary if before else None,
        interpreters={k: spec.version for k, spec in project.configuration.interpreters.items()},
        stacks={stack: project.lock(stack).digest for stack in project.stacks},
    )  # fmt: skip
    chained = True
    if before is not None and not fresh:
        files.require_room(folder)
        clean_up(console)
        renewal, interruption = _measure(
            project, before.model_copy(update={"canary": None}), (), console,
            precision=RENEWED, seed=DEFAULT_SEED, limit=budget_seconds(budget),
        )  # fmt: skip
        if interruption is not None:
            raise interruption
        update = {"origin": "renewal", "label": f"{points.RENEWED}{name}"}
        renewal = renewal.model_copy(update=update)
        _show(files.save(folder, renewal), renewal, console)
        chained = not renewal.missing
    files.replace(anchor_file(root), anchor_text(renewed).encode())
    console.say(f"{anchor_file(root)}: commit it; later nights are measured against {name}")
    if not chained:
        raise Exit(1)


def _measure(
    project: Checkout,
    anchor: Anchor,
    globs: Sequence[str],
    console: Console,
    **how: Any,
) -> tuple[Points, InterruptedRun | None]:
    reporter = Reporter(console)
    with revisions.copies() as copies:
        scope = Scope(tuple(globs), reporter, copies)
        return anchored.measure(project, anchor, scope, reporter, Real, **how)


def _show(path: Path, measured: Points, console: Console) -> None:
    print_points(console, measured)
    console.say(f"saved: {path}")
