"""`observatory compare`: two versions of the experiments."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from duetbench.app.setting import Contrast
from duetbench.cli import compare as of_tool
from duetbench.cli.compare import BaseOption, HeadOption
from duetbench.cli.options import (
    ReportsOption,
    WaitOption,
    Words,
    budget_option,
    reports,
    repository,
)
from duetbench.core.comparison import Comparison
from duetbench.host import files
from duetbench.host.console import STANDARD, Console
from duetbench.judge.preparation import Extent
from observatory.cli.options import ProfileOption, SelectOption
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout


def compare_command(
    base: str | None = None,
    head: str | None = None,
    /,
    *,
    of_base: BaseOption = (),
    of_head: HeadOption = (),
    select: SelectOption = (),
    profile: ProfileOption = "quick",
    only: Literal["effects", "counts"] | None = None,
    start: bool = False,
    budget: Annotated[str | None, budget_option("Stop after this time")] = None,
    wait: WaitOption = None,
    limit: Annotated[Words, Parameter(metavar="WHAT=SIZE")] = (),
    why: bool = False,
    output: ReportsOption = (),
    seed: Annotated[int, Parameter(metavar="N")] = 1,
    control: bool = False,
    results: Annotated[Path | None, Parameter(metavar="FOLDER")] = None,
) -> int:
    """Compare two versions of the experiments, each with the cases that it declares.

    $ observatory compare HEAD~1 --budget 20m
    $ observatory compare --base python=3.14 --head python=3.14t --select 'asgi-wsgi/*'

    Compares as `duetbench compare`, whose exit codes it has. A value of cases, such as server=, is
    given for both sides, as they declare several.

    Args:
        base: A revision; default: where HEAD left main.
        head: A revision; default: the files as they are.
        only: As of `duetbench compare`, like all options that are not explained.
        start: Compare starts, without load.
        seed: Of the measurements' order.
        results: Keep it here, for the site.
    """
    contrast = Contrast((base, head), of_base, of_head)
    extent = Extent(select, everything=control, start=start, only=only or "", seed=seed)
    words = (
        *(word for glob in select for word in ("--select", glob)),
        *("--profile", profile, "--seed", str(seed)),
    )

    def keep(comparison: Comparison) -> None:
        if results is not None:
            Console().say(f"\nsaved: {files.save(results, comparison)}")

    written = reports(output, ".json", ".md", ".html")
    console = Console(stderr=STANDARD in written)
    project = Checkout(repository(console), profile)
    return of_tool.run(
        console, project, contrast, extent, {}, budget=budget, limits=limit, why=why,
        files=written, wait=wait, words=words, keep=keep, prepare=sides.prepare,
    )  # fmt: skip
