"""`duetbench site` and `asv`: results as pages that anybody can browse."""

import threading
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from typer import Option, Typer

from duetbench.cli.options import JsonOption, ResultsOption
from duetbench.core.errors import DuetbenchError, UsageError
from duetbench.host import paths
from duetbench.host.console import Console, Narrator, duration, print_json
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.show.site import asv_site, build, local

FOLDER: Final = "site"
"""Of the checkout; it is ignored by git."""
PORT: Final = 8000

asv_app = Typer(no_args_is_help=True, help="asv's own site.")


def site_command(
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Folder of the site; default: site/ of the checkout."),
    ] = None,
    results: ResultsOption = None,
    base: Annotated[
        str,
        Option(
            "--base",
            metavar="URL",
            help="Address at which it will be published, for the feed and the page of missing "
            "addresses. All other links are relative.",
        ),
    ] = "",
    asv: Annotated[
        bool,
        Option(
            "--asv/--no-asv",
            help="Bring asv's own site, below asv/, up to date too; --no-asv keeps what is there.",
        ),
    ] = True,
    serve: Annotated[
        bool, Option("--serve", help="Serve it on this machine, and build what changes.")
    ] = False,
    port: Annotated[
        int, Option("--port", min=0, max=65535, help="For --serve; 0: any that is free.")
    ] = PORT,
    as_json: JsonOption = False,
) -> None:
    """Build the site from results/: trends, experiments, changes, releases, downloads.

    A static folder that works below any address and needs no other host. The same
    results always give the same bytes. Files that cannot be read are named, and the
    rest is shown. Look at it with --serve.
    """
    if serve and as_json:
        raise UsageError("--serve and --json were both given; choose one")
    if base and not base.startswith(("https://", "http://")):
        raise UsageError(f"--base {base}: expected an address like https://example.org/duetbench/")
    root = paths.project_root()
    order = build.Order(
        root=root,
        results=(results or paths.results_dir(root)).resolve(),
        output=(output or root / FOLDER).resolve(),
        cache=paths.cache_dir() / "site",
        base=f"{base.rstrip('/')}/" if base else base,
        with_asv=asv,
    )
    if not order.results.is_dir():
        raise UsageError(f"{order.results}: expected a results folder, found none (--results)")
    narrator = Narrator(Console(stderr=as_json))
    with interruptible():
        stamp = local.stamp(order.results, root / "apps")
        began = time.monotonic()
        built = build.build(order, narrator)
        if as_json:
            seconds = round(time.monotonic() - began, 3)
            print_json({"output": str(order.output), "seconds": seconds, **asdict(built)})
            return
        _tell(narrator, built, order, began)
    if not serve:
        same = "" if output is None else f" -o {output}"
        narrator.say(f"to look at it: duetbench site{same} --serve")
        return

    def again() -> None:
        began = time.monotonic()
        try:
            _tell(narrator, build.build(order, narrator), order, began)
        except DuetbenchError as problem:  # the site of before is still there
            narrator.say(f"not built: {problem}")

    with suppress(InterruptedRun), interruptible(), local.served(order.output, port) as address:
        narrator.say(f"{address} shows it, and what changes in {order.results}; Ctrl-C ends that")
        look = partial(local.stamp, order.results, root / "apps")
        local.watch(look, again, threading.Event(), built=stamp)


def _tell(narrator: Narrator, built: build.Built, order: build.Order, began: float) -> None:
    for note in built.notes:
        narrator.say(f"note: {note}")
    narrator.say(
        f"{order.output}: {built.pages} pages; "
        f"{built.written} files written, {built.kept} kept, {built.removed} removed, "
        f"in {duration(time.monotonic() - began)}"
    )


@asv_app.callback()
def _group() -> None:
    """With one command only, Typer would make it the group's name."""


@asv_app.command("publish")
def publish_command(
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder of the site; default: .asv/html.")
    ] = None,
) -> None:
    """Make asv's site from its results; it needs no other host."""
    console, root = Console(), paths.project_root()
    with interruptible():
        site = output or root / ".asv" / "html"
        asv_site.publish(root, site, Narrator(console))
    console.say(f"the site is in {site}; to look at it: python3 -m http.server -d {site}")
