"""`observatory findings`: results beside what experiments ask and their sources say."""

from pathlib import Path
from typing import Annotated

from typer import Option

from duetbench.core.errors import RecordError
from duetbench.host.console import STANDARD, errors, write
from observatory.matrix.checkout import Checkout
from observatory.show import findings
from observatory.show.site.site import Site
from observatory.trend import reading


def findings_command(
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="The file; default: standard output."),
    ] = None,
) -> None:
    """Answer each experiment's statements, as Markdown.

    $ observatory findings --output results/FINDINGS.md

    Uses comparisons, the newest runs of each machine and profile, and asv's results.
    """
    project = Checkout.here()
    site = Site(project.root, project.results, reading.read(project.results))
    if not site.sources.runs:
        raise RecordError(
            f"{project.results}: no run has been recorded; make one: observatory measure --profile "
            "nightly"
        )
    links = {name: path.relative_to(site.results) for name, (_, path) in site.files.items()}
    write(findings.write_findings(site.experiments, links), output or STANDARD)
    for problem in site.broken:
        errors().say(f"note: {problem}")
