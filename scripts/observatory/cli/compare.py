"""`observatory compare`: two versions of the experiments."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from duetbench.app.setting import Contrast
from duetbench.cli import compare as of_tool
from duetbench.cli.compare import BaseOption, HeadOption
from duetbench.cli.options import (
    JsonOption,
    ReportsOption,
    WaitOption,
    budget_option,
    reports,
    repository,
)
from duetbench.core.comparison import Comparison
from duetbench.host import files
from duetbench.host.console import STANDARD, Console
from duetbench.judge.comparison import Extent
from observatory.cli.options import ProfileOption, SelectOption
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout


def compare_command(
    base: Annotated[
        str | None, Argument(help="A revision; default: where HEAD left main.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, Argument(help="A revision; default: the files as they are.", show_default=False)
    ] = None,
    of_base: BaseOption = None,
    of_head: HeadOption = None,
    select: SelectOption = None,
    profile: ProfileOption = "quick",
    only: Annotated[
        Literal["effects", "counts"] | None,
        Option(
            "--only", help="As of `duetbench compare`, like all options that are not explained."
        ),
    ] = None,
    start: Annotated[bool, Option("--start", help="Compare starts, without load.")] = False,
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    wait: WaitOption = None,
    limit: Annotated[list[str] | None, Option("--limit", metavar="WHAT=SIZE")] = None,
    why: Annotated[bool, Option("--why")] = False,
    output: ReportsOption = None,
    as_json: JsonOption = False,
    seed: Annotated[int, Option("--seed", metavar="N", help="Of the measurements' order.")] = 1,
    control: Annotated[bool, Option("--control")] = False,
    results: Annotated[
        Path | None, Option("--results", metavar="FOLDER", help="Keep it here, for the site.")
    ] = None,
) -> None:
    """Compare two versions of the experiments, each with the cases that it declares.

    $ observatory compare HEAD~1 --budget 20m
    $ observatory compare --base python=3.14 --head python=3.14t --select 'asgi-wsgi/*'

    Compares as `duetbench compare`, whose exit codes it has. A value of cases, such as server=, is
    given for both sides, as they declare several.
    """
    contrast = Contrast((base, head), of_base or (), of_head or ())
    globs = tuple(select or ())
    extent = Extent(globs, everything=control, start=start, only=only or "", seed=seed)
    words = (
        *(word for glob in globs for word in ("--select", glob)),
        *("--profile", profile, "--seed", str(seed)),
    )

    def keep(comparison: Comparison) -> None:
        if results is not None:
            Console().say(f"\nsaved: {files.save(results, comparison)}")

    written = reports(output, ".json", ".md", ".html", as_json=as_json)
    console = Console(stderr=STANDARD in written)
    project = Checkout(repository(console), profile)
    of_tool.run(
        console, project, contrast, extent, {}, budget=budget, limits=limit or (), why=why,
        files=written, wait=wait, words=words, keep=keep, prepare=sides.prepare,
    )  # fmt: skip
