"""`duetbench bisect`: which release caused a change?"""

import glob
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    JsonOption,
    ResultsOption,
    SeedOption,
    budget_option,
    budget_seconds,
    clean_up,
    day,
    locked,
    tell,
)
from duetbench.cli.target_options import Options, PythonOption, ready, told, with_target
from duetbench.cli.verbs import hook
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.host import paths
from duetbench.host.console import Console, errors, print_json
from duetbench.host.machine import fingerprint
from duetbench.host.progress import Narrator
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.judge import revisions, targets
from duetbench.judge.instruments import Reporter
from duetbench.judge.targets import Told
from duetbench.project.experiments import load_experiments
from duetbench.show.change import by_release, causes
from duetbench.store import change, comparison_store, files
from duetbench.store import points as record_points
from duetbench.store.change import ChangeRecord
from duetbench.store.comparison import Comparison
from duetbench.trend.bisect import searches
from duetbench.trend.bisect.cause import TIME_IS_UP, blame
from duetbench.trend.bisect.mixtures import Sought
from duetbench.trend.narrowing import narrowed
from duetbench.trend.releases import axes


@with_target
def bisect_command(
    names: Annotated[
        list[str] | None,
        Argument(
            help="Changes (results/changes/<id>.json); default: all open ones of this machine "
            "whose cause is not known. Or a comparison's id or file. Or, of an application of "
            "yours, a revision, BASE or BASE HEAD, whose packages are searched.",
            show_default=False,
        ),
    ] = None,
    from_: Annotated[
        str | None, Option("--from", metavar="DATE", help="Search between the stacks of two dates.")
    ] = None,
    to: Annotated[str | None, Option("--to", metavar="DATE", help="The later date.")] = None,
    lock: Annotated[
        tuple[str, str] | None,
        Option(
            "--lock",
            metavar="BASE HEAD",
            help="Search between two lock files of a stack or project; FILE@REV of a revision.",
        ),
    ] = None,
    select: Annotated[
        str | None,
        Option(
            "--select",
            help="The case that is played, an id or glob; default, of a comparison: what moved "
            "most surely.",
        ),
    ] = None,
    results: ResultsOption = None,
    budget: Annotated[str, budget_option("Time for all of them")] = "30m",
    as_json: JsonOption = False,
    python: PythonOption = None,
    seed: SeedOption = DEFAULT_SEED,
    *,
    options: Options,
) -> None:
    """Find the release that caused a change, and write it into the change's record.

    Where several packages moved at once, mixtures of both stacks are played against the one
    before, after every duet with a test of "none of it" against "all of it": each answer halves
    what is left. What remains is played alone before it is named, with what it does by itself; if
    the rest of the packages still do something, the search goes on among them. Packages that cannot
    be installed apart are named as one. A change whose functions are not known gets an attribution.

    Duets are kept as they are played: the same command goes on where one was interrupted, or its
    time was up.

    Exit code 0: done. 1: one of them could not be tried, with the reason.
    """
    folder = results or paths.results_dir()
    console = Console(stderr=as_json)
    root, narrator = paths.project_root(stand_in=options["app"] is None), Narrator(console)
    limit = budget_seconds(budget) or 0.0
    given = {"--from and --to": from_ or to, "--lock": lock, "names": names}
    if len(found := [name for name, value in given.items() if value]) > 1:
        raise UsageError(f"{' and '.join(found)} were given: choose one")
    comparison = _comparison(names, folder)
    target = _target(root, options, python, folder, names or [], comparison, lock)
    if not (from_ or to or lock or comparison or target):
        if select:
            raise UsageError("--select: a change says itself which case is played")
        _changes(names or [], folder, limit, seed, console, as_json=as_json)
        return
    clean_up(console)
    ready(target, narrator)
    with ExitStack() as until_found:
        if target is not None:
            copies = until_found.enter_context(revisions.copies(narrator))
            sought, root = _of_target(
                target, names or [], lock, comparison, select, narrator, copies
            )
        elif comparison is not None:
            sought = searches.of_comparison(root, comparison, select, narrator)
        elif select is None:
            raise UsageError("expected --select with the case that is to be played")
        elif lock is not None:
            sought = searches.of_locks(root, select, *(locked(root, name) for name in lock))
        elif from_ and to:
            days = day(from_, "--from"), day(to, "--to")
            sought = searches.of_dates(root, select, days, narrator)
        else:
            raise UsageError("expected both --from and --to")
        with _interruptible():
            cause = searches.find(root, sought, Reporter(console), limit, seed, target)
    tell(
        causes(cause),
        lambda: {"series": sought.series.model_dump(), **cause.model_dump(mode="json")},
        as_json=as_json,
    )


