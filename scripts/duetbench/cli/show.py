"""`duetbench show`: write a stored result in a format."""

from functools import partial

import rich.console

from duetbench.app.declarations import results_dir
from duetbench.cli.compare import texts_of
from duetbench.cli.options import ReportsOption, reports, write_reports
from duetbench.core.model import Run
from duetbench.host import paths, result_files
from duetbench.host.console import Console
from duetbench.load.summary import summarise
from duetbench.report import report
from duetbench.report import run as run_text


def show_command(run: str = "latest", /, *, output: ReportsOption = ()) -> None:
    """Show a run or a comparison, or write it; 'latest' is this repository's newest.

    $ duetbench show latest
    $ duetbench show COMPARISON -o report.html

    Comparisons are found by their id, if they were among the last on this machine or are in
    results/comparisons/. A file of `duetbench compare -o FILE.json` is shown as well.

    Args:
        run: Id or part of it; file of a run or comparison; or 'latest'.
    """
    content = result_files.load(run, results_dir(paths.project_root()))
    if isinstance(content, Run):
        texts, show = run_text.texts_of(content), partial(print_run, run=content)
    else:
        texts = texts_of(content)
        show = partial(report.print_comparison, comparison=content)
    written = reports(output, *texts)
    write_reports(written, texts)
    if not written:
        show(Console())


def print_run(console: rich.console.Console, run: Run) -> None:
    """Print a run with all figures of its cases."""
    for section in run_text.sections(summarise(run)):
        console.print()
        report.print_section(console, section)
    console.print(report.GLOSSARY)
