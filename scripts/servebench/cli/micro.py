"""`servebench micro`: a quick look inside the process, through asv."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from servebench import files, orphans, paths, store
from servebench.errors import NothingMeasuredError, RecordError, ServebenchError, UsageError
from servebench.exclusive import measuring
from servebench.inprocess import micro, readings
from servebench.printing import Console
from servebench.signals import interruptible

if TYPE_CHECKING:
    from servebench.inprocess.readings import Snapshot
    from servebench.summary import RunSummary

_BUSY: Final = 0.5  # mean number of running processes over the last minute


def micro_command(
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            help="Only benchmarks whose name matches this glob, e.g. 'gil.Cpu*', "
            "\"gil.Cpu.time_tasks('threads', 4)\", or a suite: gil; repeatable.",
        ),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Keep the results among asv's (results/asv).")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", help="With --record: results folder to keep them in; default: this checkout's."
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Processes per benchmark: they differ.")
    ] = 1,
    as_json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure inside the process, with few samples: threads, handlers, Pydantic, instructions.

    asv measures the last commit's applications and locks; the suites are those of the working
    tree. For asv's own history use `asv run`. Exit code 0: all that applies was measured. 1: a
    benchmark failed; with --to it is recorded as failed, and that is a result. 3: nothing was
    measured.
    """
    if to is not None and not record:
        raise UsageError("--to: results are kept nowhere: add --record")
    progress = Console(stderr=True, highlight=False)
    root = paths.project_root()
    micro.require_suites(root)
    if record:
        files.require_room(to or paths.results_dir())
    commit, dirty = micro.require_commit(root)
    wanted = micro.steps(select or (), guarded=record)
    for sentence in orphans.reap():
        _say(progress, f"note: {sentence}")
    if dirty:
        _say(progress, f"note: apps/ is that of {commit[:8]}; what was changed since is left out")
    if (load := os.getloadavg()[0]) > _BUSY:
        _say(progress, f"note: the load average is {load:.1f}: what else runs here is in all times")
    with (
        tempfile.TemporaryDirectory(prefix="servebench-micro-") as scratch,
        interruptible(),
        measuring(),
    ):
        folder = Path(scratch)
        kept = to and (to / "asv").resolve()
        conf = micro.configuration(root, kept if record else folder / "results")
        config = micro.write_configuration(conf, folder)
        began = datetime.now(UTC).timestamp() * 1000
        for number, step in enumerate(wanted, start=1):
            name = f"{step.suite} ({number} of {len(wanted)})"
            with _watcher(progress, name) as watch:
                for seen in micro.run(step, config, root, folder, _log(step.suite), rounds=rounds):
                    watch(seen)
        suites = tuple(step.suite for step in wanted)
        snapshots = _of_now(readings.read(Path(conf["results_dir"])), commit, suites, began)
    if _show(snapshots, root, as_json_=as_json_) and to is None:
        raise typer.Exit(1)


def _of_now(
    snapshots: tuple[Snapshot, ...], commit: str, suites: tuple[str, ...], began: float
) -> tuple[Snapshot, ...]:
    """What was measured just now.

    Raises:
        NothingMeasuredError: Nothing was.
    """
    found = tuple(
        snapshot
        for snapshot in snapshots
        if snapshot.commit == commit and snapshot.started >= began and snapshot.has(*suites)
    )
    if not found:
        logs = paths.state_dir() / "logs"
        raise NothingMeasuredError(f"no benchmark gave a figure; what asv said is in {logs}")
    return found


def _show(snapshots: tuple[Snapshot, ...], root: Path, *, as_json_: bool) -> bool:
    """Show what was measured; whether a benchmark failed."""
    from servebench.inprocess import report as pages  # noqa: PLC0415 - what makes pages waits
    from servebench.inprocess.suites import read_suites  # noqa: PLC0415
    from servebench.report.terminal import print_page  # noqa: PLC0415

    page = pages.make_page(snapshots, read_suites(root), _newest_run())
    if as_json_:
        described = pages.as_json(snapshots, page)
        typer.echo(json.dumps(described, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_page(Console(highlight=False), page)
    failed = [
        f"{reading.benchmark} on {reading.python}, {reading.stack}"
        for snapshot in snapshots
        for reading in snapshot.readings
        if reading.status == "failed"
    ]
    if failed:
        names = "; ".join(dict.fromkeys(failed))
        logs = paths.state_dir() / "logs"
        _say(Console(stderr=True, highlight=False), f"failed: {names}. Why: {logs}/micro-*.log")
    return bool(failed)


def _newest_run() -> RunSummary | None:
    """A run with real servers to show beside: the newest nightly one, else the newest."""
    from servebench.summary import summarise  # noqa: PLC0415 - as above

    results = paths.results_dir()
    found = store.runs(results, profile="nightly") or store.runs(results)
    try:
        return summarise(store.load(found[-1])) if found else None
    except RecordError:  # of no use here, and no reason to lose what was just measured
        return None


def _log(suite: str) -> Path:
    folder = paths.state_dir() / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ServebenchError(
            f"{folder}: cannot be made ({problem.strerror}): set XDG_STATE_HOME to a folder that "
            "can be written"
        ) from problem
    return folder / f"micro-{suite}.log"


class _Watch(Protocol):
    def __call__(self, seen: micro.SuiteProgress) -> None: ...


@contextmanager
def _watcher(console: Console, name: str) -> Iterator[_Watch]:
    """A bar on a terminal; elsewhere a line whenever asv has something else to say."""
    if not console.is_terminal:
        said = [""]

        def tell(seen: micro.SuiteProgress) -> None:
            # asv first names a benchmark, then writes its result behind the name.
            if (first := seen.doing.partition(" ")[0]) != said[0]:
                said[0] = first
                _say(console, f"{name} [{seen.share:4.0%}] {seen.doing}")

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
        yield lambda seen: bar.update(task, completed=seen.share, doing=seen.doing)


def _say(console: Console, sentence: str) -> None:
    console.print(sentence, markup=False, soft_wrap=True)
