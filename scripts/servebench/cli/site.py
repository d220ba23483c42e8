"""`servebench site`: results as pages that anybody can browse."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from servebench import paths
from servebench.errors import ServebenchError, UsageError
from servebench.printing import Console
from servebench.progress import Narrator, duration
from servebench.signals import InterruptedRun, interruptible

if TYPE_CHECKING:
    from servebench.site.build import Built, Order
    from servebench.site.local import Stamp

FOLDER: Final = "site"
"""Of the checkout; it is ignored by git."""
PORT: Final = 8000


def site_command(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the site; default: site/ of the checkout."),
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="Results folder; default: the checkout's.")
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="URL",
            help="Address at which it will be published, for the feed and the page of missing "
            "addresses. All other links are relative.",
        ),
    ] = "",
    asv: Annotated[
        bool,
        typer.Option(
            "--asv/--no-asv",
            help="Bring asv's own site, below asv/, up to date too; --no-asv keeps what is there.",
        ),
    ] = True,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve it on this machine, and build what changes.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="For --serve; 0: any that is free.")
    ] = PORT,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say what was built as JSON, without --serve.")
    ] = False,
) -> None:
    """Build the site from results/: trends, experiments, changes, runs, downloads.

    A static folder that works below any address and needs no other host. The same
    results always give the same bytes. Files that cannot be read are named, and the
    rest is shown. Look at it with --serve.
    """
    from servebench.site import build  # noqa: PLC0415 - only this verb waits for numpy and jinja2

    if serve and as_json:
        raise UsageError("--serve and --json were both given; choose one")
    root = paths.project_root()
    order = build.Order(
        root=root,
        results=(results or paths.results_dir()).resolve(),
        output=(output or root / FOLDER).resolve(),
        cache=paths.cache_dir() / "site",
        base=_address(base),
        with_asv=asv,
    )
    if not order.results.is_dir():
        raise UsageError(f"{order.results}: expected a results folder, found none (--results)")
    narrator = Narrator(Console(highlight=False, stderr=as_json))
    with interruptible():
        seen = _look(order) if serve else None
        began = time.monotonic()
        built = build.build(order, narrator)
        if as_json:
            seconds = round(time.monotonic() - began, 3)
            told = {"output": str(order.output), "seconds": seconds, **asdict(built)}
            typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
            return
        _tell(narrator, built, order, began)
        if not serve:
            again = "" if output is None else f" -o {output}"
            narrator.say(f"to look at it: servebench site{again} --serve")
    if seen is not None:
        _serve(order, port, narrator, seen)


def _look(order: Order) -> Stamp:
    from servebench.site import local  # noqa: PLC0415 - see above

    return local.stamp(order.results, order.root / "apps")


def _serve(order: Order, port: int, narrator: Narrator, seen: Stamp) -> None:
    from servebench.site import build, local  # noqa: PLC0415 - see above

    def again() -> None:
        began = time.monotonic()
        try:
            _tell(narrator, build.build(order, narrator), order, began)
        except ServebenchError as problem:  # the site of before is still there
            narrator.say(f"not built: {problem}")

    with suppress(InterruptedRun), interruptible(), local.served(order.output, port) as address:
        narrator.say(f"{address} shows it, and what changes in {order.results}; Ctrl-C ends that")
        local.watch(lambda: _look(order), again, threading.Event(), built=seen)


def _tell(narrator: Narrator, built: Built, order: Order, began: float) -> None:
    for note in built.notes:
        narrator.say(f"note: {note}")
    narrator.say(
        f"{order.output}: {built.pages} pages; "
        f"{built.written} files written, {built.kept} kept, {built.removed} removed, "
        f"in {duration(time.monotonic() - began)}"
    )


def _address(base: str) -> str:
    """The address with a slash at its end."""
    if base and not base.startswith(("https://", "http://")):
        raise UsageError(f"--base {base}: expected an address like https://example.org/servebench/")
    return base if not base or base.endswith("/") else f"{base}/"
