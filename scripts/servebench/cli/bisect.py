"""`servebench bisect`: which release caused a change?"""

import time
from typing import Annotated

from typer import Argument, Exit

from servebench.cli.options import (
    DEFAULT_SEED,
    JsonOption,
    ResultsOption,
    SeedOption,
    budget_option,
    budget_seconds,
    clean_up,
)
from servebench.compare.instruments import Reporter
from servebench.core.errors import HistoryError, SetupError, UsageError
from servebench.detect import bisect, conclude
from servebench.detect.duets import RealDuets, find_locks
from servebench.host import paths
from servebench.host.console import Console, errors, print_json
from servebench.host.machine import fingerprint
from servebench.host.progress import Narrator
from servebench.host.signals import interruptible
from servebench.record import change, files
from servebench.record.change import ChangeRecord


def bisect_command(
    names: Annotated[
        list[str] | None,
        Argument(
            help="Changes (results/changes/<id>.json); default: all open ones of this machine "
            "whose cause is not known.",
            show_default=False,
        ),
    ] = None,
    results: ResultsOption = None,
    budget: Annotated[str, budget_option("Time for all of them")] = "30m",
    as_json: JsonOption = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Find the release that caused a change, and write it into the change's record.

    Where several packages moved at once, mixtures of both stacks are measured against the one
    before: each duet halves what is left. The release that remains is tried alone before it is
    named; where that does not show the change, the record says so instead.

    Exit code 0: done. 1: one of them could not be tried, with the reason.
    """
    folder = results or paths.results_dir()
    here = fingerprint().id
    chosen = _chosen([change.read(path) for path in change.files(folder)], names or [], here)
    console = Console(stderr=as_json)
    root, narrator = paths.project_root(), Narrator(console)
    if not chosen:
        console.say(f"no change on this machine ({here}) whose cause is to be found")
    else:
        clean_up(console)
        files.require_room(folder)
    ends = time.monotonic() + (budget_seconds(budget) or 0.0)
    found: list[ChangeRecord] = []
    for place, record in enumerate(chosen):
        share = (ends - time.monotonic()) / (len(chosen) - place)
        try:
            with interruptible():
                duets = RealDuets(root, seed, Reporter(console), narrator)
                known = find_locks(root, record, narrator)
                mixtures = bisect.Mixtures(duets, record, known, time.monotonic() + share)
                blamed = conclude.blamed(record, bisect.search(record.packages, mixtures))
        except (HistoryError, SetupError, UsageError) as problem:
            errors().say(f"{record.id}: not tried: {problem}")
            continue
        change.save(folder, blamed)
        found.append(blamed)
        if not as_json:
            cause = blamed.culprit
            moved = cause and f"{cause.package} {cause.previous or 'nothing'} → {cause.version}"
            console.say(f"{blamed.id}: {moved or blamed.note}")
    if as_json:
        print_json([record.model_dump(mode="json") for record in found])
    if len(found) < len(chosen):
        raise Exit(1)


def _chosen(records: list[ChangeRecord], names: list[str], here: str) -> list[ChangeRecord]:
    by_id = {record.id: record for record in records}
    for name in names:
        if name not in by_id:
            raise UsageError(f"no change {name!r}; there are: {', '.join(by_id) or 'none'}")
        if (whose := by_id[name].series.machine) != here:
            raise UsageError(
                f"change {name} was seen on {whose}, and this is {here}: figures of another "
                "machine tell nothing about it; bisect it there"
            )
    if names:
        return [by_id[name] for name in names]
    return [
        record
        for record in records
        if record.series.machine == here
        and record.status == "open"
        and record.culprit is None
        # What was tried and could not be told apart says so.
        and not record.note
    ]
