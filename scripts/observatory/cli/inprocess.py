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
    bench: Annotated[
        list[str] | None,
        Option(
            "--bench",
            metavar="REGEX",
            help="Only benchmarks that match, as in asv: '^gil', 'gil.Cpu'; repeatable.",
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
    """Measure inside one process, with few samples: threads, handlers, Pydantic.

    $ observatory inprocess --bench ^gil
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
    clean_up(progress)
    if dirty:
        progress.say(f"note: apps/ is that of {commit[:8]}; later changes are left out")
    logs = paths.state_dir() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="duetbench-inprocess-") as scratch, machine():
        folder = Path(scratch)
        results = ((to or project.results) / "asv").resolve() if record else folder / "results"
        config = runs.configure(root, folder, results)
        began = datetime.now(UTC).timestamp() * 1000
        log = logs / "inprocess.log"
        with narrator.step("in-process suites", "asv runs them") as tick:
            runs.run(bench or (), config, root, log, tick)
        snapshots = _of_now(asv_results.read(results), commit, began)
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
        if reading.value is None
    )
    if failed:
        progress.say(f"failed: {'; '.join(failed)}. Why: {log}")
    if failed and to is None:
        raise Exit(1)


def _of_now(snapshots: Sequence[Snapshot], commit: str, began: float) -> tuple[Snapshot, ...]:
    """Select the results of a commit since a time; NothingMeasuredError if there are none."""
    recent = (s for s in snapshots if s.commit == commit and s.started >= began)
    if matching := tuple(s for s in recent if any(r.value is not None for r in s.readings)):
        return matching
    raise NothingMeasuredError(
        f"no benchmark gave a figure; asv's logs are in {paths.state_dir() / 'logs'}"
    )
