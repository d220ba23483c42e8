"""`servebench asv publish`: asv's own site of the suites inside the process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from servebench.host import paths
from servebench.host.console import Console
from servebench.host.progress import Narrator
from servebench.host.signals import interruptible
from servebench.measure.inprocess import suite_runs
from servebench.site import asv_site

asv_app = typer.Typer(no_args_is_help=True, help="asv's own site.")


@asv_app.callback()
def _group() -> None:
    """With one command only, Typer would make it the group's name."""


@asv_app.command("publish")
def publish_command(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the site; default: asv.conf.json's."),
    ] = None,
) -> None:
    """Make asv's site from its results; it needs no other host."""
    console, root = Console(), paths.project_root()
    with interruptible():
        site = output or Path(suite_runs.configuration(root, None)["html_dir"])
        asv_site.publish(root, site, Narrator(console))
    told = f"the site is in {site}; to look at it: python3 -m http.server -d {site}"
    console.print(told, markup=False, highlight=False, soft_wrap=True)
