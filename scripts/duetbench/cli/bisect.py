"""`duetbench bisect`: which release caused a change?"""

import glob
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

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
from duetbench.cli.verbs import hook
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.host.console import Console, Narrator, errors, print_json
from duetbench.host.machine import fingerprint
from duetbench.judge import revisions, targets
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.project.project import Project
from duetbench.show.change import cause_lines, narrowed_line
from duetbench.store import files
from duetbench.store.change import Change
from duetbench.store.kinds import find_comparison
from duetbench.store.points import Points
from duetbench.trend import bisect
from duetbench.trend.culprits import TIME_IS_UP, blame
from duetbench.trend.releases import axes, narrow


@with_target
def bisect_command(
    names: Annotated[
        list[str] | None,
        Argument(
            help="Changes, or a comparison; default: changes with no cause.", show_default=False
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
    budget: Annotated[str, budget_option("Time for all searches")] = "30m",
    as_json: JsonOption = False,
    wait: WaitOption = None,
    python: PythonOption = None,
    *,
    options: Options,
) -> None:
    """Find the release that caused a change, and write it into the change's record.

    $ duetbench bisect --lock uv.lock@main uv.lock --app shop.main:app --path /items/7
    $ duetbench bisect COMPARISON --budget 20m

    If several packages changed at once, duets compare the stack before with a lock in which half of
    them have changed. After every duet, a test decides whether that lock has all of the effect or
    none: each answer halves the candidates. Fresh duets measure the last candidate alone before it
    is named. If the other packages still have an effect, the search continues among them. Packages
    that cannot be installed apart are named as one. A change without an attribution gets one.

    Every duet is saved at once: the same command continues a search that was interrupted, or ran
    out of time.

    Exit code 0: done. 1: a change could not be searched, with the reason.
    """
    console = Console(stderr=as_json)
    project, narrator = Project.here(stand_in=options["app"] is None), Narrator(console)
    folder, names = results or project.results, names or []
    limit = budget_seconds(budget) or 0.0
    if names and lock:
        raise UsageError("expected names or --lock, found both: choose one")
    comparison = find_comparison(names[0], folder) if len(names) == 1 else None
    changes = {change.id: change for change in files.read_all(Change, folder) if change.confirmed}
    if options["app"] or lock or comparison or not changes.keys() >= {*names}:
        project = with_options(project, options, [python] if python else [])
    if not (lock or comparison):
        if project.target:
            raise UsageError("expected what to search: --lock BASE HEAD, or a comparison")
        if select:
            raise UsageError("--select: a change names its own case: leave it out")
        chosen = _chosen(changes, names)
        with machine(wait, console.say):
            _search_changes(project, chosen, folder, limit, console, as_json=as_json)
        return
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


def _chosen(changes: dict[str, Change], names: list[str]) -> list[Change]:
    this_machine = fingerprint().id
    for name in names:
        if name not in changes:
            raise UsageError(f"no change {name!r}; there are: {', '.join(changes) or 'none'}")
        if (other := changes[name].measured_on) != this_machine:
            raise UsageError(
                f"change {name} was confirmed on {other}, and this is {this_machine}: another "
                "machine's figures do not apply here; bisect it there"
            )
    if names:
        return [changes[name] for name in names]
    return [
        record
        for record in changes.values()
        if record.measured_on == this_machine
        and record.status == "open"
        # The note of a search that separated nothing says so.
        and ((record.culprit is None and not record.note) or TIME_IS_UP in record.note)
    ]


def _search_changes(
    project: Project,
    chosen: list[Change],
    folder: Path,
    limit: float,
    console: Console,
    *,
    as_json: bool,
) -> None:
    """Search for the causes of changes, one after another, and save each at once."""
    if not chosen:
        console.say(f"no change on this machine ({fingerprint().id}) needs a search for its cause")
    else:
        clean_up(console)
        files.require_room(folder)
    reporter, ends = Reporter(console), time.monotonic() + limit
    points = files.read_all(Points, folder, [])
    measured = axes(sorted(points, key=lambda point: (point.started, point.id)))
    searched: list[Change] = []
    for place, record in enumerate(chosen):
        share = (ends - time.monotonic()) / (len(chosen) - place)
        try:
            with resumable():
                task = bisect.of_record(project, record, reporter)
                cause = bisect.find(project, task, reporter, share, DEFAULT_SEED, Real)
        except (HistoryError, SetupError, UsageError) as problem:
            errors().say(f"{record.id}: not searched: {problem}")
            continue
        blamed = blame(record, cause)
        blamed = next(iter(narrow([blamed], measured)), blamed)
        files.save(folder, blamed)
        searched.append(blamed)
        hook("why:explain_change")(project, blamed, folder, reporter)
        if not as_json:
            more = (narrowed_line(blamed.narrowed),) if blamed.narrowed else ()
            console.say(f"{blamed.id}: {'; '.join((*cause_lines(cause), *more))}")
    if as_json:
        print_json([record.model_dump(mode="json") for record in searched])
    if len(searched) < len(chosen):
        raise Exit(1)
