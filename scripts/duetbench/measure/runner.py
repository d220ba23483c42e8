"""Run a plan: every launch in seeded random order, round by round, saved after each."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from rich.text import Text

from duetbench.core import __version__
from duetbench.core.errors import (
    DeclarationError,
    NothingMeasuredError,
    RecordError,
    SetupError,
    UsageError,
)
from duetbench.core.metrics import BRIEF, METRICS
from duetbench.core.model import Case, CaseResult, Commands, Launch, Plan, Run, RunStatus, Status
from duetbench.core.units import rounded, utc_now
from duetbench.host import git, machine
from duetbench.host.console import Narrator, Progress, duration
from duetbench.host.git import HopelessError
from duetbench.host.signals import InterruptedRun
from duetbench.measure.testbed import Testbed, inherited_variables
from duetbench.project import interpreters, stacks, tools
from duetbench.project.plan import PRIOR_LAUNCHES, launch_order
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.settings import Interpreter, Settings
from duetbench.project.stacks import Stack
from duetbench.store import run_files


def assemble(
    project: Project,
    cases: Sequence[Case],
    logs: Path,
    narrator: Narrator | None = None,
    *,
    loaded: bool = True,
) -> Testbed:
    """Resolve everything that the cases need, from a checkout; errors as `equip`.

    With a narrator, missing environments are made. Without load, no generator is needed.
    """
    locked = {name: project.lock(name) for name in sorted({case.stack for case in cases})}
    require_packages(cases, locked)
    pythons = {name: project.interpreter(name) for name in sorted({case.python for case in cases})}
    if narrator is not None and project.deployment is not None:
        for stack, python in sorted({(case.stack, case.python) for case in cases}):
            stacks.make_environment(locked[stack], pythons[python], narrator)
    oha = tools.find_oha(project.settings.oha) if loaded else Path("oha")
    return equip(project, cases, logs, locked=locked, interpreters=pythons, generator=oha)


def unattainable(
    cases: Sequence[Case],
    configured: Callable[[str], Settings],
    lock: Callable[[str], Stack],
    narrator: Narrator,
) -> dict[str, str]:
    """Make the optional interpreters of cases and their environments, as far as possible.

    Returns case → reason why it cannot be measured here. `configured` returns the settings that an
    interpreter is made by.
    """
    reasons: dict[tuple[str, str], str] = {}
    for python, stack in sorted({(case.python, case.stack) for case in cases}):
        settings = configured(python)
        if python in settings.usual:
            continue
        try:
            interpreters.ensure(settings.adding({python}), narrator)
            stacks.make_environment(lock(stack), interpreters.locate(python, settings), narrator)
        except SetupError as error:
            reasons[python, stack] = f"no {python}: {error}"
            narrator.say(f"not measured: {reasons[python, stack]}")
    by_case = {case.id: reasons.get((case.python, case.stack)) for case in cases}
    return {case: reason for case, reason in by_case.items() if reason}


def require_packages(cases: Iterable[Case], locked: Mapping[str, Stack]) -> None:
    """Check that stacks have what the servers of the cases import; DeclarationError if not."""
    for case in cases:
        server, stack = SERVERS[case.server], locked[case.stack]
        names = {server.name, *server.loads(case)}
        if absent := sorted(names - {canonicalize_name(name) for name in stack.packages}):
            raise DeclarationError(
                str(stack.lock),
                "packages",
                f"no {' and no '.join(absent)}",
                f"what {case.id} needs, served by {server.name} on the loop {case.loop}: "
                f"{', '.join(sorted(names))}; add it to the dependency group {case.stack} of "
                f"apps/pyproject.toml, then `observatory stack lock {case.stack}`",
            )


def equip(
    project: Project,
    cases: Sequence[Case],
    logs: Path,
    *,
    locked: Mapping[str, Stack],
    interpreters: Mapping[str, Interpreter],
    generator: Path,
) -> Testbed:
    """Collect what the cases of a project need; SetupError if an environment is missing.

    A private variable that the target does not set comes from our environment; UsageError if it is
    missing there.
    """
    hidden, deployment = dict(project.target.env if project.target else {}), project.deployment
    for case in cases:
        for name in case.env_names:
            if name not in hidden and name not in os.environ:
                raise UsageError(
                    f"{case.id} needs the variable {name}: set it, or give it with --env "
                    f"{name}=… or --env-file"
                )
            hidden.setdefault(name, os.environ.get(name, ""))
    logs.mkdir(parents=True, exist_ok=True)
    return Testbed(
        apps=project.root / "apps",
        oha=generator,
        machine=machine.fingerprint(),
        pythons={
            (stack, python): stacks.executable(locked[stack], interpreters[python])
            for stack, python in sorted({(case.stack, case.python) for case in cases})
        },
        interpreters=interpreters,
        stacks=dict(locked),
        logs=logs,
        inherited=inherited_variables(),
        private=hidden,
        imports=deployment.imports if deployment else (),
        within=deployment.within if deployment else Path(),
    )


def header(plan: Plan, testbed: Testbed, root: Path) -> Run:
    """The run of a plan on this machine, without results."""
    started = utc_now()
    commit, dirty = revision(root)
    return Run(
        id=run_files.run_id(started, plan.profile, commit),
        status=RunStatus.PARTIAL,
        started=started,
        duetbench=__version__,
        dirty=dirty,
        profile=plan.profile,
        launches=plan.launches,
        seed=plan.seed,
        machine=testbed.machine,
        results=(),
        **_conditions(testbed, root),
    )


def _conditions(testbed: Testbed, root: Path) -> dict[str, Any]:
    """What must not change before a run is resumed, beside the machine."""
    return {
        "commit": revision(root)[0],
        "oha": tools.oha_version(testbed.oha),
        "oha_origin": tools.oha_origin(testbed.oha),
        "interpreters": tuple(map(interpreters.record, testbed.interpreters.values())),
        "stacks": tuple(stack.record() for stack in testbed.stacks.values()),
    }


def revision(root: Path) -> tuple[str | None, bool]:
    """Commit of the checkout, and whether tracked files differ from it, results excluded."""
    status = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    try:
        return git.ask_or_none(root, "rev-parse", "HEAD"), bool(git.ask_or_none(root, *status))
    except HopelessError:
        return None, False


def require_resumable(run: Run, testbed: Testbed, root: Path) -> None:
    """Refuse to resume a run if its conditions have changed (UsageError)."""
    now = {"machine": testbed.machine.id, **_conditions(testbed, root)}
    then = {**dict(run), "machine": run.machine.id}
    changes = sorted({name.partition("_")[0] for name, value in now.items() if value != then[name]})
    if changes:
        raise UsageError(
            f"run {run.id} cannot be resumed: its {' and '.join(changes)} differ from the current "
            "ones. Restore them, or start a new run"
        )


def resumable(run: Run) -> Iterator[Launch]:
    """The launches of a partial run that need no repetition."""
    for result in run.results:
        yield from result.usable


def execute(
    plan: Plan,
    header: Run,
    *,
    perform: Callable[[Case, int, int], Launch],
    commands: Callable[[Case], Commands],
    expected: Callable[[Case], float],
    results: Path,
    progress: Progress,
    missing: Mapping[str, str],
) -> tuple[Run, Path]:
    """Do all launches of `plan` that `header`, a run without results or a partial one, lacks.

    `perform` does a launch of a case, given its round and its place in the sequence, and raises
    only `InterruptedRun`. `commands` are for the record, `expected` gives the seconds of a launch.
    `missing` cases have a reason, and no launch.

    InterruptedRun, NothingMeasuredError (no launch was usable): the results so far are saved.
    RecordError: the run could not be saved at its end; earlier failures are only reported.
    """
    began, notes = time.monotonic(), list(header.notes)
    launches = {(launch.case, launch.round): launch for launch in resumable(header)}

    def snapshot(status: RunStatus) -> Run:
        keys = sorted(launches)
        results = tuple(
            CaseResult(
                case=case,
                commands=commands(case),
                launches=tuple(launches[key] for key in keys if key[0] == case.id),
                missing=missing.get(case.id, ""),
            )
            for case in plan.cases
        )
        changes = {
            "status": status,
            "results": results,
            "notes": tuple(notes),
            "finished": utc_now() if status is RunStatus.COMPLETE else None,
            "wall_seconds": rounded(header.wall_seconds + time.monotonic() - began),
        }
        return header.model_copy(update=changes)

    cases = tuple(case for case in plan.cases if case.id not in missing)
    steps = launch_order(plan.model_copy(update={"cases": cases}))
    todo = [
        (order, case, number)
        for order, (case, number) in enumerate(steps)
        if (case.id, number) not in launches
    ]
    left, late = [expected(case) for _, case, _ in todo], 0.0
    size = f"{len(steps)} launch{'es' * (len(steps) != 1)}"
    progress.start(f"{size}, about {duration(sum(left))}", sum(left), len(steps))
    try:
        for done, (order, case, number) in enumerate(todo):
            # A machine that starts servers more slowly adds a constant to each launch.
            extra = late / (done + PRIOR_LAUNCHES)
            progress.work(case.id, order, sum(max(0.0, each + extra) for each in left[done:]))
            launch = launches[case.id, number] = perform(case, number, order)
            late += launch.seconds - left[done]
            progress.say(_line(launch, len(steps)))
            try:
                run_files.save_partial(results, snapshot(RunStatus.PARTIAL))
            except RecordError as error:  # a full disk: the results are still in memory
                progress.note(f"not saved yet, continuing: {error}")
    except InterruptedRun as interruption:
        notes.append(f"interrupted by {interruption} at {utc_now()}")
        run_files.save_partial(results, snapshot(RunStatus.PARTIAL))
        raise
    finally:
        progress.end()
    run = snapshot(RunStatus.COMPLETE)
    path = run_files.finalise(results, run)
    if not any(result.usable for result in run.results):
        raise NothingMeasuredError(
            f"none of {len(steps)} launches was usable; for the reasons: `duetbench show {path}`"
        )
    return run, path


def _line(launch: Launch, launches: int) -> Text:
    if launch.status is Status.FAILED:
        fails = [flag for flag in launch.flags if flag.severity == "fail"]
        outcome = "failed: " + "; ".join(f"{flag.name}: {flag.detail}" for flag in fails)
    else:
        figures = {METRICS[name]: launch.metrics[name] for name in BRIEF if name in launch.metrics}
        outcome = ", ".join(f"{row.format(value)} {row.title}" for row, value in figures.items())
        if warnings := ", ".join(sorted({flag.name for flag in launch.flags})):
            outcome += f"  [{warnings}]"
    style = "red" if launch.status is Status.FAILED else ""
    order = f"[{launch.order + 1}/{launches}] "
    return Text.assemble(order, (launch.case, "bold"), "  ", (outcome, style))
