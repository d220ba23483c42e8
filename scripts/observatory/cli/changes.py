"""`observatory bisect`: which releases caused the changes of this machine's nights?"""

import glob
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from duetbench.cli.options import (
    JsonOption,
    ResultsOption,
    budget_option,
    budget_seconds,
    clean_up,
    machine,
    resumable,
)
from duetbench.core.change import Cause
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.host import files
from duetbench.host.console import Console, Narrator, errors, print_json
from duetbench.host.machine import fingerprint
from duetbench.judge import causes
from duetbench.judge.bisection import TIME_IS_UP
from duetbench.judge.causes import SearchTask
from duetbench.judge.duet_loop import Reporter
from duetbench.report.change import cause_lines
from observatory.matrix.checkout import Checkout
from observatory.store import kinds
from observatory.store.change import Change
from observatory.trend import confirm


def bisect_command(
    names: Annotated[
        list[str] | None,
        Argument(help="Changes; default: all with no cause.", show_default=False),
    ] = None,
    results: ResultsOption = None,
    budget: Annotated[str, budget_option("Time for all searches")] = "30m",
    as_json: JsonOption = False,
) -> None:
    """Find the releases that caused changes, and write them into the changes' records.

    $ observatory bisect
    $ observatory bisect CHANGE --budget 20m

    Searches as `duetbench bisect` does.

    Exit code 0: done. 1: a change could not be searched, with the reason.
    """
    console = Console(stderr=as_json)
    project = Checkout.here()
    folder, limit = results or project.results, budget_seconds(budget) or 0.0
    changes = {change.id: change for change in kinds.read_all(Change, folder) if change.confirmed}
    chosen = _chosen(changes, names or [])
    with machine(say=console.say):
        _search_changes(project, chosen, folder, limit, console, as_json=as_json)


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
        and ((record.culprit is None and not record.unsettled) or TIME_IS_UP in record.unsettled)
    ]


def _search_changes(
    project: Checkout,
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
    searched: list[Change] = []
    for place, record in enumerate(chosen):
        share = (ends - time.monotonic()) / (len(chosen) - place)
        try:
            with resumable():
                task = task_of(project, record, reporter)
                here = project.with_case(record.series.case)
                cause = causes.find(here, here, task, reporter, share)
        except (HistoryError, SetupError, UsageError) as problem:
            errors().say(f"{record.id}: not searched: {problem}")
            continue
        blamed = blame(record, cause)
        files.save(folder, blamed)
        searched.append(blamed)
        if not as_json:
            console.say(f"{blamed.id}: {'; '.join(cause_lines(cause))}")
    if as_json:
        print_json([record.model_dump(mode="json") for record in searched])
    if len(searched) < len(chosen):
        raise Exit(1)


def task_of(checkout: Checkout, record: Change, narrator: Narrator) -> SearchTask:
    """Return the search for the release behind a change; raises as `confirm.find_locks`."""
    base, head = confirm.find_locks(checkout, record, narrator)
    case, metric = glob.escape(record.series.case), record.series.metric
    return SearchTask(record.base.stack, base, head, case, metric)


def blame(record: Change, cause: Cause) -> Change:
    """Return the record with what a search found, instead of what an earlier one did."""
    return record.model_copy(
        update={
            "culprit": cause.shares[0].releases[0] if cause.shares else None,
            "shares": cause.shares,
            "suspects": cause.suspects,
            "unsettled": cause.reason,
        }
    )
