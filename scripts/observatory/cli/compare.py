"""`observatory compare` and `why`: two versions of the experiments."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from duetbench.cli import compare as of_tool
from duetbench.cli import why as why_of_tool
from duetbench.cli.compare import Compared
from duetbench.cli.options import (
    BaseOption,
    HeadOption,
    JsonOption,
    ReportsOption,
    ResultsOption,
    WaitOption,
    budget_option,
    budget_seconds,
    reports,
    repository,
)
from duetbench.core.errors import UsageError
from duetbench.host.console import Console, Narrator
from duetbench.judge.comparison import Extent
from duetbench.project.setting import Contrast
from duetbench.show.change import print_attribution
from duetbench.store import files
from duetbench.store.comparison import Comparison
from observatory.cli.options import ProfileOption, SeedOption, SelectOption
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change
from observatory.trend.confirm import explain


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
    why: Annotated[Path | None, Option("--why", metavar="FILE")] = None,
    output: ReportsOption = None,
    as_json: JsonOption = False,
    seed: SeedOption = 1,
    everything: Annotated[
        bool, Option("--all", help="Also measure cases that the change cannot affect.")
    ] = False,
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
    extent = Extent(
        globs, budget_seconds(budget), everything=everything, start=start, only=only or "",
        seed=seed,
    )  # fmt: skip
    words = (
        *(word for glob in globs for word in ("--select", glob)),
        *("--profile", profile, "--seed", str(seed), *["--all"] * everything),
        *(*["--start"] * start, *(["--only", only] if only else [])),
        *(["--budget", budget] if budget else []),
        *(word for text in limit or () for word in ("--limit", text)),
    )

    def find(console: Console) -> Compared:
        checkout = Checkout(repository(console).root, profile)
        return Compared(checkout, words, prepare=sides.prepare)

    def keep(comparison: Comparison) -> None:
        if results is not None:
            Console().say(f"\nsaved: {files.save(results, comparison)}")

    of_tool.run(
        find, contrast, extent, limit or (), why,
        files=reports(output, ".json", ".md", ".html", as_json=as_json), wait=wait, keep=keep,
    )  # fmt: skip


def why_command(
    names: Annotated[
        list[str] | None,
        Argument(help="A change, a comparison, BASE, or BASE HEAD.", show_default=False),
    ] = None,
    of_base: BaseOption = None,
    of_head: HeadOption = None,
    select: SelectOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
    wait: WaitOption = None,
) -> None:
    """Rank the functions behind a change of an experiment, as `duetbench why` does.

    $ observatory why CHANGE
    $ observatory why COMPARISON --select '*/asgi-json/*'

    The result is stored as results/attributions/<id>.json, that of a change under its id.
    """
    console = Console(stderr=as_json)
    checkout = Checkout(repository(console).root)
    folder, globs = results or checkout.results, tuple(select or ())
    changes = {path.stem: path for path in files.paths(Change, folder)}
    if names and len(names) == 1 and names[0] in changes:
        if globs:
            raise UsageError("a change says which case it is: leave --select out")
        record = files.read_at(Change, folder, changes[names[0]])
        found = explain(checkout, record, Narrator(console))
        files.save(folder, found)
        print_attribution(console, found)
        return
    checkout = checkout.selecting(globs)
    why_of_tool.run(
        console, names or (), (of_base or (), of_head or ()), globs, folder=folder,
        as_json=as_json, wait=wait, subject=lambda _: checkout,
        prepare=partial(sides.prepare, checkout),
    )  # fmt: skip
