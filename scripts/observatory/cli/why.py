"""`observatory why`: which function does a change of an experiment lie in?"""

import glob
from functools import partial
from typing import Annotated

from typer import Argument

from duetbench.app import revisions
from duetbench.cli import why as of_tool
from duetbench.cli.options import (
    BaseOption,
    HeadOption,
    JsonOption,
    ResultsOption,
    WaitOption,
    repository,
)
from duetbench.core.comparison import Attribution
from duetbench.core.errors import CountError, HistoryError, SetupError, UsageError
from duetbench.core.metrics import INSTRUCTIONS, row
from duetbench.host import files
from duetbench.host.console import Console, Narrator, errors
from duetbench.judge import attribute, preparation
from duetbench.judge.preparation import Scope
from duetbench.report.attribution import print_attribution
from observatory.cli.options import SelectOption
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout
from observatory.store import kinds
from observatory.store.change import Change
from observatory.trend.confirm import find_locks


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

    That of a change is kept in its record.
    """
    console = Console(stderr=as_json)
    checkout = Checkout(repository(console))
    folder, globs = results or checkout.results, tuple(select or ())
    changes = {path.stem: path for path in files.paths(Change, folder)}
    if names and len(names) == 1 and names[0] in changes:
        if globs:
            raise UsageError("a change says which case it is: leave --select out")
        record = kinds.read_at(Change, folder, changes[names[0]])
        found = explain(checkout, record, Narrator(console))
        files.save(folder, record.model_copy(update={"why": found}))
        print_attribution(console, found)
        return
    checkout = checkout.selecting(globs)
    of_tool.run(
        console, names or (), (of_base or (), of_head or ()), globs, folder=folder,
        as_json=as_json, wait=wait, prepare=partial(sides.prepare, checkout),
    )  # fmt: skip


def explain(checkout: Checkout, change: Change, narrator: Narrator) -> Attribution:
    """Attribute a change: count the instructions of the case that moved most, on both stacks.

    Raises:
        CountError: It is one of memory or starts, or its instructions cannot be counted.
        UsageError: It is of no case that is declared.
        HistoryError, SetupError: As of `confirm.find_locks`, or a stack cannot be made.
    """
    # Of a candidate one whose instructions moved.
    stepped = (step.series for step in change.steps if step.series.metric == INSTRUCTIONS)
    series = next(stepped, change.series)
    if not row(series.metric).executes:
        raise CountError("it is memory or starts that moved, of which requests say nothing")
    checkout = checkout.with_case(series.case)
    with revisions.copies() as copies:
        scope = Scope((glob.escape(series.case),), narrator, copies, loaded=False)
        locks = find_locks(checkout, change, narrator)
        stack = change.base.stack
        before, after = (f"{stack} before", locks.base), (f"{stack} after", locks.head)
        (pair,) = preparation.of_locks(checkout, stack, before, after, scope).pairs
        attributed = attribute.attribute(*pair.sides, narrator)
    return attributed.model_copy(update={"packages": change.packages})


def explain_change(checkout: Checkout, narrator: Narrator, record: Change) -> Change:
    """Attribute a change that has no attribution yet, for verbs that find changes.

    A failure is only a note.
    """
    if record.why is None:
        try:
            return record.model_copy(update={"why": explain(checkout, record, narrator)})
        except (CountError, HistoryError, SetupError, UsageError) as problem:
            errors().say(f"note: {record.id}: its code was not looked at: {problem}")
    return record
