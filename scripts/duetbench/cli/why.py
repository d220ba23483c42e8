"""`duetbench why`: which function does a change of instructions lie in?"""

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from duetbench.app import revisions
from duetbench.app.setting import Contrast
from duetbench.cli.compare import BaseOption, HeadOption
from duetbench.cli.options import (
    DECLARED,
    JsonOption,
    SelectOption,
    TargetOptions,
    WaitOption,
    Words,
    machine,
    repository,
    with_options,
)
from duetbench.core.comparison import Attribution
from duetbench.core.errors import UsageError
from duetbench.host.console import Console, Narrator, print_json
from duetbench.host.result_files import find_comparison
from duetbench.judge import attribute, preparation
from duetbench.judge.pairs import require_code
from duetbench.judge.preparation import Scope
from duetbench.judge.repetition import contrast_of
from duetbench.report.attribution import AttributionText
from duetbench.report.report import print_section


def why_command(
    names: Annotated[Words, Parameter(metavar="[COMPARISON | BASE [HEAD]]")] = (),
    /,
    *,
    of_base: BaseOption = (),
    of_head: HeadOption = (),
    select: SelectOption = (),
    as_json: JsonOption = False,
    wait: WaitOption = None,
    application: TargetOptions = DECLARED,
) -> None:
    """Count the instructions of a request on both sides, and rank the functions that differ.

    $ duetbench why HEAD~1 --app shop.main:app --path /items/7
    $ duetbench why COMPARISON --app shop.main:app

    Needs Valgrind, a C compiler and CPython 3.12 or newer. Cases that differ only in the server
    share a result, because no server is counted. Without --select, the case of a comparison with
    the clearest change is counted.

    Args:
        names: A comparison, BASE, or BASE HEAD.
    """
    if len(names) > 2:
        raise UsageError(f"expected BASE and HEAD, or one name, found {' '.join(names)}")
    console = Console(stderr=as_json)
    project, narrator = with_options(repository(console), application.read()), Narrator(console)
    comparison = find_comparison(names[0], project.results) if len(names) == 1 else None
    base, head = (*names, None, None)[:2]
    attributions: list[Attribution] = []
    with machine(wait, console), revisions.copies() as copies:
        contrast = Contrast((base, head), of_base, of_head)
        if comparison:
            contrast = contrast_of(comparison)
        require_code("why", contrast)
        scope = Scope(select, narrator, copies, loaded=False)
        sides = preparation.prepare(project, contrast, scope)
        moved = attribute.moved_most(comparison, sides) if comparison and not select else None
        for pair in [moved] if moved else attribute.once(sides):
            attribution = attribute.attribute(*pair, narrator)
            attributions.append(attribution)
            if not as_json:
                print_section(console, replace(AttributionText(attribution).section, title=""))
    if as_json:
        print_json([record.model_dump(mode="json") for record in attributions])
