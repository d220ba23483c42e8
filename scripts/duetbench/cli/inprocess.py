"""`duetbench inprocess` and `ci screen`: what asv measures inside the process."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from typer import Argument, Exit, Option

from duetbench.cli.options import JsonOption, clean_up, machine
from duetbench.core.errors import DuetbenchError, NothingMeasuredError, RecordError, UsageError
from duetbench.github import actions
from duetbench.host import paths
from duetbench.host.console import Console, errors, print_json, write
from duetbench.judge import revisions
from duetbench.measure.inprocess import suite_runs
from duetbench.project.project import Project
from duetbench.project.suites import read_suites
from duetbench.show import asv_figures
from duetbench.show import inprocess as pages
from duetbench.show.run import print_page
from duetbench.store import asv_results, files, store
from duetbench.store.asv_results import Snapshot
from duetbench.trend.summary import RunSummary, summarise

_BUSY: Final = 0.5  # mean number of running processes over the last minute


def inprocess_command(
    select: Annotated[
        list[str] | None,
        Option(
            "--select",
            help="Only benchmarks whose name matches this glob, e.g. 'gil.Cpu*', "
            "\"gil.Cpu.time_tasks('threads', 4)\", or a suite: gil; repeatable.",
        ),
    ] = None,
    record: Annotated[
        bool, Option("--record", help="Keep the results among asv's (results/asv).")
    ] = False,
    to: Annotated[
        Path | None,
        Option(
            "--to", help="With --record: results folder to keep them in; default: this checkout's."
        ),
    ] = None,
    rounds: Annotated[
        int, Option("--rounds", min=1, help="Processes per benchmark: they differ.")
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure inside the process, with few samples: threads, handlers, Pydantic, instructions.

    asv measures the last commit's applications and locks; the suites are those of the working
    tree. For asv's own history use `asv run`. Exit code 0: all that applies was measured. 1: a
    benchmark failed; with --to it is recorded as failed, and that is a result. 3: nothing was
    measured.
    """
    if to is not None and not record:
        raise UsageError("--to: results are kept nowhere: add --record")
    progress = errors()
    root = paths.project_root()
    suite_runs.require_suites(root)
    if record:
        files.require_room(to or Project.here().results)
    commit, dirty = suite_runs.require_commit(root)
    wanted = suite_runs.steps(select or (), guarded=record)
    clean_up(progress)
    if dirty:
        progress.say(f"note: apps/ is that of {commit[:8]}; what was changed since is left out")
    if (load := os.getloadavg()[0]) > _BUSY:
        progress.say(f"note: the load average is {load:.1f}: what else runs here is in all times")
    with tempfile.TemporaryDirectory(prefix="duetbench-inprocess-") as scratch, machine():
        folder = Path(scratch)
        kept = to and (to / "asv").resolve()
        conf = suite_runs.configuration(root, kept if record else folder / "results")
        config = suite_runs.write_configuration(conf, folder)
        began = datetime.now(UTC).timestamp() * 1000
        for number, step in enumerate(wanted, start=1):
            name = f"{step.suite} ({number} of {len(wanted)})"
            log = _logs() / f"inprocess-{step.suite}.log"
            with _watcher(progress, name) as watch:
                for seen in suite_runs.run(step, config, root, folder, log, rounds=rounds):
                    watch(*seen)
        suites = tuple(step.suite for step in wanted)
        snapshots = _of_now(asv_results.read(Path(conf["results_dir"])), commit, suites, began)
    page = pages.make_page(snapshots, read_suites(root), _newest_run())
    if as_json:
        print_json(pages.as_json(snapshots, page))
    else:
        print_page(Console(), page)
    failed = dict.fromkeys(
        f"{reading.benchmark} on {reading.python}, {reading.stack}"
        for snapshot in snapshots
        for reading in snapshot.readings
        if reading.status == "failed"
    )
    if failed:
        progress.say(f"failed: {'; '.join(failed)}. Why: {_logs()}/inprocess-*.log")
    if failed and to is None:
        raise Exit(1)


