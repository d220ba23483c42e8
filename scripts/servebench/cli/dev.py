"""`servebench dev`: for those who work on servebench itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Option

from servebench.host import paths
from servebench.host.console import Console
from servebench.host.progress import Narrator
from servebench.record import store
from servebench.site import pictures
from servebench.site.build import Order, build


def pictures_command(
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder; default: docs/ of the checkout.")
    ] = None,
) -> None:
    """Build the site of the committed results and take the README's pictures of it, light and dark.

    What was measured here and is not committed is not in them.
    """
    console = Console()
    root = paths.project_root()
    docs = output or root / "docs"
    with tempfile.TemporaryDirectory(prefix="servebench-pictures-") as folder:
        site = Path(folder) / "site"
        order = Order(
            root=root,
            results=store.copy_committed(root, Path(folder)),
            output=site,
            cache=paths.cache_dir() / "site",
            with_asv=False,
        )
        build(order, Narrator(Console(quiet=True)))
        for path in pictures.take(site, docs):
            console.say(str(path))
