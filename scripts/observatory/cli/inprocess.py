"""`observatory inprocess`: run asv with few samples, and show what it says."""

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.options import clean_up, machine
from duetbench.core.errors import UsageError
from duetbench.host import command, files, paths
from duetbench.host.console import Console, Narrator, errors
from observatory.matrix.checkout import Checkout
from observatory.measure import asv_runs as runs


def inprocess_command(
    select: Annotated[
        list[str] | None,
        Option(
            "--select",
            metavar="GLOB",
            help="Only benchmarks that match this glob: 'gil.Cpu*', or a suite: gil; repeatable.",
        ),
    ] = None,
    record: Annotated[
        bool, Option("--record", help="Keep the results among asv's (results/asv).")
    ] = False,
    to: Annotated[
        Path | None,
        Option("--to", metavar="FOLDER", help="With --record: the folder; default: results/."),
    ] = None,
) -> None:
    """Measure inside one process, with few samples: threads, handlers, Pydantic, instructions.

    $ observatory inprocess --select gil
    $ observatory inprocess --record --to measured

    asv measures the last commit's applications and locks; the suites are those of the working
    tree. For asv's own history use `asv run`. Exit code 0: everything applicable was measured. 1: a
    benchmark failed; with --to the failure is recorded, and counts as a result.
    """
    if to is not None and not record:
        raise UsageError("--to: no results are kept: add --record")
    progress, failed = errors(), []
    project, narrator = Checkout.here(), Narrator(progress)
    root = project.root
    commit, dirty = runs.require_commit(root)
    if record:
        files.require_room(to or project.results)
    steps = runs.steps(select or (), guarded=record)
    clean_up(progress)
    if dirty:
        progress.say(f"note: apps/ is that of {commit[:8]}; later changes are left out")
    logs = paths.state_dir() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="duetbench-inprocess-") as scratch, machine():
        folder = Path(scratch)
        results = ((to or project.results) / "asv").resolve() if record else folder / "results"
        config = runs.configure(project, folder, results)
        for number, step in enumerate(steps, start=1):
            name = f"{step.suite} ({number} of {len(steps)})"
            log = logs / f"inprocess-{step.suite}.log"
            with narrator.step(name, "asv runs it") as tick:
                if not runs.run(step, config, root, folder, log, tick):
                    failed.append(step.suite)
            Console().say(command.read_log(log))
    if failed:
        progress.say(f"benchmarks of {', '.join(failed)} failed: {logs}/inprocess-*.log")
    if failed and to is None:
        raise Exit(1)
