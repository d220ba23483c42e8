"""Run a plan: every launch in seeded random order, round by round, saved after each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from servebench import __version__
from servebench.core.errors import NothingMeasuredError, RecordError, UsageError
from servebench.core.flags import Flag
from servebench.core.metrics import BRIEF, METRICS
from servebench.core.model import Case, CaseResult, Commands, Launch, Plan, Run, RunStatus, Status
from servebench.host import git
from servebench.host.git import HopelessError
from servebench.host.progress import Progress, duration
from servebench.host.signals import InterruptedRun
from servebench.measure.testbed import Rig
from servebench.plan.duration import RemainingTime
from servebench.record import store
from servebench.toolchain import tools


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """What one launch gave: figures, or a fail flag with its reason and no figure."""

    flags: tuple[Flag, ...]
    metrics: dict[str, float]
    seconds: float
    load_seconds: float

    @property
    def status(self) -> Status:
        failed = any(flag.severity == "fail" for flag in self.flags) or not self.metrics
        return Status.FAILED if failed else Status.OK


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """One launch to be done: its case and which launch of the case it is."""

    case: Case
    round: int


def sequence(plan: Plan) -> tuple[LaunchStep, ...]:
    """All launches of a plan, interleaved: each round holds every case once, in its own order.

    Drift of the machine then falls on all cases alike, and no case always follows the same other.
    """
    order = random.Random(plan.seed)  # noqa: S311 - an order that can be repeated, not a secret
    steps: list[LaunchStep] = []
    for round_ in range(plan.launches):
        cases = list(plan.cases)
        order.shuffle(cases)
        steps += [LaunchStep(case, round_) for case in cases]
    return tuple(steps)


def utc_now() -> str:
    """UTC with seconds, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class _Progressing:
    header: Run
    cases: Sequence[Case]
    commands: Callable[[Case], Commands]
    launches: dict[str, list[Launch]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    def snapshot(self, status: RunStatus) -> Run:
        results = tuple(
            CaseResult(
                case=case,
                commands=self.commands(case),
                launches=tuple(sorted(self.launches.get(case.id, ()), key=lambda x: x.round)),
            )
            for case in self.cases
        )
        return self.header.model_copy(
            update={
                "status": status,
                "results": results,
                "notes": (*self.header.notes, *self.notes),
                "finished": utc_now() if status is RunStatus.COMPLETE else None,
                "wall_seconds": self.header.wall_seconds + time.monotonic() - self.begun,
            }
        )


def header(plan: Plan, rig: Rig, root: Path) -> Run:
    """The run of a plan on this machine, without results."""
    started = utc_now()
    commit, dirty = revision(root)
    return Run(
        id=store.run_id(started, plan.profile, commit),
        status=RunStatus.PARTIAL,
        started=started,
        servebench=__version__,
        commit=commit,
        dirty=dirty,
        profile=plan.profile,
        launches=plan.launches,
        seed=plan.seed,
        machine=rig.machine,
        oha=tools.oha_version(),
        oha_origin=tools.oha_origin(),
        interpreters=tuple(one.record() for one in rig.interpreters.values()),
        stacks=tuple(stack.record() for stack in rig.stacks.values()),
        results=(),
    )


def revision(root: Path) -> tuple[str | None, bool]:
    """Commit of the checkout, and whether tracked files differ from it, results left out."""
    status = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    try:
        return git.ask_or_none(root, "rev-parse", "HEAD"), bool(git.ask_or_none(root, *status))
    except HopelessError:
        return None, False


def require_resumable(run: Run, rig: Rig, root: Path) -> None:
    """Refuse to go on with a run whose conditions are no longer there (UsageError)."""
    commit, _ = revision(root)
    now = {
        "commit": commit,
        "machine": rig.machine.id,
        "oha": (tools.oha_version(), tools.oha_origin()),
        "stacks": {stack.name: stack.digest for stack in rig.stacks.values()},
        "interpreters": {name: one.record() for name, one in rig.interpreters.items()},
    }
    then = {
        "commit": run.commit,
        "machine": run.machine.id,
        "oha": (run.oha, run.oha_origin or "source"),
        "stacks": {stack.name: stack.digest for stack in run.stacks},
        "interpreters": {record.name: record for record in run.interpreters},
    }
    moved = [what for what, value in now.items() if value != then[what]]
    if moved:
        raise UsageError(
            f"run {run.id} cannot be resumed: its {' and '.join(moved)} differ from what is here "
            "now. Go back to them, or start a new run"
        )


def resumable(run: Run) -> Iterator[Launch]:
    """The launches of a partial run that need not be repeated."""
    for result in run.results:
        yield from (launch for launch in result.launches if launch.status is Status.OK)


def execute(
    plan: Plan,
    header: Run,
    *,
    perform: Callable[[Case], LaunchOutcome],
    commands: Callable[[Case], Commands],
    expected: Callable[[Case], float],
    results: Path,
    progress: Progress,
) -> tuple[Run, Path]:
    """Do all launches of `plan` that `header` does not hold already, and save the run.

    Args:
        plan: Cases and number of launches.
        header: The run without results, or a partial run to go on with.
        perform: Does one launch; may raise `InterruptedRun` and nothing else.
        commands: The command lines of a case, for the record.
        expected: Seconds that one launch of a case is expected to take.
        results: The results folder.
        progress: What a person sees.

    Raises:
        InterruptedRun: The partial run has been saved.
        RecordError: The run could not be saved at its end (earlier failures are only noted).
        NothingMeasuredError: No launch of any case was usable. The run has been saved.
    """
    growing = _Progressing(header, plan.cases, commands)
    for launch in resumable(header):
        growing.launches.setdefault(launch.case, []).append(launch)
    done = {(launch.case, launch.round) for many in growing.launches.values() for launch in many}
    steps = sequence(plan)
    todo = [
        (order, step) for order, step in enumerate(steps) if (step.case.id, step.round) not in done
    ]
    estimate = RemainingTime([expected(step.case) for _, step in todo])
    counted = f"{len(steps)} launch{'es' * (len(steps) != 1)}"
    progress.start(
        f"{counted}, about {duration(estimate.remaining)}", estimate.remaining, len(steps)
    )
    try:
        for order, step in todo:
            progress.work(step.case.id, order, estimate.remaining)
            launch = _launch(step, order, perform)
            estimate.observe(launch.seconds)
            growing.launches.setdefault(step.case.id, []).append(launch)
            progress.say(_line(launch, len(steps)))
            try:
                store.save_partial(results, growing.snapshot(RunStatus.PARTIAL))
            except RecordError as error:  # a full disk: what was measured is still in memory
                progress.note(f"not saved yet, going on: {error}")
    except InterruptedRun as interruption:
        growing.notes.append(f"interrupted by {interruption} at {utc_now()}")
        store.save_partial(results, growing.snapshot(RunStatus.PARTIAL))
        raise
    finally:
        progress.end()
    run = growing.snapshot(RunStatus.COMPLETE)
    path = store.finalise(results, run)
    if not any(launch.status is Status.OK for r in run.results for launch in r.launches):
        raise NothingMeasuredError(
            f"none of {len(steps)} launches was usable; the reasons: `servebench show {path}`"
        )
    return run, path


def _launch(step: LaunchStep, order: int, perform: Callable[[Case], LaunchOutcome]) -> Launch:
    started = utc_now()
    outcome = perform(step.case)
    return Launch(
        case=step.case.id,
        round=step.round,
        order=order,
        started=started,
        seconds=outcome.seconds,
        load_seconds=outcome.load_seconds,
        status=outcome.status,
        flags=outcome.flags,
        metrics=outcome.metrics if outcome.status is Status.OK else {},
    )


def _line(launch: Launch, launches: int) -> Text:
    if launch.status is Status.FAILED:
        fails = [flag for flag in launch.flags if flag.severity == "fail"]
        found = "failed: " + "; ".join(f"{flag.name}: {flag.detail}" for flag in fails)
    else:
        found = ", ".join(
            f"{METRICS[name].format(launch.metrics[name])} {label}".strip()
            for name, label in BRIEF.items()
            if name in launch.metrics
        )
        if warnings := ", ".join(sorted({flag.name for flag in launch.flags})):
            found += f"  [{warnings}]"
    style = "red" if launch.status is Status.FAILED else ""
    order = f"[{launch.order + 1}/{launches}] "
    return Text.assemble(order, (launch.case, "bold"), "  ", (found, style))
