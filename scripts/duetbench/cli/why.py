"""`duetbench why`: which function does a change of instructions lie in?"""

from pathlib import Path
from typing import Annotated

from typer import Argument

from duetbench.cli.options import (
    BaseOption,
    HeadOption,
    JsonOption,
    ResultsOption,
    SelectOption,
    WaitOption,
    machine,
    repository,
)
from duetbench.cli.target_options import Options, with_options, with_target
from duetbench.core.errors import CountError, HistoryError, SetupError, UsageError
from duetbench.host.console import Console, Narrator, errors, print_json
from duetbench.host.machine import measuring
from duetbench.judge import preparation, revisions
from duetbench.judge.comparison import require_code
from duetbench.judge.pairs import Sides
from duetbench.judge.why import attribute as explain
from duetbench.judge.why.attribute import attribute
from duetbench.project.project import Project
from duetbench.project.setting import Contrast
from duetbench.show.change import print_attribution
from duetbench.store import files
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison
from duetbench.store.result_files import find_comparison


@with_target
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
    *,
    options: Options,
) -> None:
    """Count the instructions of a request on both sides, and rank the functions that differ.

    $ duetbench why HEAD~1 --app shop.main:app --path /items/7
    $ duetbench why COMPARISON --select '*/asgi-json/*'

    Needs Valgrind, a C compiler and CPython 3.12 or newer. The result is stored as
    results/attributions/<id>.json, that of a change under its id. Cases that differ only in the
    server share a result, because no server is counted. Without --select, the case of a comparison
    with the clearest change is counted.
    """
    console = Console(stderr=as_json)
    project, narrator = repository(console), Narrator(console)
    folder = results or project.results
    record, comparison = _known(names or [], folder)
    if record is not None and select:
        raise UsageError("a change says which case it is: leave --select out")
    attributions: list[Attribution] = []

    def keep(found: Attribution) -> None:
        files.save(folder, found)
        attributions.append(found)
        if not as_json:
            print_attribution(console, found)

    with machine(wait, narrator.say), revisions.copies() as copies:
        scope = explain.scope(project, select or (), narrator, copies)
        if record is not None:
            keep(explain.explain(project, record, narrator))
        elif comparison is not None:
            sides = explain.sides_of_comparison(project, comparison, scope)
            surest = None if select else explain.moved_most(comparison, sides)
            pairs = [surest] if surest else explain.once(sides)
            for pair in pairs:
                found = attribute(*pair, narrator)
                keep(found.model_copy(update={"comparison": comparison.id}))
        else:
            project = with_options(project, options)
            base, head = (*(names or []), None, None)[:2]
            contrast = Contrast((base, head), of_base or (), of_head or ())
            require_code("why", contrast)
            sides = preparation.prepare(project, contrast, scope)
            for pair in explain.once(sides):
                keep(attribute(*pair, narrator))
    if as_json:
        print_json([record.model_dump(mode="json") for record in attributions])


def _known(names: list[str], folder: Path) -> tuple[Change | None, Comparison | None]:
    """The change or the comparison that is named, if it is one."""
    if len(names) > 2:
        raise UsageError(f"expected BASE and HEAD, or one name, found {' '.join(names)}")
    if len(names) != 1:
        return None, None
    for path in files.paths(Change, folder):
        if path.stem == names[0]:
            return files.read_at(Change, folder, path), None
    return None, find_comparison(names[0], folder)


def explain_change(project: Project, record: Change, results: Path, narrator: Narrator) -> None:
    """Attribute a change that has no attribution yet, for verbs that find changes.

    A failure is only a note.
    """
    if (results / Attribution.place.format(record)).exists():
        return
    try:
        files.save(results, explain.explain(project, record, narrator))
    except (CountError, HistoryError, SetupError, UsageError) as problem:
        errors().say(f"note: {record.id}: its code was not looked at: {problem}")


def explain_comparison(
    comparison: Comparison, sides: Sides, narrator: Narrator
) -> Attribution | None:
    """Say which code it is, for `compare --why`; None: nothing moved that instructions explain."""
    moved = explain.moved_most(comparison, sides)
    if moved is None:
        return None
    try:
        with measuring():
            attributed = attribute(*moved, narrator)
    except CountError as problem:
        narrator.say(f"which code it is was not found out: {problem}")
        return None
    return attributed.model_copy(update={"comparison": comparison.id})
