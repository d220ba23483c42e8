"""`duetbench run`: measure."""

import json
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Annotated, Any, Final

from typer import Exit, Option

from duetbench.cli.options import (
    JsonOption,
    LaunchesOption,
    ReportsOption,
    ResultsOption,
    SecondsOption,
    WaitOption,
    clean_up,
    console_beside,
    machine,
    reports,
    repository,
    write_reports,
)
from duetbench.cli.target_options import Options, with_options, with_target
from duetbench.core.model import Case, Effects, Launch, Plan, Run, Status
from duetbench.core.protocol import WINDOW_SECONDS
from duetbench.core.text import short, visible_json
from duetbench.github import actions
from duetbench.host import paths
from duetbench.host.console import Console, Narrator, Progress, duration, write
from duetbench.host.signals import InterruptedRun
from duetbench.measure import assembly, launch, runner
from duetbench.measure.testbed import SideCase, Testbed
from duetbench.project import plan as planning
from duetbench.project.plan import launch_seconds
from duetbench.project.subject import Subject
from duetbench.show.run import as_markdown, print_cases
from duetbench.store import files, run_files
from duetbench.trend.summary import summarise

KEPT_LOGS: Final = 20
"""Runs whose server logs are kept: logs explain failures, and old ones are not needed."""


@with_target
def run_command(
    launches: LaunchesOption = None,
    seconds: SecondsOption = None,
    results: ResultsOption = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only show cases, launches and the expected time.")
    ] = False,
    output: ReportsOption = None,
    as_json: JsonOption = False,
    wait: WaitOption = None,
    *,
    options: Options,
) -> None:
    """Measure: launch each case's server, load it, and record the figures.

    $ duetbench run --app shop.main:app --path /items/7
    $ duetbench run --app shop.main:app --launches 3

    It first shows what one request does, which takes seconds: SQL statements, calls, files, memory
    kept. The run file is saved after every launch. Ctrl-C keeps what was measured. --dry-run shows
    what would be done, and how long it would take. Exit code 0: all launches were valid. 1: some
    failed, the others are recorded. 3: none was usable.
    """
    written = reports(output, ".json", *[".md"] * (not dry_run), as_json=as_json)
    console = console_beside(written)
    project = with_options(repository(console), options)
    ended = [] if dry_run else clean_up(console)
    narrator = Narrator(console)
    deployed = resolve_name("duetbench.judge.deployment:deployed")
    with (
        nullcontext() if dry_run else machine(wait, console.say),
        deployed(project, narrator) as subject,
    ):
        plan = planning.make_plan(subject.cases(), launches, seconds=seconds)
        if dry_run:
            show_plan(console, plan, written)
            return
        measure(
            plan, subject, results or project.results, console, written,
            notes=notes(ended, seconds), observe=observe, installs=narrator,
        )  # fmt: skip


def notes(ended_sessions: Sequence[str], seconds: float | None) -> tuple[str, ...]:
    """Return what readers of a run should know."""
    found = {
        f"{len(ended_sessions)} sessions of a killed run were ended first": ended_sessions,
        f"--seconds {seconds or 0:g}: loads shorter or longer than usual": seconds,
    }
    return tuple(note for note, holds in found.items() if holds)


Observe = Callable[[Sequence[SideCase], Callable[[str], object]], Mapping[str, Effects]]
"""Says what one request to each case does before any load, and returns it by case."""


def measure(
    plan: Plan,
    subject: Subject,
    results: Path,
    console: Console,
    written: Sequence[Path],
    *,
    notes: tuple[str, ...],
    observe: Observe = lambda _sides, _say: {},
    **how: Any,
) -> None:
    """Launch a plan's cases, and report them as asked; raises Exit if a launch failed."""
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        console.say(line)

    finished, path = execute(
        plan, subject, results, console,
        begin=lambda run: run.model_copy(update={"notes": run.notes + notes}),
        observe=lambda sides: observe(sides, say), **how,
    )  # fmt: skip
    summary = summarise(finished)
    text = as_markdown(summary)
    if lines:
        text += "\n".join(("", "## What one request does", "", "```", *lines, "```", ""))
    actions.summary(text)  # for the page of the job, in GitHub Actions
    encoded = visible_json(finished.model_dump_json(indent=1)) + "\n"
    write_reports(written, {".json": lambda: encoded, ".md": lambda: text})
    print_cases(console, summary)
    here = results.resolve() == subject.results.resolve()
    where = "" if here else f" --results {shlex.quote(str(results))}"
    if report(finished, path, console, where):
        raise Exit(1)


