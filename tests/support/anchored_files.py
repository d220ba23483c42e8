"""Files of anchored points for tests, each of one day's stack."""

from datetime import UTC, datetime
from typing import Any, Final

import synthetic as runs
from duetbench.core.model import StackRecord
from observatory.store.points import AnchoredPoint, CasePoints, Points

CPU: Final = "server_cpu_per_request"
CASE: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"
OTHER: Final = "asgi-wsgi/asgi-json/py3.14t/w1/c128"


def ratio(
    value: float, se: float = 0.003, duets: int = 11, metric: str = CPU, anchor: float = 1e-4
) -> AnchoredPoint:
    return AnchoredPoint(metric=metric, ratio=value, se=se, anchor=anchor, duets=duets, excluded=0)


def of(case: str, *points: AnchoredPoint) -> CasePoints:
    return CasePoints(case=case, stack="current", python="3.14", points=points)


def a_file(day: int, *cases: CasePoints, measured: int | None = None, **changes: Any) -> Points:
    """The points of a stack as of a day of November 2026, measured on that day or another."""
    base, when = runs.make_run([]), datetime(2026, 11, day, tzinfo=UTC)
    machine = changes.pop("machine", "machine-2c")
    origin = changes.get("origin", "backfill")
    digest, packages = f"{day:02d}" * 32, {"fastapi": f"1.{day}"}
    fields: dict[str, Any] = {
        "id": f"{measured or day:02d}-{origin}-{machine}-{len(cases)}",
        "anchor": "A",
        "origin": origin,
        "label": f"as of {when:%Y-%m-%d}",
        "when": when,
        "started": when.replace(day=measured or day),
        "seconds": 1.0,
        "duetbench": "0.1.0",
        "commit": None,
        "machine": base.machine.model_copy(update={"id": machine}),
        "interpreters": base.interpreters,
        "stacks": (StackRecord(name="current", digest=digest, packages=packages),),
        "cases": cases,
    }
    return Points(**{**fields, **changes})
