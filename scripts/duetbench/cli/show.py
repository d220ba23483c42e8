"""`duetbench show`: write a stored result in a format."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Final

from typer import Argument

from duetbench.cli.options import (
    HtmlOption,
    JsonOption,
    MarkdownOption,
    ResultsOption,
    SelectOption,
    put,
    put_html,
)
from duetbench.core.errors import UsageError
from duetbench.core.model import Run
from duetbench.host.console import Console, print_json
from duetbench.project.project import Project
from duetbench.show import comparison_text
from duetbench.show import run_view as pages
from duetbench.show.run_text import as_markdown as run_markdown
from duetbench.show.run_text import print_page
from duetbench.store import files, result_files
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points
from duetbench.trend.summary import summarise

_OF: Final[Mapping[str, Collection[type]]] = {
    "--select": {Run},
    "--markdown": {Run, Comparison},
    "--html": {Comparison},
}
"""The kinds of results that each option applies to."""


def show_command(
    run: Annotated[
        str, Argument(help="Id or part of it; file of a run, comparison or points; or 'latest'.")
    ] = "latest",
    select: SelectOption = None,
    as_json_: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    results: ResultsOption = None,
) -> None:
    """Show a run, a comparison, or anchored points; 'latest' is this repository's newest.

    $ duetbench show latest
    $ duetbench show COMPARISON --html report.html

    Comparisons are found by their id, if they were among the last on this machine or are in
    results/comparisons/. A file of `duetbench compare --output` is shown as well.
    """
    if as_json_ and markdown:
        raise UsageError("--json and --markdown were both given; choose one")
    results = results or Project.here().results
    if run == "latest" and not select:  # which is for runs
        path = result_files.newest(results)
    else:
        path = result_files.find(run, results)
    kind = result_files.type_of(path)
    options = {"--select": select, "--markdown": markdown, "--html": html}
    if stray := [name for name, value in options.items() if value and kind not in _OF[name]]:
        noun = "anchored points" if kind is Points else kind.noun
        raise UsageError(f"{', '.join(stray)}: not for {noun}, which {path} is")
    if kind is Run:
        _show_run(path, tuple(select or ()), as_json=as_json_, markdown=markdown)
        return
    content = files.read(kind, path)
    put_html(html, content)
    if as_json_:
        print_json(content.model_dump(mode="json"))
    elif isinstance(content, Points):
        comparison_text.print_points(Console(), content)
    elif isinstance(content, Comparison) and markdown:
        put(comparison_text.as_markdown(content), markdown)
    elif isinstance(content, Comparison):
        comparison_text.print_comparison(Console(), content)


def _show_run(path: Path, select: tuple[str, ...], *, as_json: bool, markdown: Path | None) -> None:
    summary = summarise(files.read(Run, path))
    chosen = pages.narrow(summary, select)
    if not chosen.cases:
        raise UsageError(
            f"no case of run {summary.run.id} matches {' or '.join(select or ['*'])}; "
            "its cases: " + ", ".join(result.case.id for result in summary.run.results[:5]) + ", …"
        )
    page = pages.make_page(summary, select)
    if as_json:
        print_json(pages.as_json(chosen, page))
    elif markdown:
        put(run_markdown(page), markdown)
    else:
        print_page(Console(), page)