def _target(
    root: Path,
    options: Options,
    python: str | None,
    folder: Path,
    names: list[str],
    comparison: Comparison | None,
    lock: tuple[str, str] | None,
) -> Told | None:
    """The target whose packages are searched; None: it is a change's, or a stack's."""
    known = {path.stem for path in change.files(folder)}
    if not options["app"] and (set(names) <= known and comparison is None and lock is None):
        return None
    found = told(root, options, [python] if python else [])
    if found is not None and comparison is None and lock is None and not 1 <= len(names) <= 2:
        raise UsageError(
            f"expected what to search: a revision as in `duetbench bisect HEAD~1 --app "
            f"{found.target.app}`, --lock BASE HEAD, or a comparison; found "
            f"{' '.join(names) or 'nothing'}"
        )
    return found


def _of_target(
    found: Told,
    names: list[str],
    lock: tuple[str, str] | None,
    comparison: Comparison | None,
    select: str | None,
    narrator: Narrator,
    copies: Path,
) -> tuple[Sought, Path]:
    """What is searched for a target, and the copy that is played."""
    after = lock[1] if lock else None
    root = targets.working(found, narrator, copies, after)
    if comparison is not None:
        return searches.of_comparison(root, comparison, select, narrator), root
    texts = [
        targets.other_text(found, root, narrator, copies, lock=lock[0])
        if lock
        else targets.other_text(found, root, narrator, copies, revision=name)
        for name in ([""] if lock else names)
    ]
    base, head = texts if len(texts) == 2 else (*texts, targets.text_of(root))
    chosen = select or glob.escape(_only(root))
    return searches.of_locks(root, chosen, base, head), root


def _only(root: Path) -> str:
    """The first case of a copy: all have the same packages, and one is enough to search with."""
    return load_experiments(root)[0].cases["quick"][0].id


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        with interruptible():
            yield
    except InterruptedRun as interruption:
        interruption.advice = "all duets are kept; the same command goes on"
        raise


def _comparison(names: list[str] | None, folder: Path) -> Comparison | None:
    """The comparison that is named, if it is one."""
    if not names or len(names) > 1:
        return None
    path = Path(names[0]) if Path(names[0]).is_file() else comparison_store.find(names[0], folder)
    return None if path is None else files.read(Comparison, path)


def _changes(
    names: list[str], folder: Path, limit: float, seed: int, console: Console, *, as_json: bool
) -> None:
    here = fingerprint().id
    root, reporter = paths.project_root(), Reporter(console)
    chosen = _chosen([change.read(path) for path in change.files(folder)], names, here)
    if not chosen:
        console.say(f"no change on this machine ({here}) whose cause is to be found")
    else:
        clean_up(console)
        files.require_room(folder)
        points = files.attempted(record_points.found(folder), record_points.read, [])
        measured = axes(sorted(points, key=lambda one: (one.started, one.id)))
    ends = time.monotonic() + limit
    found: list[ChangeRecord] = []
    for place, record in enumerate(chosen):
        share = (ends - time.monotonic()) / (len(chosen) - place)
        try:
            with _interruptible():
                sought = searches.of_record(root, record, reporter)
                cause = searches.find(root, sought, reporter, share, seed)
        except (HistoryError, SetupError, UsageError) as problem:
            errors().say(f"{record.id}: not tried: {problem}")
            continue
        blamed = blame(record, cause)
        blamed = next(iter(narrowed([blamed], measured)), blamed)
        change.save(folder, blamed)
        found.append(blamed)
        hook("explain_change")(root, blamed, folder, reporter)
        if not as_json:
            more = (by_release(blamed.narrowed),) if blamed.narrowed else ()
            console.say(f"{blamed.id}: {'; '.join((*causes(cause), *more))}")
    if as_json:
        print_json([record.model_dump(mode="json") for record in found])
    if len(found) < len(chosen):
        raise Exit(1)


def _chosen(records: list[ChangeRecord], names: list[str], here: str) -> list[ChangeRecord]:
    by_id = {record.id: record for record in records}
    for name in names:
        if name not in by_id:
            raise UsageError(f"no change {name!r}; there are: {', '.join(by_id) or 'none'}")
        if (whose := by_id[name].measured_on) != here:
            raise UsageError(
                f"change {name} was confirmed on {whose}, and this is {here}: figures of another "
                "machine tell nothing about it; bisect it there"
            )
    if names:
        return [by_id[name] for name in names]
    return [
        record
        for record in records
        if record.measured_on == here
        and record.status == "open"
        # What was tried and could not be told apart says so.
        and ((record.culprit is None and not record.note) or TIME_IS_UP in record.note)
    ]