def screen_command(
    base: Annotated[str, Argument(help="A revision.")],
    head: Annotated[str, Argument(help="A revision.")] = "HEAD",
    as_json: JsonOption = False,
) -> None:
    """Count the instructions of two commits, inside the process, with Valgrind: quick, repeatable.

    For machines on which nothing can be timed, such as hosted ones: minutes, no server, no load. It
    is a screening: what executes more instructions need not be slower, and waiting is not in it;
    `duetbench compare` decides. Each commit is counted with its own locks.

    Exit code 0: nothing executes more. 1: something does, or fails where it did not. 3: nothing was
    counted on both sides.
    """
    root = paths.project_root()
    console = errors()
    clean_up(console)
    sides = [revisions.resolve(root, name) for name in (base, head)]
    with machine():
        before, after = (counted(root, side.commit, console) for side in sides)
    found = asv_figures.screen(before, after)
    text = asv_figures.markdown(found, *(side.commit[:12] for side in sides))
    actions.summary(text)
    if as_json:
        rows = [{**asdict(row), "ratio": row.ratio} for row in found.rows]
        print_json({"rows": rows, "broken": found.broken, "others": found.others})
    else:
        write(text, None)
    if found.exit_code:
        raise Exit(found.exit_code)


def counted(root: Path, commit: str, console: Console) -> Snapshot:
    """Let asv count a commit's instructions; NothingMeasuredError: there is no Valgrind, say."""
    suite_runs.require_suites(root)
    with tempfile.TemporaryDirectory(prefix="duetbench-screen-") as scratch:
        folder = Path(scratch)
        config = suite_runs.write_configuration(
            suite_runs.configuration(root, folder / "results"), folder
        )
        console.say(f"counting {commit[:12]}")
        began = datetime.now(UTC)
        for step in suite_runs.steps([asv_figures.SUITE]):
            log = _logs() / f"screen-{step.suite}.log"
            for _ in suite_runs.run(step, config, root, folder, log, commit=commit):
                pass
        found = asv_results.newest(asv_results.read(folder / "results"), asv_figures.SUITE)
        passed = (datetime.now(UTC) - began).total_seconds()
        console.say(f"counted {commit[:12]} in {passed:.0f} s")
    if found is None:
        raise NothingMeasuredError(
            f"no instructions of {commit[:12]} were counted: Valgrind may be missing "
            f"(`duetbench doctor`); what asv said is in {_logs()}"
        )
    return found


def _of_now(
    snapshots: Sequence[Snapshot], commit: str, suites: Sequence[str], began: float
) -> tuple[Snapshot, ...]:
    here = (one for one in snapshots if one.commit == commit and one.started >= began)
    if found := tuple(one for one in here if one.has(*suites)):
        return found
    raise NothingMeasuredError(f"no benchmark gave a figure; what asv said is in {_logs()}")


def _newest_run() -> RunSummary | None:
    results = Project.here().results
    found = store.runs(results, profile="nightly") or store.runs(results)
    try:
        return summarise(store.load(found[-1])) if found else None
    except RecordError:  # of no use here, and no reason to lose what was just measured
        return None


def _logs() -> Path:
    folder = paths.state_dir() / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise DuetbenchError(
            f"{folder}: cannot be made ({problem.strerror}): set XDG_STATE_HOME to a folder that "
            "can be written"
        ) from problem
    return folder


@contextmanager
def _watcher(console: Console, name: str) -> Iterator[Callable[[float, str], None]]:
    """A bar on a terminal; elsewhere a line whenever asv has something else to say."""
    if not console.is_terminal:
        said = ""

        def tell(share: float, doing: str) -> None:
            nonlocal said
            # asv first names a benchmark, then writes its result behind the name.
            if (first := doing.partition(" ")[0]) != said:
                said = first
                console.say(f"{name} [{share:4.0%}] {doing}")

        yield tell
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}", style="dim", markup=False),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=1.0, doing="starting asv")
        yield lambda share, doing: bar.update(task, completed=share, doing=doing)
