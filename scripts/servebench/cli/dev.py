"""`servebench dev`: verbs for those who work on servebench itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servebench import committed, paths
from servebench.cli.show import findings_command, schema_command
from servebench.printing import Console
from servebench.progress import Narrator

if TYPE_CHECKING:
    pass

dev_app = typer.Typer(no_args_is_help=True, help="For those who work on servebench itself.")


@dev_app.callback()
def _group() -> None:
    """For those who work on servebench itself."""


@dev_app.command("pictures")
def pictures_command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; default: docs/ of the checkout.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Take none: say whether those there show the site.")
    ] = False,
) -> None:
    """Build the site of the committed results and take the README's pictures of it, light and dark.

    What was measured here and is not committed is not in them. A test fails while they show
    something else than the site does. Exit code 1, with --check: they do not.
    """
    from servebench.site import pictures  # noqa: PLC0415 - only this verb waits for numpy
    from servebench.site.build import Order, build  # noqa: PLC0415

    console = Console(highlight=False)
    root = paths.project_root()
    docs = output or root / "docs"
    with tempfile.TemporaryDirectory(prefix="servebench-pictures-") as folder:
        site = Path(folder) / "site"
        order = Order(
            root=root,
            results=committed.results(root, Path(folder)),
            output=site,
            cache=paths.cache_dir() / "site",
            with_asv=False,
        )
        build(order, Narrator(Console(quiet=True)))
        if not check:
            for path in pictures.take(site, docs):
                console.print(str(path), markup=False, soft_wrap=True)
            return
        sentences = pictures.stale(site, docs)
    for sentence in sentences:
        console.print(sentence, markup=False, soft_wrap=True)
    if sentences:
        raise typer.Exit(1)


dev_app.command("findings")(findings_command)
dev_app.command("schema")(schema_command)
