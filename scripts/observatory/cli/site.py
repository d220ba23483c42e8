"""`observatory site` and `findings`: results as pages for a browser, and as one of Markdown."""

import shlex
from pathlib import Path
from typing import Annotated, Final

from duetbench.core.errors import UsageError
from duetbench.host import paths
from duetbench.host.console import STANDARD, Console, Narrator, errors, write
from observatory.cli.options import OUTPUT, ResultsOption
from observatory.matrix.checkout import Checkout
from observatory.show import findings
from observatory.show.site import build
from observatory.show.site.site import Site

FOLDER: Final = "site"
"""Folder of the checkout; git ignores it."""


def site_command(
    *, output: Annotated[Path | None, OUTPUT] = None, results: ResultsOption = None
) -> None:
    """Build the site from results/: releases, experiments, servers side by side, trends.

    $ observatory site
    $ observatory site -o public

    The site is a static folder that works below any address. Files that cannot be read are named,
    and the rest is shown. Pages link to docs/ and asv/ of the folder, if they are there
    (`make docs`, `asv publish --html-dir site/asv`).

    Args:
        output: A folder; default: site/ of the checkout.
    """
    root = paths.project_root()
    results = (results or Checkout(root).results).resolve()
    output = (output or root / FOLDER).resolve()
    if not results.is_dir():
        raise UsageError(f"{results}: expected a results folder, found none (--results)")
    narrator = Narrator(Console())
    pages, notes = build.build(root, results, output)
    for note in notes:
        narrator.say(f"note: {note}")
    narrator.say(f"{output}: {pages} pages")
    folder = shlex.quote(str(output))
    narrator.say(f"to view it: python3 -m http.server -b 127.0.0.1 -d {folder}")


def findings_command(*, output: Annotated[Path, OUTPUT] = STANDARD) -> None:
    """Answer each experiment's statements, as Markdown.

    $ observatory findings --output results/FINDINGS.md

    Uses comparisons, the newest runs of each machine and profile, and asv's results.

    Args:
        output: The file; default: standard output.
    """
    project = Checkout.here()
    site = Site(project.root, project.results)
    links = {name: path.relative_to(site.results) for name, (_, path) in site.files.items()}
    write(findings.write_findings(site.experiments, links), output)
    for problem in site.problems:
        errors().say(f"note: {problem}")
