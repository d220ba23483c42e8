"""`servebench selftest`: how often is the instrument wrong, and what does it see?"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from servebench import files, load, orphans, paths
from servebench.cli.options import SelectOption, budget_option, budget_seconds
from servebench.compare.plants import Kind
from servebench.errors import RecordError, UsageError
from servebench.exclusive import measuring
from servebench.printing import Console
from servebench.signals import interruptible

if TYPE_CHECKING:
    from servebench.compare.selftest import Task

selftest_app = typer.Typer(no_args_is_help=True)

KINDS: Final = get_args(Kind)

MinutesOption = Annotated[
    float | None, typer.Option("--minutes", min=1, help="Begin no comparison after so long.")
]
BudgetOption = Annotated[
    str | None, budget_option("Time for each comparison", "Default: until all is decided.")
]
ResultsOption = Annotated[Path | None, typer.Option("--results", help="Folder for the trials.")]


@selftest_app.callback()
def _group() -> None:
    """Measure the instrument: false verdicts, power, bias.

    It makes comparisons whose right answer is known. Trials are kept in results/selftest/ as they
    are made, so that a long self-test can be done in parts; `show` reads all of them.
    """


@selftest_app.command("aa")
def aa_command(
    count: Annotated[int, typer.Option("--count", min=1, help="Comparisons to make.")] = 30,
    select: SelectOption = None,
    budget: BudgetOption = None,
    minutes: MinutesOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the first; counts up.")] = 1,
    results: ResultsOption = None,
) -> None:
    """Compare the stack with itself: every verdict that something moved is a false one."""
    from servebench.compare.selftest import Task, chosen  # noqa: PLC0415

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
    kind: Annotated[str, typer.Option("--kind", help=f"One of {', '.join(KINDS)}.")] = "busy",
    size: Annotated[
        list[float] | None,
        typer.Option(
            "--size",
            help="Relative growth (default: 0.01, 0.02, 0.05, 0.1); queue: requests at once (1).",
        ),
    ] = None,
    tries: Annotated[int, typer.Option("--tries", min=1, help="Per size and case.")] = 10,
    select: SelectOption = None,
    closely: Annotated[
        bool,
        typer.Option(
            "--closely", help="Launch what moved one after the other too: is a duet fair?"
        ),
    ] = False,
    budget: BudgetOption = None,
    minutes: MinutesOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the first; counts up.")] = 1001,
    results: ResultsOption = None,
) -> None:
    """Plant a slowdown of known size in a copy of one case, and see whether it is found."""
    from servebench.compare.selftest import Task, chosen  # noqa: PLC0415

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
        Path | None, typer.Option("--markdown", "-o", help="Write the page to a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rates as JSON.")] = False,
    results: ResultsOption = None,
) -> None:
    """Show what all trials together say: as a page on a terminal, as Markdown elsewhere."""
    from servebench.compare.trials import load_trials  # noqa: PLC0415
    from servebench.report import selftest as report  # noqa: PLC0415

    if as_json and markdown is not None:
        raise UsageError("--json and --markdown were both given; choose one")
    trials = load_trials(results or paths.results_dir())
    if as_json:
        typer.echo(json.dumps(report.as_json(trials), indent=2, ensure_ascii=False))
        return
    text, console = report.page(trials), Console(highlight=False)
    if markdown is not None:
        try:
            markdown.write_text(text, "utf-8")
        except OSError as problem:
            raise RecordError(f"{markdown}: cannot be written: {problem.strerror}") from problem
    elif console.is_terminal:
        from rich.markdown import Markdown  # noqa: PLC0415

        console.print(Markdown(text))
    else:
        typer.echo(text, nl=False)


def _make(tasks: Sequence[Task], minutes: float | None, results: Path) -> None:
    from servebench.compare import selftest  # noqa: PLC0415
    from servebench.compare.progress import Reporter  # noqa: PLC0415
    from servebench.compare.trials import Trial, save_trial  # noqa: PLC0415

    files.require_room(results)
    console = Console(highlight=False)
    for sentence in orphans.reap():
        console.print(f"note: {sentence}", markup=False, soft_wrap=True)
    load.sweep()
    names = {name for task in tasks for name in task.cases}
    cases = [case for case in selftest.chosen(()) if case.id in names]
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    scratch = Path(tempfile.mkdtemp(prefix="servebench-selftest-"))

    def keep(trial: Trial) -> None:
        save_trial(results, trial)
        moved = [one for one in trial.said if one.verdict in {"faster", "slower"}]
        named = "; ".join(f"{one.case} {one.metric} {one.verdict}" for one in moved)
        console.print(f"said: {named or 'nothing moved'}", markup=False, soft_wrap=True)

    def told(number: int, task: Task) -> None:
        what = "A/A" if task.kind == "aa" else f"{task.kind} {task.size:g} in {task.cases[0]}"
        console.print(f"[{number + 1}/{len(tasks)}] {what}", markup=False)

    try:
        with interruptible(), measuring():
            bench = selftest.Bench(cases, scratch, Reporter(console))
            made = selftest.each(
                tasks, bench.trial, keep, told,
                lambda: ends is not None and time.monotonic() >= ends,
            )  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    console.print(f"{made} of {len(tasks)} comparisons made; read them: servebench selftest show")
