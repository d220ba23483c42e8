"""`duetbench bisect`: which release caused a change?"""

import glob
from typing import Annotated

from typer import Argument, Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    JsonOption,
    ResultsOption,
    WaitOption,
    budget_option,
    budget_seconds,
    clean_up,
    machine,
    resumable,
)
from duetbench.cli.sides import LockOption
from duetbench.cli.target_options import Options, PythonOption, with_options, with_target
from duetbench.core.errors import UsageError
from duetbench.host.console import Console, Narrator, print_json
from duetbench.judge import revisions, targets
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.project.project import Project
from duetbench.show.change import cause_lines
from duetbench.store.result_files import find_comparison
from duetbench.trend import bisect


@with_target
def bisect_command(
    name: Annotated[
        str | None,
        Argument(
            metavar="[COMPARISON]",
            help="A comparison: its id, part of it, or its file.",
            show_default=False,
        ),
    ] = None,
    lock: LockOption = None,
    select: Annotated[
        str | None,
        Option(
            "--select",
            metavar="GLOB",
            help="The case to measure; default: the clearest change.",
        ),
    ] = None,
    results: ResultsOption = None,
    budget: Annotated[str, budget_option("Time for the search")] = "30m",
    as_json: JsonOption = False,
    wait: WaitOption = None,
    python: PythonOption = None,
    *,
    options: Options,
) -> None:
    """Find the release that caused a change.

    $ duetbench bisect --lock uv.lock@main uv.lock --app shop.main:app --path /items/7
    $ duetbench bisect COMPARISON --budget 20m

    If several packages changed at once, duets compare the stack before with a lock in which half of
    them have changed. After every duet, a test decides whether that lock has all of the effect or
    none: each answer halves the candidates. Fresh duets measure the last candidate alone before it
    is named. If the other packages still have an effect, the search continues among them. Packages
    that cannot be installed apart are named as one.

    Every duet is saved at once: the same command continues a search that was interrupted, or ran
    out of time.
    """
    console = Console(stderr=as_json)
    project, narrator = Project.here(stand_in=options["app"] is None), Narrator(console)
    limit = budget_seconds(budget) or 0.0
    if name and lock:
        raise UsageError("expected a comparison or --lock, found both: choose one")
    comparison = find_comparison(name, results or project.results) if name else None
    if name and comparison is None:
        raise UsageError(f"no comparison has the name {name!r}: give its id, or its file")
    project = with_options(project, options, [python] if python else [])
    if not (lock or comparison):
        raise UsageError("expected what to search: --lock BASE HEAD, or a comparison")
    clean_up(console)
    with machine(wait, console.say), revisions.copies() as copies:
        place = project
        if project.target:
            earlier, later = lock or (None, None)
            place = targets.working(project, narrator, copies, later, other=earlier)
        if comparison is not None:
            task = bisect.of_comparison(place, comparison, select, narrator)
        elif lock and project.target:
            # All cases of a target have the same packages, so the search needs only one.
            select = select or glob.escape(place.cases("quick")[0].id)
            base = targets.other_text(project, place, narrator, copies, lock=lock[0])
            task = bisect.of_locks(place, select, base, targets.text_of(place))
        elif lock and select:
            task = bisect.of_locks(
                project, select, *(revisions.lock_text(project.root, n) for n in lock)
            )
        else:
            raise UsageError("expected --select with the case to measure")
        with resumable():
            cause = bisect.find(place, task, Reporter(console), limit, DEFAULT_SEED, Real)
    if as_json:
        print_json({"series": task.series.model_dump(), **cause.model_dump(mode="json")})
        return
    for line in cause_lines(cause):
        console.say(line)
