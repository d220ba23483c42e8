"""`duetbench show`: write a stored result in a format."""

from typing import Annotated

from typer import Argument

from duetbench.app.declarations import results_dir
from duetbench.cli.options import (
    JsonOption,
    ReportsOption,
    reports,
    write_reports,
)
from duetbench.core.comparison import Comparison
from duetbench.host import paths, result_files
from duetbench.host.console import Console, json_text
from duetbench.load.summary import summarise
from duetbench.report import comparison_text
from duetbench.report import run as run_text


def show_command(
    run: Annotated[
        str, Argument(help="Id or part of it; file of a run or comparison; or 'latest'.")
    ] = "latest",
    output: ReportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run or a comparison, or write it; 'latest' is this repository's newest.

    $ duetbench show latest
    $ duetbench show COMPARISON -o report.html

    Comparisons are found by their id, if they were among the last on this machine or are in
    results/comparisons/. A file of `duetbench compare -o FILE.json` is shown as well.
    """
    content = result_files.load(run, results_dir(paths.project_root()), Comparison)
    kinds = [".json", ".md", *[".html"] * isinstance(content, Comparison)]
    written = reports(output, *kinds, as_json=as_json)
    if isinstance(content, Comparison):
        write_reports(written, comparison_text.texts_of(content))
        if not written:
            comparison_text.print_comparison(Console(), content)
        return
    summary = summarise(content)
    texts = {
        ".json": lambda: json_text(run_text.as_json(summary)),
        ".md": lambda: run_text.as_markdown(summary),
    }
    write_reports(written, texts)
    if not written:
        run_text.print_run(Console(), summary)
