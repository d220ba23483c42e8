"""`duetbench run`: measure."""

import json
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Annotated, Final

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
from duetbench.cli.target_options import Options, repetition, with_options, with_target
from duetbench.core.model import Case, Launch, Plan, Run, Status
from duetbench.core.protocol import WINDOW_SECONDS
from duetbench.core.text import short, visible_json
from duetbench.github import actions
from duetbench.host import paths
from duetbench.host.console import Console, Narrator, Progress, duration, write
from duetbench.host.signals import InterruptedRun
from duetbench.measure import launch, runner
from duetbench.measure.testbed import SideCase, assemble
from duetbench.project import plan as planning
from duetbench.project.subject import Subject
from duetbench.show.run import as_markdown, print_cases
from duetbench.store import files, result_files
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
    deployed = resolve_name("duetbench.judge.deployment:deployed")
    narrator, lines = Narrator(console), list[str]()

    def say(line: str) -> None:
        lines.append(line)
        console.say(line)

    with (
        nullcontext() if dry_run else machine(wait, console.say),
        deployed(project, narrator) as subject,
    ):
        plan = planning.make_plan(subject.cases(), launches, seconds=seconds)
        if dry_run:
            show_plan(console, plan, written)
            return
        folder, begin = results or project.results, partial(add_notes, ended, seconds)
        run, path = execute(plan, subject, folder, console, begin=begin, say=say, installs=narrator)
        conclude(run, path, console, written, lines, project.results)
        if run.commit:
            again = shlex.join([word for words in repetition(options) for word in words])
            console.say(f"next: change something, then duetbench compare HEAD {again}".rstrip())


def add_notes(ended_sessions: Sequence[str], seconds: float | None, run: Run) -> Run:
    """Add to a run's header what its readers should know."""
    found = {
        f"{len(ended_sessions)} sessions of a killed run were ended first": ended_sessions,
        f"--seconds {seconds or 0:g}: loads shorter or longer than usual": seconds,
    }
    notes = tuple(note for note, holds in found.items() if holds)
    return run.model_copy(update={"notes": run.notes + notes})


def conclude(
    run: Run,
    path: Path,
    console: Console,
    written: Sequence[Path],
    seen: Sequence[str] = (),
    home: Path | None = None,
) -> None:
    """Report a run as asked, with what one request was `seen` to do; Exit if a launch failed.

    `home` is the repository's folder of results.
    """
    summary = summarise(run)
    text = as_markdown(summary)
    if seen:
        text += "\n".join(("", "## What one request does", "", "```", *seen, "```", ""))
    actions.summary(text)  # for the page of the job, in GitHub Actions
    encoded = visible_json(run.model_dump_json(indent=1)) + "\n"
    write_reports(written, {".json": lambda: encoded, ".md": lambda: text})
    print_cases(console, summary)
    if report(run, path, console, home):
        raise Exit(1)


def execute(
    plan: Plan,
    subject: Subject,
    results: Path,
    console: Console,
    *,
    begin: Callable[[Run], Run] = lambda run: run,
    say: Callable[[str], object] | None = None,
    missing: Mapping[str, str] = MappingProxyType({}),
    installs: Narrator | None = None,
) -> tuple[Run, Path]:
    """Launch a plan's cases on this machine; return the finished run and its file.

    `begin` completes the header of the run. `say` is told what a request to each case does, before
    any load. `missing` are cases that cannot be launched, with the reason. With `installs`, missing
    environments are made.
    """
    attainable = [case for case in plan.cases if case.id not in missing]
    testbed = assemble(subject, attainable, paths.state_dir() / "logs", installs)
    start = begin(runner.header(plan, testbed, subject.repository))
    files.require_room(results)
    if say:
        observe([SideCase(case, testbed) for case in attainable], say)
    folder = testbed.logs / start.id
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(p for p in testbed.logs.iterdir() if p.is_dir())[:-KEPT_LOGS]:
        shutil.rmtree(old, ignore_errors=True)
    numbers, window = count(sum(1 for _ in folder.iterdir())), WINDOW_SECONDS[plan.profile]

    def perform(case: Case, number: int, order: int) -> Launch:
        log = folder / f"{next(numbers):04d}-{case.id.replace('/', '_')}.log"
        return launch.perform(case, testbed, log, window=window, number=number, order=order)

    try:
        return runner.execute(
            plan,
            start,
            perform=perform,
            expected=lambda case: planning.launch_seconds(case, plan.profile),
            results=results,
            progress=Progress(console),
            missing=missing,
        )
    except InterruptedRun as interruption:
        interruption.advice = _kept(results, start)
        raise


def observe(sides: Sequence[SideCase], say: Callable[[str], object]) -> None:
    """Say what one request to each case does, before any load."""
    from duetbench.judge import effects as observed
    from duetbench.judge.pairs import Pair
    from duetbench.show.findings import describe

    seen = observed.observe([Pair(side, side) for side in sides])
    for side in sides:
        if found := seen.effects.get(side.case.id):
            for line in describe(side.case, found):
                say(line)
    for reason in dict.fromkeys(seen.reasons.values()):
        say(f"not observed: {short(reason)}")


def report(run: Run, path: Path, console: Console, home: Path | None = None) -> int:
    """Say which launches of a run failed, and how to read it; return how many failed."""
    performed = [launch for result in run.results for launch in result.launches]
    failed = sum(launch.status is Status.FAILED for launch in performed)
    if failed:
        console.say(f"{failed} of {len(performed)} launches failed")
    place = f" {path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else ""
    results = path.parents[3]
    other = home is not None and results.resolve() != home.resolve()
    where = f" --results {shlex.quote(str(results))}" if other else ""
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


def _kept(results: Path, begun: Run) -> str:
    path = result_files.place(results, begun)
    if not path.is_file():
        return ""
    run = files.read(Run, path)
    usable = sum(len(result.usable) for result in run.results)
    return f"{usable} of {run.launches * len(run.results)} launches kept: duetbench show {run.id}"
