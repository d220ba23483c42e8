"""A night: its cases shared out over machines, and its outcome.

A series consists of the figures of one machine, so a case that moves to another one starts a new
series. `[tool.observatory.fleet]` therefore declares which machine measures which cases.
"""

from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from duetbench.core.errors import DeclarationError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Missing, Plan, Run
from duetbench.core.text import printable
from observatory.store.night import NightPlan, NightRecord, Shard, ShardRecord
from observatory.store.points import Points

RUNNER: Final = "duetbench"  # label of every runner; each also has its machine's id as a label

AWAY: Final = timedelta(days=7)
"""A machine has left if its newest night is older than that of any other by more than this."""


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


def outcome(
    plan: NightPlan, runs: Sequence[Run], points: Sequence[Points] | None = None
) -> NightRecord:
    """Compare the runs and points that arrived with the plan; those of other nights do not count.

    A case without a point is a result, with its reason, and leaves the night complete. (With None
    for `points`, the record does not mention them.) The record follows from these arguments alone,
    so a repeated store writes the same.
    """
    runs = [run for run in runs if run.night == plan.id]
    judged = plan.anchor is not None and points is not None
    by_shard = {file.shard: file for file in points or () if file.night == plan.id}
    shards = tuple(
        _arrived(shard, runs, _without_point(shard, by_shard.get(shard.number)) if judged else ())
        for shard in plan.shards
    )
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
    """Describe what is missing, one sentence per shard, then what has failed; empty: nothing."""

    def sentence(shard: ShardRecord, cases: Sized, problem: str) -> str:
        where = f" ({shard.machine})" if shard.machine else ""
        return f"shard {shard.shard}{where}: {len(cases)} of {shard.planned} cases {problem}"

    return (
        *(sentence(s, s.missing, f"are missing: {s.reason}") for s in record.missing),
        *(
            sentence(s, s.failed, "have no usable launch; the reasons are in their run")
            for s in record.shards
            if s.failed
        ),
        *(
            # The reason comes from a measuring machine.
            sentence(
                s,
                s.without_point,
                f"have no anchored point; the first reason: {printable(s.without_point[0].reason)}",
            )
            for s in record.shards
            if s.without_point
        ),
    )


def _arrived(shard: Shard, runs: Sequence[Run], lost: tuple[Missing, ...]) -> ShardRecord:
    shard_runs = sorted(
        (run for run in runs if run.shard == shard.number), key=lambda run: (run.machine.id, run.id)
    )
    results = [result for run in shard_runs for result in run.results]
    # A missing interpreter on a machine is a result, too.
    launched = {result.case.id for result in results if result.launches or result.missing}
    usable = {result.case.id for result in results if result.usable}
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
        failed=tuple(case for case in cases if case in launched - usable),
        reason=reason,
        without_point=lost,
    )


def _without_point(shard: Shard, points: Points | None) -> tuple[Missing, ...]:
    reasons = {case.case: case.reason for case in points.missing} if points else {}
    # A case can have a count of instructions and no duet.
    with_duets = {
        case.case
        for case in (points.cases if points else ())
        if any(point.metric in METRICS for point in case.points)
    }
    other = "its points do not hold it" if points else "no points of this shard arrived"
    return tuple(
        Missing(case=case.id, reason=reasons.get(case.id, other))
        for case in shard.plan.cases
        if case.id not in with_duets
    )
