"""Runs of nights, made up."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import synthetic
from duetbench.core.model import Case, CaseResult, Launch, Run
from duetbench.host import files

FIRST = datetime(2026, 11, 1, 3, tzinfo=UTC)


def night_run(
    number: int = 0,
    machine: str = "alpha-2c-000001",
    results: Sequence[CaseResult] | None = None,
    **changes: object,
) -> Run:
    started = (FIRST + timedelta(days=number)).isoformat()
    run = synthetic.nightly_run(cases=2) if results is None else synthetic.make_run(results)
    return run.model_copy(
        update={
            "id": files.result_id(started, "nightly", run.commit),
            "started": started,
            "machine": run.machine.model_copy(update={"id": machine}),
            **changes,
        }
    )


def result_of(case: Case, *launches: Launch) -> CaseResult:
    return CaseResult(case=case, launches=launches)


def good(case: Case, seconds: float = 20.0, figures: Mapping[str, float] | None = None) -> Launch:
    metrics = {"throughput": 100.0, **(figures or {})}
    return synthetic.ok(case.id, 0, metrics).model_copy(update={"seconds": seconds})
