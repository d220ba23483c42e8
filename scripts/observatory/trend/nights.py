"""A night: its cases shared out over machines, and its outcome.

A series consists of the figures of one machine, so a case that moves to another one starts a new
series. `[tool.observatory.fleet]` therefore declares which machine measures which cases.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.errors import DeclarationError
from duetbench.core.model import Case, Plan, Run
from duetbench.core.protocol import (
    GENERATOR,
    PROBES,
    RATE_WINDOWS,
    SLOW_SECONDS,
    UNIT_REQUESTS,
    WINDOW_SECONDS,
    drain,
    start,
)
from duetbench.core.text import some
from observatory.store.night import NightPlan, NightRecord, Shard, ShardRecord

RUNNER: Final = "duetbench"  # label of every runner; each also has its machine's id as a label

AWAY: Final = timedelta(days=7)
"""A machine has left if its newest night is older than that of any other by more than this."""


_STOP: Final = 0.2  # stopping the server and checking that it is gone
_NAMED: Final = 3  # cases
_WINDOWS: Final = 6.5  # of a warm-up until the throughput is steady: 5 to 10


def plan_seconds(plan: Plan) -> float:
    """Predict the seconds that a plan takes."""
    return plan.launches * sum(map(launch_seconds, plan.cases))


def launch_seconds(case: Case) -> float:
    """Predict the seconds of one launch of a case."""
    single = max(case.endpoint.takes, case.endpoint.floor)
    waves = drain(case)
    # A slow request is sent once before and once after the load, and warms up as the load ends.
    verify, warm_up = 2 * single, GENERATOR + waves
    if single < SLOW_SECONDS:
        windows = _WINDOWS if case.load.rate is None else RATE_WINDOWS
        verify, warm_up = UNIT_REQUESTS * single, windows * WINDOW_SECONDS
    load = GENERATOR + case.load.duration + waves
    return start(case.workers) + PROBES + verify + warm_up + load + _STOP


def share_out(plan: Plan, fleet: Mapping[str, Sequence[str]]) -> tuple[Shard, ...]:
    """Give each machine of the fleet the cases that its globs match; no fleet: one shard for any.

    A case may be measured by several machines; a machine without a case has no shard.

    Raises:
        DeclarationError: No machine measures some of the cases.
    """
    if not fleet:
        return (Shard(number=1, machine=None, plan=plan),)

    def matches(case: Case, globs: Sequence[str]) -> bool:
        return any(fnmatchcase(case.id, glob) for glob in globs)

    homeless = [c.id for c in plan.cases if not any(matches(c, globs) for globs in fleet.values())]
    if homeless:
        allowed = "globs that match every case of the night"
        key = "tool.observatory.fleet"
        raise DeclarationError(
            "pyproject.toml", key, f"no machine for {', '.join(homeless)}", allowed
        )
    shares = (
        (machine, tuple(case for case in plan.cases if matches(case, globs)))
        for machine, globs in fleet.items()
    )
    used = [(machine, cases) for machine, cases in shares if cases]
    return tuple(
        Shard(number=number, machine=machine, plan=plan.model_copy(update={"cases": cases}))
        for number, (machine, cases) in enumerate(used, start=1)
    )


def present(latest: Mapping[str, str]) -> frozenset[str]:
    """Return the machines that still measure nights; `latest`: machine → id of its newest run.

    A step on a machine that has left cannot be confirmed: the job would wait for it every night.
    """
    began: dict[str, datetime] = {}
    for machine, run in latest.items():
        with suppress(ValueError):  # not one of duetbench's ids
            began[machine] = datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S%z")
    last = max(began.values(), default=None)
    return frozenset(
        machine for machine, when in began.items() if last is not None and last - when <= AWAY
    )


def outcome(plan: NightPlan, runs: Sequence[Run]) -> NightRecord:
    """Compare the runs that arrived with the plan; those of other nights do not count.

    The record follows from these arguments alone, so a repeated store writes the same. Why a case
    has failed, or no point, is in the files of its run and of its points.
    """
    runs = [run for run in runs if run.night == plan.id]
    shards = tuple(_arrived(shard, runs) for shard in plan.shards)
    usable = any(result.usable for run in runs for result in run.results)
    complete = not any(shard.missing for shard in shards)
    return NightRecord(
        id=plan.id,
        created=plan.created,
        commit=plan.commit,
        profile=plan.shards[0].plan.profile,
        status="empty" if not usable else "complete" if complete else "incomplete",
        shards=shards,
    )


def sentences(record: NightRecord) -> tuple[str, ...]:
    """Describe what is missing, one sentence per shard."""
    return tuple(
        f"shard {shard.shard}{f' ({shard.machine})' if shard.machine else ''}: "
        f"{len(shard.missing)} of {shard.planned} cases are missing: {shard.reason}"
        for shard in record.missing
    )


def _arrived(shard: Shard, runs: Sequence[Run]) -> ShardRecord:
    shard_runs = sorted(
        (run for run in runs if run.shard == shard.number), key=lambda run: (run.machine.id, run.id)
    )
    results = [result for run in shard_runs for result in run.results]
    # A missing interpreter on a machine is a result, too.
    launched = {result.case.id for result in results if result.launches or result.missing}
    cases = [case.id for case in shard.plan.cases]
    missing = tuple(case for case in cases if case not in launched)
    reason = ""
    if missing and not shard_runs:
        reason = "no run of this shard arrived"
    elif missing and any(run.status == "partial" for run in shard_runs):
        reason = "its run ended before it came to them"
    elif missing:
        reason = "its run does not hold them"
    return ShardRecord(
        shard=shard.number,
        machine=shard.machine,
        planned=len(cases),
        runs=tuple(f"{run.machine.id}/{run.id}" for run in shard_runs),
        missing=missing,
        reason=reason,
    )


def without_duets(cases: Sequence[str]) -> str:
    """Name the cases that are judged by launches in turn; empty if there are none."""
    if not cases:
        return ""
    names = some(cases, _NAMED)
    return f"by turns, since their threads or workers need all cores: {names}"
