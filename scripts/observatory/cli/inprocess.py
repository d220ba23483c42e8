"""`observatory inprocess`: run asv with few samples, and show tables of its results."""

import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.options import JsonOption, clean_up, machine
from duetbench.core.errors import NothingMeasuredError
from duetbench.host import files, paths
from duetbench.host.console import Console, Narrator, errors, print_json
from observatory.matrix.checkout import Checkout
from observatory.matrix.published import read_suites
from observatory.measure import asv_runs as runs
from observatory.show import findings
from observatory.show.experiments import of_suites, where
from observatory.store import asv_results


def inprocess_command(
    bench: Annotated[
        list[str] | None,
        Option(
            "--bench",
            metavar="REGEX",
            help="Only benchmarks that match, as in asv: '^gil', 'gil.Cpu'; repeatable.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        Option("--to", metavar="FOLDER", help="Keep the results among asv's, in its asv/."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure inside one process, with few samples: threads, handlers, Pydantic.

    $ observatory inprocess --bench ^gil
    $ observatory inprocess --to results

    asv measures the last commit's applications and locks by the suites of the working tree. Exit
    code 0: everything applicable was measured. 1: a benchmark failed, which with --to counts as a
    result. 3: nothing was measured.
    """
    progress, project = errors(), Checkout.here()
    commit, dirty = runs.require_commit(project.root)
    if to is not None:
        files.require_room(to)
    clean_up(progress)
    if dirty:
        progress.say(f"note: apps/ is that of {commit[:8]}; later changes are left out")
    log = paths.state_dir() / "logs" / "inprocess.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="duetbench-inprocess-") as scratch, machine():
        results = (to / "asv").resolve() if to is not None else Path(scratch, "results")
        config = runs.configure(project.root, Path(scratch), results)
        began = datetime.now(UTC).timestamp() * 1000
        with Narrator(progress).step("in-process suites", "asv runs them") as tick:
            runs.run(bench or (), config, project.root, log, tick)
        snapshots = tuple(
            snapshot
            for snapshot in asv_results.read(results)
            if snapshot.commit == commit and snapshot.started >= began
            if any(reading.value is not None for reading in snapshot.readings)
        )
    if not snapshots:
        raise NothingMeasuredError(f"no benchmark gave a figure; asv's logs are in {log.parent}")
    sections = of_suites(snapshots, read_suites(project.root))
    if as_json:
        records = [{"name": section.experiment, **asdict(section)} for section in sections]
        print_json({"snapshots": [*map(asdict, snapshots)], "sections": records})
    else:
        head = [("measured", where(snapshots[0]))]
        findings.print_sections(Console(), "Inside the process", head, sections)
    failed = dict.fromkeys(
        f"{reading.benchmark} on {reading.python}, {reading.stack}"
        for snapshot in snapshots
        for reading in snapshot.readings
        if reading.value is None
    )
    if failed:
        progress.say(f"failed: {'; '.join(failed)}. Why: {log}")
    if failed and to is None:
        raise Exit(1)
