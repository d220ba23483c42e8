"""`observatory inprocess`: run asv with few samples, and show tables of its results."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.options import JsonOption, clean_up, machine
from duetbench.core.errors import NothingMeasuredError, UsageError
from duetbench.host import files, paths
from duetbench.host.console import Console, Narrator, errors, print_json
from observatory.matrix.checkout import Checkout
from observatory.matrix.published import read_suites
from observatory.measure import asv_runs as runs
from observatory.show import findings
from observatory.show.experiments import of_suites, where
from observatory.store import asv_results
from observatory.store.asv_results import Snapshot


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
    as_json: JsonOption = False,
) -> None:
    """Measure inside one process, with few samples: threads, handlers, Pydantic, instructions.

    $ observatory inprocess --select gil
    $ observatory inprocess --record --to measured

    asv measures the last commit's applications and locks; the suites are those of the working
    tree. For asv's own history use `asv run`. Exit code 0: everything applicable was measured. 1: a
    benchmark failed; with --to the failure is recorded, and counts as a result. 3: nothing was
    measured.
    """
    if to is not None and not record:
        raise UsageError("--to: no results are kept: add --record")
    progress = errors()
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
        began = datetime.now(UTC).timestamp() * 1000
        for number, step in enumerate(steps, start=1):
            name = f"{step.suite} ({number} of {len(steps)})"
            log = logs / f"inprocess-{step.suite}.log"
            with narrator.step(name, "asv runs it") as tick:
                runs.run(step, config, root, folder, log, tick)
        suites = tuple(step.suite for step in steps)
        snapshots = _of_now(asv_results.read(results), commit, suites, began)
    sections = of_suites(snapshots, read_suites(root))
    if as_json:
        records = [{"name": section.experiment, **asdict(section)} for section in sections]
        print_json({"snapshots": [*map(asdict, snapshots)], "sections": records})
    else:
        head = [("measured", where(snapshots[0]))]
        findings.print_sections(
            Console(), "Inside the process", findings.of_sections(head, sections)
        )
    failed = dict.fromkeys(
        f"{reading.benchmark} on {reading.python}, {reading.stack}"
        for snapshot in snapshots
        for reading in snapshot.readings
        if reading.status == "failed"
    )
    if failed:
        progress.say(f"failed: {'; '.join(failed)}. Why: {logs}/inprocess-*.log")
    if failed and to is None:
        raise Exit(1)


def _of_now(
    snapshots: Sequence[Snapshot], commit: str, suites: Sequence[str], began: float
) -> tuple[Snapshot, ...]:
    """Select the results of a commit since a time; NothingMeasuredError if there are none."""
    recent = (
        snapshot
        for snapshot in snapshots
        if snapshot.commit == commit and snapshot.started >= began
    )
    if matching := tuple(snapshot for snapshot in recent if snapshot.has(*suites)):
        return matching
    raise NothingMeasuredError(
        f"no benchmark gave a figure; asv's logs are in {paths.state_dir() / 'logs'}"
    )
