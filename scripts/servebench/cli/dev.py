"""`servebench dev`: for those who work on servebench itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from servebench import committed, paths
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.site import pictures
from servebench.site.build import Order, build


def pictures_command(
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder; default: docs/ of the checkout.")
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Take none: say whether those there show the site.")
    ] = False,
) -> None:
    """Build the site of the committed results and take the README's pictures of it, light and dark.

    What was measured here and is not committed is not in them. A test fails while they show
    something else than the site does. Exit code 1, with --check: they do not.
    """
    console = Console()
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
                console.say(str(path))
            return
        sentences = pictures.stale(site, docs)
    for sentence in sentences:
        console.say(sentence)
    if sentences:
        raise Exit(1)
