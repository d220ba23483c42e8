"""Files of anchored points for tests, each of one day's stack."""

from datetime import UTC, datetime
from typing import Any, Final, Literal

import synthetic as runs
from duetbench.core.model import StackRecord
from observatory.store.points import AnchoredPoint, CasePoints, Points

CPU: Final = "server_cpu_per_request"
CASE: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"
OTHER: Final = "asgi-wsgi/asgi-json/py3.14t/w1/c128"


def ratio(value: float, se: float = 0.003, duets: int = 11, metric: str = CPU) -> AnchoredPoint:
    return AnchoredPoint(metric=metric, ratio=value, se=se, anchor=2e-4, duets=duets, excluded=0)


def of(case: str, *points: AnchoredPoint) -> CasePoints:
    return CasePoints(case=case, stack="current", python="3.14", points=points)


def a_file(
    day: int,
    *cases: CasePoints,
    label: str = "",
    anchor: str = "A",
    origin: Literal["night", "backfill"] = "backfill",
    measured: int | None = None,
    **changes: Any,
) -> Points:
    """The points of a stack as of a day of November 2026, measured on that day or another."""
    machine = changes.pop("machine", "machine-2c")
    base = runs.make_run([])
    when = datetime(2026, 11, day, tzinfo=UTC)
    stack = StackRecord(name="current", digest=f"{day:02d}" * 32, packages={"fastapi": f"1.{day}"})
    return Points(
        id=f"{measured or day:02d}-{origin}-{machine}-{len(cases)}",
        anchor=anchor,
        origin=origin,
        label=label or f"as of {when:%Y-%m-%d}",
        when=when,
        started=when.replace(day=measured or day),
        seconds=1.0,
        duetbench="0.1.0",
        commit=None,
        machine=base.machine.model_copy(update={"id": machine}),
        interpreters=base.interpreters,
        stacks=(stack,),
        cases=cases,
        **changes,
    )
