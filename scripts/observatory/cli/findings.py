"""`observatory findings`: results beside what experiments ask and their sources say."""

from pathlib import Path
from typing import Annotated

from typer import Option

from duetbench.core.comparison import Comparison
from duetbench.core.errors import RecordError
from duetbench.host import files, result_files
from duetbench.host.console import STANDARD, write
from observatory.matrix.checkout import Checkout
from observatory.matrix.published import load_published, read_suites
from observatory.show import findings
from observatory.show.experiments import experiment, names, reference_runs
from observatory.store import asv_results, kinds


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
    root, results = project.root, project.results
    summaries = reference_runs(results, [])
    if not summaries:
        raise RecordError(
            f"{results}: no run has been recorded; make one: observatory measure --profile nightly"
        )
    published = load_published(root)
    comparisons = kinds.read_all(Comparison, results, [])
    stored = [*result_files.runs(results), *files.paths(Comparison, results)]
    links = {path.stem: path.relative_to(results).as_posix() for path in stored}
    snapshots, suites = asv_results.read(results / "asv"), read_suites(root)
    experiments = {
        name: experiment(name, summaries, published, suites, snapshots, comparisons)
        for name in names(published, suites)
    }
    write(findings.write_findings(experiments, links), output or STANDARD)
