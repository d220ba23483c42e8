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
from duetbench.cli.target_options import Options, PythonOption, with_options, with_target
from duetbench.cli.verbs import hook
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.host.console import Console, Narrator, errors, print_json
from duetbench.host.machine import fingerprint
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.judge import revisions, targets
from duetbench.judge.loop import Reporter
from duetbench.project.project import Project
from duetbench.show.change import cause_lines, narrowed_line
from duetbench.store import change, files
from duetbench.store import points as record_points
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison
from duetbench.store.kinds import find_comparison
from duetbench.trend.bisect import searches
from duetbench.trend.bisect.cause import TIME_IS_UP, blame
from duetbench.trend.bisect.mixtures import SearchTask
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
            help="The case that is measured, an id or glob; default, of a comparison: what moved "
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

    Where several packages moved at once, duets compare mixtures of both stacks with the one before.
    A test of "none of it" against "all of it" follows every duet: each answer halves what is left.
    Fresh duets measure what remains alone before it is named, with what it does by itself. If the
    rest of the packages still do something, the search goes on among them. Packages that cannot be
    installed apart are named as one. A change whose functions are not known gets an attribution.

    Every duet is kept at once: the same command goes on where one was interrupted, or its time was
    up.

    Exit code 0: done. 1: one of them could not be tried, with the reason.
    """
    console = Console(stderr=as_json)
    project, narrator = Project.here(stand_in=options["app"] is None), Narrator(console)
    folder = results or project.results
    limit = budget_seconds(budget) or 0.0
    kinds = {"--from and --to": from_ or to, "--lock": lock, "names": names}
    if len(several := [name for name, value in kinds.items() if value]) > 1:
        raise UsageError(f"{' and '.join(several)} were given: choose one")
    comparison = _comparison(names, folder)
    project = _with_target(project, options, python, folder, names or [], comparison, lock)
    if not (from_ or to or lock or comparison or project.target):
        if select:
            raise UsageError("--select: a change says itself which case is played")
        _changes(project, names or [], folder, limit, seed, console, as_json=as_json)
        return
    clean_up(console)
    with ExitStack() as until_found:
        if project.target is not None:
            copies = until_found.enter_context(revisions.copies())
            task, project = _of_target(
                project, names or [], lock, comparison, select, narrator, copies
            )
        elif comparison is not None:
            task = searches.of_comparison(project, comparison, select, narrator)
        elif select is None:
            raise UsageError("expected --select with the case that is to be played")
        elif lock is not None:
            task = searches.of_locks(
                project, select, *(locked(project.root, name) for name in lock)
            )
        elif from_ and to:
            days = day(from_, "--from"), day(to, "--to")
            task = searches.of_dates(project, select, days, narrator)
        else:
            raise UsageError("expected both --from and --to")
        with _interruptible():
            cause = searches.find(project, task, Reporter(console), limit, seed)
    tell(
        cause_lines(cause),
        lambda: {"series": task.series.model_dump(), **cause.model_dump(mode="json")},
        as_json=as_json,
    )


def _with_target(
    project: Project,
    options: Options,
    python: str | None,
    folder: Path,
    names: list[str],
    comparison: Comparison | None,
    lock: tuple[str, str] | None,
) -> Project:
    """The project with the target whose packages are searched, if not a change's or a stack's."""
    known = {record.id for record in _confirmed(folder)}
    if not options["app"] and (set(names) <= known and comparison is None and lock is None):
        return project
    deployed = with_options(project, options, [python] if python else [])
    if (
        deployed.target is not None
        and comparison is None
        and lock is None
        and not 1 <= len(names) <= 2
    ):
        raise UsageError(
            f"expected what to search: a revision as in `duetbench bisect HEAD~1 --app "
            f"{deployed.target.app}`, --lock BASE HEAD, or a comparison; found "
            f"{' '.join(names) or 'nothing'}"
        )
    return deployed


def _of_target(
    repository: Project,
    names: list[str],
    lock: tuple[str, str] | None,
    comparison: Comparison | None,
    select: str | None,
    narrator: Narrator,
    copies: Path,
) -> tuple[SearchTask, Project]:
    """Prepare the search for a target, and the copy that is measured."""
    after = lock[1] if lock else None
    project = targets.working(repository, narrator, copies, after)
    if comparison is not None:
        return searches.of_comparison(project, comparison, select, narrator), project
    texts = [
        targets.other_text(repository, project, narrator, copies, lock=lock[0])
        if lock
        else targets.other_text(repository, project, narrator, copies, revision=name)
        for name in ([""] if lock else names)
    ]
    base, head = texts if len(texts) == 2 else (*texts, targets.text_of(project))
    chosen = select or glob.escape(_only(project))
    return searches.of_locks(project, chosen, base, head), project


def _only(project: Project) -> str:
    """The first case of a copy: all have the same packages, and one is enough to search with."""
    return project.cases("quick")[0].id


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
    file = Path(names[0])
    path = file if file.is_file() else find_comparison(names[0], folder)
    return None if path is None else files.read(Comparison, path)


def _changes(
    project: Project,
    names: list[str],
    folder: Path,
    limit: float,
    seed: int,
    console: Console,
    *,
    as_json: bool,
) -> None:
    here = fingerprint().id
    reporter = Reporter(console)
    chosen = _chosen(_confirmed(folder), names, here)
    if not chosen:
        console.say(f"no change on this machine ({here}) whose cause is to be found")
    else:
        clean_up(console)
        files.require_room(folder)
        points = files.attempted(record_points.paths(folder), record_points.read, [])
        measured = axes(sorted(points, key=lambda point: (point.started, point.id)))
    ends = time.monotonic() + limit
    tried: list[Change] = []
    for place, record in enumerate(chosen):
        share = (ends - time.monotonic()) / (len(chosen) - place)
        try:
            with _interruptible():
                task = searches.of_record(project, record, reporter)
                cause = searches.find(project, task, reporter, share, seed)
        except (HistoryError, SetupError, UsageError) as problem:
            errors().say(f"{record.id}: not tried: {problem}")
            continue
        blamed = blame(record, cause)
        blamed = next(iter(narrowed([blamed], measured)), blamed)
        change.save(folder, blamed)
        tried.append(blamed)
        hook("why:explain_change")(project, blamed, folder, reporter)
        if not as_json:
            more = (narrowed_line(blamed.narrowed),) if blamed.narrowed else ()
            console.say(f"{blamed.id}: {'; '.join((*cause_lines(cause), *more))}")
    if as_json:
        print_json([record.model_dump(mode="json") for record in tried])
    if len(tried) < len(chosen):
        raise Exit(1)


def _confirmed(folder: Path) -> list[Change]:
    return [record for record in change.read_all(folder) if record.confirmed]


def _chosen(records: list[Change], names: list[str], here: str) -> list[Change]:
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
