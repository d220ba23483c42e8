"""Builders of cases, runs and their parts for tests."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duetbench.app.testbed import Testbed
from duetbench.core.change import Share
from duetbench.core.comparison import Attribution, Finding, Release
from duetbench.core.errors import FlagName
from duetbench.core.metrics import CPU
from duetbench.core.model import (
    Case,
    CaseResult,
    Endpoint,
    Expectation,
    Flag,
    Launch,
    Machine,
    Profile,
    Run,
    StackRecord,
    Status,
    Verdict,
)
from goldens import record
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change
from observatory.store.points import AnchoredPoint, CasePoints, Points

MACHINE = Machine.model_validate(record("machine"))


def make_case(case_id: str, **changes: Any) -> Case:
    """A case; of its endpoint some fields may be others, too, `endpoint_floor` among them."""
    experiment, name = [*case_id.split("/"), "endpoint"][:2]
    fields, python = record("case"), "3.14t" if "py3.14t" in case_id else "3.14"
    fields["endpoint"] |= {"name": name, "path": f"/{name}"}
    for key in [key for key in changes if key.startswith("endpoint_")]:
        fields["endpoint"][key.removeprefix("endpoint_")] = changes.pop(key)
    return Case(**{**fields, "id": case_id, "experiment": experiment, "python": python, **changes})


def make_endpoint(**changes: Any) -> Endpoint:
    fields = {"name": "get", "app": "app:app", "interface": "asgi", "path": "/", "floor": 0}
    return Endpoint(**{**fields, "expect": Expectation(), **changes})


def make_testbed(apps: Path = Path("/")) -> Testbed:
    """A testbed with what calculations on a case need, and nothing that can be started."""
    keys = ("pythons", "interpreters", "stacks", "inherited")
    empty: dict[str, Any] = {key: {} for key in keys}
    return Testbed(Checkout(apps), oha=Path("/"), logs=Path("/"), machine=MACHINE, **empty)


def ok(case: str, number: int, metrics: Mapping[str, float], *flags: Flag) -> Launch:
    """A launch; without metrics it has failed."""
    return Launch(
        case=case,
        round=number,
        order=number,
        started=f"2026-11-20T09:{number % 60:02d}:07.123456+00:00",
        seconds=17.8312345,
        status=Status.OK if metrics else Status.FAILED,
        flags=flags,
        metrics=dict(metrics),
    )


def failed(case: str, number: int, flag: FlagName, detail: str) -> Launch:
    return ok(case, number, {}, Flag(name=flag, detail=detail))


def make_run(results: Iterable[CaseResult], **changes: Any) -> Run:
    profile: Profile = changes.pop("profile", "nightly")
    own = {"id": f"20261120T090000Z-{profile}-3f2a9c17", "profile": profile, "machine": MACHINE}
    return Run(**{**record("run"), **own, "results": tuple(results), **changes})


def change_record(**changed: Any) -> Change:
    """A change of one case by a release of Granian."""
    return Change(**{**record("change"), **changed})


def ratio(
    value: float, se: float = 0.003, duets: int = 11, metric: str = CPU, anchor: float = 1e-4
) -> AnchoredPoint:
    return AnchoredPoint(metric=metric, ratio=value, se=se, anchor=anchor, duets=duets, excluded=0)


def of(case: str, *points: AnchoredPoint) -> CasePoints:
    return CasePoints(case=case, stack="current", python="3.14", points=points)


def a_file(
    day: int, *cases: CasePoints, measured: int | None = None, machine: str = "m", **changes: Any
) -> Points:
    """The points of a stack as of a day of November 2026, measured on that day or another."""
    when, locked = datetime(2026, 11, day, tzinfo=UTC), {"fastapi": f"1.{day}"}
    fields: dict[str, Any] = {
        "id": f"{measured or day:02d}-{machine}-{len(cases)}",
        "label": f"as of {when:%Y-%m-%d}",
        "when": when,
        "started": when.replace(day=measured or day),
        "machine": MACHINE.model_copy(update={"id": machine}),
        "stacks": (StackRecord(name="current", digest=f"{day:02d}" * 32, packages=locked),),
        "cases": cases,
    }
    return Points(**{**record("points"), **fields, **changes})


def attribution(**changed: Any) -> Attribution:
    """One worked out by hand: 16,000 of 100,000 instructions more."""
    return Attribution(**{**record("attribution"), **changed})


def share(*releases: Release, low: float, ratio: float, high: float, n: int = 8) -> Share:
    """Releases that a search named by the CPU of a case."""
    verdict = Verdict.WORSE if ratio > 1 else Verdict.BETTER
    figures = {"ratio": ratio, "low": low, "high": high, "n": n}
    finding = Finding(case="a/b", subject=CPU, verdict=verdict, **figures)
    return Share(releases=releases, findings=(finding,))


def steady_result(case: Case, metrics: Mapping[str, float]) -> CaseResult:
    """A case whose three launches all have exactly these metrics."""
    return CaseResult(
        case=case, launches=tuple(ok(case.id, number, metrics) for number in range(3))
    )
