"""Run a plan: every launch in seeded random order, round by round, saved after each."""

import random
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rich.text import Text

from duetbench.app.subject import Subject
from duetbench.app.testbed import SideCase, assemble
from duetbench.core import __version__
from duetbench.core.errors import InterruptedRun, NothingMeasuredError, RecordError
from duetbench.core.metrics import BRIEF, METRICS
from duetbench.core.model import Case, CaseResult, Launch, Plan, ResultStatus, Run, Status
from duetbench.core.units import rounded, utc_now
from duetbench.host import files, git, paths
from duetbench.host.console import Console, Narrator, Progress, duration
from duetbench.load.launch import perform

_AROUND: Final = 5.5  # seconds of a launch beside its load, mostly of the warm-up


def launch_order(plan: Plan) -> tuple[tuple[Case, int], ...]:
    """List all launches of a plan; each round, numbered from 0, has every case in a random order.

    So drift of the machine affects all cases alike, and no case always follows the same other one.
    """
    order = random.Random(plan.seed)  # noqa: S311 - a repeatable order, not a secret
    return tuple(
        (case, number)
        for number in range(plan.launches)
        for case in order.sample(plan.cases, len(plan.cases))
    )


def launch_all(
    plan: Plan,
    subject: Subject,
    results: Path,
    console: Console,
    *,
    missing: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    """Launch a plan's cases on this machine; return the finished and saved run.

    `missing` are cases that cannot be launched, with the reason. Missing environments are made.
    Raises as `execute`.
    """
    attainable = [case for case in plan.cases if case.id not in missing]
    testbed = assemble(subject, attainable, paths.state_dir() / "logs", Narrator(console))
    files.require_room(results)
    started, (commit, dirty) = utc_now(), git.revision(subject.repository)
    start = Run(
        id=files.result_id(started, plan.profile, commit),
        status="partial",
        started=started,
        duetbench=__version__,
        dirty=dirty,
        profile=plan.profile,
        launches=plan.launches,
        seed=plan.seed,
        machine=testbed.machine,
        results=(),
        commit=commit,
        oha=subject.configuration.oha.version,
        interpreters=tuple(testbed.interpreters.values()),
        stacks=tuple(stack.record() for stack in testbed.stacks.values()),
    )
    folder = testbed.logs / start.id
    folder.mkdir(parents=True, exist_ok=True)
    paths.keep_newest_logs(testbed.logs)
    numbers = count(sum(1 for _ in folder.iterdir()))

    def launch(case: Case) -> Launch:
        log = folder / f"{next(numbers):04d}-{case.id.replace('/', '_')}.log"
        return perform(SideCase(case, testbed), log)

    progress = Progress(console)
    return execute(plan, start, launch, results=results, progress=progress, missing=missing)


def execute(
    plan: Plan,
    header: Run,
    perform: Callable[[Case], Launch],
    *,
    results: Path,
    progress: Progress,
    missing: Mapping[str, str],
) -> Run:
    """Do all launches of `plan`; `header` is its run without results.

    `perform` does a launch of a case, and raises only `InterruptedRun`. `missing` cases have a
    reason, and no launch.

    InterruptedRun, NothingMeasuredError (no launch was usable): the results so far are saved.
    RecordError: the run could not be saved at its end; earlier failures are only reported.
    """
    began, launches = time.monotonic(), list[Launch]()

    def save(status: ResultStatus, *notes: str) -> tuple[Run, Path]:
        results_ = tuple(
            CaseResult(
                case=case,
                launches=tuple(launch for launch in launches if launch.case == case.id),
                missing=missing.get(case.id, ""),
            )
            for case in plan.cases
        )
        changes = {
            "status": status,
            "results": results_,
            "notes": (*header.notes, *notes),
            "wall_seconds": rounded(time.monotonic() - began),
        }
        run = header.model_copy(update=changes)
        return run, files.save(results, run)

    cases = tuple(case for case in plan.cases if case.id not in missing)
    steps = launch_order(plan.model_copy(update={"cases": cases}))
    left = [_AROUND + case.load.duration + 2 * case.endpoint.takes for case, _ in steps]
    progress.start(
        f"{len(steps)} launch{'es' * (len(steps) != 1)}, about {duration(sum(left))}", sum(left)
    )
    try:
        for order, (case, number) in enumerate(steps):
            progress.work(case.id, order, sum(left[order:]))
            launches.append(
                launch := perform(case).model_copy(update={"round": number, "order": order})
            )
            if len(steps) > 1 or launch.status is Status.FAILED:  # else its figures follow
                progress.say(_line(launch, len(steps)))
            try:
                save("partial")
            except RecordError as error:  # a full disk: the results are still in memory
                progress.note(f"not saved yet, continuing: {error}")
    except InterruptedRun as interruption:
        partial, path = save("partial", f"interrupted by {interruption} at {utc_now()}")
        usable = sum(len(result.usable) for result in partial.results)
        planned = plan.launches * len(plan.cases)
        interruption.advice = f"{usable} of {planned} launches kept: duetbench show {path}"
        raise
    finally:
        progress.end()
    run, path = save("complete")
    if not any(result.usable for result in run.results):
        reason, flags = (
            (launches[0].failure, launches[0].flags) if launches else ("nothing was launched", ())
        )
        raise NothingMeasuredError(
            f"none of {len(steps)} launches was usable: {reason}; all: `duetbench show {path}`",
            [flag.name for flag in flags],
        )
    return run


def _line(launch: Launch, launches: int) -> Text:
    if launch.status is Status.FAILED:
        outcome = f"failed: {launch.failure}"
    else:
        figures = {METRICS[name]: launch.metrics[name] for name in BRIEF if name in launch.metrics}
        outcome = ", ".join(f"{row.noun} {row.format(value)}" for row, value in figures.items())
        if warnings := ", ".join(sorted({flag.name for flag in launch.flags})):
            outcome += f"  [{warnings}]"
    style = "red" if launch.status is Status.FAILED else ""
    order = f"launch {launch.order + 1} of {launches}: "
    return Text.assemble(order, (launch.case, "bold"), "  ", (outcome, style))
