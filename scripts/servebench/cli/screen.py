"""`servebench ci screen`: does a change execute more instructions?"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servebench import actions, orphans, paths
from servebench.compare import revisions
from servebench.errors import NothingMeasuredError
from servebench.exclusive import measuring
from servebench.printing import Console
from servebench.signals import interruptible

if TYPE_CHECKING:
    from servebench.inprocess.readings import Snapshot


def screen_command(
    base: Annotated[str, typer.Argument(help="A revision.")],
    head: Annotated[str, typer.Argument(help="A revision.")] = "HEAD",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count the instructions of two commits, inside the process, with Valgrind: quick, repeatable.

    For machines on which nothing can be timed, such as hosted ones: minutes, no server, no load. It
    is a screening: what executes more instructions need not be slower, and waiting is not in it;
    `servebench compare` decides. Each commit is counted with its own locks.

    Exit code 0: nothing executes more. 1: something does, or fails where it did not. 3: nothing was
    counted on both sides.
    """
    from servebench.inprocess import screening  # noqa: PLC0415 - only this verb needs asv

    root = paths.project_root()
    console = Console(stderr=True, highlight=False)
    for sentence in orphans.reap():
        console.print(f"note: {sentence}", markup=False, soft_wrap=True)
    sides = [revisions.resolve(root, name) for name in (base, head)]
    with interruptible(), measuring():
        before, after = (counted(root, side.commit, console) for side in sides)
    found = screening.screen(before, after)
    text = screening.markdown(found, *(side.commit[:12] for side in sides))
    actions.summary(text)
    if as_json:
        rows = [{**asdict(row), "ratio": row.ratio} for row in found.rows]
        typer.echo(json.dumps({"rows": rows, "broken": found.broken, "others": found.others}))
    else:
        typer.echo(text, nl=False)
    if found.exit_code:
        raise typer.Exit(found.exit_code)


def counted(root: Path, commit: str, console: Console) -> Snapshot:
    """Let asv count a commit's instructions.

    Raises:
        NothingMeasuredError: Nothing was counted, for example since Valgrind is not here.
        SetupError: asv could not do its work.
        UsageError: The checkout is not servebench's.
    """
    from servebench.inprocess import micro, readings, screening  # noqa: PLC0415

    micro.require_suites(root)
    logs = paths.state_dir() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="servebench-screen-") as scratch:
        folder = Path(scratch)
        config = micro.write_configuration(micro.configuration(root, folder / "results"), folder)
        console.print(f"counting {commit[:12]}", markup=False)
        began = datetime.now(UTC)
        for step in micro.steps([screening.SUITE]):
            log = logs / f"screen-{step.suite}.log"
            for _ in micro.run(step, config, root, folder, log, commit=commit):
                pass
        found = readings.newest(readings.read(folder / "results"), screening.SUITE)
        passed = (datetime.now(UTC) - began).total_seconds()
        console.print(f"counted {commit[:12]} in {passed:.0f} s", markup=False)
    if found is None:
        raise NothingMeasuredError(
            f"no instructions of {commit[:12]} were counted: Valgrind may be missing "
            f"(`servebench doctor`); what asv said is in {logs}"
        )
    return found
