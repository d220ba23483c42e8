"""`servebench asv`: the load runs among asv's results, and asv's site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from servebench import paths, store
from servebench import plan as planning
from servebench.cli.options import DEFAULT_SEED
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.signals import interruptible

asv_app = typer.Typer(
    no_args_is_help=True, help="The load runs among asv's results, and asv's site."
)


@asv_app.command("stubs")
def stubs_command(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if something would.")
    ] = False,
) -> None:
    """Declare the nightly's cases to asv: benchmarks/load_cases.json, from the declarations."""
    from servebench.inprocess import stubs  # noqa: PLC0415 - only these verbs wait for asv's import

    root = paths.project_root()
    declared = stubs.declare(planning.make_plan(stubs.PROFILE, (), None, DEFAULT_SEED).cases)
    if check:
        stubs.check(root, declared)
        return
    changed = stubs.write(root, declared)
    said = "written" if changed else "unchanged"
    _say(Console(), f"{stubs.place(root)}: {len(declared)} benchmarks, {said}")


@asv_app.command("export")
def export_command() -> None:
    """Put the nightly runs among asv's results: one point per commit, interpreter and stack.

    Made anew from the run files every time, so it can be repeated. asv's own results stay.
    """
    _export(Console())


@asv_app.command("publish")
def publish_command(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the site; default: asv.conf.json's."),
    ] = None,
) -> None:
    """Make asv's site from all results, the load runs among them; it needs no other host."""
    from servebench.inprocess import export, publish  # noqa: PLC0415

    console = Console()
    root = paths.project_root()
    with interruptible():
        _export(console)
        site = output or Path(export.configuration(root).html_dir)
        pages = publish.publish(root, site, Narrator(console))
    where = f"{site} ({', '.join(pages)})"
    _say(console, f"the site is in {where}; to look at it: python3 -m http.server -d {site}")


def _export(console: Console) -> None:
    from servebench.inprocess import export, stubs  # noqa: PLC0415

    done = export.export(
        paths.project_root(), store.runs(paths.results_dir(), profile=stubs.PROFILE)
    )
    for sentence in done.left_out:
        _say(console, sentence)
    where = f"{len(done.files)} files of asv's results"
    _say(console, f"{stubs.PROFILE} runs: {done.runs}, with {done.figures} figures in {where}")


def _say(console: Console, sentence: str) -> None:
    console.print(sentence, markup=False, highlight=False, soft_wrap=True)
