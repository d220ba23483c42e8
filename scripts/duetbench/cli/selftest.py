"""`duetbench selftest`: how often is the instrument wrong, and what does it see?"""

import math
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Final, TypeVar, get_args

from rich.markdown import Markdown
from typer import Exit, Option, Typer

from duetbench.cli.options import (
    JsonOption,
    ResultsOption,
    SelectOption,
    budget_option,
    budget_seconds,
    clean_up,
    machine,
)
from duetbench.core.errors import CountError, SetupError, UsageError
from duetbench.core.model import Case
from duetbench.host import paths, scratch
from duetbench.host.console import Console, errors, print_json, write
from duetbench.judge.instruments import Reporter
from duetbench.judge.selftest import naming
from duetbench.judge.selftest.bench import Bench, Task, chosen
from duetbench.judge.selftest.injected import Kind
from duetbench.judge.why.attribute import attribute
from duetbench.measure import testbed
from duetbench.measure.runner import revision, utc_now
from duetbench.project.project import Project
from duetbench.show import selftest as report
from duetbench.show import selftest_attributions
from duetbench.store import attribution_trial, files
from duetbench.store.trial import load_offsets, load_trials, save_offset, save_trial

selftest_app = Typer(no_args_is_help=True)

KINDS: Final = get_args(Kind)
_PREFIX: Final = "selftest"
_AGAIN: Final = (
    1_000_001  # the seed of a second time is so much larger: its copy is of another kind
)

MinutesOption = Annotated[
    float | None, Option("--minutes", min=1, help="Begin no comparison after so long.")
]
TwiceOption = Annotated[
    bool, Option("--twice", help="Make each again with other copies: do its verdicts agree?")
]
BudgetOption = Annotated[
    str | None, budget_option("Time for each comparison", "Default: until all is decided.")
]


@selftest_app.callback()
def _group() -> None:
    """Measure the instrument: false verdicts, power, bias.

    It makes comparisons whose right answer is known. Trials are kept in results/selftest/ as they
    are made, so that a long self-test can be done in parts; `show` reads all of them.
    """


@selftest_app.command("aa")
def aa_command(
    tries: Annotated[int, Option("--tries", min=1, help="Comparisons to make.")] = 30,
    select: SelectOption = None,
    number: Annotated[
        int | None, Option("--cases", min=1, help="Of each, drawn from the selected (all).")
    ] = None,
    budget: BudgetOption = None,
    minutes: MinutesOption = None,
    seed: Annotated[int, Option("--seed", help="Of the first; counts up.")] = 1,
    twice: TwiceOption = False,
    inside: Annotated[
        bool, Option("--inside/--no-inside", help="Benchmarks inside the process as well.")
    ] = True,
    results: ResultsOption = None,
) -> None:
    """Compare two fresh copies of the stack: whatever is said to have moved is wrong."""
    cases = [case.id for case in chosen(select or ())]
    limit, many = budget_seconds(budget), min(number or len(cases), len(cases))
    # A budget takes cases from the front: drawn orders give every case its turn over a self-test.
    tasks = [
        Task("aa", 0.0, tuple(order.sample(cases, many)), limit, one, inside=inside)
        for one in range(seed, seed + tries)
        for order in [random.Random(one)]  # noqa: S311 - an order that can be repeated
    ]
    _make(tasks, minutes, results, twice=twice)


@selftest_app.command("plant")
def plant_command(
    kind: Annotated[str, Option("--kind", help=f"One of {', '.join(KINDS)}.")] = "busy",
    size: Annotated[
        list[float] | None,
        Option(
            "--size",
            help="Relative growth (default: 0.01, 0.02, 0.05, 0.1); queue: requests at once (1).",
        ),
    ] = None,
    tries: Annotated[int, Option("--tries", min=1, help="Per size and case.")] = 10,
    select: SelectOption = None,
    twice: TwiceOption = False,
    closely: Annotated[
        bool, Option("--closely", help="Launch what moved one after the other too: is a duet fair?")
    ] = False,
    budget: BudgetOption = None,
    minutes: MinutesOption = None,
    seed: Annotated[int, Option("--seed", help="Of the first; counts up.")] = 1001,
    results: ResultsOption = None,
) -> None:
    """Plant a slowdown of known size in a copy of one case, and see whether it is found."""
    if kind not in KINDS:
        raise UsageError(f"--kind {kind!r}: expected one of {', '.join(KINDS)}")
    sizes = size or ([1.0] if kind == "queue" else [0.01, 0.02, 0.05, 0.10])
    if kind == "queue" and min(sizes) < 1:
        raise UsageError(f"--size {min(sizes):g}: a queue lets 1 or more requests in at once")
    if min(sizes) <= 0:
        raise UsageError(f"--size {min(sizes):g}: expected a growth above 0, such as 0.01")
    limit = budget_seconds(budget)
    each = [(case.id, one) for one in sizes for case in chosen(select or ())]
    # In turns: an hour that was cut short has tries of every size.
    tasks = [
        Task(kind, one, (name,), limit, seed + number, closely)  # type: ignore[arg-type] # checked above
        for number in range(tries)
        for name, one in each
    ]
    _make(tasks, minutes, results, twice=twice)


