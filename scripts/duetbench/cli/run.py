"""`duetbench run`: measure."""

import shlex

from duetbench.app.deployment import deployed
from duetbench.cli.options import (
    DECLARED,
    LaunchesOption,
    ReportsOption,
    TargetOptions,
    WaitOption,
    machine,
    repetition,
    reports,
    repository,
    with_options,
    write_reports,
)
from duetbench.core.errors import FlagName, NothingMeasuredError, UsageError
from duetbench.core.model import Plan, Run, Status
from duetbench.host.console import STANDARD, Console, Narrator, write_summary
from duetbench.load import runner
from duetbench.report.run import as_markdown, print_cases, texts_of


def run_command(
    *,
    launches: LaunchesOption = 1,
    output: ReportsOption = (),
    wait: WaitOption = None,
    application: TargetOptions = DECLARED,
) -> int:
    """Measure: launch each case's server, load it, and record the figures.

    $ duetbench run --app shop.main:app --path /items/7
    $ duetbench run --app shop.main:app --launches 3

    The run file is saved after every launch. Ctrl-C keeps what was measured. Exit code 0: all
    launches were valid. 1: some failed, the others are recorded. 2: a request has a wrong answer.
    3: no launch was usable.
    """
    written = reports(output, ".json", ".md")
    console, options = Console(stderr=STANDARD in written), application.read()
    project = with_options(repository(console), options)
    narrator = Narrator(console)
    with machine(wait, console), deployed(project, narrator) as subject:
        plan = Plan(profile="quick", launches=launches, seed=1, cases=subject.cases())
        try:
            run = runner.launch_all(plan, subject, project.results, console)
        except NothingMeasuredError as problem:
            if FlagName.WRONG_ANSWER in problem.flags:
                raise UsageError(str(problem)) from problem  # nobody has asked for another answer
            raise
    write_summary(as_markdown(run))
    write_reports(written, texts_of(run))
    print_cases(console, run)
    if report(run, console):
        return 1
    if run.commit:
        words, others = repetition(options)
        again = shlex.join(["duetbench", "compare", "HEAD", *words])
        console.say(f"next: change something, then {again}{f' and your {others}' * bool(others)}")
    return 0


def report(run: Run, console: Console) -> int:
    """Say which launches of a run failed, and how to read it; return how many failed."""
    performed = [launch for result in run.results for launch in result.launches]
    failed = sum(launch.status is Status.FAILED for launch in performed)
    if failed:
        console.say(f"{failed} of {len(performed)} launches failed")
    console.say(f"Saved; read it: duetbench show {run.id}")
    return failed
