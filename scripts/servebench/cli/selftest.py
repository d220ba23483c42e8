"""`servebench selftest`: how often is the instrument wrong, and what does it see?"""

import math
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, get_args

from rich.markdown import Markdown
from typer import Option, Typer

from servebench.cli.options import (
    JsonOption,
    ResultsOption,
    SelectOption,
    budget_option,
    budget_seconds,
    clean_up,
    machine,
)
from servebench.compare.instruments import Reporter
from servebench.compare.selftest.bench import Bench, Task, chosen
from servebench.compare.selftest.injected import Kind
from servebench.core.errors import UsageError
from servebench.host import paths
from servebench.host.console import Console, print_json, write
from servebench.record import files
from servebench.record.trial import load_trials, save_trial
from servebench.report import selftest as report

selftest_app = Typer(no_args_is_help=True)

KINDS: Final = get_args(Kind)

MinutesOption = Annotated[
    float | None, Option("--minutes", min=1, help="Begin no comparison after so long.")
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
    count: Annotated[int, Option("--count", min=1, help="Comparisons to make.")] = 30,
    select: SelectOption = None,
    budget: BudgetOption = None,
    minutes: MinutesOption = None,
    seed: Annotated[int, Option("--seed", help="Of the first; counts up.")] = 1,
    results: ResultsOption = None,
) -> None:
    """Compare the stack with itself: every verdict that something moved is a false one."""
    cases = [case.id for case in chosen(select or ())]
    limit = budget_seconds(budget)
    # A budget takes cases from the front: drawn orders give every case its turn over a self-test.
    tasks = [
        Task("aa", 0.0, tuple(random.Random(one).sample(cases, len(cases))), limit, one)  # noqa: S311 - an order that can be repeated
        for one in range(seed, seed + count)
    ]
    _make(tasks, minutes, results or paths.results_dir())


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
    _make(tasks, minutes, results or paths.results_dir())


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
    trials = load_trials(results or paths.results_dir())
    console = Console()
    if as_json:
        print_json(report.as_json(trials))
    elif markdown is None and console.is_terminal:
        console.print(Markdown(report.page(trials)))
    else:
        write(report.page(trials), markdown)


def _make(tasks: Sequence[Task], minutes: float | None, results: Path) -> None:
    files.require_room(results)
    console = Console()
    clean_up(console)
    names = {name for task in tasks for name in task.cases}
    cases = [case for case in chosen(()) if case.id in names]
    ends = math.inf if minutes is None else time.monotonic() + 60 * minutes
    made = 0
    folder = tempfile.TemporaryDirectory(prefix="servebench-selftest-", ignore_cleanup_errors=True)
    with folder as scratch, machine():
        bench = Bench(cases, Path(scratch), Reporter(console))
        for task in tasks:
            if time.monotonic() >= ends:
                break
            planted = f"{task.kind} {task.size:g} in {task.cases[0]}"
            console.say(f"[{made + 1}/{len(tasks)}] {'A/A' if task.kind == 'aa' else planted}")
            trial = bench.trial(task)
            save_trial(results, trial)
            made += 1
            moved = [one for one in trial.said if one.verdict in {"faster", "slower"}]
            named = "; ".join(f"{one.case} {one.metric} {one.verdict}" for one in moved)
            console.say(f"said: {named or 'nothing moved'}")
    console.say(f"{made} of {len(tasks)} comparisons made; read them: servebench selftest show")
