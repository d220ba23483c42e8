"""`duetbench run`: measure."""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name

from typer import Context, Exit

from duetbench.app import plan as planning
from duetbench.app.testbed import SideCase
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
from duetbench.cli.target_options import repetition, with_options, with_target
from duetbench.core.model import Run, Status
from duetbench.core.text import short, visible_json
from duetbench.host.console import Console, Narrator, write_summary
from duetbench.judge.summary import summarise
from duetbench.load import runner
from duetbench.report.run import as_markdown, print_cases


@with_target
def run_command(
    context: Context,
    launches: LaunchesOption = None,
    seconds: SecondsOption = None,
    results: ResultsOption = None,
    output: ReportsOption = None,
    as_json: JsonOption = False,
    wait: WaitOption = None,
) -> None:
    """Measure: launch each case's server, load it, and record the figures.

    $ duetbench run --app shop.main:app --path /items/7
    $ duetbench run --app shop.main:app --launches 3

    It first shows what one request does, which takes seconds: SQL statements, calls, files, memory
    kept. The run file is saved after every launch. Ctrl-C keeps what was measured. Exit code 0: all
    launches were valid. 1: some failed, the others are recorded. 3: none was usable.
    """
    written = reports(output, ".json", ".md", as_json=as_json)
    console = console_beside(written)
    project = with_options(repository(console), context.obj)
    ended = clean_up(console)
    deployed = resolve_name("duetbench.app.deployment:deployed")
    narrator, lines = Narrator(console), list[str]()

    def look(sides: Sequence[SideCase]) -> None:
        lines.extend(observe(sides))
        for line in lines:
            console.say(line)

    with machine(wait, console.say), deployed(project, narrator) as subject:
        plan = planning.make_plan(subject.cases(), launches, seconds=seconds)
        folder, begin = results or project.results, partial(add_notes, ended, seconds)
        run, path = runner.launch_all(
            plan, subject, folder, console, begin=begin, before=look, installs=narrator,
        )  # fmt: skip
        conclude(run, path, console, written, lines, project.results)
        if run.commit:
            again = shlex.join([word for words in repetition(context.obj) for word in words])
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
    write_summary(text)
    encoded = visible_json(run.model_dump_json(indent=1)) + "\n"
    write_reports(written, {".json": lambda: encoded, ".md": lambda: text})
    print_cases(console, summary)
    if report(run, path, console, home):
        raise Exit(1)


def observe(sides: Sequence[SideCase]) -> Iterator[str]:
    """Tell what one request to each case does, before any load."""
    from duetbench.effects import difference as observed
    from duetbench.report.findings import describe

    seen = observed.observe([(side, side) for side in sides])
    for side in sides:
        if found := seen.effects.get(side.case.id):
            yield from describe(side.case, found)
    yield from (f"not observed: {short(reason)}" for reason in dict.fromkeys(seen.reasons.values()))


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
