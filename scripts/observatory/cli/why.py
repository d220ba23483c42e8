"""`observatory why`: which function does a change of an experiment lie in?"""

from functools import partial
from typing import Annotated

from typer import Argument

from duetbench.cli import why as of_tool
from duetbench.cli.options import (
    BaseOption,
    HeadOption,
    JsonOption,
    ResultsOption,
    WaitOption,
    repository,
)
from duetbench.host.console import Console
from observatory.cli.options import SelectOption
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout


def why_command(
    names: Annotated[
        list[str] | None,
        Argument(help="A comparison, BASE, or BASE HEAD.", show_default=False),
    ] = None,
    of_base: BaseOption = None,
    of_head: HeadOption = None,
    select: SelectOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
    wait: WaitOption = None,
) -> None:
    """Rank the functions behind a change of an experiment, as `duetbench why` does.

    $ observatory why COMPARISON --select '*/asgi-json/*'

    Confirmed changes of nights have theirs in their records.
    """
    console, globs = Console(stderr=as_json), tuple(select or ())
    checkout = Checkout(repository(console)).selecting(globs)
    of_tool.run(
        console, names or (), (of_base or (), of_head or ()), globs,
        folder=results or checkout.results, as_json=as_json, wait=wait,
        prepare=partial(sides.prepare, checkout),
    )  # fmt: skip