def execute(
    plan: Plan,
    subject: Subject,
    results: Path,
    console: Console,
    *,
    begin: Callable[[Run], Run] = lambda run: run,
    observe: Callable[[Sequence[SideCase]], Mapping[str, Effects]] = lambda _: {},
    missing: Mapping[str, str] = MappingProxyType({}),
    installs: Narrator | None = None,
) -> tuple[Run, Path]:
    """Launch a plan's cases on this machine; return the finished run and its file.

    `begin` completes the header of the run. `observe` gets the cases that will be launched, and
    returns what a request to each does. `missing` are cases that cannot be, with the reason. With
    `installs`, missing environments are made.
    """
    attainable = [case for case in plan.cases if case.id not in missing]
    testbed = assembly.assemble(subject, attainable, paths.state_dir() / "logs", installs)
    start = begin(runner.header(plan, testbed, subject.repository))
    files.require_room(results)
    effects = observe([SideCase(case, testbed) for case in attainable])
    start = start.model_copy(update={"effects": dict(effects)})
    try:
        return _measure(plan, start, testbed, results, console, missing)
    except InterruptedRun as interruption:
        interruption.advice = _kept(results, start)
        raise


def observe(sides: Sequence[SideCase], say: Callable[[str], object]) -> Mapping[str, Effects]:
    """Say what one request to each case does before any load; return it by case."""
    from duetbench.judge import effects as observed
    from duetbench.judge.pairs import Pair
    from duetbench.show.findings import describe

    seen = observed.observe([Pair(side, side) for side in sides], alone=True)
    for side in sides:
        if found := seen.effects.get(side.case.id):
            for line in describe(side.case, found):
                say(line)
    for reason in dict.fromkeys(seen.reasons.values()):
        say(f"not observed: {short(reason)}")
    return seen.effects


def report(run: Run, path: Path, console: Console, where: str = "") -> int:
    """Print how many launches of a run are valid, and how to read it; return how many failed."""
    performed = [launch for result in run.results for launch in result.launches]
    failed = sum(launch.status is Status.FAILED for launch in performed)
    console.say(f"{len(performed) - failed} of {len(performed)} launches valid")
    place = f" {path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else ""
    console.say(f"Saved{place}; read it: duetbench show {run.id}{where}")
    return failed


def show_plan(console: Console, plan: Plan, written: Sequence[Path]) -> None:
    """Print what a run would do."""
    seconds = planning.plan_seconds(plan)
    number = plan.launches * len(plan.cases)
    console.say(f"cases: {len(plan.cases)}; launches: {number}, about {duration(seconds)}")
    value = {"expected_seconds": round(seconds, 1), "plan": plan.model_dump(mode="json")}
    for path in written:
        write(f"{json.dumps(value, indent=1)}\n", path)


def _measure(
    plan: Plan,
    start: Run,
    testbed: Testbed,
    results: Path,
    console: Console,
    missing: Mapping[str, str],
) -> tuple[Run, Path]:
    folder = testbed.logs / start.id
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(p for p in testbed.logs.iterdir() if p.is_dir())[:-KEPT_LOGS]:
        shutil.rmtree(old, ignore_errors=True)
    numbers = count(sum(1 for _ in folder.iterdir()))
    progress = Progress(console)

    def perform(case: Case, number: int, order: int) -> Launch:
        log = folder / f"{next(numbers):04d}-{case.id.replace('/', '_')}.log"
        return launch.perform(
            case,
            testbed,
            log,
            window=WINDOW_SECONDS[plan.profile],
            number=number,
            order=order,
        )

    return runner.execute(
        plan,
        start,
        perform=perform,
        commands=testbed.commands,
        expected=lambda case: launch_seconds(case, plan.profile),
        results=results,
        progress=progress,
        missing=missing,
    )


def _kept(results: Path, begun: Run) -> str:
    path = run_files.partial_path_for(results, begun)
    if not path.is_file():
        return ""
    run = files.read(Run, path)
    usable = sum(len(result.usable) for result in run.results)
    return f"{usable} of {run.launches * len(run.results)} launches kept: duetbench show {run.id}"