@selftest_app.command("installations")
def installations_command(
    pairs: Annotated[int, Option("--pairs", min=2, help="Copies to make.")] = 12,
    duets: Annotated[int, Option("--duets", min=2, help="Of each copy and case.")] = 20,
    select: SelectOption = None,
    same: Annotated[
        bool, Option("--same", help="No copies: the original against itself, as a control.")
    ] = False,
    minutes: MinutesOption = None,
    seed: Annotated[int, Option("--seed", help="Of the first copy; counts up.")] = 1,
    results: ResultsOption = None,
) -> None:
    """Hold copies of the installation against it: what is different although nothing is?

    Copies have other inodes and places. In turns their paths are longer, the environment of their
    servers is larger, and the interpreter is copied too, or not.
    """
    cases = chosen(select or ("asgi-wsgi/asgi-json/py3.14*/w1/c128",))
    began = utc_now()
    with _bench(cases, minutes, results) as (bench, console, waiting):
        for number in waiting(range(seed, seed + pairs)):
            offset = bench.offset(number, duets, began, same=same)
            save_offset(results or Project.here().results, offset)
            for case, ratios in offset.ratios.items():
                mean = f"{geometric_mean(ratios) - 1:+.2%}" if ratios else "no usable duet"
                console.say(f"{case}: {mean}")


@selftest_app.command("show")
def show_command(
    markdown: Annotated[
        Path | None, Option("--markdown", "-o", help="Write the page to a file.")
    ] = None,
    as_json: JsonOption = False,
    results: ResultsOption = None,
) -> None:
    """Show what all trials together say: as a page on a terminal, as Markdown elsewhere."""
    if as_json and markdown is not None:
        raise UsageError("--json and --markdown were both given; choose one")
    folder = results or Project.here().results
    found = load_trials(folder), load_offsets(folder), attribution_trial.load(folder)
    console = Console()
    if as_json:
        print_json(report.as_json(*found))
    elif markdown is None and console.is_terminal:
        console.print(Markdown(report.page(*found)))
    else:
        write(report.page(*found), markdown)


@selftest_app.command("why")
def why_command(
    select: Annotated[
        str, Option("--select", metavar="GLOB", help="Names of plants, or of pairs: same-*.")
    ] = "*",
    python: Annotated[
        list[str] | None, Option("--python", help="Interpreters; default: 3.14 and 3.14t.")
    ] = None,
    again: Annotated[bool, Option("--again", help="Make what was made before once more.")] = False,
    minutes: MinutesOption = None,
    results: ResultsOption = None,
) -> None:
    """Change one function, and see whether its attribution names it.

    Twenty changes are planted, and ten pairs are made without a change, where no function may be
    named; each on each interpreter. What is there already is not made again: a self-test that was
    stopped goes on.

    Exit code 0: done. 1: one of them could not be made, with the reason.
    """
    folder, pythons = results or Project.here().results, python or ["3.14", "3.14t"]
    files.require_room(folder)
    plants = [one for one in naming.IN_TURNS if fnmatchcase(one.name, select)]
    tasks = [(plant, naming.case_of(plant, name)) for plant in plants for name in pythons]
    if not tasks:
        known = ", ".join(one.name for one in naming.IN_TURNS)
        raise UsageError(f"--select {select!r} selects no plant; there are {known}")
    rig = testbed.assemble(Project.here(), [case for _, case in tasks], paths.state_dir() / "logs")
    commit, _ = revision(paths.project_root())
    ends = math.inf if minutes is None else time.monotonic() + 60 * minutes
    console, failed = Console(), False
    with _folder() as scratch_:
        for plant, case in tasks:
            where = attribution_trial.pattern(rig.machine.id, plant.name, case.python)
            if time.monotonic() >= ends or (not again and any(folder.glob(where))):
                continue
            console.say(f"{plant.name} on {case.python}: {plant.told}")
            try:
                trial = naming.attempt(plant, case, rig, scratch_, attribute, commit)
            except (CountError, SetupError) as problem:
                errors().say(f"{plant.name} on {case.python}: not made: {problem}")
                failed = True
                continue
            attribution_trial.save(folder, trial)
            console.say(f"said: {selftest_attributions.answer(trial)}")
    if failed:
        raise Exit(1)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for installations, on the disk that the original is on."""
    scratch.sweep(_PREFIX, paths.cache_dir())
    folder = scratch.make(_PREFIX, paths.cache_dir())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_T = TypeVar("_T")


@contextmanager
def _bench(
    cases: Sequence[Case], minutes: float | None, results: Path | None
) -> Iterator[tuple[Bench, Console, Callable[[Sequence[_T]], Iterator[_T]]]]:
    """A bench, a console, and what yields of things to be made those that there is time for."""
    files.require_room(results or Project.here().results)
    console = Console()
    clean_up(console)
    ends = math.inf if minutes is None else time.monotonic() + 60 * minutes

    def waiting(things: Sequence[_T]) -> Iterator[_T]:
        made = 0
        for made, thing in enumerate(things):
            if time.monotonic() >= ends:
                break
            console.say(f"[{made + 1}/{len(things)}] {thing}")
            yield thing
        else:
            made = len(things)
        console.say(f"{made} of {len(things)} made; read them: duetbench selftest show")

    with _folder() as folder, machine():
        yield Bench(cases, folder, Reporter(console)), console, waiting


def _make(
    tasks: Sequence[Task], minutes: float | None, results: Path | None, *, twice: bool
) -> None:
    names = {name for task in tasks for name in task.cases}
    cases = [case for case in chosen(()) if case.id in names]
    with _bench(cases, minutes, results) as (bench, console, waiting):
        for task in waiting(tasks):
            first = None
            for number in range(1 + twice):
                trial = bench.trial(replace(task, seed=task.seed + number * _AGAIN), first)
                save_trial(results or Project.here().results, trial)
                first = trial.id
                moved = [one for one in trial.said if one.verdict in {"faster", "slower"}]
                named = "; ".join(f"{one.case} {one.metric} {one.verdict}" for one in moved)
                console.say(f"said: {named or 'nothing moved'}")
