"""`observatory inprocess`: run asv with few samples, and show tables of its results."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.options import machine
from duetbench.core.errors import NothingMeasuredError, UsageError
from duetbench.host import files, git
from duetbench.host.console import Console, Narrator, errors
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
) -> None:
    """Measure inside one process, with few samples: threads, handlers, Pydantic.

    $ observatory inprocess --bench ^gil
    $ observatory inprocess --to results

    asv measures the last commit's applications and locks by the suites of the working tree. Exit
    code 0: everything applicable was measured. 1: a benchmark failed, which with --to counts as a
    result. 3: nothing was measured.
    """
    progress, root = errors(), Checkout.here().root
    commit, dirty = git.revision(root)
    if commit is None or not (root / runs.CONFIGURATION).is_file():
        raise UsageError(f"{root}: expected {runs.CONFIGURATION} and a commit, which asv measures")
    if to is not None:
        files.require_room(to)
    if dirty:
        progress.say(f"note: apps/ is that of {commit[:8]}; later changes are left out")
    with (
        machine(None, progress),
        tempfile.TemporaryDirectory(prefix="duetbench-inprocess-") as scratch,
    ):
        results = ((to or Path(scratch)) / "asv").resolve()
        config = runs.configure(root, Path(scratch), results)
        began = datetime.now(UTC).timestamp() * 1000
        with Narrator(progress).step("in-process suites", "asv runs them") as tick:
            log = runs.run(bench or (), config, root, tick)
        snapshots = [
            snapshot
            for snapshot in asv_results.read(results)
            if snapshot.commit == commit and snapshot.started >= began
        ]
    readings = [reading for snapshot in snapshots for reading in snapshot.readings]
    if all(reading.value is None for reading in readings):
        raise NothingMeasuredError(f"no benchmark gave a figure: see {log}")
    head = [("measured", where(snapshots[0]))]
    sections = of_suites(snapshots, read_suites(root))
    findings.print_sections(Console(), "Inside the process", head, sections)
    failed = [reading for reading in readings if reading.value is None]
    names = dict.fromkeys(f"{each.benchmark} on {each.python}, {each.stack}" for each in failed)
    if names:
        progress.say(f"failed: {'; '.join(names)}. Why: {log}")
    if names and to is None:
        raise Exit(1)
