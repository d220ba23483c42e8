"""What came of a night: which shards and cases arrived, and which are missing."""

from __future__ import annotations

from collections.abc import Sequence

from servebench.core.model import Run, RunStatus, Status
from servebench.record.night import NightPlan, NightRecord, Shard, ShardRecord


def outcome(plan: NightPlan, runs: Sequence[Run]) -> NightRecord:
    """Hold the runs that arrived against the plan; runs of other nights do not count.

    The record follows from plan and runs alone, so that a store that is repeated writes the same.
    """
    shards = tuple(_shard(plan, shard, runs) for shard in plan.shards)
    usable = any(
        launch.status is Status.OK
        for run in runs
        if run.night == plan.id
        for result in run.results
        for launch in result.launches
    )
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
    """What is missing, one sentence per shard; nothing if all is there."""
    told = []
    for shard in record.shards:
        where = f" ({shard.machine})" if shard.machine else ""
        if shard.missing:
            told.append(
                f"shard {shard.shard}{where}: {len(shard.missing)} of {shard.planned} cases are "
                f"missing: {shard.reason}"
            )
        if shard.failed:
            told.append(
                f"shard {shard.shard}{where}: {len(shard.failed)} of {shard.planned} cases have no "
                "usable launch; the reasons are in their run"
            )
    return tuple(told)


def markdown(record: NightRecord) -> str:
    """The night as a table for a step's summary; ids are words without Markdown."""
    lines = [f"### Night `{record.id}`: {record.status}", ""]
    lines += ["| shard | machine | runs | cases | missing | failed |", "|---|---|---|---|---|---|"]
    for shard in record.shards:
        runs = ", ".join(f"`{name}`" for name in shard.runs) or "none"
        lines.append(
            f"| {shard.shard} | {shard.machine or 'any'} | {runs} | {shard.planned} | "
            f"{len(shard.missing)} | {len(shard.failed)} |"
        )
    absent = [f"- `{case}`" for shard in record.missing for case in shard.missing]
    if absent:
        lines += ["", "Missing cases:", "", *absent]
    return "\n".join(lines) + "\n"


def _shard(plan: NightPlan, shard: Shard, runs: Sequence[Run]) -> ShardRecord:
    here = sorted(
        (run for run in runs if run.night == plan.id and run.shard == shard.number),
        key=lambda run: (run.machine.id, run.id),
    )
    results = [result for run in here for result in run.results]
    launched = {result.case.id for result in results if result.launches}
    usable = {
        result.case.id
        for result in results
        if any(launch.status is Status.OK for launch in result.launches)
    }
    cases = [case.id for case in shard.plan.cases]
    missing = tuple(case for case in cases if case not in launched)
    reason = ""
    if missing and not here:
        reason = "no run of this shard arrived"
    elif missing and any(run.status is RunStatus.PARTIAL for run in here):
        reason = "its run ended before it came to them"
    elif missing:
        reason = "its run does not hold them"
    return ShardRecord(
        shard=shard.number,
        machine=shard.machine,
        planned=len(cases),
        runs=tuple(f"{run.machine.id}/{run.id}" for run in here),
        missing=missing,
        failed=tuple(case for case in cases if case in launched - usable),
        reason=reason,
    )
